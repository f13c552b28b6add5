"""Strict mode: in some queues, nodes are asked for before a unit may start. Pure.

Quota is booked as ever; then the unit is SchedReady, and whoever reserves nodes answers
SchedSucceed or SchedFailed. While nodes are looked for, nobody of the same queue may take them who
comes after by priority: units of less priority wait, and with them who stands behind one that is
charged to the same quota; those of the same or more priority go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase

SMALL_UNIT: Final[Mapping[str, int]] = {"cpu": 128_000, "nvidia.com/gpu": 8}
"""Upstream's: what one machine of its makers has."""


ASKED_FOR_NODES: Final = "Waiting scheduler to schedule this queueUnit"
"""Upstream's message of a unit in SchedReady."""


class StrictMode(msgspec.Struct, frozen=True, kw_only=True):
    """Which queues are strict.

    Attributes:
        is_on: Whether any is.
        included: Those that are; empty: all.
        excluded: Those that are not, for all that.
        small: Units that ask for no more than this of these resources need not ask for nodes (cpu
            in milli); empty: all must.
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
"""What the field holds, an int64; after it the count begins again."""


def request_nodes(unit: QueueUnit) -> dict[str, Any]:
    """Return what a move to SchedReady writes besides: verdicts name the attempt they are about."""
    return {"attempts": unit.status.attempts % MAX_ATTEMPTS + 1}


class NodeRequests:
    """The units of one strict queue whose nodes are being looked for.

    Attributes:
        highest: The highest of their priorities; None: there is no such unit.
    """

    __slots__ = ("_priorities", "highest")

    def __init__(self) -> None:
        self._priorities: dict[Uid, int] = {}
        self.highest: int | None = None

    def add(self, uid: Uid, priority: int) -> None:
        """Nodes are asked for."""
        self._priorities[uid] = priority
        self.highest = priority if self.highest is None else max(self.highest, priority)

    def discard(self, uid: Uid) -> bool:
        """They are found, or not; return whether this unit had asked."""
        if self._priorities.pop(uid, None) is None:
            return False
        self.highest = max(self._priorities.values(), default=None)
        return True

    def hold_back(self, priority: int) -> bool:
        """Return whether a unit of this priority must wait for an answer."""
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
