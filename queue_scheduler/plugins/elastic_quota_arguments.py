"""Arguments of the plugin ElasticQuotaV2 in the configuration file.

    pluginConfigs:
      ElasticQuotaV2:
        mode: runtime
        koordinatorVersion: "1.8"

They say which koord-scheduler will judge the pods, since that cannot be read from the cluster, and
how strict the queue is. Each maps to a field of `QuotaSettings`, which describes its effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from queue_scheduler.quota.quota_settings import (
    QuotaMode,
    QuotaSettings,
    QuotaSettingsError,
    Rounding,
    SpecialQuotas,
    default_special_max,
)
from queue_scheduler.required_requests import read_required
from shared_api.crd_schema import QUANTITY
from shared_api.program_flags import name_choices
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.resource_names import rename_deprecated

# What the JSON schema says in addition to the type; `read_arguments` reports bad values.
QuantityValue: TypeAlias = (
    Annotated[str, Meta(extra_json_schema={"pattern": QUANTITY["pattern"]})] | int | float
)
Release: TypeAlias = Annotated[
    str,
    Meta(extra_json_schema={"pattern": "^v?([0-9]+([.][0-9]+)*(-.*)?|[Hh][Ee][Aa][Dd])$"}),
]


class ElasticQuotaArguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments, as written in the file."""

    mode: QuotaMode = QuotaMode.RUNTIME
    koordinator_version: Release = "1.8"
    rounding: Rounding | None = None
    enable_min_quota_scale: bool = True
    enable_check_parent_quota: bool = False
    special_quotas: SpecialQuotas = SpecialQuotas.OBSERVED
    default_quota_group_max: dict[str, QuantityValue] | None = None
    system_quota_group_max: dict[str, QuantityValue] | None = None
    foreign_pending: bool = True
    guarantee_usage: bool = False
    multi_quota_tree: bool = False
    required_requests: tuple[str, ...] = ()
    expected_capacity: dict[str, QuantityValue] | None = None


def read_arguments(
    arguments: Mapping[str, Any], oversell_rate: Fraction
) -> tuple[QuotaSettings, Amounts | None]:
    """Return (settings, expected capacity in base units or None).

    Raises:
        ValueError: An unknown key, a value of the wrong type, or contradicting settings; the
            message names the key.
    """
    try:
        given = msgspec.convert(dict(arguments), ElasticQuotaArguments)
        settings = QuotaSettings(
            mode=given.mode,
            koordinator_version=given.koordinator_version,
            rounding_override=given.rounding,
            scale_min=given.enable_min_quota_scale,
            check_parent=given.enable_check_parent_quota,
            special_quotas=given.special_quotas,
            default_quota_max=_special_max(given.default_quota_group_max),
            system_quota_max=_special_max(given.system_quota_group_max),
            foreign_pending=given.foreign_pending,
            oversell_numerator=oversell_rate.numerator,
            oversell_denominator=oversell_rate.denominator,
            guarantee_usage=given.guarantee_usage,
            multi_quota_tree=given.multi_quota_tree,
            required_requests=read_required(given.required_requests),
        )
        expected = given.expected_capacity
        # It stands in for nodes, whose deprecated names are replaced as well.
        return settings, None if expected is None else rename_deprecated(parse_amounts(expected))
    except msgspec.ValidationError as error:
        msg = f"pluginConfigs.ElasticQuotaV2: {name_choices(error, ElasticQuotaArguments)}"
        raise ValueError(msg) from error
    except (QuotaSettingsError, QuantityError) as error:
        raise ValueError(f"pluginConfigs.ElasticQuotaV2: {error}") from error


def _special_max(given: Mapping[str, str | int | float] | None) -> Amounts:
    return default_special_max() if given is None else parse_amounts(dict(given))
