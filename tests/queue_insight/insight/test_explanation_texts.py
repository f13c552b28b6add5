"""Where a unit stands, in one sentence, and why an admitted one is not evicted."""

from __future__ import annotations

import pytest

from queue_insight.debug_api.explain_views import view_explanation
from queue_insight.insight.admitted import Admitted
from queue_insight.insight.explain import Explanation, Verdict
from queue_insight.insight.explanation_texts import (
    NOT_NOTED,
    spared_texts,
    unknown_admission_text,
)
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.preemption.protection import Kept
from queue_scheduler.reporting.pending_reason import build_waiting_patch
from shared_api.objects.meta import Timestamp
from shared_api.testing.object_builders import queue_unit

RECORD = CachedUnit(unit=queue_unit("u", quota="team"), version=1, state=UnitState.ON_HOLD)


@pytest.mark.parametrize("reason", Reason)
def test_the_condition_and_the_explanation_say_the_same(reason: Reason) -> None:
    """A user who reads both must not wonder which holds."""
    unit = queue_unit("u", quota="team")
    refusal = Refusal(
        reason=reason, quota="team", resource="cpu", limit=4, used=3, requested=2,
        other="default/other", detail="something",
    )  # fmt: skip
    written = build_waiting_patch(unit, refusal, Timestamp("2026-11-01T00:00:00Z"))["status"]
    record = CachedUnit(unit=unit, version=1, state=UnitState.ON_HOLD, hold=refusal)
    held = Explanation(record=record, verdict=Verdict.HELD, position=0, blockers=(refusal,))
    assert [each["message"] for each in written["conditions"]] == [written["message"]]
    assert view_explanation(held, leader=True).summary.startswith(
        f"It is on hold: {written['message']}"
    )


@pytest.mark.parametrize(
    ("count", "want"),
    [
        pytest.param(1, "It is on hold: queue q is stopped by its annotation "
                     "koord-queue/stop-policy.", id="one"),
        pytest.param(2, "It is on hold: queue q is stopped by its annotation "
                     "koord-queue/stop-policy (1 more reason).", id="two"),
        pytest.param(3, "It is on hold: queue q is stopped by its annotation "
                     "koord-queue/stop-policy (2 more reasons).", id="three"),
    ],
)  # fmt: skip
def test_the_first_reason_is_told_and_the_others_are_counted(count: int, want: str) -> None:
    blockers = (Refusal(reason=Reason.STOPPED_QUEUE, other="q"),) * count
    held = Explanation(record=RECORD, verdict=Verdict.HELD, position=0, blockers=blockers)
    assert view_explanation(held, leader=True).summary == want


@pytest.mark.parametrize("kept", Kept)
def test_every_rule_that_keeps_a_unit_has_a_text(kept: Kept) -> None:
    admitted = Admitted(
        limits=None, loan=None, kept=kept, kept_until=None, queue_preempts=False, is_in_reach=False
    )
    (reason, text), *others = spared_texts(RECORD, admitted)
    assert reason == kept.value
    assert text
    assert "{" not in text
    assert [each for each, _ in others] == ["QueueDoesNotPreempt", "NothingToReclaim"]


def test_of_a_unit_without_a_quota_nothing_was_noted() -> None:
    assert unknown_admission_text(RECORD) == NOT_NOTED
