"""The threads of the scheduler's parts, and their queues of keys."""

from __future__ import annotations

import pytest

from queue_scheduler.setup.threads import Threads
from shared_api.backoff import Backoff
from shared_api.leader_election import SoleLeader
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import new_server
from tests.stepped_host import SteppedHost, SteppedThread

PAUSE = Backoff(base_seconds=4.0, cap_seconds=4.0)


class CountingHost(SteppedHost):
    """Counts how often each thread is woken."""

    def __init__(self) -> None:
        clock = VirtualClock()
        super().__init__(new_server(clock), clock, SoleLeader("test"))
        self.wakes: list[str] = []

    def count(self, thread: SteppedThread) -> None:
        thread.wake = lambda: self.wakes.append(thread.name)  # type: ignore[method-assign] # counts


@pytest.fixture
def host() -> CountingHost:
    return CountingHost()


def test_all_are_started_and_woken_in_the_order_in_which_they_were_made(
    host: CountingHost,
) -> None:
    threads = Threads(host, PAUSE)
    made = [threads.run(name, lambda: None) for name in ("one", "two")]
    for thread in host.threads:
        host.count(thread)
    assert list(threads) == made == host.threads
    threads.start()
    threads.wake()
    assert [thread.is_started for thread in host.threads] == [True, True]
    assert host.wakes == ["one", "two"]


def test_a_new_key_wakes_the_thread_of_its_queue(host: CountingHost) -> None:
    threads = Threads(host, PAUSE)
    run, keys = threads.work_queue("mine")
    run(lambda: None)
    threads.run("other", lambda: None)
    for thread in host.threads:
        host.count(thread)
    keys.add("ns/unit")
    assert host.wakes == ["mine"]


def test_a_failed_key_rests_as_long_as_the_backoff_says(host: CountingHost) -> None:
    _run, keys = Threads(host, PAUSE).work_queue("mine")
    keys.add("ns/unit")
    assert keys.try_get() == "ns/unit"
    keys.add_rate_limited("ns/unit")
    keys.done("ns/unit")
    host.clock.advance(3.0)
    assert keys.try_get() is None
    host.clock.advance(1.5)
    assert keys.try_get() == "ns/unit"
