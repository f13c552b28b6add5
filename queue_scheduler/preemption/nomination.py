"""The units for which room is kept, and what the objects of their victims say about them."""

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
"""After this time a victim that is not freed no longer delays other rounds: its pods may hang on a
lost node. It is far longer than the time that pods have to end (30 s unless they ask for more)."""

NOMINATED_SECONDS: Final = STUCK_SECONDS
"""How long room is kept at most: as long as victims may take to leave. With less, a slow victim
would leave without a preemptor, and be evicted again."""

_FOR_WHOM: Final = re.compile(r"made to leave for ([^\s/]+/[^\s/]+) ")


class Nomination(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit for which room is kept.

    Attributes:
        asked: Key and uid of the victims, with their resourceVersion before the request; "": this
            process has not requested it.
        failed: Victims of the last choice whose request could not be written.
        until: Seconds of the monotonic clock; None: found in the objects, and not dated yet.
        tries: How many choices of victims were made for it.
        claim: Its order key and class when others were kept out for it.
    """

    uid: Uid
    domains: frozenset[str]
    claim: tuple[OrderKey, ClassKey] | None = None
    until: float | None = None
    asked: dict[tuple[str, Uid], str] = {}
    failed: frozenset[Uid] = frozenset()
    tries: int = 0

    def with_victims(self, victims: Iterable[Victim]) -> Nomination:
        """Return it after one more choice of victims, none of which has failed."""
        asked = {(each.unit, each.uid): each.resource_version for each in victims}
        return replace(self, asked=self.asked | asked, failed=frozenset(), tries=self.tries + 1)

    def without(self, failed: Iterable[Victim]) -> Nomination:
        """Return it after the writes: these victims could not be asked."""
        uids = frozenset(victim.uid for victim in failed)
        asked = {each: version for each, version in self.asked.items() if each[1] not in uids}
        return replace(self, asked=asked, failed=uids)

    def seen_leaving(self, leaving: Iterable[tuple[str, Uid]]) -> Nomination:
        """Return it with these victims, whose objects say that they leave for it.

        A write that seemed to have failed has succeeded after all.
        """
        news = [each for each in leaving if each not in self.asked]
        if not news:
            return self
        failed = self.failed - {uid for _, uid in news}
        return replace(self, asked=self.asked | dict.fromkeys(news, ""), failed=failed)


def for_whom_mark(key: str) -> str:
    """Return the first words of a victim's message; `read_for_whom` parses them."""
    return f"made to leave for {key} "


def read_for_whom(message: str) -> str:
    """Return the key of the unit for which a victim leaves, read from its message; "": none."""
    found = _FOR_WHOM.match(message)
    return found[1] if found is not None else ""


def leaves_for(record: CachedUnit) -> str:
    """Return the key of the unit for which this one leaves; "": none."""
    evicted = find_condition(record.unit.status.conditions, EVICTED)
    return "" if evicted is None else read_for_whom(evicted.message)


def evicted_since(record: CachedUnit) -> str:
    """Return since when a unit's eviction is requested; "": it is not."""
    condition = find_condition(record.unit.status.conditions, EVICTED)
    return (condition.last_transition_time or "") if condition is not None else ""


def victims_by_preemptor(leaving: Iterable[CachedUnit]) -> dict[str, dict[tuple[str, Uid], None]]:
    """Return key and uid of the victims, by the key of their preemptor."""
    named: dict[str, dict[tuple[str, Uid], None]] = {}
    for record in leaving:
        if makes_room(record.unit):
            named.setdefault(leaves_for(record), {})[record.key, record.uid] = None
    return named


def unseen_of(asked: Mapping[tuple[str, Uid], str], records: Mapping[str, CachedUnit]) -> list[Uid]:
    """Return the uids of victims of a nomination whose objects do not say that they leave.

    Either not yet: the request was just written and the object is as it was before. Or no longer:
    the victim is freed, and its pods go on for a while.
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
    """Return the refusal of a unit that would take the room kept for the nominated one."""
    detail = f"{nominated.key} waits for it"
    return replace(refusal, reason=Reason.ROOM_FOR_PREEMPTOR, other=nominated.key, detail=detail)


def comes_before(info: QueueUnitInfo, record: CachedUnit | None) -> bool:
    """Return whether both are in one queue, and this unit stands before the other."""
    other = None if record is None else record.info
    return other is not None and info.queue == other.queue and info.order_key < other.order_key
