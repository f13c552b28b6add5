"""Tests of shared_api.informer.reflector: how it handles failures of the server."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from shared_api.client.errors import (
    ApiFailure,
    ConnectionLost,
    Forbidden,
    Gone,
    NotFound,
    ServerError,
    TooManyRequests,
)
from shared_api.client.resource_client import Page, WatchEvent
from shared_api.informer.reflector import (
    BOOKMARK_WATCH_SECONDS,
    BRIEF_WATCH_SECONDS,
    EVENTS_PER_STEP,
    MAX_SILENCE_SECONDS,
    MIN_WATCH_SECONDS,
    PAGE_LIMIT,
    PAUSES,
    REMIND_SECONDS,
    WATCH_MARGIN_SECONDS,
    EventStream,
    Reflector,
)
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.informer.fake_list_watch import FakeListWatch


class RecordingSink:
    """Records its calls as texts."""

    def __init__(self) -> None:
        self.reported: list[str] = []
        self.failures: list[Exception] = []

    def on_list_start(self, resource_version: str, *, rewound: bool) -> None:
        self.reported.append(f"list {resource_version}{' rewound' if rewound else ''}")

    def on_page(self, items: Sequence[Any]) -> None:
        self._fail()
        self.reported.append(f"page of {len(items)}")

    def on_list_end(self, resource_version: str) -> None:
        self.reported.append(f"end {resource_version}")

    def on_event(self, event: WatchEvent[Any]) -> None:
        self._fail()
        self.reported.append(f"{event.type} {event.resource_version}")

    def on_bookmark(self, resource_version: str) -> None:
        self.reported.append(f"bookmark {resource_version}")

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop()


class Source:
    """The fake server, bound to a resource."""

    def __init__(self, server: FakeListWatch) -> None:
        self.server = server

    def list_page(self, *, limit: int, continue_token: str) -> Page[Any]:
        return self.server.list_page(None, limit=limit, continue_token=continue_token)

    def watch(self, *, resource_version: str, timeout_seconds: int) -> EventStream[Any]:
        stream: EventStream[Any] = self.server.watch(
            None, resource_version=resource_version, timeout_seconds=timeout_seconds
        )
        return stream


class Counting:
    """A ReflectorObserver that counts its calls."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def on_list(self) -> None:
        self.seen["list"] += 1

    def on_watch_end(self, reason: str) -> None:
        self.seen[reason] += 1


