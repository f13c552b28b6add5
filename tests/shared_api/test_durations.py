"""Durations in Go's format, numbers of seconds, and invalid ones."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from shared_api.durations import DURATION_PATTERN, DurationError, parse_duration, parse_seconds


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
