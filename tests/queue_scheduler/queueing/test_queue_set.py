"""All queues: turns, wakes, and which unit of a quota is first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.queue_policies import BLOCK, FIFO, PRIORITY
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from tests.properties.engine_kit import build_queue, build_unit

NO = Refusal(reason=Reason.OVER_QUOTA_MAX)


def info(name: str, queue: str, quota: str = "a") -> QueueUnitInfo:
    unit = build_unit(name, quota)
    return QueueUnitInfo(
        key=f"ns/{name}",
        uid=unit.metadata.uid,
        unit=unit,
        queue=queue,
        quota=quota,
        demand=UnitDemand((), {}),
        non_preemptible=False,
        priority=unit.spec.priority,
        order_key=PRIORITY.order_key(unit),
        class_key=(quota,),
    )


def one_tree(_quota: str) -> frozenset[str]:
    return frozenset(("tree",))


def apart(quota: str) -> frozenset[str]:
    return frozenset((quota,))


def nothing(_quota: str) -> frozenset[str]:
    return frozenset()


def set_of(*names: str, ranks: dict[str, int] | None = None) -> QueueSet:
    queues = QueueSet()
    for name in names:
        queues.put(build_queue(name), PRIORITY, ((ranks or {}).get(name, 0),))
    return queues


def line_of(queues: QueueSet, name: str) -> SchedulingQueue:
    queue = queues.find(name)
    assert queue is not None
    return queue


def test_queues_are_found_by_name() -> None:
    queues = set_of("q")
    assert "q" in queues
    assert "other" not in queues
    assert queues.queue("q") == build_queue("q")
    assert queues.queue("other") is None
    assert [queue.name for queue in queues] == ["q"]


@pytest.mark.parametrize("is_made_again", [False, True], ids=["policy", "made again"])
def test_keys_of_two_kinds_are_never_compared(*, is_made_again: bool) -> None:
    queues, by_number = set_of("q"), info("u", "q")
    by_text = replace(by_number, order_key=("text", "ns", "u"))  # as a foreign policy has it
    queues.enqueue(by_number)
    old = queues.place_of(("q", line_of(queues, "q").class_number(by_number)))
    queues.withdraw(by_number)
    if is_made_again:
        queues.remove("q")
    queues.put(build_queue("q"), FIFO, (0,))
    queues.enqueue(by_text)
    new = queues.place_of(("q", line_of(queues, "q").class_number(by_text)))
    assert sorted([new, old]) == [old, new]
    queues.refresh(line_of(queues, "q"), one_tree)
    assert queues.first_place("tree") == new
    queues.fork().put(build_queue("q"), FIFO, (0,))
    assert queues.first_place("tree") == new


def test_a_new_object_keeps_the_pending_units() -> None:
    queues = set_of("q")
    queues.enqueue(info("u", "q"))
    queue = queues.put(build_queue("q", priority=7), PRIORITY, (-7,))
    assert queue.length == 1
    assert queue.api_object.spec.priority == 7


def test_a_policy_is_not_changed_under_waiting_units() -> None:
    queues = set_of("q")
    queues.enqueue(info("u", "q"))
    with pytest.raises(AssertionError, match="policy"):
        queues.put(build_queue("q"), BLOCK, (0,))


def test_a_queue_with_units_is_not_removed() -> None:
    queues = set_of("q")
    queues.enqueue(info("u", "q"))
    with pytest.raises(AssertionError, match="1 pending units"):
        queues.remove("q")


def test_the_queues_of_a_quota_are_those_where_its_units_wait() -> None:
    queues = set_of("q", "p")
    queues.enqueue(info("u1", "q"))
    queues.enqueue(info("u2", "q"))
    queues.enqueue(info("u3", "p"))
    assert queues.queues_of("a") == ("p", "q")
    assert queues.withdraw(info("u1", "q")) is None
    assert queues.queues_of("a") == ("p", "q")
    assert queues.withdraw(info("u2", "q")) is not None
    assert queues.queues_of("a") == ("p",)
    queues.withdraw(info("u3", "p"))
    assert queues.queues_of("a") == ()
    assert queues.first_waiting("a") is None
    queues.validate(one_tree)


class TestFirstWaiting:
    def test_the_queue_of_the_higher_rank_counts(self) -> None:
        queues = set_of("p", "q", ranks={"q": -1})
        queues.enqueue(info("first", "p"))
        queues.enqueue(info("second", "q"))
        assert queues.first_waiting("a") == info("second", "q").order_key

    def test_a_new_rank_may_change_it(self) -> None:
        queues = set_of("p", "q")
        queues.enqueue(info("u1", "p"))
        queues.enqueue(info("u2", "q"))
        queues.changed_heads.clear()
        queues.put(build_queue("q"), PRIORITY, (-1,))
        assert list(queues.changed_heads) == ["a"]
        assert queues.first_waiting("a") == info("u2", "q").order_key

    def test_refused_or_not(self) -> None:
        queues = set_of("q")
        queues.enqueue(info("u1", "q"))
        queues.enqueue(info("u2", "q"))
        line_of(queues, "q").refuse(info("u1", "q"), NO)
        assert queues.first_waiting("a") == info("u1", "q").order_key

    def test_beyond_the_depth_no_unit_is_tried_so_none_is_first(self) -> None:
        """Each unit that moves across the depth is noted, whichever unit came or went."""
        queues = set_of("q")
        queue = line_of(queues, "q")
        queues.set_options(queue, replace(queue.options, max_depth=2))
        told: dict[str, object] = {}

        def follow() -> None:
            """Look only at what is noted."""
            told.update({quota: queues.first_waiting(quota) for quota in queues.changed_heads})
            queues.changed_heads.clear()
            for quota in "abc":
                first = next(iter(queue.in_order(quota)), None)
                is_tried = first is not None and queue.count_before(first) < (queue.depth or 0)
                assert told.get(quota) == (first if is_tried else None), quota

        units = [info(f"u{n}", "q", quota) for n, quota in enumerate("aabbcc")]
        for order in ((5, 3, 1, 0, 2, 4), (0, 1, 2, 3, 4, 5), (4, 5, 2, 3, 0, 1)):
            for number in order:
                queues.enqueue(units[number])
                follow()
            queues.set_options(queue, replace(queue.options, max_depth=3))
            follow()
            queues.set_options(queue, replace(queue.options, max_depth=2))
            follow()
            for number in order:
                queues.withdraw(units[number])
                follow()

    def test_quotas_with_another_first_unit_are_noted(self) -> None:
        queues = set_of("q")
        queues.enqueue(info("u1", "q", "b"))
        queues.enqueue(info("u2", "q", "a"))
        assert sorted(queues.changed_heads) == ["a", "b"]
        queues.changed_heads.clear()
        queues.withdraw(info("u1", "q", "b"))
        assert sorted(queues.changed_heads) == ["b"]


class TestTurns:
    def refreshed(
        self, domains: Callable[[str], frozenset[str]] = one_tree, **ranks: int
    ) -> QueueSet:
        queues = set_of("p", "q", ranks=ranks)
        for name in ("p", "q"):
            queues.enqueue(info(f"{name}1", name, name))
            queues.enqueue(info(f"{name}2", name, name))
            queues.refresh(line_of(queues, name), domains)
        queues.validate(domains)
        return queues

    def test_one_after_the_other(self) -> None:
        queues = self.refreshed()
        assert queues.take_wakes() == ("p",)
        assert queues.queue_ahead_of("q") == "p"
        queues.served(line_of(queues, "p"))
        queues.refresh(line_of(queues, "p"), one_tree)
        assert queues.take_wakes() == ("q",)
        assert queues.queue_ahead_of("p") == "q"

    def test_the_higher_rank_until_it_stops(self) -> None:
        queues = self.refreshed(q=-1)
        queues.served(line_of(queues, "q"))
        queues.refresh(line_of(queues, "q"), one_tree)
        assert queues.queue_ahead_of("p") == "q"
        line_of(queues, "q").refuse(info("q1", "q", "q"), NO)
        queues.refresh(line_of(queues, "q"), one_tree)
        assert queues.queue_ahead_of("q") is None
        assert queues.take_wakes() == ("p",)

    def test_without_a_shared_limit_both_are_woken(self) -> None:
        assert self.refreshed(apart).take_wakes() == ("p", "q")

    def test_without_any_limit_both_are_woken_too_and_once(self) -> None:
        queues = self.refreshed(nothing)
        assert queues.take_wakes() == ("p", "q")
        queues.refresh(line_of(queues, "p"), nothing)
        assert queues.take_wakes() == ()

    def test_no_change_wakes_no_queue(self) -> None:
        queues = self.refreshed()
        queues.take_wakes()
        queues.refresh(line_of(queues, "p"), one_tree)
        assert queues.take_wakes() == ()

    def test_a_queue_that_backs_off_learns_it_and_lets_others_go(self) -> None:
        queues = self.refreshed()
        queues.take_wakes()
        queues.back_off(line_of(queues, "p"), 5.0)
        queues.back_off(line_of(queues, "p"), 4.0)
        queues.refresh(line_of(queues, "p"), one_tree)
        assert line_of(queues, "p").not_before == 5.0
        assert queues.take_wakes() == ("p", "q")

    def test_a_removed_queue_lets_others_go(self) -> None:
        queues = self.refreshed()
        queues.take_wakes()
        for name in ("p1", "p2"):
            queues.withdraw(info(name, "p", "p"))
        queues.remove("p")
        assert queues.take_wakes() == ("q",)
        queues.validate(one_tree)

    def test_changed_limits_are_noticed(self) -> None:
        queues = self.refreshed()
        queues.take_wakes()
        queues.on_limits_changed(apart)
        queues.validate(apart)
        assert set(queues.take_wakes()) == {"p", "q"}
        queues.on_limits_changed(apart)
        assert queues.take_wakes() == ()

    def test_another_quota_in_the_queue_is_another_limit(self) -> None:
        queues = self.refreshed(apart)
        queues.take_wakes()
        queues.enqueue(info("q0", "p", "q"))
        queues.refresh(line_of(queues, "p"), apart)
        queues.validate(apart)
        assert queues.queue_ahead_of("q") == "p"


def test_a_fork_is_independent() -> None:
    queues = set_of("p", "q")
    queues.enqueue(info("u1", "p"))
    queues.refresh(line_of(queues, "p"), one_tree)
    twin = queues.fork()
    twin.withdraw(info("u1", "p"))
    twin.enqueue(info("u2", "q"))
    for name in ("p", "q"):
        twin.refresh(line_of(twin, name), one_tree)
    queues.validate(one_tree)
    twin.validate(one_tree)
    assert (queues.queues_of("a"), twin.queues_of("a")) == (("p",), ("q",))
    assert (queues.queue_ahead_of("p"), twin.queue_ahead_of("p")) == ("", None)
    assert queues.take_wakes() == ("p",)
