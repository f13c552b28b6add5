"""For whom room is kept, and what the objects of those that have to leave for it say of that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import CachedUnit, makes_room
from queue_scheduler.decision import Reason, Refusal, Victim
from queue_scheduler.framework.queue_unit_info import ClassKey, OrderKey, QueueUnitInfo
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

    `asked` are key and uid of those that leave for it, with their resourceVersion before they were
    asked to, "" where this process has not asked them; `failed` are those of its last choice who
    were not asked, for the write failed. `until` is monotonic, None: it was found in the objects,
    and is not dated yet. `tries` counts the choices made for it. `claim` is where it stood, and
    what it asked for, when others were kept out for it.
    """

    uid: Uid
    domains: frozenset[str]
    claim: tuple[OrderKey, ClassKey] | None = None
    until: float | None = None
    asked: dict[tuple[str, Uid], str] = {}
    failed: frozenset[Uid] = frozenset()
    tries: int = 0

    def with_victims(self, victims: Iterable[Victim]) -> Nomination:
        """Return it with one more choice; nothing is known to have failed of that."""
        asked = {(each.unit, each.uid): each.resource_version for each in victims}
        return replace(self, asked=self.asked | asked, failed=frozenset(), tries=self.tries + 1)

    def without(self, failed: Iterable[Victim]) -> Nomination:
        """Return it with what came of the writes: these were not asked."""
        uids = frozenset(victim.uid for victim in failed)
        asked = {each: version for each, version in self.asked.items() if each[1] not in uids}
        return replace(self, asked=asked, failed=uids)

    def seen_leaving(self, leaving: Iterable[tuple[str, Uid]]) -> Nomination:
        """Return it with these victims, whose objects say that they leave for it.

        What was thought to have failed was written after all.
        """
        news = [each for each in leaving if each not in self.asked]
        if not news:
            return self
        failed = self.failed - {uid for _, uid in news}
        return replace(self, asked=self.asked | dict.fromkeys(news, ""), failed=failed)


def for_whom_mark(key: str) -> str:
    """Return the first words of a victim's message; `read_for_whom` reads them."""
    return f"made to leave for {key} "


def read_for_whom(message: str) -> str:
    """Return the unit for which a victim has to leave, as its message says; "" if it does not."""
    found = _FOR_WHOM.match(message)
    return found[1] if found is not None else ""


def leaves_for(record: CachedUnit) -> str:
    """Return the unit for which this one has to leave; "" if it does not leave for any."""
    evicted = find_condition(record.unit.status.conditions, EVICTED)
    return "" if evicted is None else read_for_whom(evicted.message)


def evicted_since(record: CachedUnit) -> str:
    """Return when a unit was asked to leave; "" if it was not."""
    condition = find_condition(record.unit.status.conditions, EVICTED)
    return (condition.last_transition_time or "") if condition is not None else ""


def victims_by_preemptor(leaving: Iterable[CachedUnit]) -> dict[str, dict[tuple[str, Uid], None]]:
    """Return key and uid of those who make room, by the key of whom they leave for."""
    named: dict[str, dict[tuple[str, Uid], None]] = {}
    for record in leaving:
        if makes_room(record.unit):
            named.setdefault(leaves_for(record), {})[record.key, record.uid] = None
    return named


def unseen_of(asked: Mapping[tuple[str, Uid], str], records: Mapping[str, CachedUnit]) -> list[Uid]:
    """Return those of a nomination whose objects do not say that they leave.

    Not yet: they have just been asked, and are as they were before. Or not any more: they are free,
    and their pods go on for a while.
    """
    found = []
    for (key, uid), version in asked.items():
        record = records.get(key)
        if (
            record is None
            or record.uid != uid
            or not record.occupies
            or record.unit.metadata.resource_version == version
        ):
            found.append(uid)
    return found


def room_for(nominated: QueueUnitInfo, refusal: Refusal) -> Refusal:
    """Return the refusal of whoever would let the nominated unit be refused like this."""
    detail = f"{nominated.key} waits for it"
    return replace(refusal, reason=Reason.ROOM_FOR_PREEMPTOR, other=nominated.key, detail=detail)


def comes_before(info: QueueUnitInfo, record: CachedUnit | None) -> bool:
    """Return whether both are of one queue, and this one stands before the other."""
    other = None if record is None else record.info
    return other is not None and info.queue == other.queue and info.order_key < other.order_key
