"""What is kept of reviews: until its time, and not too much."""

from __future__ import annotations

from http import HTTPStatus

from shared_api.authorization.review_cache import ReviewCache
from shared_api.authorization.reviews import ReviewResult
from shared_api.testing.virtual_clock import VirtualClock

ENTRIES = 20


def test_a_result_counts_until_its_time() -> None:
    clock = VirtualClock()
    cache = ReviewCache(ENTRIES, clock)
    result = ReviewResult(HTTPStatus.OK, until=clock.monotonic() + 5.0)
    cache.put(b"a", result)
    assert cache.get(b"b") is None
    clock.advance(4.5)
    assert cache.get(b"a") is result
    clock.advance(0.5)
    assert cache.get(b"a") is None


def test_the_oldest_leave_for_new_ones() -> None:
    clock = VirtualClock()
    cache = ReviewCache(ENTRIES, clock)
    result = ReviewResult(HTTPStatus.OK, until=clock.monotonic() + 5.0)
    for number in range(ENTRIES):
        cache.put(b"%d" % number, result)
    cache.put(b"0", result)  # again: now it is the newest
    cache.put(b"new", result)
    kept = [number for number in range(ENTRIES) if cache.get(b"%d" % number) is not None]
    assert kept == [0, *range(3, ENTRIES)]
    assert cache.get(b"new") is result


def test_those_whose_time_is_over_leave_first() -> None:
    clock = VirtualClock()
    cache = ReviewCache(ENTRIES, clock)
    long = ReviewResult(HTTPStatus.OK, until=clock.monotonic() + 60.0)
    short = ReviewResult(HTTPStatus.UNAUTHORIZED, until=clock.monotonic() + 5.0)
    for number in range(ENTRIES):
        cache.put(b"%d" % number, long if number < ENTRIES // 2 else short)
    clock.advance(5.0)
    cache.put(b"new", long)
    assert all(cache.get(b"%d" % number) is long for number in range(ENTRIES // 2))
