"""Order, lanes, merging, the gate, and the end of the write dispatcher."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_api.client import write_dispatcher
from shared_api.client.errors import ApiFailure, Conflict, ConnectionLost, Timeout
from shared_api.client.flow_control import FlowControl, Lane
from shared_api.client.resource_client import WRITE_SECONDS
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.write_dispatcher import (
    MAX_OUTSTANDING,
    ROOM_AGAIN,
    Dropped,
    Outcome,
    Rejected,
    Unknown,
    Verb,
    Write,
    WriteDispatcher,
    Written,
)
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock, SystemClock
from shared_api.testing.virtual_clock import VirtualClock
from tests.waiting import until

LOW, NORMAL = Lane.LOW, Lane.NORMAL
PATIENCE_SECONDS = 60.0


class RecordingClient:
    """A client that records what is sent, and whose answers a test can set."""

    def __init__(self, flow: FlowControl) -> None:
        self.flow = flow
        self.sent: list[tuple[str, str, str, Any]] = []
        self.before: Callable[[str], object] = str
        """Called with the name of the object before the answer."""
        self.failures: list[ApiFailure] = []

    def create(self, resource_type: Any, namespace: str, body: Any, *, lane: Lane) -> Any:
        del resource_type, namespace
        return self._send("create", body["metadata"]["name"], lane, body)

    def patch(
        self,
        resource_type: Any,
        namespace: str,
        name: str,
        body: Any,
        *,
        subresource: str,
        lane: Lane,
    ) -> Any:
        del resource_type, namespace
        return self._send(f"patch {subresource}".strip(), name, lane, body)

    def delete(
        self, resource_type: Any, namespace: str, name: str, *, uid: Any, lane: Lane
    ) -> None:
        del resource_type, namespace
        self._send("delete", name, lane, uid)

    def _send(self, verb: str, name: str, lane: Lane, body: Any) -> Any:
        assert self.flow.acquire(lane, PATIENCE_SECONDS)
        self.sent.append((verb, name, lane.value, body))
        self.before(name)
        if self.failures:
            raise self.failures.pop(0)
        return QueueUnit(metadata=ObjectMeta(name=name, resource_version=str(len(self.sent))))


class Setup:
    """A dispatcher with one worker, which the test steps."""

    def __init__(self, *, qps: float = 0, clock: Clock | None = None) -> None:
        self.clock = clock or VirtualClock()
        flow = FlowControl(qps, 1, self.clock)
        self.client = RecordingClient(flow)
        self.lease_seconds = 15.0
        self.rooms = 0
        self.errors: list[str] = []
        self.dispatcher = WriteDispatcher(
            self.client,
            flow=flow,
            clock=self.clock,
            writable_seconds=lambda: self.lease_seconds,
            on_room=self.on_room,
            on_error=lambda error: self.errors.append(type(error).__name__),
        )
        self.worker = self.dispatcher.new_worker()
        self.outcomes: list[tuple[str, Outcome[Any]]] = []

    def on_room(self) -> None:
        self.rooms += 1

    def submit(self, name: str, tag: str = "", lane: Lane = NORMAL, **more: Any) -> None:
        """Submit a patch of the unit; `tag` identifies its outcome and is part of its status."""
        more.setdefault("body", {"status": {tag or name: 1}})
        write: Write[Any] = Write(
            resource_type=QUEUE_UNITS, namespace="team", name=name, lane=lane, **more
        )
        self.dispatcher.submit(write, lambda outcome: self.outcomes.append((tag or name, outcome)))

    def run(self) -> float | None:
        """Step until the worker rests, and return the time that it rests."""
        while (rest := self.worker.step()) == 0.0:
            self.dispatcher.validate()
        self.dispatcher.validate()
        return rest

    def sent_names(self) -> list[str]:
        return [name for _, name, _, _ in self.client.sent]

    def kinds(self) -> list[tuple[str, str]]:
        return [(tag, type(outcome).__name__) for tag, outcome in self.outcomes]


def test_writes_of_different_objects_are_sent_in_order_and_reported() -> None:
    setup = Setup()
    for name in "abc":
        setup.submit(name)
    assert setup.run() is None
    assert setup.sent_names() == ["a", "b", "c"]
    assert [outcome.object.metadata.name for _, outcome in setup.outcomes] == ["a", "b", "c"]  # type: ignore[union-attr] # all are Written
    assert setup.dispatcher.counts() == (0, 0, 0)


def test_the_verbs_reach_the_client() -> None:
    setup = Setup()
    setup.submit("a", verb=Verb.CREATE, body={"metadata": {"name": "a"}})
    setup.submit("b", body={"x": 1}, subresource="status")
    setup.submit("c", verb=Verb.DELETE, uid="7", lane=LOW)
    setup.run()
    assert setup.client.sent == [
        ("create", "a", "normal", {"metadata": {"name": "a"}}),
        ("patch status", "b", "normal", {"x": 1}),
        ("delete", "c", "low", "7"),
    ]
    assert setup.outcomes[2] == ("c", Written(None))


def test_a_newer_patch_merges_into_the_waiting_one_and_both_are_reported() -> None:
    setup = Setup()
    setup.submit("a", "first")
    setup.submit("b")
    setup.submit("a", "second")
    setup.run()
    assert [body for *_, body in setup.client.sent] == [
        {"status": {"first": 1, "second": 1}},
        {"status": {"b": 1}},
    ]
    assert setup.kinds() == [("first", "Written"), ("second", "Written"), ("b", "Written")]


def test_the_normal_lane_goes_first() -> None:
    setup = Setup()
    setup.submit("low", lane=LOW)
    setup.submit("normal")
    setup.run()
    assert setup.sent_names() == ["normal", "low"]


def test_a_normal_patch_supersedes_a_waiting_low_one() -> None:
    setup = Setup()
    setup.submit("a", "reason", LOW)
    setup.submit("b", lane=LOW)
    setup.submit("a", "phase")
    assert setup.kinds() == [("reason", "Dropped")]
    setup.submit("a", "reason again", LOW)
    assert setup.kinds()[1:] == [("reason again", "Dropped")]
    setup.run()
    assert [body for *_, body in setup.client.sent] == [
        {"status": {"phase": 1}},
        {"status": {"b": 1}},
    ]


def test_a_write_that_does_not_merge_waits_behind_the_others() -> None:
    setup = Setup()
    setup.submit("a", "create", verb=Verb.CREATE, body={"metadata": {"name": "a"}})
    setup.submit("a", "spec")
    setup.submit("a", "status", subresource="status")
    setup.submit("b")
    setup.run()
    assert [(verb, name) for verb, name, *_ in setup.client.sent] == [
        ("create", "a"),
        ("patch", "b"),
        ("patch", "a"),
        ("patch status", "a"),
    ]


def test_the_low_lane_waits_without_blocking_the_normal_one() -> None:
    setup = Setup(qps=10)  # low lane: 2 a second
    for name in "abc":
        setup.submit(name, lane=LOW)
    assert setup.run() == pytest.approx(0.5)
    assert setup.sent_names() == ["a"]
    setup.submit("normal")
    assert setup.run() == pytest.approx(0.5)
    assert setup.sent_names() == ["a", "normal"]


# ------------------------------------------------------------------------------------ outcomes


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        (Conflict(409, "Conflict", ""), Rejected),
        (ConnectionLost("", sent=True), Unknown),
        (Timeout("", sent=False), Dropped),
    ],
)
def test_a_failure_is_reported_and_the_next_write_is_sent(
    failure: ApiFailure, want: type[Outcome[object]]
) -> None:
    setup = Setup()
    setup.client.failures = [failure]
    setup.submit("a")
    setup.submit("b")
    setup.run()
    assert isinstance(setup.outcomes[0][1], want)
    assert setup.kinds()[1] == ("b", "Written")


def test_a_listener_that_raises_does_not_affect_other_listeners() -> None:
    setup = Setup()
    write: Write[Any] = Write(
        resource_type=QUEUE_UNITS, namespace="team", name="a", body={"status": {"b": 1}}
    )

    def fail(outcome: Outcome[Any]) -> None:
        raise RuntimeError(str(outcome))

    setup.dispatcher.submit(write, fail)
    setup.submit("a", "second")
    assert setup.worker.step() == 0.0
    setup.dispatcher.validate()
    assert setup.kinds() == [("second", "Written")]
    assert setup.errors == ["RuntimeError"]
    assert setup.dispatcher.counts() == (0, 0, 0)


def test_an_error_of_the_client_itself_leaves_the_outcome_unknown() -> None:
    setup = Setup()

    def fail(name: str) -> None:
        raise ValueError(name)

    setup.client.before = fail
    setup.submit("a")
    assert setup.worker.step() == 0.0
    assert setup.kinds() == [("a", "Unknown")]
    assert setup.errors == ["ValueError"]
    setup.dispatcher.validate()


def test_a_listener_may_submit_the_next_write_of_the_same_object() -> None:
    setup = Setup()
    write: Write[Any] = Write(resource_type=QUEUE_UNITS, namespace="team", name="a")
    setup.dispatcher.submit(write, lambda _: setup.submit("a", "next"))
    setup.run()
    assert setup.kinds() == [("next", "Written")]


# ---------------------------------------------------------------------------------------- gate


def test_no_write_is_sent_that_could_outlive_the_lease() -> None:
    setup = Setup()
    setup.lease_seconds = WRITE_SECONDS - 0.001
    setup.submit("a")
    setup.run()
    assert (setup.sent_names(), setup.kinds()) == ([], [("a", "Dropped")])
    setup.lease_seconds = WRITE_SECONDS
    setup.submit("a")
    setup.run()
    assert setup.sent_names() == ["a"]


def test_stop_drops_waiting_writes_and_accepts_no_new_ones() -> None:
    setup = Setup()
    setup.submit("a")
    setup.submit("b", lane=LOW)
    assert setup.dispatcher.stop()
    setup.submit("c")
    assert setup.run() is None
    assert setup.sent_names() == []
    assert sorted(setup.kinds()) == [("a", "Dropped"), ("b", "Dropped"), ("c", "Dropped")]


def test_stop_waits_for_writes_in_flight() -> None:
    setup = Setup(clock=SystemClock())
    sending, go_on = threading.Event(), threading.Event()

    def send(name: str) -> None:
        assert name == "a"
        sending.set()
        assert go_on.wait(PATIENCE_SECONDS)

    setup.client.before = send
    setup.submit("a")
    setup.submit("a", "behind", subresource="status")
    with ThreadPoolExecutor(2) as threads:
        stepping = threads.submit(setup.worker.step)
        assert sending.wait(PATIENCE_SECONDS)
        assert not setup.dispatcher.stop(wait_seconds=0.01)
        assert setup.kinds() == [("behind", "Dropped")]
        stopping = threads.submit(setup.dispatcher.stop, PATIENCE_SECONDS)
        go_on.set()
        assert stopping.result(PATIENCE_SECONDS)
        assert stepping.result(PATIENCE_SECONDS) == 0.0
    assert setup.kinds()[1] == ("a", "Written")
    setup.dispatcher.validate()


# -------------------------------------------------------------------------------------- limits


def test_the_queue_accepts_a_limited_number_and_reopens_well_below() -> None:
    setup = Setup()
    for number in range(MAX_OUTSTANDING - 1):
        setup.submit(f"u{number}")
        setup.submit(f"event{number}", lane=LOW)
    assert setup.dispatcher.has_room()
    setup.submit("last")
    assert not setup.dispatcher.has_room()
    for _ in range(MAX_OUTSTANDING - ROOM_AGAIN - 1):
        setup.worker.step()
    assert (setup.dispatcher.has_room(), setup.rooms) == (False, 0)
    setup.worker.step()
    assert (setup.dispatcher.has_room(), setup.rooms) == (True, 1)
    setup.run()
    assert setup.rooms == 1


def test_low_writes_above_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_dispatcher, "MAX_WAITING_LOW", 2)
    setup = Setup()
    for name in "abc":
        setup.submit(name, lane=LOW)
    setup.submit("d")
    assert setup.kinds() == [("c", "Dropped")]
    setup.run()
    assert setup.sent_names() == ["d", "a", "b"]


# ------------------------------------------------------------------------------------- threads


def test_each_write_wakes_one_resting_worker_and_never_a_busy_one() -> None:
    setup = Setup()
    woken: list[str] = []
    second = setup.dispatcher.new_worker()
    setup.worker.wake = lambda: woken.append("first")
    second.wake = lambda: woken.append("second")
    setup.submit("before any rest")
    assert woken == []
    setup.run()
    assert second.step() is None
    setup.submit("a")
    setup.submit("b")
    setup.submit("c")
    assert woken == ["second", "first"]


def test_a_worker_whose_rest_ended_by_itself_is_not_woken_while_busy() -> None:
    setup = Setup(qps=10)
    woken: list[str] = []
    other = setup.dispatcher.new_worker()
    assert (other.step(), setup.worker.step()) == (None, None)
    setup.submit("first low", lane=LOW)  # wakes the one that started to rest last
    assert setup.run() is None
    setup.submit("second low", lane=LOW)
    assert setup.worker.step() == pytest.approx(0.5)
    setup.worker.wake = lambda: woken.append("busy")
    other.wake = lambda: woken.append("other")
    setup.client.before = lambda _: setup.submit("normal")
    assert isinstance(setup.clock, VirtualClock)
    setup.clock.advance(0.5)
    setup.worker.step()
    assert woken == ["other"]


def test_low_writes_never_occupy_all_workers() -> None:
    setup = Setup(clock=SystemClock())
    workers = [setup.worker, *(setup.dispatcher.new_worker() for _ in range(7))]
    go_on = threading.Event()
    setup.client.before = lambda name: name == "normal" or go_on.wait(PATIENCE_SECONDS)
    for number in range(8):
        setup.submit(f"low{number}", lane=LOW)
    with ThreadPoolExecutor(8) as threads:
        steps = [threads.submit(worker.step) for worker in workers]
        while sum(step.done() for step in steps) < 6:
            pass
        setup.submit("normal")
        assert workers[7].step() == 0.0
        assert "normal" in setup.sent_names()
        assert (
            len(setup.client.sent) == 3
        )  # a quarter of the workers, and the one for normal writes
        go_on.set()


def test_one_write_per_object_is_in_flight_at_a_time() -> None:
    setup = Setup(clock=SystemClock())
    in_flight: dict[str, int] = {}
    lock = threading.Lock()
    overlaps: list[str] = []

    def send(name: str) -> None:
        with lock:
            in_flight[name] = in_flight.get(name, 0) + 1
            if in_flight[name] > 1:
                overlaps.append(name)
        SystemClock().sleep(0.0002)
        with lock:
            in_flight[name] -= 1

    setup.client.before = send
    workers = [setup.worker, *(setup.dispatcher.new_worker() for _ in range(5))]
    ended = threading.Event()

    def work(index: int) -> None:
        while not ended.is_set():
            workers[index].step()

    def produce(seed: int) -> None:
        for number in range(150):
            setup.submit(f"u{(seed + number) % 4}", f"{seed}-{number}", subresource=str(number % 3))

    with ThreadPoolExecutor(10) as threads:
        for index in range(6):
            threads.submit(work, index)
        list(threads.map(produce, range(3)))
        until(lambda: setup.dispatcher.counts() == (0, 0, 0))
        ended.set()
    assert overlaps == []
    assert len(setup.outcomes) == 450
    setup.dispatcher.validate()


actions = st.lists(
    st.tuples(
        st.sampled_from(["submit", "step"]),
        st.sampled_from("ab"),
        st.sampled_from(["", "status"]),
        st.sampled_from([LOW, NORMAL]),
        st.sampled_from(["1", "2"]),
    ),
    max_size=40,
)


@pytest.mark.properties
@settings(deadline=None)
@given(actions)
def test_every_outcome_is_reported_once_whatever_happens(
    script: list[tuple[str, str, str, Lane, str]],
) -> None:
    setup = Setup()
    submitted = []
    for number, (action, name, subresource, lane, version) in enumerate(script):
        if action == "step":
            setup.worker.step()
        else:
            body = {"metadata": {"resourceVersion": version}, "status": {"a": number}}
            setup.submit(name, f"{number}", lane, subresource=subresource, body=body)
            submitted.append(f"{number}")
        setup.dispatcher.validate()
    setup.run()
    assert sorted(tag for tag, _ in setup.outcomes) == sorted(submitted)
    assert setup.dispatcher.counts() == (0, 0, 0)
