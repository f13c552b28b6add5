"""Times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from koord_queue.show.times import ago, clock_time, until

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("moment", "want"),
    [
        pytest.param(NOW + timedelta(hours=2), "15:00", id="today"),
        pytest.param(NOW + timedelta(hours=12), "Fri 01:00", id="after midnight, there"),
        pytest.param(NOW - timedelta(days=6), "Fri 13:00", id="within a week"),
        pytest.param(NOW + timedelta(days=7), "2026-12-03 13:00", id="in a week"),
    ],
)
def test_the_clock_of_the_reader(moment: datetime, want: str) -> None:
    assert clock_time(moment, NOW, timezone(timedelta(hours=1))) == want


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("2026-11-26T11:58:30Z", "90s", "0s"),
        ("2026-11-26T13:00:00Z", "<invalid>", "60m"),
        ("", "<unknown>", "<unknown>"),
        (None, "<unknown>", "<unknown>"),
        ("soon", "<unknown>", "<unknown>"),
    ],
)
def test_how_long(text: str | None, before: str, after: str) -> None:
    assert (ago(text, NOW), until(text, NOW)) == (before, after)
