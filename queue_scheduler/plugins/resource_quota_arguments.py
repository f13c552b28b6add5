"""Arguments of the plugin ResourceQuota in the configuration file.

pluginConfigs:
  ResourceQuota:
    requiredRequests: [cpu, memory]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from queue_scheduler.quota.quota_settings import QuotaSettingsError
from queue_scheduler.required_requests import read_required


class ResourceQuotaArguments(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments, as written."""

    required_requests: tuple[str, ...] = ()


def read_resource_quota_arguments(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Return the resources that every pod must request.

    Raises:
        ValueError: An unknown key, a value of the wrong type, or a name that no container can
            request; the message names the key.
    """
    try:
        given = msgspec.convert(dict(arguments), ResourceQuotaArguments)
        return read_required(given.required_requests)
    except (msgspec.ValidationError, QuotaSettingsError) as error:
        raise ValueError(f"pluginConfigs.ResourceQuota: {error}") from error
