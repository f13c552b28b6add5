"""All queues, and which unit of a quota is first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.queueing.queue_policies import BLOCK, PRIORITY
from tests.properties.engine_kit import build_queue
from tests.queue_scheduler.queueing.queue_set_kit import (
    info,
    line_of,
    one_tree,
    set_of,
)

NO = Refusal(reason=Reason.OVER_QUOTA_MAX)


def test_queues_are_found_by_name() -> None:
    queues = set_of("q")
    assert "q" in queues
    assert "other" not in queues
    assert queues.queue("q") == build_queue("q")
    assert queues.queue("other") is None
    assert [queue.name for queue in queues] == ["q"]


def test_a_new_object_keeps_the_pending_units() -> None:
    queues = set_of("q")
    queues.enqueue(info("u", "q"))
    queue = queues.put(build_queue("q", priority=7), PRIORITY, (-7,))
    assert queue.pending.length == 1
    assert queue.rules.api_object.spec.priority == 7


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
    assert queues.withdraw(info("u1", "q")) == ()
    assert queues.queues_of("a") == ("p", "q")
    queues.withdraw(info("u2", "q"))
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
        line_of(queues, "q").pending.refuse(info("u1", "q"), NO)
        assert queues.first_waiting("a") == info("u1", "q").order_key

    def test_beyond_the_depth_no_unit_is_tried_so_none_is_first(self) -> None:
        """Each unit that moves across the depth is noted, whichever unit came or went."""
        queues = set_of("q")
        queue = line_of(queues, "q")
        queues.set_options(queue, replace(queue.rules.options, max_depth=2))
        got: dict[str, object] = {}

        def follow() -> None:
            """Look only at what is noted."""
            got.update({quota: queues.first_waiting(quota) for quota in queues.changed_heads})
            queues.changed_heads.clear()
            for quota in "abc":
                first = next(iter(queue.pending.in_order(quota)), None)
                is_tried = first is not None and queue.pending.count_before(first) < (
                    queue.rules.depth or 0
                )
                assert got.get(quota) == (first if is_tried else None), quota

        units = [info(f"u{n}", "q", quota) for n, quota in enumerate("aabbcc")]
        for order in ((5, 3, 1, 0, 2, 4), (0, 1, 2, 3, 4, 5), (4, 5, 2, 3, 0, 1)):
            for number in order:
                queues.enqueue(units[number])
                follow()
            queues.set_options(queue, replace(queue.rules.options, max_depth=3))
            follow()
            queues.set_options(queue, replace(queue.rules.options, max_depth=2))
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


def test_a_fork_is_independent() -> None:
    queues = set_of("p", "q")
    queues.enqueue(info("u1", "p"))
    queues.turns.refresh(line_of(queues, "p"), one_tree)
    twin = queues.fork()
    twin.withdraw(info("u1", "p"))
    twin.enqueue(info("u2", "q"))
    for name in ("p", "q"):
        twin.turns.refresh(line_of(twin, name), one_tree)
    queues.validate(one_tree)
    twin.validate(one_tree)
    assert (queues.queues_of("a"), twin.queues_of("a")) == (("p",), ("q",))
    assert (queues.turns.queue_ahead_of("p"), twin.turns.queue_ahead_of("p")) == ("", None)
    assert queues.turns.take_wakes() == ("p",)
