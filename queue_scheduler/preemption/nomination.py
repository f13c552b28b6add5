"""The units for which room is kept, and what the objects of their victims say about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, makes_room
from queue_scheduler.decision import Reason, Refusal, Victim
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import ClassKey, OrderKey, QueueUnitInfo
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Uid, find_condition
from shared_api.queue_unit_phases import EVICTED
from shared_api.timestamps import rfc3339

STUCK_SECONDS: Final = 600.0
"""After this time a victim that is not freed no longer delays other rounds: its pods may hang on a
lost node. It is far longer than the time that pods have to end (30 s unless they ask for more)."""

NOMINATED_SECONDS: Final = STUCK_SECONDS
"""How long room is kept at most: as long as victims may take to leave. With less, a slow victim
would leave without a preemptor, and be evicted again."""

_KEPT_IN: Final = frozenset({UnitState.WAITING, UnitState.ASSUMED, UnitState.CONFLICT})
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
        """Return the nomination after one more choice of victims, none of which has failed."""
        asked = {(each.unit, each.uid): each.resource_version for each in victims}
        return replace(self, asked=self.asked | asked, failed=frozenset(), tries=self.tries + 1)

    def without(self, failed: Iterable[Victim]) -> Nomination:
        """Return the nomination after the writes: the requests to these victims failed."""
        uids = frozenset(victim.uid for victim in failed)
        asked = {each: version for each, version in self.asked.items() if each[1] not in uids}
        return replace(self, asked=asked, failed=uids)

    def seen_leaving(self, leaving: Iterable[tuple[str, Uid]]) -> Nomination:
        """Return the nomination with these victims, whose objects say that they leave for it.

        A write that seemed to have failed has succeeded after all.
        """
        news = [each for each in leaving if each not in self.asked]
        if not news:
            return self
        failed = self.failed - {uid for _, uid in news}
        return replace(self, asked=self.asked | dict.fromkeys(news, ""), failed=failed)


class Nominations:
    """The nominated units. `update` follows the objects; all else comes from a round.

    Attributes:
        by_key: By `namespace/name`; changed here, read everywhere.
        spent: The keys of units that had their round, as long as victims name them.
        ended: Increases when a nomination ends, or what it competes for or claims changes.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner) -> None:
        self.by_key: dict[str, Nomination] = {}
        self.spent: dict[str, None] = {}
        self.ended = 0
        self._units = units
        self._plugins = plugins

    def is_empty(self) -> bool:
        """Return whether nothing is remembered: no unit is nominated, or had its round."""
        return not (self.by_key or self.spent)

    def times(self) -> list[float]:
        """Return when nominations end, in seconds of the monotonic clock; 0: not dated yet."""
        return [each.until or 0.0 for each in self.by_key.values()]

    def on_their_way(self, nomination: Nomination) -> list[Uid]:
        """Return the uids of charged victims whose objects do not say that they leave."""
        unseen = unseen_of(nomination.asked, self._units.records)
        return [uid for uid in unseen if self._units.usage.charge_of(uid) is not None]

    # --- a round ------------------------------------------------------------------------------

    def choose(
        self, info: QueueUnitInfo, victims: Iterable[Victim], domains: frozenset[str], until: float
    ) -> None:
        """Nominate a unit, or renew its nomination, for one more choice of victims."""
        own = self.by_key.get(info.key) or Nomination(uid=info.uid, domains=domains)
        self.by_key[info.key] = replace(own.with_victims(victims), domains=domains, until=until)

    def on_written(self, key: str, uid: Uid, failed: Iterable[Victim]) -> bool:
        """Take the outcome of a round's writes; return whether that unit is still nominated."""
        own = self.by_key.get(key)
        if own is None or own.uid != uid:
            return False
        self.by_key[key] = own.without(failed)
        return True

    def end(self, key: str) -> None:
        """End the nomination of a unit, if there is one; its victims do not nominate it again."""
        if key in self.by_key:
            self._drop(key)
            self.spent[key] = None

    def expire(self, now: float) -> None:
        """End the nominations whose time is over, and date those that were read off objects."""
        for key, nomination in list(self.by_key.items()):
            if nomination.until is None:
                self.by_key[key] = replace(nomination, until=now + NOMINATED_SECONDS)
            elif nomination.until <= now:
                self.end(key)

    def resume(self, nominations: Mapping[str, Nomination], spent: Iterable[str]) -> None:
        """Take over the nominations of another process, by `namespace/name`."""
        self.by_key.clear()
        self.by_key.update(nominations)
        self.spent = dict.fromkeys(spent)

    # --- objects ------------------------------------------------------------------------------

    def update(self) -> None:
        """Follow the objects of victims and of nominated units."""
        if self._units.admitted.leaving or self.spent:
            self._find()
        if self.by_key:
            self._end_departed()

    def _find(self) -> None:
        """Read the nominated units off their victims, so that room is kept across a restart."""
        records = self._units.records
        named = victims_by_preemptor(records[key] for key in self._units.admitted.leaving)
        self.spent = {key: None for key in self.spent if key in named}
        for key, victims in named.items():
            record, known = records.get(key), self.by_key.get(key)
            if known is not None:
                self.by_key[key] = known.seen_leaving(victims)
            elif (
                record is not None
                and record.info is not None
                and record.state is UnitState.WAITING
                and key not in self.spent
                and not self._is_stopped(record)
            ):
                found = Nomination(uid=record.uid, domains=self._plugins.domains(record.info.quota))
                self.by_key[key] = found.seen_leaving(victims)

    def _end_departed(self) -> None:
        """Drop nominations of units that started, are gone or may not start; update the others.

        A quota may move to another parent or, after a restart, be known before its parent is.
        """
        for key, nomination in list(self.by_key.items()):
            record = self._units.records.get(key)
            if record is None or record.uid != nomination.uid or record.state not in _KEPT_IN:
                self.end(key)
            elif self._is_stopped(record):
                # Not spent: remaining victims nominate it again once its queue goes on.
                self._drop(key)
            elif record.info is not None:
                domains = self._plugins.domains(record.info.quota)
                claim = (record.info.order_key, record.info.class_key)
                if (domains, claim) != (nomination.domains, nomination.claim):
                    self.by_key[key] = replace(nomination, domains=domains, claim=claim)
                    self.ended += 1

    def _is_stopped(self, record: CachedUnit) -> bool:
        return record.info is not None and not self._units.queues.may_start(record.info.queue)

    def _drop(self, key: str) -> None:
        del self.by_key[key]
        self.ended += 1

    # --- copies -------------------------------------------------------------------------------

    def fork(self, units: UnitCache, plugins: PluginRunner) -> Nominations:
        """Return an independent copy over forked units and plugins."""
        twin = Nominations(units, plugins)
        twin.by_key, twin.spent = dict(self.by_key), dict(self.spent)
        twin.ended = self.ended
        return twin

    def validate(self) -> None:
        """Raise AssertionError if room is kept for a stopped unit."""
        for key in self.by_key:
            record = self._units.records.get(key)
            assert record is None or not self._is_stopped(record), f"{key} is kept room in vain"


