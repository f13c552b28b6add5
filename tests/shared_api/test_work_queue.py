"""Tests of shared_api.work_queue."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from shared_api import work_queue
from shared_api.process.clock import SystemClock
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.work_queue import FAILING_RETRIES, SPARE_DELAYS, WorkQueue


def doubling(attempt: int) -> float:
    return 2.0**attempt


def as_number(key: str) -> None:
    assert int(key) >= 0


class Recorder:
    """A WorkQueueObserver that records its calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []
        self.depth: Callable[[], float] = float
        self.failing: Callable[[], float] = float

    def show(self, *, depth: Callable[[], float], failing: Callable[[], float]) -> None:
        self.depth, self.failing = depth, failing

    def on_add(self, count: int) -> None:
        self.seen.append(("add", count, self.depth()))

    def on_get(self, waited_seconds: float) -> None:
        self.seen.append(("get", waited_seconds, self.depth()))

    def on_done(self, worked_seconds: float) -> None:
        self.seen.append(("done", worked_seconds))

    def on_retry(self) -> None:
        self.seen.append(("retry",))

    def on_exception(self) -> None:
        self.seen.append(("exception",))


class TickingClock(VirtualClock):
    """A clock whose time passes with each look, as between two statements of a program."""

    def monotonic(self) -> float:
        self.advance(0.125)
        return super().monotonic()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=0)


@pytest.fixture
def queue(clock: VirtualClock) -> Iterator[WorkQueue[str]]:
    queue = WorkQueue[str](clock, backoff=doubling)
    yield queue
    queue.validate()


def test_a_key_that_is_added_twice_is_returned_once(queue: WorkQueue[str]) -> None:
    for key in ("a", "b", "a"):
        queue.add(key)
    assert [queue.try_get(), queue.try_get(), queue.try_get()] == ["a", "b", None]


