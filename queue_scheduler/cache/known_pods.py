"""All pods that are known: those of units, foreign ones, and those that the queue's gate holds.

Takes the facts about pods, and says what plugins are told of those that no unit is charged for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol

from queue_scheduler.cache.claims import Claims
from queue_scheduler.cache.held_pods import HeldPods
from queue_scheduler.cache.pod_accounting import CountedPod, FindUnit, PodAccounting, PodFacts
from queue_scheduler.cache.untried_pods import UntriedPods
from queue_scheduler.framework.extension_points import ForeignPod
from queue_scheduler.framework.plugin_runner import PluginRunner
from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, subtract


class AnyCharge(Protocol):
    """What is charged for a unit."""

    @property
    def quota(self) -> str:
        """The quota."""

    @property
    def amounts(self) -> Amounts:
        """What is charged to it."""


class HeldRoom:
    """Says what a unit is charged beyond its living pods: that is for its held ones.

    No method of what has the charges, which would be in a cycle with its parts: a fork that nobody
    uses any more is freed at once.
    """

    __slots__ = ("_charges", "_pods")

    def __init__(self, charges: Mapping[Uid, AnyCharge], pods: PodAccounting) -> None:
        self._charges, self._pods = charges, pods

    def __call__(self, uid: Uid) -> tuple[str, Amounts]:
        """Return the quota of the unit's charge ("": none), and what of that is for held pods."""
        charge = self._charges.get(uid)
        if charge is None:
            return "", {}
        rest = subtract(charge.amounts, self._pods.living(uid).amounts)
        return charge.quota, {key: amount for key, amount in rest.items() if amount > 0}


class KnownPods:
    """The pods, in the parts that count them.

    Args:
        plugins: They know which quota a pod names.
        find_unit: Finds known units.
        charges: What is charged, by unit; read only.

    Attributes:
        of_units: The living pods by unit; the foreign ones among them.
        claims: The held pods, and what they claim.
        untried: The foreign pods that no scheduler has tried to bind.
    """

    def __init__(
        self, plugins: PluginRunner, find_unit: FindUnit, charges: Mapping[Uid, AnyCharge]
    ) -> None:
        self.of_units = PodAccounting(find_unit)
        self.claims = Claims(plugins, self.of_units, find_unit, HeldRoom(charges, self.of_units))
        self.untried = UntriedPods()

    @property
    def has_changed(self) -> bool:
        """Whether charges or claims must follow pods that came, changed or went."""
        return self.of_units.has_changed or self.claims.held.has_changed

    def on_pod(self, pod: Pod) -> str | None:
        """Take a new or changed pod; return what is newly wrong with its requests, if anything."""
        self.claims.held.on_pod(pod)
        return self.of_units.on_pod(pod)

    def on_pod_gone(self, pod: Pod) -> None:
        """Take a deleted pod."""
        self.claims.held.on_pod_gone(pod)
        self.of_units.on_pod_gone(pod)

    def on_unit(self, unit: QueueUnit, before: QueueUnit | None) -> None:
        """Take a new or changed unit; `before`: its previous object, None if it is new."""
        self.of_units.on_unit(unit, before)
        self.claims.note_unit(unit)

    def on_unit_gone(self, unit: QueueUnit) -> None:
        """Take a deleted unit."""
        self.of_units.on_unit_gone(unit)
        self.claims.note_unit(unit)

    def pods_of(self, unit: QueueUnit) -> list[str]:
        """Return the keys of a unit's living pods, and of its job's held ones."""
        living = [key for key, _ in self.of_units.pods_of(unit.metadata.uid)]
        return [*living, *self.claims.pods_of(unit)]

    def node_of(self, key: str) -> str:
        """Return the node of a pod by `namespace/name`; "" if it has none, or is unknown."""
        facts = self.of_units.find(key, None).facts
        return "" if facts is None else facts.node

    @property
    def held(self) -> HeldPods:
        """The pods at the queue's gate."""
        return self.claims.held

    def next_late(self) -> datetime | None:
        """Return when the next foreign pod is stuck, unless a scheduler tries it; None: none is."""
        return self.untried.next_time()

    def names_other_quota(self, uid: Uid) -> bool:
        """Return whether living pods of a unit name another quota than the unit's."""
        return bool(self.of_units.moved.groups_of(uid))

    def take_moved(self) -> list[str]:
        """Return, once, the keys of units whose pods may name another quota, or no longer do."""
        return self.of_units.moved.take_units()

    # --- what plugins are told ----------------------------------------------------------------

    def take_changed(self) -> Iterator[tuple[str, ForeignPod | None]]:
        """Yield each changed foreign pod or claim once, by key, with None for one that is gone."""
        for key, facts in self.of_units.take_changed_foreign():
            self.untried.put(key, facts)
            yield key, None if facts is None else self._as_foreign(key, facts)
        yield from self.claims.take_changed()

    def take_late(self, wall: datetime) -> list[tuple[str, ForeignPod | None]]:
        """Return, once, the foreign pods that are stuck by now, since no scheduler tries them."""
        late = self.untried.take_late(wall)
        return [(key, self.foreign_pod(key, self.of_units.find(key, None))) for key in late]

    def foreign_pod(self, key: str, counted: CountedPod) -> ForeignPod | None:
        """Return the foreign pod that plugins know under a key, or None.

        Args:
            key: `namespace/name` of a pod, or the key of a group of held pods.
            counted: What is counted under that name.
        """
        facts = counted.facts
        if facts is None:
            return self.claims.claim(key)
        return None if counted.group else self._as_foreign(key, facts)

    def _as_foreign(self, key: str, facts: PodFacts) -> ForeignPod:
        """Return a pod as plugins know it, at the stage that time has brought it to."""
        return ForeignPod(
            name=key,
            namespace=facts.namespace,
            labels=facts.labels,
            request=facts.request,
            stage=self.untried.stage_of(key, facts.stage),
        )

    def fork(
        self, plugins: PluginRunner, find_unit: FindUnit, charges: Mapping[Uid, AnyCharge]
    ) -> KnownPods:
        """Return an independent copy over copies of the other parts."""
        twin: KnownPods = KnownPods.__new__(KnownPods)
        pods = twin.of_units = self.of_units.fork(find_unit)
        twin.claims = self.claims.fork(plugins, pods, find_unit, HeldRoom(charges, pods))
        twin.untried = self.untried.fork()
        return twin
