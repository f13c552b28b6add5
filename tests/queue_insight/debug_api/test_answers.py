"""Answers to questions: all kinds of them together have one budget."""

from __future__ import annotations

import pytest

from queue_insight.debug_api import explanations
from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.explanations import ExplainAnswers
from queue_insight.debug_api.question_budget import MAX_SAVED, QuestionBudget
from queue_insight.debug_api.what_if_routes import WhatIfQuestion
from queue_insight.insight.changes import Changes
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.json_body import YAML, PostedBody
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit

MANIFEST = b"{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {}}}}"


class SlowChanges:
    """Finds nothing, and takes more than a caller may have at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> None:
        self._clock = clock
        monkeypatch.setattr(explanations, "find_changes", self)

    def __call__(self, *_: object) -> Changes:
        self._clock.advance(4 * MAX_SAVED)
        return Changes(found=(), are_complete=True)


def test_questions_of_all_kinds_are_charged_to_one_budget(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    SlowChanges(monkeypatch, clock)
    kit.add_unit("a")
    answers = Answers(StateAnswers(kit.shared, lambda: True), budget=QuestionBudget(clock))
    assert answers.explain_with_changes("default", "a", "ann").changes == []
    manifest = PostedBody(YAML, MANIFEST)
    for ask in (
        lambda: answers.explain_with_changes("default", "a", "ann"),
        lambda: answers.what_if(WhatIfQuestion(edits=[]), "ann"),
        lambda: answers.tries.answer(manifest, "default", lambda _: None, "ann"),
    ):
        with pytest.raises(QuestionError, match="ask again"):
            ask()


def test_a_budget_outlives_the_answers_that_spend_it(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    SlowChanges(monkeypatch, clock)
    kit.add_unit("a")
    budget = QuestionBudget(clock)
    state = StateAnswers(kit.shared, lambda: True)
    first, second = (ExplainAnswers(state, budget) for _ in "12")
    first.explain_with_changes("default", "a", "ann")
    with pytest.raises(QuestionError, match="ask again"):
        second.explain_with_changes("default", "a", "ann")
