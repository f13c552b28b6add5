"""Resources of which every pod must request something: how they are set, and what lacks one. Pure.

A pod that requests nothing of a resource takes nothing of a quota of it: it starts at once and is
not counted. Where that is not wanted, the setting `requiredRequests` of a quota plugin names the
resources: a unit whose pods lack one, where its quota has a max of it, is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.quota.quota_settings import QuotaSettingsError
from queue_scheduler.quota.quota_spec import why_never_requested
from shared_api.resource_list import Amounts
from shared_api.resource_names import RENAMED
from shared_api.well_known_labels import JOB_COUNTS


def read_required(names: Iterable[str]) -> frozenset[str]:
    """Return the resources, by the names that koord-scheduler reads.

    Raises:
        QuotaSettingsError: No container requests something of such a name.
    """
    for name in names:
        why = why_never_requested(name)
        if name in JOB_COUNTS or not name:
            why = "it is no resource"
        if why:
            raise QuotaSettingsError(f"requiredRequests: {name!r}: {why}")
    return frozenset(RENAMED.get(name, name) for name in names)


def missing_requests_text(demand: UnitDemand, required: AbstractSet[str]) -> str:
    """Return which pods request none of which required resource, or ""."""
    if not demand.pod_sets:
        lacking = _lacking(demand.total, required)
        return f"it requests no {join_with_or(lacking)}" if lacking else ""
    found = (
        (each.name, _lacking(each.per_pod, required)) for each in demand.pod_sets if each.count
    )
    return ", ".join(
        f"pod set {name} requests no {join_with_or(lacking)}" for name, lacking in found if lacking
    )


def _lacking(amounts: Amounts, required: AbstractSet[str]) -> list[str]:
    return sorted(resource for resource in required if amounts.get(resource, 0) <= 0)


def join_with_or(names: Sequence[str]) -> str:
    """Return names as a sentence has them; there is at least one."""
    *before, last = names
    return f"{', '.join(before)} or {last}" if before else last
