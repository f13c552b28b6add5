"""Quotas as the judge of all writes counts them, for each scheduler (`account_judge`).

With several trees a scheduler does not follow a quota into another tree, as koord-scheduler does
not: the quota counts as before that edit, and so does every later edit, until the scheduler
restarts or the quota is made anew. A quota that names another tree than its parent is cut off from
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shared_api.quantity import amount
from shared_api.well_known_labels import QUOTA_PARENT, QUOTA_TREE_ID
from tests.demo.unit_charge import Amounts, chain_of
from tests.simulation.change_feed import ChangeEvent
from tests.simulation.stepped_programs import Process


@dataclass(frozen=True)
class JudgedQuota:
    """What one version of an ElasticQuota says, amounts in base units."""

    uid: str
    parent: str
    tree: str
    most: Amounts
    least: Amounts


class JudgedQuotas:
    """All quotas: as their objects are, and as each scheduler counts them.

    Args:
        processes: All processes so far, by name.
        has_trees: Whether the schedulers know several trees.
    """

    def __init__(self, processes: Mapping[str, Process], *, has_trees: bool) -> None:
        self.changed_at = 0
        """The version of the newest change of any quota."""
        self._processes = processes
        self._has_trees = has_trees
        self._newest: dict[str, JudgedQuota] = {}
        self._counted: dict[str, dict[str, JudgedQuota]] = {}
        """Scheduler -> quotas as it counts them, from the first change after it has listed them."""

    def take(self, event: ChangeEvent) -> None:
        """Take in a change of an ElasticQuota."""
        self.changed_at = event.version
        if self._has_trees:
            self._count(event)
        _put(self._newest, event)

    def _count(self, event: ChangeEvent) -> None:
        quota = event.body["metadata"]["name"]
        for name, process in self._processes.items():
            if process.scheduler is None or not process.seen().get("elasticquotas", 0):
                continue
            counted = self._counted.setdefault(name, dict(self._newest))
            before = counted.get(quota)
            _put(counted, event)
            if before is not None and (after := counted.get(quota)) is not None:
                is_moved = before.uid == after.uid and before.tree != after.tree
                counted[quota] = before if is_moved else after

    def chain(self, quota: str, scheduler: str) -> Iterator[str]:
        """Iterate over a quota and its ancestors, as a scheduler counts them."""
        known = self._counted.get(scheduler, self._newest)
        return chain_of(quota, lambda name: self._parent_of(name, known))

    def find(self, quota: str, scheduler: str) -> JudgedQuota | None:
        """Return a quota as a scheduler counts it; None if there is none."""
        return self._counted.get(scheduler, self._newest).get(quota)

    def _parent_of(self, name: str, known: Mapping[str, JudgedQuota]) -> str:
        quota = known.get(name)
        if quota is None:
            return ""
        parent = known.get(quota.parent)
        is_cut_off = self._has_trees and parent is not None and quota.tree not in {"", parent.tree}
        return "" if is_cut_off else quota.parent


def _put(quotas: dict[str, JudgedQuota], event: ChangeEvent) -> None:
    metadata = event.body["metadata"]
    if event.is_gone:
        quotas.pop(metadata["name"], None)
        return
    spec, labels = event.body["spec"], metadata.get("labels") or {}
    quotas[metadata["name"]] = JudgedQuota(
        uid=metadata["uid"],
        parent=labels.get(QUOTA_PARENT, ""),
        tree=labels.get(QUOTA_TREE_ID, ""),
        most={key: amount(key, text) for key, text in (spec.get("max") or {}).items()},
        least={key: amount(key, text) for key, text in (spec.get("min") or {}).items()},
    )