def test_a_key_in_work_is_not_given_to_a_second_worker_but_returns_when_done(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    assert queue.try_get() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.try_get() is None
    queue.done("a")
    assert queue.try_get() == "a"
    queue.done("a")
    assert queue.try_get() is None


def test_done_without_get_is_a_bug_of_the_caller(queue: WorkQueue[str]) -> None:
    with pytest.raises(KeyError):
        queue.done("a")


def test_a_delayed_key_is_returned_when_it_is_due(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    queue.add_after("later", 5)
    queue.add_after("now", 0)
    assert queue.seconds_until_ready() == 0
    assert queue.try_get() == "now"
    assert queue.seconds_until_ready() == 5
    clock.advance(4.9)
    assert queue.try_get() is None
    clock.advance(0.1)
    assert queue.try_get() == "later"
    assert queue.seconds_until_ready() is None


def test_of_two_delays_of_one_key_only_the_earlier_counts(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 9)
    clock.advance(2)
    assert queue.try_get() == "a"
    queue.done("a")
    clock.advance(20)
    assert queue.try_get() is None


def test_a_failing_key_is_delayed_longer_each_time_until_it_is_forgotten(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    rests = []
    for _ in range(3):
        queue.add_rate_limited("a")
        rests.append(queue.seconds_until_ready())
        clock.advance(rests[-1] or 0)
        assert queue.try_get() == "a"
        queue.done("a")
    assert (rests, queue.retries("a")) == ([1, 2, 4], 3)
    queue.forget("a")
    queue.forget("a")
    queue.add_rate_limited("a")
    assert queue.seconds_until_ready() == 1


def test_a_failing_key_returns_no_earlier_than_requested(queue: WorkQueue[str]) -> None:
    queue.add_rate_limited("a", at_least_seconds=60)
    assert queue.seconds_until_ready() == 60


def test_work_processes_a_key_and_returns_how_long_there_is_none(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    seen: list[str] = []
    assert queue.work(seen.append) is None
    queue.add("a")
    queue.add_after("b", 3)
    assert (queue.work(seen.append), queue.work(seen.append)) == (0, 3)
    clock.advance(3)
    assert (queue.work(seen.append), queue.work(seen.append)) == (0, None)
    assert (seen, queue.retries("a"), queue.longest_processing_seconds()) == (["a", "b"], 0, 0)


def test_a_key_whose_work_raises_is_retried_and_keeps_no_other_waiting(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    queue.add("1")
    assert (queue.work(as_number), queue.work(as_number)) == (0, 0)
    assert (queue.depth(), queue.seconds_until_ready()) == (0, 1)
    assert (queue.retries("a"), queue.retries("1")) == (1, 0)
    assert queue.longest_processing_seconds() == 0


def test_who_asks_is_told_of_an_exception_and_may_raise_as_well(queue: WorkQueue[str]) -> None:
    reported: list[tuple[str, str]] = []

    def report(key: str, error: Exception) -> None:
        reported.append((key, type(error).__name__))
        raise OSError(key)

    queue.add("a")
    assert queue.work(as_number, report) == 0
    assert reported == [("a", "ValueError")]
    assert (queue.seconds_until_ready(), queue.retries("a")) == (1, 1)


def test_what_ends_the_process_is_passed_on(queue: WorkQueue[str]) -> None:
    def end(key: str) -> None:
        raise SystemExit(key)

    queue.add("a")
    with pytest.raises(SystemExit):
        queue.work(end)
    assert (queue.retries("a"), queue.longest_processing_seconds()) == (0, 0)


def test_a_key_that_fails_again_and_again_is_counted_until_it_succeeds(
    clock: VirtualClock,
) -> None:
    recorder = Recorder()
    queue = WorkQueue[str](clock, backoff=lambda _: 1.0, observer=recorder)
    queue.add("a")
    counts = []
    for _ in range(FAILING_RETRIES + 1):
        queue.work(as_number)
        counts.append(recorder.failing())
        clock.advance(1)
        queue.validate()
    assert counts == [*[0] * (FAILING_RETRIES - 1), 1, 1]
    assert recorder.seen.count(("exception",)) == FAILING_RETRIES + 1
    queue.work(queue.forget)
    assert recorder.failing() == 0
    queue.validate()


def test_of_many_failures_of_a_key_few_are_logged(clock: VirtualClock) -> None:
    queue = WorkQueue[str](clock, backoff=lambda _: 1.0)
    queue.add("a")
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            queue.work(as_number)
            clock.advance(1)
    assert [each["failures"] for each in logs] == [1, 2, 4, 8, 16, 32, 64]
    assert [each["exc_info"] is not None for each in logs] == [True, *[False] * 6]
    assert logs[0]["error"] == "ValueError: invalid literal for int() with base 10: 'a'"


def test_after_shut_down_queued_keys_are_returned_and_no_new_ones_accepted(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    queue.add("a")
    queue.add_after("delayed", 1)
    queue.shut_down()
    queue.add("b")
    queue.add_after("c", 1)
    clock.advance(10)
    assert [queue.try_get(), queue.try_get()] == ["a", None]


def test_the_observer_gets_depths_and_durations(clock: VirtualClock) -> None:
    recorder = Recorder()
    queue = WorkQueue[str](clock, backoff=doubling, observer=recorder)
    queue.add("a")
    queue.add("b")
    queue.add("a")
    clock.advance(3)
    queue.try_get()
    clock.advance(2)
    queue.add("a")
    assert (queue.depth(), queue.longest_processing_seconds()) == (1, 2)
    queue.done("a")
    queue.add_rate_limited("c")
    clock.advance(1)
    assert queue.try_get() == "b"
    assert recorder.seen == [
        *[("add", 1, 1), ("add", 1, 2), ("get", 3, 1), ("add", 1, 1), ("done", 2), ("retry",)],
        *[("add", 1, 2), ("get", 6, 2)],
    ]


@pytest.mark.parametrize("seconds", [0, 1], ids=["ready at once", "after a delay"])
@pytest.mark.parametrize("has_timer", [False, True], ids=["a worker looks", "a timer makes ready"])
def test_a_wait_is_never_below_zero(seconds: float, *, has_timer: bool) -> None:
    clock, recorder = TickingClock(start=0), Recorder()
    queue = WorkQueue[str](clock, backoff=doubling, observer=recorder)
    queue.add_after("a", seconds)
    clock.advance(seconds)
    if has_timer:
        queue.start_due()
    assert queue.try_get() == "a"
    queue.done("a")
    waits = [float(str(each[1])) for each in recorder.seen if each[0] in {"get", "done"}]
    assert len(waits) == 2
    assert min(waits) >= 0


def test_a_delayed_key_waits_since_it_became_ready(clock: VirtualClock) -> None:
    recorder = Recorder()
    queue = WorkQueue[str](clock, backoff=doubling, observer=recorder)
    queue.add_after("a", 5)
    clock.advance(7)
    queue.start_due()
    clock.advance(2)
    assert queue.try_get() == "a"
    assert recorder.seen == [("add", 1, 1), ("get", 2, 0)]


def test_on_ready_is_called_whenever_a_resting_worker_should_wake(clock: VirtualClock) -> None:
    wakes: list[None] = []
    queue = WorkQueue[str](clock, backoff=doubling, on_ready=lambda: wakes.append(None))

    def wakes_of(action: Callable[[], object]) -> int:
        wakes.clear()
        action()
        return len(wakes)

    assert wakes_of(lambda: queue.add("a")) == 1
    assert wakes_of(lambda: queue.add("a")) == 0, "it is in the queue already"
    assert wakes_of(queue.try_get) == 0
    assert wakes_of(lambda: queue.add("a")) == 0, "it is in work"
    assert wakes_of(lambda: queue.done("a")) == 1, "it is back in the queue"
    assert wakes_of(lambda: queue.add_after("b", 5)) == 1
    assert wakes_of(lambda: queue.add_after("c", 9)) == 0, "the worker wakes earlier for b"
    assert wakes_of(queue.shut_down) == 1


@pytest.mark.properties
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc")),
            st.tuples(st.just("later"), st.sampled_from("abc")),
            st.tuples(st.sampled_from(["get", "done", "advance"]), st.just("")),
        ),
        max_size=40,
    )
)
def test_every_key_is_worked_on_after_its_last_add_and_never_twice_at_once(
    actions: list[tuple[str, str]],
) -> None:
    clock = VirtualClock(start=0)
    queue = WorkQueue[str](clock, backoff=doubling)
    in_work: list[str] = []
    owed: set[str] = set()  # added, and not returned since
    for action, key in actions:
        match action:
            case "add":
                queue.add(key)
                owed.add(key)
            case "later":
                queue.add_after(key, 1.0)
                owed.add(key)
            case "advance":
                clock.advance(0.5)
            case "done" if in_work:
                queue.done(in_work.pop(0))
            case "get":
                got = queue.try_get()
                assert got is None or got not in in_work
                in_work += [got] if got else []
            case _:  # no key is in work
                pass
        queue.validate()
        owed -= set(in_work) if action == "get" else set()
    for key in in_work:
        queue.done(key)
    clock.advance(10)
    owed -= set(iter(queue.try_get, None))
    assert not owed


def test_with_many_threads_no_key_is_lost_or_shared() -> None:
    queue = WorkQueue[int](SystemClock(), backoff=doubling)
    seen: list[int] = []
    busy: set[int] = set()
    is_all_added = threading.Event()

    def work() -> int:
        count = 0
        while (key := queue.try_get()) is not None or not is_all_added.is_set():
            if key is None:
                continue
            assert key not in busy
            busy.add(key)
            seen.append(key)
            busy.discard(key)
            queue.done(key)
            count += 1
        return count

    def add_every_second(start: int) -> None:
        for key in range(start, 1000, 2):
            queue.add(key)

    with ThreadPoolExecutor(6) as pool:
        workers = [pool.submit(work) for _ in range(4)]
        adders = [pool.submit(add_every_second, start) for start in (0, 1)]
        for adder in adders:
            adder.result(timeout=60)
        is_all_added.set()
        assert sum(worker.result(timeout=60) for worker in workers) >= 1000
    assert set(seen) == set(range(1000))


def test_a_returned_key_loses_its_delay(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    queue.add("a")
    assert queue.try_get() == "a"
    queue.add_after("a", 7)  # delayed again while it is in work
    queue.done("a")
    clock.advance(5)
    assert queue.try_get() is None
    assert queue.seconds_until_ready() == 2
    clock.advance(2)
    assert queue.try_get() == "a"


def test_delays_end_together_and_not_too_early(clock: VirtualClock) -> None:
    queue = WorkQueue[str](clock, backoff=doubling, delay_step_seconds=0.5)
    clock.advance(0.2)
    for key, seconds in (("a", 0.1), ("b", 0.3), ("c", 0.4)):
        queue.add_after(key, seconds)
    assert queue.start_due() == pytest.approx(0.3)
    clock.advance(0.3)
    assert queue.start_due() == pytest.approx(0.5)
    assert [queue.try_get(), queue.try_get(), queue.try_get()] == ["a", "b", None]
    clock.advance(0.5)
    assert queue.try_get() == "c"


def test_on_delay_is_called_for_delays_and_start_due_wakes_a_worker(clock: VirtualClock) -> None:
    heard: list[str] = []
    queue = WorkQueue[str](
        clock,
        backoff=doubling,
        on_ready=lambda: heard.append("ready"),
        on_delay=lambda: heard.append("delay"),
    )
    queue.add_after("a", 5)
    queue.add_after("b", 9)
    assert heard == ["delay"]
    assert queue.start_due() == 5
    clock.advance(5)
    assert queue.start_due() == 4
    assert heard == ["delay", "ready"]
    queue.add("b")
    assert [queue.try_get(), queue.try_get()] == ["a", "b"]
    assert queue.start_due() is None, "the delay of b is canceled"


def test_a_worker_that_blocks_wakes_another_for_queued_keys(clock: VirtualClock) -> None:
    wakes: list[None] = []
    queue = WorkQueue[str](clock, backoff=doubling, on_ready=lambda: wakes.append(None))
    queue.add("a")
    queue.add("b")
    queue.try_get()
    wakes.clear()
    queue.hand_over()
    assert len(wakes) == 1
    queue.try_get()
    queue.hand_over()
    assert len(wakes) == 1, "nothing is in the queue"


def delays_in(queue: WorkQueue[str]) -> int:
    return len(vars(queue)["_delayed"])


@pytest.mark.parametrize("step", [0.0, 60.0], ids=["each at its own time", "at the same time"])
def test_delays_that_count_no_more_do_not_pile_up(clock: VirtualClock, step: float) -> None:
    """A job with a maximum execution time adds one of days whenever it is reconciled."""
    queue = WorkQueue[str](clock, backoff=doubling, delay_step_seconds=step)
    end, keys = 864_000.0, [f"{number}" for number in range(10)]
    for number in range(500):
        key = keys[number % len(keys)]
        queue.add(key)
        assert queue.try_get() == key
        queue.add_after(key, end - clock.monotonic() + int(key))
        queue.done(key)
        clock.advance(0.25)
        assert delays_in(queue) <= 2 * len(keys) + SPARE_DELAYS
        queue.validate()
    assert queue.seconds_until_ready() == pytest.approx(end - clock.monotonic())
    clock.advance(end - clock.monotonic() + max(step, len(keys)))
    assert sorted(iter(queue.try_get, None)) == keys


def test_delays_of_keys_that_are_gone_go_with_the_next(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    for number in range(1000):
        queue.add_after(f"{number}", 864_000)
        queue.add(f"{number}")
        queue.try_get()
    assert delays_in(queue) <= SPARE_DELAYS + 2
    queue.add_after("a", 1)
    clock.advance(1)
    assert queue.try_get() == "a"


@pytest.mark.parametrize("times", [1, SPARE_DELAYS + 3], ids=["none dropped", "some dropped"])
def test_a_key_that_is_taken_and_delayed_again_goes_behind_others_of_that_time(
    queue: WorkQueue[str], clock: VirtualClock, times: int
) -> None:
    queue.add_after("a", 9)
    queue.add_after("b", 9)
    for _ in range(times):
        queue.add("a")
        assert queue.try_get() == "a"
        queue.add_after("a", 9)
        queue.done("a")
    assert delays_in(queue) < SPARE_DELAYS
    queue.add_after("b", 9)  # it has this delay already, and keeps its place
    clock.advance(9)
    assert [queue.try_get(), queue.try_get()] == ["b", "a"]


class PlainDelays:
    """What a queue is to do with delays, in words: the earliest of a key counts until it is taken.

    Keys that are due at the same time are ready in the order in which the delays that count were
    added.
    """

    def __init__(self) -> None:
        self.added = 0
        self.due: dict[str, tuple[float, int]] = {}

    def add(self, key: str, due: float) -> None:
        if key not in self.due or self.due[key][0] > due:
            self.added += 1
            self.due[key] = (due, self.added)

    def take_due(self, now: float) -> list[str]:
        found = sorted(
            (key for key in self.due if self.due[key][0] <= now), key=self.due.__getitem__
        )
        for key in found:
            del self.due[key]
        return found


REVIVED = (
    *[("later", "b", 3), ("advance", "", 2), ("later", "a", 2), ("take", "b", 0)],
    *[("later", "a", 1), ("later", "b", 1), ("advance", "", 1)],
)
"""The second delay of b ends when the first would have, which is sorted out before the second."""


@pytest.mark.properties
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["later", "later", "take", "advance"]),
            st.sampled_from("abcd"),
            st.integers(1, 5),
        ),
        max_size=60,
    )
)
@example(list(REVIVED))
def test_sorting_out_delays_changes_nothing_else(actions: list[tuple[str, str, int]]) -> None:
    clock, want = VirtualClock(start=0), PlainDelays()
    queue = WorkQueue[str](clock, backoff=doubling)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work_queue, "SPARE_DELAYS", 0)
        for action, key, seconds in actions:
            match action:
                case "later":
                    queue.add_after(key, seconds)
                    want.add(key, clock.monotonic() + seconds)
                case "advance":
                    clock.advance(seconds)
                    got = list(iter(queue.try_get, None))
                    assert got == want.take_due(clock.monotonic())
                    for each in got:
                        queue.done(each)
                case _:
                    queue.add(key)
                    assert queue.try_get() == key
                    queue.done(key)
                    want.due.pop(key, None)
            queue.validate()
