"""Decisions carry their numbers."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason, Refusal


@pytest.mark.parametrize(
    ("limit", "used", "requested", "want"),
    [
        pytest.param(10, 8, 5, 3, id="the part that does not fit"),
        pytest.param(10, 12, 5, 7, id="over already"),
        pytest.param(10, 5, 5, 0, id="fits"),
        pytest.param(0, 0, 0, 0, id="no numbers"),
    ],
)
def test_missing(limit: int, used: int, requested: int, want: int) -> None:
    refusal = Refusal(reason=Reason.OVER_QUOTA_MAX, limit=limit, used=used, requested=requested)
    assert refusal.missing == want


def test_reasons_are_words_for_conditions() -> None:
    assert all(reason.value.isalpha() and reason.value[0].isupper() for reason in Reason)
    assert len({reason.value for reason in Reason}) == len(Reason)
