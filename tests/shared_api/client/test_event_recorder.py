"""Events are written once, counted in series, limited, and dropped rather than delay work."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared_api.client import event_recorder
from shared_api.client.errors import AlreadyExists, Forbidden, NotFound
from shared_api.client.event_recorder import (
    COUNT_SECONDS,
    MAX_NOTE_BYTES,
    OBJECT_BURST,
    OBJECT_REFILL_SECONDS,
    Event,
    EventRecorder,
    EventType,
    ObjectReference,
    cut,
    event_name,
)
from shared_api.client.flow_control import Lane
from shared_api.client.writes import Dropped, Outcome, Rejected, Write, Written
from shared_api.objects.meta import Uid
from shared_api.testing.virtual_clock import VirtualClock

UNIT = ObjectReference(
    "scheduling.x-k8s.io/v1alpha1", "QueueUnit", "train", namespace="team", uid=Uid("u-1")
)
JOB = ObjectReference("batch/v1", "Job", "train", namespace="team", uid=Uid("j-1"))


def event(note: str = "admitted", regarding: ObjectReference = UNIT, **more: Any) -> Event:
    return Event(regarding=regarding, reason="Dequeued", action="Dequeue", note=note, **more)


class Setup:
    """A recorder for whose writes the test sets the outcomes."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.wakes = 0
        self.sent: list[tuple[str, Any]] = []
        self.open: list[Callable[[Outcome[Any]], None]] = []
        self.answer: Outcome[Any] | None = Written(None)
        """The outcome of each write; None: still open, and its listener is in `open`."""
        self.recorder = EventRecorder(
            self,
            self.clock,
            reporting_controller="koord-queue/scheduler",
            reporting_instance="pod-1",
            wake=self.on_wake,
        )

    def on_wake(self) -> None:
        self.wakes += 1

    def submit(self, write: Write[Any], on_outcome: Callable[[Outcome[Any]], None]) -> None:
        assert write.lane is Lane.LOW
        assert write.resource_type.plural == "events"
        self.sent.append((f"{write.verb.value} {write.namespace}/{write.name}", write.body))
        if self.answer is None:
            self.open.append(on_outcome)
        else:
            on_outcome(self.answer)

    def say(self, *said: Event) -> float | None:
        for each in said:
            self.recorder.record(each)
        return self.recorder.step()

    def verbs(self) -> list[str]:
        return [what.split(" ")[0] for what, _ in self.sent]


def test_a_first_occurrence_is_an_event_with_all_required_fields() -> None:
    setup = Setup()
    assert setup.say(event(type=EventType.WARNING, related=JOB)) is None
    ((what, body),) = setup.sent
    name = event_name(event(type=EventType.WARNING, related=JOB), "koord-queue/scheduler")
    assert what == f"create team/{name}"
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team"},
        "eventTime": "2026-11-01T10:00:00.000000Z",
        "type": "Warning",
        "reason": "Dequeued",
        "action": "Dequeue",
        "note": "admitted",
        "regarding": {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QueueUnit",
            "name": "train",
            "namespace": "team",
            "uid": "u-1",
        },
        "related": {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "namespace": "team",
            "uid": "j-1",
        },
        "reportingController": "koord-queue/scheduler",
        "reportingInstance": "pod-1",
    }


