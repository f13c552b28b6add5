"""A unit as the API server returns it after a status patch, where there is no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus


def with_status(unit: QueueUnit, patch: Mapping[str, Any], version: int) -> QueueUnit:
    """Return the unit after the status part of a merge patch was written.

    Args:
        unit: The unit before.
        patch: The status, as the builders of this package return it.
        version: The new resourceVersion.
    """
    status = merged(msgspec.to_builtins(unit.status), patch)
    return replace(
        unit,
        metadata=replace(unit.metadata, resource_version=str(version)),
        status=msgspec.convert(status, QueueUnitStatus),
    )


def merged(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object after a merge patch (RFC 7386); neither argument is changed."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result
