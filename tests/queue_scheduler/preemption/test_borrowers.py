"""From which borrowers a quota reclaims first, where use is counted."""

from __future__ import annotations

import pytest

from queue_scheduler.preemption.borrowers import Borrowers
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import USER
from tests.properties.engine_kit import WALL, admitted, build_unit, changed, wall_time
from tests.queue_scheduler.round_kit import TAKES_ALL, Times

HALF_LIFE = 168 * 3600
HOUR = 3600


class Lenders:
    """An owner with a min of 4 cores, and the quotas b and c that borrow from it."""

    def __init__(self, *, turns: bool = False, policy: str = "Priority") -> None:
        self.times = times = Times()
        if turns:
            times.engine.queue_state.take_turns_by_use(HALF_LIFE)
        times.quota("top", 12)
        times.quota("owner", 12, "top", guaranteed=4)
        times.quota("b", 12, "top")
        times.quota("c", 12, "top")
        times.queue("q", TAKES_ALL, policy=policy)
        times.queue("plain", TAKES_ALL)
        self.second = 0
        self.pass_time(0)

    def pass_time(self, seconds: int) -> None:
        self.second += seconds
        self.times.workers.now += seconds
        self.times.workers.wake(self.times.engine.on_time(wall_time(WALL + self.second)))

    def runs(
        self, name: str, quota: str, cpu: int = 1, *, queue: str = "q", priority: int = 0
    ) -> None:
        """Add a unit that runs from now on; its name without digits is its user."""
        labels = {USER: name.rstrip("0123456789")}
        unit = build_unit(name, quota, labels=labels, cpu=cpu, queue=queue, priority=priority)
        since = rfc3339(wall_time(WALL + self.second))
        self.times.put(changed(admitted(unit, 1, "Running"), 1, last_allocate_time=since))

    def order(self) -> list[list[str]]:
        """Return the units that borrow, by bucket, the first to evict first."""
        units = self.times.engine.units
        borrowers = Borrowers(units, ("b", "c"), None)
        first = [sorted(key[3:] for key in keys) for _, keys in borrowers]
        assert first == [sorted(key[3:] for key in keys) for _, keys in borrowers]
        return first

    def evicted(self) -> list[str]:
        """Return what is reported when a unit of the owner comes."""
        self.times.comes("mine", "owner", 1, priority=0, queue="plain")
        return [text for _, text in self.times.reported]


@pytest.mark.parametrize(
    ("turns", "victim"), [(True, "old"), (False, "new")], ids=["by use", "by running time"]
)
def test_the_quota_that_has_used_the_most_is_reclaimed_from_first(
    victim: str, *, turns: bool
) -> None:
    lenders = Lenders(turns=turns)
    lenders.runs("old", "b", 6)
    lenders.pass_time(HOUR)
    lenders.runs("new", "c", 6)
    lenders.pass_time(60)

    assert lenders.evicted() == [f"mine evicts {victim}"]


def test_priority_comes_before_use() -> None:
    lenders = Lenders(turns=True)
    lenders.runs("old", "b", 6, priority=1)
    lenders.pass_time(HOUR)
    lenders.runs("new", "c", 6)

    assert lenders.order() == [["new"], ["old"]]
    assert lenders.evicted() == ["mine evicts new"]


def test_of_quotas_that_are_level_the_former_order_decides() -> None:
    lenders = Lenders(turns=True)
    lenders.runs("one", "b", 4)
    lenders.runs("two", "c", 4)

    assert lenders.order() == [["one", "two"]]


def test_of_a_fair_queue_the_account_that_has_used_the_most_is_first() -> None:
    lenders = Lenders(policy="Fair")
    lenders.runs("ann1", "b", 4)
    lenders.pass_time(HOUR)
    lenders.runs("bob2", "c", 1)
    lenders.runs("ann3", "c", 1)
    lenders.runs("eve4", "b", 1)
    lenders.pass_time(HOUR)
    lenders.runs("bob5", "b", 5)

    assert lenders.order() == [["ann1", "ann3"], ["bob2", "bob5"], ["eve4"]]
    assert lenders.evicted() == ["mine evicts ann3"]  # of one account: what has run the shortest


def test_units_of_queues_without_accounts_come_with_the_first_account() -> None:
    lenders = Lenders(policy="Fair")
    lenders.runs("ann1", "b", 4)
    lenders.runs("bob2", "b", 1)
    lenders.runs("zoe3", "b", 1, queue="plain")
    lenders.pass_time(HOUR)

    assert lenders.order() == [["ann1", "zoe3"], ["bob2"]]


def test_quotas_come_before_accounts() -> None:
    lenders = Lenders(turns=True, policy="Fair")
    lenders.runs("ann1", "c", 2)
    lenders.runs("bob2", "b", 4)
    lenders.runs("eve3", "b", 1)
    lenders.pass_time(HOUR)

    assert lenders.order() == [["bob2"], ["eve3"], ["ann1"]]


def test_without_either_there_is_one_bucket_for_each_priority() -> None:
    lenders = Lenders()
    lenders.runs("ann1", "b", 4)
    lenders.pass_time(HOUR)
    lenders.runs("bob2", "c", 1)
    lenders.runs("eve3", "c", 1, priority=3)

    assert lenders.order() == [["ann1", "bob2"], ["eve3"]]
