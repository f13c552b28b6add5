r"""Looks at units whose time or state asks for a write of the scheduler's, one after another.

What the shells beside the line have in common. Each says which units it looks at, and what follows
from the newest object of one (`Look`); the rest is here::

    unit --> looked at --> nothing to do        forgotten, until news of it come
                      \--> later                looked at again then
                       \-> patch --> written    the engine hears of it
                                \-> otherwise   looked at again, by what is known then

A unit at which something raises, as somebody's plugin may, is looked at again like one whose write
failed. The guard makes a second try of a write whose answer was lost harmless. The objects are all
that is remembered: who begins to lead asks the engine which units there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import structlog

from queue_scheduler.dequeue_cycle import WriteSink
from queue_scheduler.engine import Engine
from queue_scheduler.shared_engine import SharedEngine
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Outcome, Rejected, Written, status_change
from shared_api.objects.queue_unit import QueueUnit
from shared_api.work_queue import WorkQueue

MAX_UNDER_WAY: Final = 50
"""Writes of one shell that are handed over and not written: a quarter of what the dispatcher takes,
so that a thousand at once, as after a jump of the clock, leave room for decisions."""

FULL_REST_SECONDS: Final = 0.25

PODS_REST_SECONDS: Final = 1.0
"""Until a unit that is to be freed, and has living pods, is looked at again."""

log = structlog.get_logger("unit_looks")


class SendStatus(msgspec.Struct, frozen=True):
    """Merge this into the unit's status.

    Attributes:
        unit: The object that it was decided on; its version is the guard.
        status: What is merged.
        on_written: Called with the server's answer, on a writer's thread.
        frees: It gives the unit's place back, which waits until no pod of it lives: the job of a
            unit that is not admitted has none, unless somebody resumed it by hand.
    """

    unit: QueueUnit
    status: dict[str, Any]
    on_written: Callable[[QueueUnit], None] | None = None
    frees: bool = False


class LookAgain(msgspec.Struct, frozen=True):
    """Look again in so many seconds, unless news come before."""

    seconds: float


Look = SendStatus | LookAgain | None
"""None: there is nothing to do until news come."""


@dataclass(frozen=True)
class UnitAccess:
    """What a shell reads and writes units by.

    Attributes:
        shared: Asked for the newest object of a unit; told of what was written.
        writes: Takes the patches.
        note_written: Takes what the server answered.
        may_write: False while this process does not lead; whoever makes it True wakes the step.
        due: Keys of units to look at.
    """

    shared: SharedEngine
    writes: WriteSink
    note_written: Callable[[QueueUnit], object]
    may_write: Callable[[], bool]
    due: WorkQueue[str]


class UnitLooks:
    """The step that looks at one unit after another.

    Args:
        access: The ways in and out.
        look_at: Says what to do about the unit of a key.
        find: Returns the keys of all units that may need a look; asked of the engine when this
            process begins to lead. It runs under the engine's lock.
    """

    def __init__(
        self,
        access: UnitAccess,
        look_at: Callable[[str], Look],
        find: Callable[[Engine], list[str]],
    ) -> None:
        self._access = access
        self._look_at = look_at
        self._find = find
        # Added to by the step, taken from by writers.
        self._under_way: set[str] = set()
        self._has_begun = False

    def add(self, key: str) -> None:
        """Have a unit looked at; the engine must have been told of it before.

        A follower keeps no keys, which would grow with every unit there ever was.
        """
        if self._access.may_write():
            self._access.due.add(key)

    def add_all(self) -> None:
        """Have every unit looked at that may need it."""
        if self._access.may_write():
            for key in self._access.shared.ask(self._find):
                self._access.due.add(key)

    def step(self) -> float | None:
        """Look at one unit; return how long there is none to look at, None: until woken."""
        if not self._access.may_write():
            return None
        if not self._has_begun:
            self.add_all()
            self._has_begun = True
        if len(self._under_way) >= MAX_UNDER_WAY:
            return FULL_REST_SECONDS
        due = self._access.due
        key = due.try_get()
        if key is None:
            return due.seconds_until_ready()
        try:
            send = self._find_write(key)
        except BaseException:
            due.add_rate_limited(key)
            due.done(key)
            raise
        if send is None:
            due.done(key)
        else:
            self._send(key, send)
        return 0.0

    def _find_write(self, key: str) -> SendStatus | None:
        """Look at a unit; return what is to be sent, after noting when to look again if nothing."""
        due = self._access.due
        match self._look_at(key):
            case None:
                due.forget(key)
            case LookAgain(seconds=seconds):
                due.add_after(key, seconds)
            case SendStatus(frees=True, unit=unit) if self._access.shared.ask(_has_pods, unit):
                due.add_after(key, PODS_REST_SECONDS)
            case SendStatus() as send:
                return send
        return None

    def _send(self, key: str, send: SendStatus) -> None:
        write = status_change(QUEUE_UNITS, send.unit.metadata, send.status)
        self._under_way.add(key)
        self._access.writes.submit(write, lambda outcome: self._on_outcome(key, send, outcome))

    def _on_outcome(self, key: str, send: SendStatus, outcome: Outcome[Any]) -> None:
        """Take the server's answer; until here nobody looked at the unit a second time."""
        due = self._access.due
        self._under_way.discard(key)
        try:
            self._settle(key, send, outcome)
        except BaseException:
            due.add_rate_limited(key)
            raise
        finally:
            due.done(key)

    def _settle(self, key: str, send: SendStatus, outcome: Outcome[Any]) -> None:
        due = self._access.due
        match outcome:
            case Written(object=unit):
                self._access.note_written(unit)
                self._access.shared.tell(Engine.on_queue_unit, unit)
                if send.on_written is not None:
                    send.on_written(unit)
                due.forget(key)
                # The watch may bring what was written before anybody looks: it is no news then.
                due.add(key)
            case Rejected(error=error) if not isinstance(error, Conflict | NotFound):
                phase = send.status.get("phase", "")
                log.error("the server refuses a write", unit=key, phase=phase, error=str(error))
                due.add_rate_limited(key)
            case _:
                due.add_rate_limited(key)


def _has_pods(engine: Engine, unit: QueueUnit) -> bool:
    return engine.units.bookings.pods.has_living(unit.metadata.uid)
