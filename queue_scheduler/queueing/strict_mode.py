"""Strict mode: in some queues, nodes are requested before a unit may start. Pure.

Quota is charged as always; then the unit is SchedReady, and the program that reserves nodes answers
with SchedSucceed or SchedFailed. While nodes are requested for a unit, units of the same queue with
a lower priority must not take them: they wait, and so do units behind one of them that are charged
to the same quota. Units of the same or a higher priority continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase

SMALL_UNIT: Final[Mapping[str, int]] = {"cpu": 128_000, "nvidia.com/gpu": 8}
"""Upstream's default: the size of one machine of its authors."""


ASKED_FOR_NODES: Final = "Waiting scheduler to schedule this queueUnit"
"""Upstream's message of a unit in SchedReady."""


class StrictMode(msgspec.Struct, frozen=True, kw_only=True):
    """Which queues are strict.

    Attributes:
        is_on: Whether any queue is strict.
        included: The strict queues; empty: all.
        excluded: Queues that are not strict, even if they are included.
        small: Units that ask for at most these amounts start without a request for nodes (cpu in
            milli); empty: none do.
    """

    is_on: bool = False
    included: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    small: dict[str, int] = {}

    def covers(self, queue: str) -> bool:
        """Return whether the queue is strict."""
        is_named = not self.included or queue in self.included
        return self.is_on and is_named and queue not in self.excluded

    def next_phase(self, queue: str, demand: Mapping[str, int]) -> Phase:
        """Return what follows once a unit has its quota, and no admission check of it is open.

        Args:
            queue: Its queue.
            demand: What all of its pods ask for together, in base units.
        """
        if not self.is_on or not self.covers(queue) or self._is_small(demand):
            return Phase.DEQUEUED
        return Phase.SCHED_READY

    def _is_small(self, demand: Mapping[str, int]) -> bool:
        within = all(demand.get(name, 0) <= most for name, most in self.small.items())
        return bool(self.small) and within


NOT_STRICT: Final = StrictMode()

MAX_ATTEMPTS: Final = 2**63 - 1
"""The largest int64, which the field holds; after it the count restarts."""


def request_nodes(unit: QueueUnit) -> dict[str, Any]:
    """Return what else a move to SchedReady writes: answers name the attempt they are about."""
    return {"attempts": unit.status.attempts % MAX_ATTEMPTS + 1}


class NodeRequests:
    """The units of one strict queue for which nodes are requested.

    Attributes:
        highest: The highest of their priorities; None if there is no such unit.
    """

    __slots__ = ("_priorities", "highest")

    def __init__(self) -> None:
        self._priorities: dict[Uid, int] = {}
        self.highest: int | None = None

    def add(self, uid: Uid, priority: int) -> None:
        """Note that nodes are requested for a unit."""
        self._priorities[uid] = priority
        self.highest = priority if self.highest is None else max(self.highest, priority)

    def discard(self, uid: Uid) -> bool:
        """Note that a request has ended; return whether there was one for this unit."""
        if self._priorities.pop(uid, None) is None:
            return False
        self.highest = max(self._priorities.values(), default=None)
        return True

    def hold_back(self, priority: int) -> bool:
        """Return whether a unit of this priority must wait until a request has ended."""
        return self.highest is not None and priority < self.highest

    def copy(self) -> NodeRequests:
        """Return an independent copy."""
        twin = NodeRequests()
        twin._priorities = dict(self._priorities)
        twin.highest = self.highest
        return twin

    def as_dict(self) -> dict[Uid, int]:
        """Return the priorities by uid; for reading."""
        return dict(self._priorities)
