"""Arguments of the plugin ElasticQuota (trees) in the configuration file.

pluginConfigs:
  ElasticQuota:
    checkQuotaOversold: true
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from queue_scheduler.quota.quota_settings import QuotaSettingsError
from queue_scheduler.required_requests import read_required


class ElasticQuotaTreeArguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments, as written; one of upstream's charts has the second name for the first."""

    check_quota_oversold: bool | None = None
    check_hungry_quota: bool | None = None
    required_requests: tuple[str, ...] = ()


class TreeSettings(msgspec.Struct, frozen=True):
    """What follows from the arguments.

    Attributes:
        checks_hungry: Whether hungry quotas are checked.
        required_requests: Resources of which every pod must request something.
    """

    checks_hungry: bool = False
    required_requests: frozenset[str] = frozenset()


def read_tree_arguments(arguments: Mapping[str, Any]) -> TreeSettings:
    """Return the settings.

    Raises:
        ValueError: An unknown key, a value of the wrong type, or both keys with contradicting
            values; the message names the key.
    """
    try:
        given = msgspec.convert(dict(arguments), ElasticQuotaTreeArguments)
        required = read_required(given.required_requests)
    except (msgspec.ValidationError, QuotaSettingsError) as error:
        raise ValueError(f"pluginConfigs.ElasticQuota: {error}") from error
    said = {given.check_quota_oversold, given.check_hungry_quota} - {None}
    if len(said) > 1:
        msg = "pluginConfigs.ElasticQuota: checkQuotaOversold and checkHungryQuota are one setting"
        raise ValueError(msg)
    return TreeSettings(True in said, required)
