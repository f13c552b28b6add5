"""Rates, lanes, and which requests may be sent again."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_api.client.errors import (
    ApiFailure,
    Conflict,
    ConnectionLost,
    ServerError,
    StreamIdle,
    Timeout,
    TooManyRequests,
)
from shared_api.client.flow_control import (
    MAX_PATIENCE_SECONDS,
    MAX_TRIES,
    FlowControl,
    Lane,
    is_surely_not_done,
    may_have_acted,
    retry_pause,
)
from shared_api.testing.virtual_clock import VirtualClock

FOREVER = 1e9


def seconds_for(clock: VirtualClock, flow: FlowControl, lane: Lane, requests: int) -> float:
    started = clock.monotonic()
    for _ in range(requests):
        assert flow.acquire(lane, FOREVER)
    return clock.monotonic() - started


@pytest.mark.parametrize(
    ("lane", "requests", "want"),
    [
        pytest.param(Lane.NORMAL, 20, 0.0, id="a burst is free"),
        pytest.param(Lane.NORMAL, 30, 1.0, id="then 10 a second"),
        pytest.param(Lane.LOW, 4, 0.0, id="the low lane's burst is a fifth"),
        pytest.param(Lane.LOW, 10, 3.0, id="the low lane's rate is a fifth"),
    ],
)
def test_a_lane_has_its_rate(lane: Lane, requests: int, want: float) -> None:
    clock = VirtualClock()
    got = seconds_for(clock, FlowControl(10, 20, clock), lane, requests)
    assert got == pytest.approx(want)


def test_the_low_lane_never_delays_the_normal_one() -> None:
    clock = VirtualClock()
    flow = FlowControl(10, 20, clock)
    for _ in range(4):
        assert flow.acquire(Lane.LOW, 0.0)
    assert not flow.acquire(Lane.LOW, 0.0)
    assert seconds_for(clock, flow, Lane.NORMAL, 20) == 0.0
    assert flow.seconds_until(Lane.NORMAL) == pytest.approx(0.1)


def test_zero_means_no_limit() -> None:
    clock = VirtualClock()
    flow = FlowControl(0, 0, clock)
    assert seconds_for(clock, flow, Lane.LOW, 100_000) == 0.0
    assert flow.seconds_until(Lane.LOW) == 0.0


def test_a_token_that_would_be_too_late_is_not_taken() -> None:
    clock = VirtualClock()
    flow = FlowControl(10, 1, clock)
    assert flow.acquire(Lane.NORMAL, 0.0)
    assert not flow.acquire(Lane.NORMAL, 0.05)
    assert flow.seconds_until(Lane.NORMAL) == pytest.approx(0.1)  # nothing was taken
    assert flow.acquire(Lane.NORMAL, 0.1)


def test_idle_time_refills_at_most_the_burst() -> None:
    clock = VirtualClock()
    flow = FlowControl(10, 5, clock)
    seconds_for(clock, flow, Lane.NORMAL, 5)
    clock.advance(3600)
    assert seconds_for(clock, flow, Lane.NORMAL, 6) == pytest.approx(0.1)


def test_threads_that_wait_share_the_rate() -> None:
    clock = VirtualClock(blocking=True)
    flow = FlowControl(10, 1, clock)
    with ThreadPoolExecutor(5) as threads:
        results = [threads.submit(flow.acquire, Lane.NORMAL, FOREVER) for _ in range(5)]
        clock.wait_for_sleepers(4)
        assert sum(result.done() for result in results) == 1
        clock.advance(0.4)
        assert all(result.result(10) for result in results)
    assert flow.seconds_until(Lane.NORMAL) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("refused", "want"),
    [
        pytest.param(Lane.NORMAL, (2.0, 2.0), id="the low lane is never faster"),
        pytest.param(Lane.LOW, (0.0, 2.0), id="the low lane holds no other"),
    ],
)
@pytest.mark.parametrize("qps", [0, 10])
def test_a_hold(refused: Lane, want: tuple[float, float], qps: float) -> None:
    clock = VirtualClock()
    flow = FlowControl(qps, 20, clock)
    flow.hold(refused, 2.0)
    flow.hold(refused, 1.0)  # a shorter one changes nothing
    assert (flow.seconds_until(Lane.NORMAL), flow.seconds_until(Lane.LOW)) == want
    for lane, seconds in zip((Lane.NORMAL, Lane.LOW), want, strict=True):
        assert flow.acquire(lane, 1.5) is (seconds == 0)
    assert seconds_for(clock, flow, Lane.LOW, 4) == 2.0
    assert seconds_for(clock, flow, Lane.NORMAL, 4) == 0.0


@pytest.mark.parametrize("qps", [0, 0.001])
def test_no_request_waits_for_a_long_hold_whatever_its_limit(qps: float) -> None:
    clock = VirtualClock()
    flow = FlowControl(qps, 1, clock)
    flow.hold(Lane.NORMAL, MAX_PATIENCE_SECONDS + 1)
    assert not flow.acquire(Lane.NORMAL, FOREVER)
    clock.advance(1)
    # The only token was not taken.
    assert seconds_for(clock, flow, Lane.NORMAL, 1) == MAX_PATIENCE_SECONDS


@pytest.mark.parametrize(("hold", "want"), [(1.0, True), (MAX_PATIENCE_SECONDS + 1.0, False)])
def test_a_hold_that_comes_during_the_wait_for_a_token_counts(hold: float, *, want: bool) -> None:
    clock = VirtualClock(blocking=True)
    flow = FlowControl(10, 1, clock)
    assert flow.acquire(Lane.NORMAL, FOREVER)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(flow.acquire, Lane.NORMAL, FOREVER)
        clock.wait_for_sleepers(1)
        flow.hold(Lane.NORMAL, hold)
        clock.advance(0.1)
        if want:
            clock.wait_for_sleepers(1)
            assert not waiting.done()
            clock.advance(hold)
        assert waiting.result(10) is want


def test_a_client_without_a_hold_is_not_held() -> None:
    clock = VirtualClock()
    flow = FlowControl(0, 1, clock, can_be_held=False)
    flow.hold(Lane.NORMAL, 60.0)
    assert seconds_for(clock, flow, Lane.NORMAL, 1) == 0.0


def server_error(status: int, retry_after: float = 0.0) -> ServerError:
    return ServerError(status, "", "", retry_after_seconds=retry_after)


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        (ConnectionLost("", sent=True), True),
        (Timeout("", sent=False), False),
        (server_error(500), True),
        (server_error(504), True),
        (server_error(503), True),
        (server_error(503, 1.0), False),
        (TooManyRequests(429, "", ""), False),
        (Conflict(409, "", ""), False),
    ],
)
def test_what_the_server_may_have_done(failure: ApiFailure, *, want: bool) -> None:
    assert may_have_acted(failure) is want
    rng = random.Random(1)
    repeated = retry_pause(failure, 0, harmless=False, rng=rng) is not None
    assert repeated == (not want and not isinstance(failure, Conflict))


def test_a_write_that_is_certainly_not_done_is_not_in_doubt_from_an_earlier_try() -> None:
    busy = TooManyRequests(429, "", "")
    assert is_surely_not_done(busy)
    busy.after_retry = True
    assert not is_surely_not_done(busy)
    assert not is_surely_not_done(Conflict(409, "", ""))


@pytest.mark.parametrize(
    ("failure", "harmless", "want"),
    [
        pytest.param(server_error(500), True, (0.075, 0.125), id="5xx"),
        pytest.param(ConnectionLost("", sent=True), True, (0.075, 0.125), id="broken"),
        pytest.param(TooManyRequests(429, "", ""), False, (0.075, 0.125), id="429"),
        pytest.param(server_error(503, 2.0), False, (2.0, 2.1), id="asks for 2 s"),
        pytest.param(
            TooManyRequests(429, "", "", retry_after_seconds=MAX_PATIENCE_SECONDS + 1),
            True,
            None,
            id="longer than a call may wait",
        ),
        pytest.param(
            Timeout("", sent=False, retry_after_seconds=2.0), True, (2.0, 2.1), id="no token yet"
        ),
        pytest.param(Conflict(409, "", ""), True, None, id="a conflict is an answer"),
        pytest.param(StreamIdle(), True, None, id="not about a request"),
    ],
)
def test_the_pause_before_the_same_request(
    failure: ApiFailure, *, harmless: bool, want: tuple[float, float] | None
) -> None:
    for seed in range(50):
        got = retry_pause(failure, 0, harmless=harmless, rng=random.Random(seed))
        if want is None:
            assert got is None
        else:
            assert got is not None
            assert want[0] <= got <= want[1]


def test_the_number_of_tries_is_limited() -> None:
    rng = random.Random(1)
    pauses = [
        retry_pause(server_error(500), attempt, harmless=True, rng=rng)
        for attempt in range(MAX_TRIES)
    ]
    assert [pause is None for pause in pauses] == [False] * (MAX_TRIES - 1) + [True]
