"""For which units room is kept, and until when."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import judge
from queue_scheduler.decision import Victim
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.preemption.nomination import NOMINATED_SECONDS, Nomination, Nominations
from queue_scheduler.queueing.queue_policies import PRIORITY
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.properties.naive_quota import NaiveQuota

KEY, UID = "ns/first", Uid("uid-first")
LIMIT = frozenset(("quota/a",))
VICTIM = Victim(unit="ns/v", uid=Uid("uid-v"), resource_version="1", priority=0, lost_seconds=0)


class NominationsKit:
    """Nominations, and a pending unit that room can be kept for."""

    def __init__(self) -> None:
        plugin = NaiveQuota()
        plugin.on_quota(build_quota("a", cpu=4))
        self.units = UnitCache(PluginRunner([plugin]))
        self.units.queues.put(build_queue("a"), PRIORITY, (0,))
        self.nominations = Nominations(self.units, PluginRunner([plugin]))
        self.put(build_unit("first", "a"))

    def put(self, unit: QueueUnit) -> None:
        self.units.place(unit, 1, judge(unit))

    def info(self) -> QueueUnitInfo:
        found = self.units.records[KEY].info
        assert found is not None
        return found

    def choose(self) -> Nomination:
        self.nominations.choose(self.info(), [VICTIM], LIMIT, 10.0)
        return self.nominations.by_key[KEY]


@pytest.fixture
def kit() -> NominationsKit:
    return NominationsKit()


def test_each_choice_of_victims_counts(kit: NominationsKit) -> None:
    assert kit.choose().tries == 1
    assert kit.nominations.on_written(KEY, UID, [VICTIM])
    assert kit.nominations.by_key[KEY].failed == {VICTIM.uid}
    again = kit.choose()
    assert (again.tries, again.failed, again.until) == (2, frozenset(), 10.0)


def test_the_outcome_for_an_earlier_unit_of_that_name_is_void(kit: NominationsKit) -> None:
    before = kit.choose()
    assert not kit.nominations.on_written(KEY, Uid("earlier"), [VICTIM])
    assert not kit.nominations.on_written("ns/other", UID, [VICTIM])
    assert kit.nominations.by_key == {KEY: before}


def test_an_end_is_noticed_and_remembered(kit: NominationsKit) -> None:
    kit.choose()
    for _ in range(2):
        kit.nominations.end(KEY)
    assert (kit.nominations.by_key, kit.nominations.ended) == ({}, 1)
    assert not kit.nominations.is_empty(), "its victims may still name it"
    kit.nominations.update()
    assert kit.nominations.is_empty(), "no victim names it"


def test_room_is_kept_for_a_limited_time(kit: NominationsKit) -> None:
    kit.choose()
    assert kit.nominations.times() == [10.0]
    kit.nominations.expire(9.9)
    assert list(kit.nominations.by_key) == [KEY]
    kit.nominations.expire(10.0)
    assert (kit.nominations.by_key, kit.nominations.times()) == ({}, [])


def test_what_was_read_off_objects_is_dated_when_it_is_seen(kit: NominationsKit) -> None:
    kit.nominations.by_key[KEY] = Nomination(uid=UID, domains=LIMIT)
    assert kit.nominations.times() == [0.0]
    kit.nominations.expire(5.0)
    assert kit.nominations.times() == [5.0 + NOMINATED_SECONDS]


def test_a_unit_that_is_gone_is_not_nominated(kit: NominationsKit) -> None:
    kit.choose()
    kit.nominations.update()
    before = kit.nominations.ended
    kit.nominations.update()
    assert kit.nominations.ended == before, "nothing has changed"
    kit.units.forget(kit.units.records[KEY])
    kit.nominations.update()
    assert (kit.nominations.by_key, kit.nominations.ended) == ({}, before + 1)


def test_a_copy_is_independent(kit: NominationsKit) -> None:
    kit.choose()
    twin = kit.nominations.fork(kit.units, PluginRunner([NaiveQuota()]))
    twin.end(KEY)
    assert (list(kit.nominations.by_key), kit.nominations.spent) == ([KEY], {})
    assert (kit.nominations.ended, twin.ended) == (0, 1)
    assert twin.fork(kit.units, PluginRunner([])).ended == 1
