"""The quotas as their objects state them: which exist, what they name, who belongs to which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from queue_scheduler.quota.quota_spec import QuotaSpec
from shared_api.quota_names import NamedQuota, QuotaNames, build_quota_names
from shared_api.well_known_labels import SPECIAL_QUOTAS


class StatedQuotas:
    """The specs of all quotas, by namespace and name; of several with one name, the oldest counts.

    What follows from them alone is kept here, and needs no trees: while quotas and pods arrive
    alternately, only names are asked for.

    Attributes:
        min_run_times: How many of them state a run time before which nothing is reclaimed.
        min_run_changes: Increases when other such times may count.
    """

    def __init__(self) -> None:
        self.min_run_times = 0
        self.min_run_changes = 0
        self._specs: dict[tuple[str, str], QuotaSpec] = {}
        # Derived; None until they are needed. Replaced, never changed, so that copies share them.
        self._names: QuotaNames | None = None
        self._governed: dict[str, frozenset[str]] | None = None

    def __iter__(self) -> Iterator[QuotaSpec]:
        return iter(self._specs.values())

    def find(self, namespace: str, name: str) -> QuotaSpec | None:
        """Return one quota; None: it does not exist."""
        return self._specs.get((namespace, name))

    def oldest(self, name: str) -> QuotaSpec:
        """Return the quota that counts of those with a name; there is one."""
        named = (spec for spec in self._specs.values() if spec.name == name)
        return min(named, key=lambda spec: spec.age)

    def put(self, spec: QuotaSpec) -> None:
        """Add a quota, or replace it."""
        key = spec.namespace, spec.name
        self._note_min_run_times(self._specs.get(key), spec)
        self._specs[key] = spec
        self._outdate()

    def drop(self, spec: QuotaSpec) -> None:
        """Remove a quota."""
        del self._specs[spec.namespace, spec.name]
        self._note_min_run_times(spec, None)
        self._outdate()

    def _note_min_run_times(self, before: QuotaSpec | None, after: QuotaSpec | None) -> None:
        old = None if before is None else before.min_run_seconds
        new = None if after is None else after.min_run_seconds
        if self.min_run_times or old is not None or new is not None:
            self.min_run_times += (new is not None) - (old is not None)
            self.min_run_changes += 1  # a quota that states none may have moved below another

    def replace(self, specs: Iterable[QuotaSpec]) -> bool:
        """Replace all quotas by these; return whether they differ."""
        found = {(spec.namespace, spec.name): spec for spec in specs}
        if found == self._specs:
            return False
        self._specs = found
        self._outdate()
        return True

    def names(self) -> tuple[str, ...]:
        """Return the names of all quotas that exist, sorted; without root, system, default."""
        return tuple(sorted({spec.name for spec in self._specs.values()} - SPECIAL_QUOTAS))

    def governed(self, name: str) -> frozenset[str]:
        """Return the resources in the max of a quota; none if there is no such quota."""
        if self._governed is None:
            # The oldest of a name counts, so it is put last.
            specs = sorted(self._specs.values(), key=lambda spec: spec.age, reverse=True)
            self._governed = {spec.name: frozenset(spec.max) for spec in specs}
        return self._governed.get(name, frozenset())

    @property
    def by_name(self) -> QuotaNames:
        """Which quota a pod, a unit or a namespace belongs to; another object after an edit."""
        if self._names is None:
            self._names = build_quota_names(
                NamedQuota(spec.created, spec.namespace, spec.name, spec.namespaces)
                for spec in self._specs.values()
            )
        return self._names

    def copy(self) -> StatedQuotas:
        """Return an independent copy."""
        twin = StatedQuotas()
        twin.min_run_times, twin.min_run_changes = self.min_run_times, self.min_run_changes
        twin._specs = dict(self._specs)
        twin._names, twin._governed = self._names, self._governed
        return twin

    def _outdate(self) -> None:
        self._names = self._governed = None