def test_events_on_cluster_scoped_objects_are_in_default() -> None:
    setup = Setup()
    node = ObjectReference("v1", "Node", "n1")
    setup.say(event(regarding=node))
    what, body = setup.sent[0]
    assert what.startswith("create default/n1.")
    assert body["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_repetitions_are_counted_and_written_every_few_minutes() -> None:
    setup = Setup()
    setup.say(event())
    setup.clock.advance(10)
    assert setup.say(event(), event()) == pytest.approx(COUNT_SECONDS - 10)
    assert setup.verbs() == ["create"]
    setup.clock.advance(COUNT_SECONDS - 10)
    assert setup.recorder.step() is None
    assert setup.verbs() == ["create", "patch"]
    assert setup.sent[0][0].split(" ")[1] == setup.sent[1][0].split(" ")[1]
    assert setup.sent[1][1] == {
        "series": {"count": 3, "lastObservedTime": "2026-11-01T10:00:10.000000Z"}
    }
    setup.clock.advance(10 * COUNT_SECONDS)
    assert setup.recorder.step() is None
    assert len(setup.sent) == 2, "at rest nothing is written"
    setup.say(event())  # after such a pause the count is due at once
    assert setup.sent[2][1]["series"]["count"] == 4


def test_after_a_restart_the_event_is_found_again() -> None:
    setup = Setup()
    setup.answer = Rejected(AlreadyExists(409, "AlreadyExists", ""))
    setup.say(event())
    setup.answer = Written(None)
    setup.recorder.step()
    assert setup.verbs() == ["create", "patch"]
    assert setup.sent[1][1]["series"]["count"] == 2


def test_a_series_whose_event_has_expired_starts_anew() -> None:
    setup = Setup()
    setup.say(event(), event())
    setup.clock.advance(COUNT_SECONDS)
    setup.answer = Rejected(NotFound(404, "NotFound", ""))
    setup.recorder.step()
    setup.answer = Written(None)
    setup.recorder.step()
    assert setup.verbs() == ["create", "patch", "create"]
    setup.clock.advance(10 * COUNT_SECONDS)
    setup.recorder.step()
    assert len(setup.sent) == 3


@pytest.mark.parametrize(
    "outcome", [Dropped("full"), Rejected(Forbidden(403)), Rejected(NotFound(404))]
)
def test_an_event_that_cannot_be_written_is_retried_at_its_next_occurrence(
    outcome: Outcome[Any],
) -> None:
    setup = Setup()
    setup.answer = outcome
    setup.say(event())
    assert setup.recorder.step() is None
    assert (setup.verbs(), setup.recorder.lost) == (["create"], 1)
    setup.say(event())
    assert setup.verbs() == ["create", "create"]


def test_a_count_waits_until_its_event_is_written() -> None:
    setup = Setup()
    setup.answer = None
    setup.say(event(), event())
    setup.clock.advance(COUNT_SECONDS)
    rest = setup.recorder.step()
    assert rest is not None
    assert rest > 0
    assert setup.verbs() == ["create"]
    setup.open[0](Written(None))
    setup.clock.advance(rest)
    setup.recorder.step()
    assert setup.verbs() == ["create", "patch"]


def test_the_events_on_one_object_are_limited() -> None:
    setup = Setup()
    setup.say(*(event(f"moving number {n}") for n in range(OBJECT_BURST + 10)))
    assert (len(setup.sent), setup.recorder.lost) == (OBJECT_BURST, 10)
    setup.say(event(regarding=JOB))
    assert len(setup.sent) == OBJECT_BURST + 1, "another object has its own allowance"
    setup.clock.advance(OBJECT_REFILL_SECONDS)
    setup.say(event("one more"), event("two more"))
    assert len(setup.sent) == OBJECT_BURST + 2


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "MAX_SERIES", 2)
    setup = Setup()
    notes = [event(note) for note in "abc"]
    setup.say(*notes, notes[1], notes[0])
    # c evicted a, so a was written anew, which evicted c, the least recently used.
    assert [body["note"] for _, body in setup.sent] == ["a", "b", "c", "a"]
    setup.clock.advance(COUNT_SECONDS)
    setup.recorder.step()
    assert setup.verbs() == ["create"] * 4 + ["patch"]


def test_recording_only_queues_the_event_and_wakes() -> None:
    setup = Setup()
    setup.recorder.record(event())
    assert (setup.sent, setup.wakes) == ([], 1)


def test_the_name_of_an_event_follows_from_its_content() -> None:
    names = {
        event_name(each, "koord-queue/scheduler")
        for each in (
            event(),
            event("another note"),
            event(regarding=JOB),
            event(related=JOB),
            event(type=EventType.WARNING),
        )
    }
    assert len(names) == 5
    assert event_name(event(), "koord-queue/controllers") not in names
    assert event_name(event(), "koord-queue/scheduler") in names


@pytest.mark.parametrize(
    ("name", "want_start"),
    [
        ("train", "train."),
        ("system:node-Reader", "system-node-reader."),
        (":", ""),
        ("x" * 253, "x" * 236 + "."),
        ("x" * 235 + ".y", "x" * 235 + "."),
    ],
)
def test_names_fit_into_the_api(name: str, want_start: str) -> None:
    got = event_name(event(regarding=ObjectReference("v1", "Node", name)), "c")
    assert got.startswith(want_start)
    assert len(got) == len(want_start) + 16
    assert len(got) <= 253


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x" * MAX_NOTE_BYTES, "x" * MAX_NOTE_BYTES),
        ("x" * (MAX_NOTE_BYTES + 1), "x" * (MAX_NOTE_BYTES - 3) + "…"),
        ("é" * MAX_NOTE_BYTES, "é" * 510 + "…"),
    ],
)
def test_notes_are_truncated_by_bytes(text: str, want: str) -> None:
    assert cut(text, MAX_NOTE_BYTES) == want
    assert len(want.encode()) <= MAX_NOTE_BYTES


def test_an_event_that_waits_or_is_remembered_has_no_more_text_than_is_sent() -> None:
    setup = Setup()
    long = event("x" * 1_000_000)
    tracemalloc.start()
    for number in range(20):
        setup.recorder.record(msgspec.structs.replace(long, note=f"{number}{long.note}"))
    setup.recorder.step()
    setup.sent.clear()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 500_000


def test_a_note_that_is_no_unicode_is_recorded() -> None:
    setup = Setup()
    setup.say(event("\ud800" + "x" * MAX_NOTE_BYTES))
    ((_, body),) = setup.sent
    assert body["note"] == "?" + "x" * (MAX_NOTE_BYTES - 4) + "…"
