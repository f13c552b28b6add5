"""Questions of one kind may take a share of the time, and no more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from queue_insight.debug_api.question_budget import (
    MAX_SAVED,
    SHARE,
    TURN_SECONDS,
    QuestionBudget,
)
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock


def ask(
    budget: QuestionBudget, clock: VirtualClock, seconds: float, caller: str = ""
) -> str | None:
    """Ask a question that takes so long; of a refusal return the code, and when to ask again."""
    try:
        with budget.spend(caller):
            clock.advance(seconds)
    except QuestionError as error:
        return f"{error.code.name} {error.retry_after}"
    return None


def test_what_is_saved_is_spent_and_comes_back_at_a_share() -> None:
    clock = VirtualClock()
    budget = QuestionBudget(clock)
    assert ask(budget, clock, 2 * MAX_SAVED) is None
    # 5 of 10 s were saved, and 2.5 s came back meanwhile.
    assert ask(budget, clock, 1) == "RESOURCE_EXHAUSTED 10"
    clock.advance(2.5 / SHARE - TURN_SECONDS - 0.5)
    assert ask(budget, clock, 1) == "RESOURCE_EXHAUSTED 3"
    clock.advance(0.5)
    assert ask(budget, clock, 1) is None  # it waits for the rest


def test_no_more_than_the_most_is_saved() -> None:
    clock = VirtualClock()
    budget = QuestionBudget(clock)
    clock.advance(3600)
    assert ask(budget, clock, 2 * MAX_SAVED) is None
    assert ask(budget, clock, 1) == "RESOURCE_EXHAUSTED 10"


def test_a_question_that_fails_is_charged_and_lets_the_next_one_in() -> None:
    clock = VirtualClock()
    budget = QuestionBudget(clock)

    def fail() -> None:
        with budget.spend():
            clock.advance(2 * MAX_SAVED)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert ask(budget, clock, 1) == "RESOURCE_EXHAUSTED 10"


def test_a_caller_has_seconds_that_another_cannot_spend() -> None:
    clock = VirtualClock()
    budget = QuestionBudget(clock)
    assert ask(budget, clock, 60, "user/greedy") is None
    assert ask(budget, clock, 1, "user/greedy") == "RESOURCE_EXHAUSTED 20"
    assert ask(budget, clock, 1, "user/other") is None


def test_two_callers_are_answered_at_once() -> None:
    budget = QuestionBudget(VirtualClock())
    with budget.spend("user/a"), ThreadPoolExecutor(1) as threads:
        assert threads.submit(ask, budget, VirtualClock(), 0, "user/b").result() is None


def test_a_question_waits_for_the_one_before_it_only_for_a_while() -> None:
    clock = VirtualClock()
    budget = QuestionBudget(clock, patience_seconds=0.05)
    with budget.spend(), ThreadPoolExecutor(1) as threads:
        assert threads.submit(ask, budget, clock, 0).result() == "RESOURCE_EXHAUSTED 1"
