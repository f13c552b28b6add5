"""Answers about any recorded time: they are charged to one budget, whatever time they are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from starlette.requests import Request

from queue_insight.debug_api import explanations
from queue_insight.debug_api.question_budget import MAX_SAVED, QuestionBudget
from queue_insight.insight.changes import Changes
from queue_insight.insight_program.answer_app import TimedApi
from queue_insight.insight_program.sources import Source, Sources
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit

THEN = datetime(2026, 11, 1, tzinfo=UTC)


class RecordedTimes:
    """Plays `Sources`: at each time the same engine, as another one."""

    def __init__(self, kit: ShellKit) -> None:
        self._kit = kit

    def at(self, moment: datetime | None) -> Source:
        return Source(self._kit.shared, moment or THEN, is_leader=True, now=lambda: moment or THEN)


def test_changes_at_many_times_are_charged_to_one_budget(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is another engine: what asks it is made anew, and must not bring a budget."""
    clock = VirtualClock()

    def find(*_: object) -> Changes:
        clock.advance(4 * MAX_SAVED)
        return Changes(found=(), are_complete=True)

    monkeypatch.setattr(explanations, "find_changes", find)
    kit.add_unit("a")
    timed = TimedApi(cast("Sources", RecordedTimes(kit)), QuestionBudget(clock))
    request = Request({"type": "http", "headers": []})
    found = timed.explain(request, "default", "a", changes=True, at=THEN)
    assert found.changes == []
    with pytest.raises(QuestionError, match="ask again"):
        timed.explain(request, "default", "a", changes=True, at=THEN + timedelta(seconds=1))
    assert timed.explain(request, "default", "a", at=THEN).changes is None, "it is not charged"