class Scene:
    """A reflector with everything around it."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=0)
        self.server = FakeListWatch()
        self.sink = RecordingSink()
        self.counts = Counting()
        self.reflector: Reflector[Any] = Reflector(
            "things",
            Source(self.server),
            self.sink,
            clock=self.clock,
            rng=random.Random(7),
            observer=self.counts,
            if_missing="install it, or nothing starts",
        )

    def run(self, seconds: float = 0.0) -> list[str]:
        """Step until nothing is left to do in this time; return the calls of the sink."""
        self.sink.reported.clear()
        until = self.clock.monotonic() + seconds
        for _ in range(100_000):
            rest = self.reflector.step(0)
            now = self.clock.monotonic()
            if rest > 0 and now + rest > until:
                break
            self.clock.advance(rest)
        else:
            pytest.fail("the reflector spins")
        self.clock.advance(until - self.clock.monotonic())
        return self.sink.reported


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_lists_then_watches_from_there(scene: Scene) -> None:
    scene.server.put("a")
    assert scene.run() == ["list 1", "page of 1", "end 1"]
    scene.server.put("b")
    scene.server.bookmark()
    scene.server.delete("a")
    assert scene.run() == ["ADDED 2", "bookmark 2", "DELETED 3"]
    assert scene.reflector.resource_version == "3"
    assert scene.reflector.trouble == ""


def test_a_long_list_is_read_in_pages_one_per_step(scene: Scene) -> None:
    for number in range(2 * PAGE_LIMIT + 1):
        scene.server.put(f"n{number}")
    assert scene.reflector.step(0) == 0
    assert scene.sink.reported == ["list 1001", "page of 500"]
    assert scene.run() == ["page of 500", "page of 1", "end 1001"]
    assert [limit for limit, _ in scene.server.lists] == [PAGE_LIMIT] * 3


def test_an_event_between_two_pages_is_received_by_the_watch(scene: Scene) -> None:
    for number in range(PAGE_LIMIT + 1):
        scene.server.put(f"n{number}")
    scene.reflector.step(0)
    scene.server.delete("n1")
    assert scene.run() == ["page of 1", "end 501", "DELETED 502"]


def test_an_expired_list_starts_again_and_finally_without_a_limit(scene: Scene) -> None:
    for number in range(PAGE_LIMIT + 1):
        scene.server.put(f"n{number}")
    scene.server.before_page = scene.server.expire_tokens
    reported = scene.run(30)
    assert reported == [*["list 501", "page of 500"] * 2, "list 501", "page of 501", "end 501"]
    assert [limit for limit, _ in scene.server.lists] == [500, 500, 500, 500, 0]


def test_only_the_failed_page_is_requested_again(scene: Scene) -> None:
    for number in range(PAGE_LIMIT + 1):
        scene.server.put(f"n{number}")
    scene.reflector.step(0)
    scene.server.list_failures.extend([ConnectionLost("reset", sent=True), ServerError(500)])
    assert scene.run(10) == ["page of 1", "end 501"]


@pytest.mark.parametrize(
    "failure",
    [Forbidden(403), NotFound(404), TooManyRequests(429), Gone(410), ServerError(503)],
    ids=lambda failure: type(failure).__name__,
)
def test_a_refused_list_is_retried_and_the_reason_is_reported(
    scene: Scene, failure: ApiFailure
) -> None:
    scene.server.list_failures.append(failure)
    scene.run()
    assert str(failure) in scene.reflector.trouble
    assert scene.reflector.is_forbidden is isinstance(failure, Forbidden)
    assert scene.run(1) == ["list 0", "page of 0", "end 0"]
    assert (scene.reflector.trouble, scene.reflector.is_forbidden) == ("", False)


def test_a_server_that_was_down_for_a_minute_is_found_within_seconds_with_few_requests(
    scene: Scene,
) -> None:
    scene.run()
    scene.server.down = True
    scene.server.watches[-1].broken = True
    scene.run(60)
    assert "connection refused" in scene.reflector.trouble
    scene.server.down = False
    scene.server.put("a")
    before = scene.counts.seen["list"]
    assert scene.run(5) == ["ADDED 1"], "resumed, no event lost"
    assert scene.counts.seen["list"] == before, "without a list"


def test_a_lasting_failure_is_logged_once_a_minute(scene: Scene) -> None:
    scene.server.down = True
    with capture_logs() as logs:
        scene.run(3 * REMIND_SECONDS)
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert len(logs) > 2 * len(warnings)
    assert len(warnings) == 3
    assert {line["event"] for line in warnings} == {"cannot follow"}


def test_a_missing_kind_is_named_with_its_consequence(scene: Scene) -> None:
    scene.server.list_failures += [NotFound(404, "NotFound", "404 page not found")] * 3
    scene.run()
    assert scene.reflector.trouble == (
        "list: 404 NotFound: 404 page not found: install it, or nothing starts"
    )


def test_a_busy_server_is_asked_again_after_its_retry_after(scene: Scene) -> None:
    busy = TooManyRequests(429, retry_after_seconds=60.0)
    scene.server.list_failures.append(busy)
    scene.server.watch_failures.append(busy)
    scene.run(59)
    assert (len(scene.server.lists), scene.counts.seen["list"]) == (1, 0)
    scene.run(2)
    assert (len(scene.server.lists), scene.counts.seen["list"]) == (2, 1)
    scene.run(57)
    assert scene.server.watches == []
    scene.run(3)
    assert len(scene.server.watches) == 1


def test_pauses_grow_to_the_cap_with_jitter(scene: Scene) -> None:
    scene.server.down = True
    pauses = []
    for _ in range(12):
        pauses.append(scene.reflector.step(0))
        scene.clock.advance(pauses[-1])
    assert 0.15 <= pauses[0] <= 0.25
    assert all(abs(pause / PAUSES.cap_seconds - 1) <= PAUSES.jitter for pause in pauses[-5:])
    assert len(set(pauses)) == len(pauses)


def test_a_watch_that_the_server_ends_in_time_is_resumed_at_once(scene: Scene) -> None:
    scene.run()
    scene.server.put("a")
    scene.run(MIN_WATCH_SECONDS / 10)
    scene.server.watches[-1].ended = True
    scene.server.put("b")
    assert scene.run() == ["ADDED 2"]
    assert [watch.started_at for watch in scene.server.watches] == [0, 2]
    assert scene.counts.seen == Counter(list=1, ended=1)


def test_a_watch_that_repeatedly_ends_at_once_is_retried_with_pauses(scene: Scene) -> None:
    scene.run()

    def end_the_last() -> None:
        scene.server.watches[-1].ended = True

    steps = 0
    until = scene.clock.monotonic() + 60
    while scene.clock.monotonic() < until:
        end_the_last()
        scene.clock.advance(scene.reflector.step(0))
        steps += 1
    assert steps < 70
    assert scene.counts.seen["list"] == 1


def test_watches_request_a_timeout_of_five_to_ten_minutes(scene: Scene) -> None:
    scene.run()
    for _ in range(20):
        scene.server.put("a")
        scene.run(BRIEF_WATCH_SECONDS)
        scene.server.watches[-1].ended = True
        scene.run()
    timeouts = [watch.timeout_seconds for watch in scene.server.watches]
    assert all(MIN_WATCH_SECONDS <= each <= 2 * MIN_WATCH_SECONDS for each in timeouts)
    assert len(set(timeouts)) > 10


def test_a_silent_watch_is_replaced_at_its_version(scene: Scene) -> None:
    scene.run()
    scene.server.put("a")
    scene.run()
    stalled = scene.server.watches[-1]
    stalled.silent = True
    scene.server.put("b")
    assert scene.run(MAX_SILENCE_SECONDS - 1) == []
    assert scene.run(1) == ["ADDED 2"]
    assert stalled.closed
    assert scene.counts.seen == Counter(list=1, stalled=1)


def test_a_watch_with_bookmarks_is_not_silent(scene: Scene) -> None:
    scene.run()
    for _ in range(4):
        scene.run(60)
        scene.server.bookmark()
    scene.run(60)
    assert scene.counts.seen == Counter(list=1)


class TestEarlyBookmark:
    def test_the_watch_is_reopened_for_a_short_time_where_it_was(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        scene.server.put("b")
        scene.reflector.request_bookmark()
        assert scene.run() == ["ADDED 2"], "nothing is lost with the old watch"
        first, second = scene.server.watches
        assert (first.closed, second.closed) == (True, False)
        assert (second.started_at, second.timeout_seconds) == (1, BOOKMARK_WATCH_SECONDS)
        assert scene.counts.seen == Counter(list=1, asked=1)
        second.ended = True
        scene.run()
        assert scene.server.watches[-1].timeout_seconds >= MIN_WATCH_SECONDS
        assert len(scene.server.lists) == 1

    def test_it_is_asked_again_after_a_failure(self, scene: Scene) -> None:
        scene.run()
        scene.server.watch_failures.append(ServerError(503))
        scene.reflector.request_bookmark()
        scene.run(5)
        assert scene.server.watches[-1].timeout_seconds == BOOKMARK_WATCH_SECONDS

    def test_during_a_list_it_concerns_the_watch_after_it(self, scene: Scene) -> None:
        scene.reflector.request_bookmark()
        scene.run()
        assert scene.server.watches[-1].timeout_seconds == BOOKMARK_WATCH_SECONDS
        assert scene.counts.seen == Counter(list=1)

    def test_a_reader_that_waits_for_events_does_not_count_as_a_broken_watch(
        self, scene: Scene
    ) -> None:
        scene.run()
        scene.server.watches[-1].before_event = scene.reflector.request_bookmark
        scene.reflector.step(1.0)
        assert scene.run() == []
        assert scene.counts.seen == Counter(list=1, asked=1)
        assert scene.reflector.trouble == ""


def test_after_a_watch_that_was_silent_from_the_start_it_lists(scene: Scene) -> None:
    scene.run()
    assert scene.run(MAX_SILENCE_SECONDS) == ["list 0", "page of 0", "end 0"]


def test_a_watch_that_outlives_its_timeout_is_replaced(scene: Scene) -> None:
    scene.run()
    first = scene.server.watches[-1]
    for _ in range(int(first.timeout_seconds + WATCH_MARGIN_SECONDS) // 60 + 1):
        scene.server.bookmark()
        scene.run(60)
    assert first.closed
    assert scene.counts.seen == Counter(list=1, overdue=1)


@pytest.mark.parametrize(
    "expire",
    [
        pytest.param(lambda server: server.send_error(410, "Expired"), id="410 in the watch"),
        pytest.param(lambda server: server.send_error(0, "Gone"), id="reason Gone"),
        pytest.param(
            lambda server: server.send_error(500, "", "too old resource version: 1 (2)"),
            id="the text of old servers",
        ),
        pytest.param(
            lambda server: server.cut_off(Gone(410, "Expired", "")),
            id="410 when resuming",
        ),
    ],
)
def test_an_expired_version_leads_to_a_list_at_once(
    scene: Scene, expire: Callable[[FakeListWatch], object]
) -> None:
    scene.run()
    scene.server.put("a")
    scene.run()
    expire(scene.server)
    assert scene.run() == ["list 1", "page of 1", "end 1"]
    scene.server.put("b")
    assert scene.run() == ["ADDED 2"]


def test_with_versions_that_always_expire_it_lists_with_pauses(scene: Scene) -> None:
    scene.server.put("a")
    scene.server.compacted = 10**9
    scene.run(60)
    assert 10 < scene.counts.seen["list"] < 30


def test_with_a_server_that_refuses_only_watches_it_does_not_list_endlessly(scene: Scene) -> None:
    scene.server.watch_failures.extend([ServerError(500)] * 1000)
    scene.run(60)
    assert 3 < scene.counts.seen["list"] < 15


def test_another_error_than_expiry_is_retried_and_the_third_one_leads_to_a_list(
    scene: Scene,
) -> None:
    scene.server.put("a")
    scene.run()
    scene.server.send_error(500, "InternalError", "etcd")
    scene.server.watch_failures.extend([ServerError(504, "Timeout", "Too large version")] * 2)
    assert scene.run() == []
    assert scene.run(20) == ["list 1", "page of 1", "end 1"]
    assert scene.counts.seen == Counter(list=2, refused=1)


def test_a_server_behind_the_last_seen_version_is_reported_as_rewound(scene: Scene) -> None:
    scene.server.put("a")
    scene.server.put("a")
    scene.run()
    scene.server.restore_backup(1)
    scene.reflector.request_list()
    assert scene.run() == ["list 1 rewound", "page of 1", "end 1"]
    assert scene.reflector.resource_version == "1"
    scene.reflector.request_list()
    assert scene.run() == ["list 1", "page of 1", "end 1"]


def test_an_expired_rewound_list_is_followed_by_a_rewound_list(scene: Scene) -> None:
    for number in range(PAGE_LIMIT + 1):
        scene.server.put(f"thing-{number}")
    scene.run()
    scene.server.restore_backup(PAGE_LIMIT)
    scene.reflector.request_list()
    scene.sink.reported.clear()
    scene.reflector.step(0)
    assert scene.sink.reported == ["list 500 rewound", "page of 500"]
    scene.server.expire_tokens()
    scene.server.put("late")
    scene.server.put("later")
    assert scene.run(10) == ["list 502 rewound", "page of 500", "page of 3", "end 502"]
    scene.reflector.request_list()
    assert scene.run(10)[0] == "list 502"


def test_after_a_line_that_is_not_an_event_it_lists(scene: Scene) -> None:
    scene.run()
    scene.server.put("a")
    failures = iter([ApiFailure("not JSON")])

    def unreadable(_: float) -> WatchEvent[Any] | None:
        raise next(failures)

    scene.server.watches[-1].next_event = unreadable  # type: ignore[method-assign] # one broken line
    assert scene.run(1) == ["list 1", "page of 1", "end 1"]


def test_an_event_that_the_sink_failed_on_is_recovered_by_a_list(scene: Scene) -> None:
    scene.run()
    scene.server.put("a")
    scene.sink.failures.append(ValueError("bug"))
    with pytest.raises(ValueError, match="bug"):
        scene.run()
    assert scene.run() == ["list 1", "page of 1", "end 1"]


def test_a_page_that_the_sink_failed_on_is_requested_again(scene: Scene) -> None:
    scene.server.put("a")
    scene.sink.failures.append(ValueError("bug"))
    with pytest.raises(ValueError, match="bug"):
        scene.run()
    assert scene.run() == ["list 1", "page of 1", "end 1"]
    assert len(scene.server.lists) == 2


def test_a_step_ends_despite_a_flood_of_events(scene: Scene) -> None:
    scene.run()
    for _ in range(EVENTS_PER_STEP + 1):
        scene.server.put("a")
    scene.sink.reported.clear()
    scene.reflector.step(0)
    assert len(scene.sink.reported) == EVENTS_PER_STEP


def test_interrupt_and_close_end_the_watch(scene: Scene) -> None:
    scene.reflector.interrupt()
    scene.reflector.close()
    scene.run()
    scene.reflector.interrupt()
    assert scene.server.watches[-1].closed
    scene.run(1)
    scene.reflector.close()
    assert all(watch.closed for watch in scene.server.watches)


def test_silence_is_measured(scene: Scene) -> None:
    scene.run()
    scene.clock.advance(30)
    assert scene.reflector.silence_seconds() == 30
