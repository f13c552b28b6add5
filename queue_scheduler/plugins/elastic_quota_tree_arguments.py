"""Arguments of the plugin ElasticQuota (trees) in the configuration file.

pluginConfigs:
  ElasticQuota:
    checkQuotaOversold: true
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ElasticQuotaTreeArguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments, as written; the second is what a chart of upstream's calls the first."""

    check_quota_oversold: bool | None = None
    check_hungry_quota: bool | None = None


def read_tree_arguments(arguments: Mapping[str, Any]) -> bool:
    """Return whether hungry quotas are checked.

    Raises:
        ValueError: An unknown key, a value of the wrong type, or both keys that contradict each
            other; the message names the key.
    """
    try:
        given = msgspec.convert(dict(arguments), ElasticQuotaTreeArguments)
    except msgspec.ValidationError as error:
        msg = f"pluginConfigs.ElasticQuota: {error}"
        raise ValueError(msg) from error
    said = {given.check_quota_oversold, given.check_hungry_quota} - {None}
    if len(said) > 1:
        msg = "pluginConfigs.ElasticQuota: checkQuotaOversold and checkHungryQuota are one setting"
        raise ValueError(msg)
    return True in said
