"""For whom room is kept, and what the objects of those that have to leave for it say of that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.unit_record import UnitRecord, makes_room
from shared_api.objects.meta import Uid, find_condition
from shared_api.queue_unit_phases import EVICTED

STUCK_SECONDS: Final = 600.0
"""After so long a victim that is not freed holds up no other round: its pods may hang on a node
that is lost. Far longer than pods are given to end (30 s unless they ask for more)."""

NOMINATED_SECONDS: Final = STUCK_SECONDS
"""So long room is kept at most: as long as victims may take to leave. Were it less, one that takes
its time would leave for nobody, and be evicted again."""

_FOR_WHOM: Final = re.compile(r"made to leave for ([^\s/]+/[^\s/]+) ")


class Nomination(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit for which room is kept.

    `victims` are key and uid of those chosen for it, `asked` the uids of those that were asked by
    this process, with the resourceVersion before; `until` is monotonic, None: it was found in the
    objects, and is not dated yet. `tries` counts the choices made for it, `has_failed`: of the last
    some evictions were not written.
    """

    uid: Uid
    domains: frozenset[str]
    victims: tuple[tuple[str, Uid], ...]
    until: float | None
    asked: dict[Uid, str] = {}
    tries: int = 1
    has_failed: bool = False

    def seen_leaving(self, leaving: Mapping[tuple[str, Uid], None]) -> Nomination:
        """Return it with these victims, whose objects say that they leave for it.

        What was thought to have failed was written after all once all of them say so.
        """
        victims = dict.fromkeys((*self.victims, *leaving))
        has_failed = self.has_failed and not leaving.keys() >= set(self.victims)
        if has_failed == self.has_failed and len(victims) == len(self.victims):
            return self
        return replace(self, victims=tuple(victims), has_failed=has_failed)


def for_whom_mark(key: str) -> str:
    """Return the first words of a victim's message; `read_for_whom` reads them."""
    return f"made to leave for {key} "


def read_for_whom(message: str) -> str:
    """Return the unit for which a victim has to leave, as its message says; "" if it does not."""
    found = _FOR_WHOM.match(message)
    return found[1] if found is not None else ""


def leaves_for(record: UnitRecord) -> str:
    """Return the unit for which this one has to leave; "" if it does not leave for any."""
    evicted = find_condition(record.unit.status.conditions, EVICTED)
    return "" if evicted is None else read_for_whom(evicted.message)


def evicted_since(record: UnitRecord) -> str:
    """Return when a unit was asked to leave; "" if it was not."""
    condition = find_condition(record.unit.status.conditions, EVICTED)
    return (condition.last_transition_time or "") if condition is not None else ""


def victims_by_preemptor(leaving: Iterable[UnitRecord]) -> dict[str, dict[tuple[str, Uid], None]]:
    """Return key and uid of those who make room, by the key of whom they leave for."""
    named: dict[str, dict[tuple[str, Uid], None]] = {}
    for record in leaving:
        if makes_room(record.unit):
            named.setdefault(leaves_for(record), {})[record.key, record.uid] = None
    return named


def unseen_of(
    victims: Iterable[tuple[str, Uid]],
    asked: Mapping[Uid, str],
    records: Mapping[str, UnitRecord],
) -> list[Uid]:
    """Return those whose objects do not say that they leave.

    Not yet: they have just been asked, and are as they were before. Or not any more: they are free,
    and their pods go on for a while.
    """
    found = []
    for key, uid in victims:
        record = records.get(key)
        if (
            record is None
            or record.uid != uid
            or not record.occupies
            or record.unit.metadata.resource_version == asked.get(uid)
        ):
            found.append(uid)
    return found


def room_for(nominated: QueueUnitInfo, refusal: Refusal) -> Refusal:
    """Return the refusal of whoever would let the nominated unit be refused like this."""
    detail = f"{nominated.key} waits for it"
    return replace(refusal, reason=Reason.ROOM_FOR_PREEMPTOR, other=nominated.key, detail=detail)


def comes_before(info: QueueUnitInfo, other: QueueUnitInfo) -> bool:
    """Say whether both are of one queue, and this one stands before the other."""
    return info.queue == other.queue and info.order_key < other.order_key
