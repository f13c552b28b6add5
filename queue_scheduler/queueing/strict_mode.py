"""Strict mode: in some queues, nodes are requested before a unit may start. Pure.

The quota is charged as usual; then the unit is SchedReady, and the controller of reservations
answers SchedSucceed or SchedFailed. While nodes are requested, no unit of the same queue with a
lower priority may take them: such units wait, and so do units behind one that is charged to the
same quota; units of the same or a higher priority continue.
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
        included: Names of the strict queues; empty: all.
        excluded: Names of queues that are not strict even if `included` has them.
        small: Units that request at most these amounts need no nodes to be requested (cpu in
            milli); empty: all do.
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
        """Return the next phase of a unit that has its quota and no open admission check.

        Args:
            queue: Name of its queue.
            demand: What all of its pods request together, in base units.
        """
        if not self.is_on or not self.covers(queue) or self._is_small(demand):
            return Phase.DEQUEUED
        return Phase.SCHED_READY

    def _is_small(self, demand: Mapping[str, int]) -> bool:
        within = all(demand.get(name, 0) <= most for name, most in self.small.items())
        return bool(self.small) and within


NOT_STRICT: Final = StrictMode()

MAX_ATTEMPTS: Final = 2**63 - 1
"""The largest value of the field, an int64; after it the count begins again."""


def request_nodes(unit: QueueUnit) -> dict[str, Any]:
    """Return what a move to SchedReady writes in addition: the attempt, which verdicts name."""
    return {"attempts": unit.status.attempts % MAX_ATTEMPTS + 1}


class NodeRequests:
    """The units of one strict queue whose nodes are requested.

    Attributes:
        highest: The highest of their priorities; None if there is no such unit.
    """

    __slots__ = ("_priorities", "highest")

    def __init__(self) -> None:
        self._priorities: dict[Uid, int] = {}
        self.highest: int | None = None

    def add(self, uid: Uid, priority: int) -> None:
        """Record that nodes are requested for a unit."""
        self._priorities[uid] = priority
        self.highest = priority if self.highest is None else max(self.highest, priority)

    def discard(self, uid: Uid) -> bool:
        """Record that nodes are no longer requested for a unit; return whether they were."""
        if self._priorities.pop(uid, None) is None:
            return False
        self.highest = max(self._priorities.values(), default=None)
        return True

    def hold_back(self, priority: int) -> bool:
        """Return whether a unit of this priority must wait until requests are answered."""
        return self.highest is not None and priority < self.highest

    def copy(self) -> NodeRequests:
        """Return an independent copy."""
        twin = NodeRequests()
        twin._priorities = dict(self._priorities)
        twin.highest = self.highest
        return twin

    def as_dict(self) -> dict[Uid, int]:
        """Return the priorities by uid, read-only."""
        return dict(self._priorities)
