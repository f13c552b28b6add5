"""When a process starts to decide."""

from __future__ import annotations

from collections.abc import Callable

from shared_api.client.errors import ApiFailure, ServerError, TooManyRequests
from shared_api.client.resource_client import WRITE_SECONDS
from shared_api.informer.fresh_read import FreshRead
from shared_api.leader_warmup import LeaderWarmup
from shared_api.testing.virtual_clock import VirtualClock


class Lead:
    """A lead that can be set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def is_leader(self) -> bool:
        return self.seconds > 0

    def time_left(self) -> float:
        return self.seconds

    def writable_seconds(self) -> float:
        return self.seconds

    def holder(self) -> str:
        return ""


class Cache:
    """A cache whose progress a test sets."""

    def __init__(self) -> None:
        self.resource_version = "5"
        self.failure: ApiFailure | None = None
        self.asked = 0

    def request_list(self) -> None:
        self.asked += 1

    def start_fresh_read(self) -> FreshRead:
        if self.failure is not None:
            raise self.failure
        return FreshRead(self, "7", VirtualClock(), 1e9)


def made(
    lead: Lead,
    cache: Cache,
    ready: Callable[[], bool] = lambda: True,
    clock: VirtualClock | None = None,
) -> tuple[LeaderWarmup, list[str]]:
    opened: list[str] = []
    warmup = LeaderWarmup(
        lead,
        are_caches_ready=ready,
        caches=lambda: [cache],
        on_open=lambda: opened.append("open"),
        on_prepared=lambda seconds: opened.append(f"prepared for {seconds:g} s"),
        clock=clock or VirtualClock(),
    )
    return warmup, opened


def test_it_opens_once_when_leading_and_up_to_date() -> None:
    lead, cache = Lead(), Cache()
    warmup, opened = made(lead, cache)
    assert warmup.step() is not None
    assert not warmup.is_open()
    lead.seconds = WRITE_SECONDS
    assert warmup.step() is not None  # the cache is behind the server
    assert not warmup.is_open()
    cache.resource_version = "7"
    assert warmup.step() is None
    assert warmup.step() is None
    assert warmup.is_open()
    assert opened == ["prepared for 0 s", "open"]


def test_it_tells_how_long_it_has_prepared_since_it_might_write() -> None:
    lead, cache, clock = Lead(), Cache(), VirtualClock()
    warmup, opened = made(lead, cache, clock=clock)
    for seconds in (0.0, WRITE_SECONDS, WRITE_SECONDS):
        lead.seconds = seconds
        warmup.step()
        clock.advance(3.0)
    cache.resource_version = "7"
    warmup.step()
    assert opened == ["prepared for 6 s", "open"]


def test_it_stays_closed_with_too_little_time_left_on_the_lease() -> None:
    lead, cache = Lead(), Cache()
    cache.resource_version = "7"
    lead.seconds = WRITE_SECONDS - 0.1
    warmup, opened = made(lead, cache)
    warmup.step()
    assert opened == []


def test_it_waits_for_incomplete_caches() -> None:
    lead, cache = Lead(), Cache()
    lead.seconds, cache.resource_version = 10.0, "7"
    ready = [False]
    warmup, opened = made(lead, cache, lambda: ready[0])
    warmup.step()
    assert opened == []
    ready[0] = True
    warmup.step()
    assert opened[-1:] == ["open"]


def test_a_server_that_does_not_answer_is_asked_again() -> None:
    lead, cache = Lead(), Cache()
    lead.seconds, cache.resource_version, cache.failure = 10.0, "7", ServerError(503)
    warmup, opened = made(lead, cache)
    assert warmup.step() == 1.0
    cache.failure = TooManyRequests(429, retry_after_seconds=20.0)
    assert warmup.step() == 20.0
    cache.failure = None
    assert warmup.step() is None
    assert opened[-1:] == ["open"]


def test_no_write_starts_that_could_outlive_the_lease() -> None:
    lead, cache = Lead(), Cache()
    lead.seconds, cache.resource_version = WRITE_SECONDS, "7"
    warmup, _ = made(lead, cache)
    assert not warmup.may_write()
    warmup.step()
    assert warmup.may_write()
    lead.seconds = WRITE_SECONDS - 0.1
    assert not warmup.may_write()
    lead.seconds = WRITE_SECONDS
    assert warmup.may_write()
