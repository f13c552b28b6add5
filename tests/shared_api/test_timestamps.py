"""Times as texts: written as by Kubernetes, read from servers and from users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from shared_api.timestamps import (
    end_of_second,
    parse_time,
    read_past,
    read_seconds,
    read_time,
    rfc3339,
    rfc3339_micro,
)

NOON = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_times_are_written_in_utc_with_fixed_width() -> None:
    in_china = NOON.astimezone(timezone(timedelta(hours=8)))
    assert rfc3339(in_china) == "2026-11-01T12:00:00Z"
    assert rfc3339_micro(in_china) == "2026-11-01T12:00:00.123456Z"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-11-01T12:00:00Z", NOON.replace(microsecond=0), id="metav1.Time"),
        pytest.param("2026-11-01T12:00:00.123456Z", NOON, id="metav1.MicroTime"),
        pytest.param("2026-11-01T20:00:00.123456+08:00", NOON, id="an offset"),
        pytest.param("2026-11-01T12:00:00.123456789Z", NOON, id="nanoseconds are truncated"),
    ],
)
def test_times_of_the_server_are_read(text: str, want: datetime) -> None:
    got = parse_time(text)
    assert (got, got.tzinfo) == (want, UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-01", "2026-11-01T12:00:00"])
def test_a_text_that_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|isoformat"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-11-01T10:00:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("2026-11-01T12:00:00.5+02:00", datetime(2026, 11, 1, 10, tzinfo=UTC) + timedelta(0, 0.5)),
        ("2026-11-01T10:00:00", datetime(2026, 11, 1, 10, tzinfo=UTC)),
        ("", None),
        (None, None),
        ("yesterday", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_times_of_users_are_read_or_none(text: str | None, want: datetime | None) -> None:
    assert read_time(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("2026-11-01T10:00:00Z", datetime(2026, 11, 1, 10, tzinfo=UTC), id="past"),
        pytest.param("2026-11-01T12:01:00Z", NOON.replace(minute=1, microsecond=0), id="skew"),
        pytest.param("2026-11-01T12:01:01Z", None, id="future"),
        pytest.param(
            "0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC), id="the first possible time"
        ),
        pytest.param("9999-12-31T23:59:59Z", None, id="the last possible time"),
        pytest.param("soon", None, id="no time"),
        pytest.param(None, None, id="none"),
    ],
)
def test_a_future_time_is_not_a_past_time(text: str | None, want: datetime | None) -> None:
    assert read_past(text, NOON) == want


def test_a_time_in_whole_seconds_may_be_any_time_in_its_second() -> None:
    assert end_of_second("2026-11-01T12:00:00Z") == "2026-11-01T12:00:00.999999Z"
    assert end_of_second("2026-11-01T12:00:00.25Z") == "2026-11-01T12:00:00.999999Z"
    assert [end_of_second(text) for text in (None, "", "soon")] == [None, None, None]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("1970-01-01T00:01:00.9Z", "1970-01-01T00:01:00Z", id="a fraction"),
        pytest.param("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59Z", id="the last time"),
        pytest.param("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", id="the first time"),
    ],
)
def test_seconds_are_a_time_again(text: str, want: str) -> None:
    seconds = read_seconds(text)
    assert seconds is not None
    assert datetime.fromtimestamp(seconds, UTC) == parse_time(want)


def test_what_is_no_time_has_no_seconds() -> None:
    assert [read_seconds(text) for text in (None, "", "soon")] == [None, None, None]
