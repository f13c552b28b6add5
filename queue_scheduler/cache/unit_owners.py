"""Which units the controllers of pods stand for: a unit's consumer, and its `podOwners`."""

from __future__ import annotations

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit


class UnitOwners:
    """The keys of known units by the uids of the controllers of their pods."""

    def __init__(self) -> None:
        # Sorted tuples: nearly always of one, and a fork shares them.
        self._units: dict[Uid, tuple[str, ...]] = {}

    def put(self, unit: QueueUnit) -> None:
        """Take a unit; one that is known with other controllers must be forgotten before."""
        for owner in owners_of_pods(unit):
            others = self._units.get(owner, ())
            self._units[owner] = tuple(sorted({*others, unit.metadata.key}))

    def forget(self, unit: QueueUnit) -> None:
        """Forget a unit that is known with these controllers."""
        for owner in owners_of_pods(unit):
            others = tuple(key for key in self._units[owner] if key != unit.metadata.key)
            if others:
                self._units[owner] = others
            else:
                del self._units[owner]

    def units_of(self, owner: Uid) -> tuple[str, ...]:
        """Return the keys of the units whose pods this controls; of a job, of its unit."""
        return self._units.get(owner, ())

    def fork(self) -> UnitOwners:
        """Return an independent copy."""
        twin = UnitOwners()
        twin._units = dict(self._units)
        return twin


def owners_of_pods(unit: QueueUnit) -> tuple[Uid, ...]:
    """Return the uids of the controllers of its pods, each once; `podOwners` may list the job."""
    consumer = unit.spec.consumer_ref
    own = (consumer.uid,) if consumer is not None and consumer.uid else ()
    return tuple(dict.fromkeys((*own, *unit.status.pod_owners)))
