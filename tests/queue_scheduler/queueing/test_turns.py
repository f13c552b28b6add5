"""Whose turn it is, and which queues are woken for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.queueing.queue_policies import FIFO
from queue_scheduler.queueing.queue_set import QueueSet
from tests.properties.engine_kit import build_queue
from tests.queue_scheduler.queueing.queue_set_kit import (
    apart,
    info,
    line_of,
    nothing,
    one_tree,
    set_of,
)

NO = Refusal(reason=Reason.OVER_QUOTA_MAX)


def refreshed(domains: Callable[[str], frozenset[str]] = one_tree, **ranks: int) -> QueueSet:
    queues = set_of("p", "q", ranks=ranks)
    for name in ("p", "q"):
        queues.enqueue(info(f"{name}1", name, name))
        queues.enqueue(info(f"{name}2", name, name))
        queues.turns.refresh(line_of(queues, name), domains)
    queues.validate(domains)
    return queues


def test_one_after_the_other() -> None:
    queues = refreshed()
    assert queues.turns.take_wakes() == ("p",)
    assert queues.turns.queue_ahead_of("q") == "p"
    queues.turns.served("p")
    queues.turns.refresh(line_of(queues, "p"), one_tree)
    assert queues.turns.take_wakes() == ("q",)
    assert queues.turns.queue_ahead_of("p") == "q"


def test_the_higher_rank_until_it_stops() -> None:
    queues = refreshed(q=-1)
    queues.turns.served("q")
    queues.turns.refresh(line_of(queues, "q"), one_tree)
    assert queues.turns.queue_ahead_of("p") == "q"
    line_of(queues, "q").pending.refuse(info("q1", "q", "q"), NO)
    queues.turns.refresh(line_of(queues, "q"), one_tree)
    assert queues.turns.queue_ahead_of("q") is None
    assert queues.turns.take_wakes() == ("p",)


def test_without_a_shared_limit_both_are_woken() -> None:
    assert refreshed(apart).turns.take_wakes() == ("p", "q")


def test_without_any_limit_both_are_woken_too_and_once() -> None:
    queues = refreshed(nothing)
    assert queues.turns.take_wakes() == ("p", "q")
    queues.turns.refresh(line_of(queues, "p"), nothing)
    assert queues.turns.take_wakes() == ()


def test_no_change_wakes_no_queue() -> None:
    queues = refreshed()
    queues.turns.take_wakes()
    queues.turns.refresh(line_of(queues, "p"), one_tree)
    assert queues.turns.take_wakes() == ()


def test_a_queue_that_backs_off_learns_it_and_lets_others_go() -> None:
    queues = refreshed()
    queues.turns.take_wakes()
    queues.turns.back_off("p", 5.0)
    queues.turns.back_off("p", 4.0)
    queues.turns.refresh(line_of(queues, "p"), one_tree)
    assert queues.turns.backs_off_until("p") == 5.0
    assert queues.turns.take_wakes() == ("p", "q")


def test_a_removed_queue_lets_others_go() -> None:
    queues = refreshed()
    queues.turns.take_wakes()
    for name in ("p1", "p2"):
        queues.withdraw(info(name, "p", "p"))
    queues.remove("p")
    assert queues.turns.take_wakes() == ("q",)
    queues.validate(one_tree)


def test_changed_limits_are_noticed() -> None:
    queues = refreshed()
    queues.turns.take_wakes()
    queues.turns.on_limits_changed(apart)
    queues.validate(apart)
    assert set(queues.turns.take_wakes()) == {"p", "q"}
    queues.turns.on_limits_changed(apart)
    assert queues.turns.take_wakes() == ()


def test_another_quota_in_the_queue_is_another_limit() -> None:
    queues = refreshed(apart)
    queues.turns.take_wakes()
    queues.enqueue(info("q0", "p", "q"))
    queues.turns.refresh(line_of(queues, "p"), apart)
    queues.validate(apart)
    assert queues.turns.queue_ahead_of("q") == "p"


def test_a_queue_made_again_is_a_new_one() -> None:
    queues = set_of("p", "q")
    queues.turns.served("p")
    queues.turns.back_off("p", 5.0)
    queues.remove("p")
    queues.put(build_queue("p"), FIFO, (0,))
    assert queues.turns.backs_off_until("p") is None
    for name in ("p", "q"):
        queues.enqueue(info(name, name))
        queues.turns.refresh(line_of(queues, name), one_tree)
    assert queues.turns.queue_ahead_of("p") == ""
    queues.validate(one_tree)


def test_a_copy_has_its_own_turns() -> None:
    queues = refreshed()
    queues.turns.back_off("p", 5.0)
    twin = queues.fork()
    twin.turns.end_back_off(line_of(twin, "p"), one_tree)
    twin.turns.served("p")
    got = [each.turns.backs_off_until("p") for each in (queues, twin)]
    assert got == [5.0, None]
    queues.turns.end_back_off(line_of(queues, "p"), one_tree)
    assert queues.turns.queue_ahead_of("p") == ""


@pytest.mark.parametrize("is_made_again", [False, True], ids=["policy", "made again"])
def test_keys_of_two_kinds_are_never_compared(*, is_made_again: bool) -> None:
    queues, by_number = set_of("q"), info("u", "q")
    by_text = replace(by_number, order_key=("text", "ns", "u"))  # as a foreign policy has it
    queues.enqueue(by_number)
    old = queues.turns.place_of(("q", line_of(queues, "q").pending.class_of(by_number).number))
    queues.withdraw(by_number)
    if is_made_again:
        queues.remove("q")
    queues.put(build_queue("q"), FIFO, (0,))
    queues.enqueue(by_text)
    new = queues.turns.place_of(("q", line_of(queues, "q").pending.class_of(by_text).number))
    assert sorted([new, old]) == [old, new]
    queues.turns.refresh(line_of(queues, "q"), one_tree)
    assert queues.turns.first_place("tree") == new
    queues.fork().put(build_queue("q"), FIFO, (0,))
    assert queues.turns.first_place("tree") == new
