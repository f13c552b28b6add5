"""Arrivals go on like those of the last hours, and then like those of the last days."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_insight.forecast import arrivals
from queue_insight.forecast.arrivals import DAY, ArrivalHistory, PastArrival
from queue_insight.insight.virtual_cluster import Arrival
from queue_scheduler.decision import Moment
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import EPOCH

HOUR = 3600.0
MOMENT = Moment(500.0, EPOCH)
NOW = EPOCH.timestamp()
WEEK = 7 * DAY


@pytest.fixture
def only_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """No path begins with the last hours."""
    monkeypatch.setattr(arrivals, "_campaign_seconds", lambda _piece, _luck: 0.0)


@pytest.fixture
def only_last_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """All paths begin with the last six hours, as fast as they were."""
    monkeypatch.setattr(arrivals, "_campaign_seconds", lambda piece, _luck: piece)
    monkeypatch.setattr(arrivals, "SPEED", 0.0)


def unit(namespace: str) -> QueueUnit:
    return QueueUnit(metadata=ObjectMeta(name="past", namespace=namespace, labels={"a": "b"}))


def sample(history: ArrivalHistory, path: int = 0, seconds: float = WEEK) -> list[Arrival]:
    return list(history.sample(MOMENT, seconds, 1, path))


def noons(days: int) -> ArrivalHistory:
    """Return ten arrivals each day, all in the hour from noon to one."""
    noon = EPOCH.replace(hour=12, minute=0, second=0)
    past = [
        PastArrival((noon - timedelta(days=back)).timestamp() + 360.0 * number, unit("blue"))
        for back in range(days, 0, -1)
        for number in range(10)
    ]
    past = [each for each in past if each.epoch < NOW]
    return ArrivalHistory(past, NOW - days * DAY)


@pytest.mark.usefixtures("only_days")
def test_the_rhythm_of_a_day_is_kept() -> None:
    for path in range(20):
        drawn = sample(noons(9), path)
        assert len(drawn) == 70
        hours = {(EPOCH + timedelta(seconds=each.now - MOMENT.now)).hour for each in drawn}
        assert hours == {12}


def test_they_are_in_order_and_after_the_moment() -> None:
    times = [each.now for each in sample(noons(9))]
    assert times == sorted(times)
    assert MOMENT.now <= times[0] <= times[-1] <= MOMENT.now + WEEK


@pytest.mark.usefixtures("only_days")
def test_bursts_stay_bursts_and_newer_days_are_drawn_more_often() -> None:
    """Yesterday had a burst; the week before had none."""
    yesterday = NOW - DAY / 2
    past = [PastArrival(yesterday + number, unit("blue")) for number in range(50)]
    history = ArrivalHistory(past, NOW - 9 * DAY)
    counts = [len(sample(history, path, DAY)) for path in range(400)]
    assert set(counts) == {0, 50}
    assert 0.2 < counts.count(50) / 400 < 0.4, "one day of seven, newer days more often"


@pytest.mark.usefixtures("only_last_hours")
def test_what_arrived_last_arrives_again_in_reverse() -> None:
    past = [PastArrival(NOW - ago, unit("blue")) for ago in (7 * HOUR, HOUR, 60.0, 20.0)]
    drawn = sample(ArrivalHistory(past, NOW - 9 * DAY), seconds=6 * HOUR)
    assert [each.now - MOMENT.now for each in drawn] == [20.0, 60.0, HOUR]


@pytest.mark.usefixtures("only_last_hours")
def test_after_the_last_hours_the_rhythm_of_a_day_is_kept() -> None:
    burst = [PastArrival(NOW - 10.0, unit("blue"))] * 3
    at_three = EPOCH.replace(hour=3).timestamp()
    nights = [PastArrival(at_three - DAY * back, unit("blue")) for back in range(8, -1, -1)]
    drawn = sample(ArrivalHistory([*nights, *burst], NOW - 10 * DAY), seconds=18 * HOUR)
    times = [EPOCH + timedelta(seconds=each.now - MOMENT.now) for each in drawn]
    assert [(time.day - EPOCH.day, time.hour) for time in times] == [(0, 10)] * 3 + [(1, 3)]


def test_paths_go_on_for_different_times_at_different_speeds() -> None:
    """In the last six hours two jobs a minute have arrived, and in the week before none."""
    past = [PastArrival(NOW - 30.0 * ago, unit("blue")) for ago in range(720, 0, -1)]
    history = ArrivalHistory(past, NOW - 9 * DAY)
    within = MOMENT.now + 6 * HOUR
    found = []
    for path in range(400):
        times = [each.now - MOMENT.now for each in sample(history, path) if each.now < within]
        found.append((times[-1], len(times) / times[-1] * 30.0))
    lasts, speeds = (sorted(each) for each in zip(*found, strict=True))
    assert 200.0 < lasts[0] < 400.0 < 5.5 * HOUR < lasts[-1]
    middle = (300.0 * 6 * HOUR) ** 0.5
    assert 0.7 < lasts[200] / middle < 1.4, (
        "as many double the shortest as reach half of the longest"
    )
    assert 0.8 < speeds[200] < 1.2, "in the median as fast as it was"
    assert 1.3 < speeds[336] < 2.0, "one standard deviation faster"


@pytest.mark.usefixtures("only_days")
def test_with_less_than_a_day_known_the_rate_is_kept() -> None:
    past = [PastArrival(NOW - 3 * HOUR + 60.0 * number, unit("blue")) for number in range(180)]
    drawn = sample(ArrivalHistory(past, NOW - 3 * HOUR), seconds=30 * HOUR)
    assert 1700 <= len(drawn) <= 1800


@pytest.mark.usefixtures("only_days")
def test_what_is_known_of_minutes_does_not_go_on_for_a_week() -> None:
    past = [PastArrival(NOW - 120.0 + 10.0 * number, unit("blue")) for number in range(12)]
    drawn = sample(ArrivalHistory(past, NOW - 120.0))
    assert len(drawn) == 120
    assert drawn[-1].now - MOMENT.now <= 1200.0


def test_no_path_slows_down_for_want_of_knowledge() -> None:
    """Of the hours before the first known one it is not taken that nothing arrived then."""
    past = [PastArrival(NOW - 60.0 * ago, unit("blue")) for ago in range(180, 0, -1)]
    history = ArrivalHistory(past, NOW - 3 * HOUR)
    for path in range(20):
        times = [each.now - MOMENT.now for each in sample(history, path, 3 * HOUR)]
        assert times[-1] > 2.9 * HOUR, path


def test_a_path_has_a_bounded_number_of_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    history = noons(3)
    whole = sample(history)
    monkeypatch.setattr(arrivals, "MAX_ARRIVALS", len(whole) - 1)
    assert sample(history) == whole[:-1]
    monkeypatch.setattr(arrivals, "MAX_ARRIVALS", len(whole) + 1)
    assert sample(history) == whole


def test_nothing_known_means_that_nothing_arrives() -> None:
    assert sample(ArrivalHistory([], NOW)) == []
    assert sample(ArrivalHistory([], NOW - DAY)) == []


def test_from_a_few_seconds_nothing_is_drawn() -> None:
    history = ArrivalHistory([PastArrival(NOW - 1.0, unit("a"))], NOW - 2.0)
    assert sample(history) == []


def test_drawn_units_have_names_of_their_own() -> None:
    drawn = sample(noons(3))
    names = {each.unit.metadata.key for each in drawn}
    assert len(names) == len({each.unit.metadata.uid for each in drawn}) == len(drawn)
    assert {each.unit.metadata.labels["a"] for each in drawn} == {"b"}
    assert {each.unit.metadata.namespace for each in drawn} == {"blue"}


def test_paths_differ_and_a_path_repeats() -> None:
    past = [PastArrival(NOW - DAY * 8 + 977.0 * number, unit("blue")) for number in range(700)]
    history = ArrivalHistory(past, NOW - 8 * DAY)
    one, again, other = ([each.now for each in sample(history, path)] for path in (1, 1, 2))
    assert one == again
    assert one != other
