"""Why no times are told of a unit: one rule, by its reason and the runs of its kind."""

from __future__ import annotations

import pytest

from queue_insight.forecast.no_forecast import Outlook, never_as_is, not_known_yet, why_no_forecast
from queue_scheduler.decision import Reason, Refusal
from shared_api.waiting_reasons import NEEDS_ACTION

FULL = Refusal(reason=Reason.OVER_QUOTA_MAX, quota="a", resource="cpu")


@pytest.mark.parametrize(
    ("refusal", "runs", "want"),
    [
        pytest.param(FULL, 4, Outlook.NOT_KNOWN_YET, id="too few runs"),
        pytest.param(None, 4, Outlook.NOT_KNOWN_YET, id="too few runs, and no reason is known"),
        pytest.param(FULL, 5, None, id="enough runs"),
        pytest.param(None, 5, None, id="it is its turn"),
        pytest.param(
            Refusal(reason=Reason.NO_QUEUE, other="x"), 5, Outlook.NEVER_AS_IS, id="in no queue"
        ),
        pytest.param(
            Refusal(reason=Reason.STOPPED_QUEUE, other="x"),
            0,
            Outlook.NEVER_AS_IS,
            id="that it does not start is known without any run",
        ),
        pytest.param(Refusal(reason=Reason.IN_BACKOFF), 5, None, id="a backoff ends by itself"),
    ],
)
def test_why_no_times_are_told(refusal: Refusal | None, runs: int, want: Outlook | None) -> None:
    found = why_no_forecast(refusal, runs, 5)
    assert (None if found is None else found.outlook) == want


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_that_needs_action_is_one_that_waiting_does_not_end(reason: Reason) -> None:
    """The same reasons as for `koord-queue check` and the page's list of what is wrong."""
    found = never_as_is(reason.value, "something")
    assert (found is not None) == (reason.value in NEEDS_ACTION)
    if found is not None:
        assert found.text == f"does not start as things are: something ({reason.value})"


def test_zero_needed_runs_always_tell() -> None:
    assert not_known_yet(0, 0) is None