def for_whom_mark(key: str) -> str:
    """Return the first words of a victim's message; `read_for_whom` parses them."""
    return f"made to leave for {key} "


def read_for_whom(message: str) -> str:
    """Return the key of the unit for which a victim leaves, from its message, or ""."""
    found = _FOR_WHOM.match(message)
    return found[1] if found is not None else ""


def leaves_for(record: CachedUnit) -> str:
    """Return the key of the unit for which this one leaves, or ""."""
    evicted = find_condition(record.unit.status.conditions, EVICTED)
    return "" if evicted is None else read_for_whom(evicted.message)


def evicted_since(record: CachedUnit) -> str:
    """Return since when a unit's eviction is requested; "" if it is not."""
    condition = find_condition(record.unit.status.conditions, EVICTED)
    return (condition.last_transition_time or "") if condition is not None else ""


def without_stuck(leaving: Iterable[CachedUnit], wall: datetime) -> list[CachedUnit]:
    """Return those of units that leave whose eviction was not requested too long ago."""
    stuck = rfc3339(wall - timedelta(seconds=STUCK_SECONDS))
    return [each for each in leaving if not "" < evicted_since(each) <= stuck]


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
    return replace(refusal, reason=Reason.ROOM_FOR_PREEMPTOR, other=nominated.key)


def comes_before(info: QueueUnitInfo, other: QueueUnitInfo, queue: SchedulingQueue) -> bool:
    """Return whether both are in this queue, and the first unit stands before the other."""
    place = queue.place
    return info.queue == other.queue and place(info.order_key) < place(other.order_key)
