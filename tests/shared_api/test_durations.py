"""Durations in Go's format, numbers of seconds, and invalid ones."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from shared_api.durations import (
    DURATION_PATTERN,
    DurationError,
    human_duration,
    parse_duration,
    parse_seconds,
    seconds_in_words,
)

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("30s", Fraction(30)),
        ("1h30m", Fraction(5400)),
        ("1.5s", Fraction(3, 2)),
        ("250ms", Fraction(1, 4)),
        ("2us", Fraction(1, 500_000)),
        ("2µs", Fraction(1, 500_000)),
        ("0", Fraction(0)),
        ("", Fraction(0)),
    ],
)
def test_durations_are_read_as_in_go(text: str, want: Fraction) -> None:
    assert parse_duration(text) == want
    assert re.fullmatch(DURATION_PATTERN, text)


@pytest.mark.parametrize("text", ["soon", "3", "s", "-1s", "1s2", "1 s"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(DurationError, match="duration"):
        parse_duration(text)
    assert not re.fullmatch(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 30 + "h", id="years"),
        pytest.param("1h" * 40, id="longer than allowed"),
        pytest.param("1" * 250_000, id="as long as an annotation may be"),
        pytest.param("1" * 250_000 + "s", id="as long, with a unit"),
    ],
)
def test_too_long_texts_are_refused_at_once(text: str) -> None:
    for parse in (parse_duration, parse_seconds):
        with pytest.raises(DurationError) as refused:
            parse(text)
        assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("text", "want"),
    [("0", 0), (30, 30), ("90s", 90), ("1h30m", 5400), ("500ms", 0.5), ("1.5m", 90)],
)
def test_seconds_may_have_no_unit(text: str | int, want: float) -> None:
    assert parse_seconds(text) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"),
        (-1, "0s"),
        (-5, "<invalid>"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 53, "2m53s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 5 * MINUTE, "3h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3 * HOUR, "2d3h"),
        (8 * DAY + 3 * HOUR, "8d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (9 * YEAR + 3 * DAY, "9y"),
    ],
)
def test_durations_are_printed_as_by_kubectl(seconds: float, want: str) -> None:
    assert human_duration(seconds) == want


@pytest.mark.parametrize(("seconds", "want"), [
    (0.0, "0 s"), (59.6, "1 min"), (61.0, "1 min 1 s"), (7200.0, "2 h"), (90_061.0, "1 d 1 h"),
    (86_460.0, "1 d"), (-61.0, "1 min 1 s"),
])  # fmt: skip
def test_a_time_has_its_two_largest_units(seconds: float, want: str) -> None:
    assert seconds_in_words(seconds) == want
