"""A drained queue evicts what has started, once, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers import queue_drain
from queue_scheduler.unit_controllers.queue_drain import POLL_SECONDS, RETRIES, QueueDrain
from queue_scheduler.unit_controllers.unit_reconciler import FULL_REST_SECONDS, MAX_IN_FLIGHT
from shared_api.client.errors import Conflict, Forbidden, Invalid
from shared_api.client.writes import Dropped
from shared_api.well_known_labels import STOP_POLICY
from tests.object_states import condition_of
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.scheduler_world import running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, HeldWrites, Json, ShellKit, rejected

PROOF = {
    "type": "Adopted",
    "status": "True",
    "reason": "RanBefore",
    "message": "",
    "lastTransitionTime": "2026-11-01T09:00:00Z",
}
ASKED = {
    "type": "Evicted",
    "status": "True",
    "reason": "Deactivated",
    "message": "",
    "lastTransitionTime": "2026-11-01T09:00:00Z",
}
"""Condition of a unit that has been evicted by another writer."""


def drains_of(kit: ShellKit, writes: Any = None) -> QueueDrain:
    return QueueDrain(
        kit.shared, writes or kit.dispatcher, kit.note_written, kit.may_write, kit.clock
    )


def annotate(kit: ShellKit, policy: str | None, queue: str = "team") -> None:
    annotate_on(kit.direct, policy, queue)
    kit.learn_queue(queue)


def annotate_on(direct: Any, policy: str | None, queue: str = "team") -> None:
    patch = {"metadata": {"annotations": {STOP_POLICY: policy}}}
    direct.patch("queues", queue, patch, namespace=QUEUE_NAMESPACE)


def put(kit: ShellKit, name: str, phase: str, **status: Any) -> None:
    """Write a unit's status, and report it to the engine."""
    body = {"status": {"phase": phase, **status}}
    kit.direct.patch("queueunits", name, body, namespace="default", subresource="status")
    kit.learn(name)


def drain_one(kit: ShellKit) -> None:
    """Let unit `u` run in a queue that is drained."""
    kit.add_unit("u")
    put(kit, "u", "Running")
    annotate(kit, "HoldAndDrain")


def hold_writes_of_a_drain(kit: ShellKit) -> tuple[HeldWrites, QueueDrain]:
    """Do as `drain_one`; return the held writes, which the test settles, and the drain."""
    drain_one(kit)
    writes = HeldWrites()
    return writes, drains_of(kit, writes)


def look(kit: ShellKit, drains: QueueDrain) -> float:
    rest = drains.step()
    kit.send()
    return rest


def evicted(unit: Json) -> tuple[str, str]:
    found = condition_of(unit, "Evicted")
    return found.get("status", ""), found.get("reason", "")


@pytest.mark.parametrize("phase", ["Reserved", "Dequeued", "Running", "SchedReady"])
def test_units_that_hold_quota_are_evicted_and_stay_charged(kit: ShellKit, phase: str) -> None:
    kit.add_unit("u")
    put(kit, "u", phase)
    annotate(kit, "HoldAndDrain")
    look(kit, drains_of(kit))
    unit = kit.unit("u")
    assert evicted(unit) == ("True", "QueueStopped")
    assert unit["status"]["phase"] == phase
    assert unit["status"]["message"] == "queue team is stopped and drained"
    assert kit.used() == 1000
    record = kit.shared.ask(Engine.record, "default/u")
    assert record is not None
    assert record.unit.status.conditions, "the engine knows of it"


def test_an_adopted_unit_is_evicted_too(kit: ShellKit) -> None:
    kit.add_unit("u")
    put(kit, "u", "Running", conditions=[PROOF])
    annotate(kit, "HoldAndDrain")
    look(kit, drains_of(kit))
    assert evicted(kit.unit("u")) == ("True", "QueueStopped")


@pytest.mark.parametrize("phase", ["Succeed", "Failed", "Enqueued", "TimeoutBackoff"])
def test_a_unit_without_quota_is_left_alone(kit: ShellKit, phase: str) -> None:
    kit.add_unit("asked")  # otherwise the queue would not be looked at
    put(kit, "asked", "Running", conditions=[ASKED])
    kit.add_unit("u")
    put(kit, "u", phase)
    annotate(kit, "HoldAndDrain")
    kit.server.journal.clear()
    look(kit, drains_of(kit))
    assert kit.writes() == 0


@pytest.mark.parametrize("policy", ["Hold", "None", "Drain", pytest.param(None, id="absent")])
def test_a_queue_that_is_not_drained_keeps_started_units(kit: ShellKit, policy: str | None) -> None:
    kit.add_quota("other", 4)
    kit.add_unit("theirs", "other")
    put(kit, "theirs", "Running")
    annotate(kit, "HoldAndDrain", "team")
    annotate(kit, policy, "other")
    look(kit, drains_of(kit))
    assert evicted(kit.unit("theirs")) == ("", "")


def test_no_unit_is_asked_twice_whichever_writer_was_first(kit: ShellKit) -> None:
    kit.add_unit("u")
    put(kit, "u", "Running", conditions=[ASKED])
    kit.add_unit("v")
    put(kit, "v", "Running")
    annotate(kit, "HoldAndDrain")
    kit.server.journal.clear()
    drains = drains_of(kit)
    for _ in range(3):
        look(kit, drains)
    look(kit, drains_of(kit))  # another process
    assert evicted(kit.unit("u")) == ("True", "Deactivated")
    assert kit.writes() == 1


def test_a_conflict_is_decided_again_with_the_fresh_object(kit: ShellKit) -> None:
    writes, drains = hold_writes_of_a_drain(kit)
    drains.step()
    drains.step()
    assert len(writes.writes) == 1, "one at a time"
    for got in (0, 1):
        with capture_logs() as logs:
            writes.settle(rejected(Conflict(409, "Conflict", "meanwhile")))
        assert len(logs) == got, "the second in a row is not logged"
        kit.clock.advance(RETRIES.seconds(got))
        drains.step()
    assert len(writes.writes) == 3
    put(kit, "u", "Succeed", admissions=[])
    writes.settle(rejected(Conflict(409, "Conflict", "meanwhile")))
    kit.clock.advance(RETRIES.cap_seconds)
    drains.step()
    assert len(writes.writes) == 3, "its job has ended"


def test_a_refused_write_is_retried_ever_more_seldom(kit: ShellKit) -> None:
    writes, drains = hold_writes_of_a_drain(kit)
    drains.step()
    for tried in range(1, 12):
        with capture_logs() as logs:
            writes.settle(rejected(Invalid(422, "Invalid", "no")))
        assert [(each["log_level"], each["unit"]) for each in logs] == [("error", "default/u")]
        kit.clock.advance(RETRIES.seconds(tried - 1) - 0.01)
        drains.step()
        assert len(writes.writes) == tried, "too early"
        kit.clock.advance(0.01)
        drains.step()
        assert len(writes.writes) == tried + 1
    assert RETRIES.seconds(10) == RETRIES.cap_seconds, "and never gives up"


def test_a_dropped_write_is_not_sent_again_before_it_may_be(kit: ShellKit) -> None:
    writes, drains = hold_writes_of_a_drain(kit)
    drains.step()
    writes.settle(Dropped("too much to write", retry_after_seconds=7.0))
    for seconds, want in ((6.9, 1), (0.1, 2)):
        kit.clock.advance(seconds)
        drains.step()
        assert len(writes.writes) == want


@pytest.mark.parametrize("refused", [1, 3 * MAX_IN_FLIGHT])
def test_refused_units_keep_no_other_from_being_asked(kit: ShellKit, refused: int) -> None:
    names = [f"a{number}" for number in range(refused)] + ["z"]
    for name in names:
        kit.add_unit(name)
        put(kit, name, "Running")
    annotate(kit, "HoldAndDrain")
    writes = HeldWrites()
    drains = drains_of(kit, writes)
    for _ in range(refused // MAX_IN_FLIGHT + 1):
        sent = len(writes.writes)
        drains.step()
        for _ in writes.writes[sent:]:
            writes.settle(rejected(Forbidden(403, "Forbidden", "denied by a webhook")))
        kit.clock.advance(RETRIES.cap_seconds)  # all that were refused may be retried
    assert "z" in {write.name for write in writes.writes}


def test_a_refusal_is_forgotten_with_its_unit(kit: ShellKit) -> None:
    writes, drains = hold_writes_of_a_drain(kit)
    for _ in range(9):
        drains.step()
        writes.settle(rejected(Invalid(422, "Invalid", "no")))
        kit.clock.advance(RETRIES.cap_seconds)
    put(kit, "u", "Enqueued")  # it was released by hand
    drains.step()
    put(kit, "u", "Running")
    drains.step()
    writes.settle(rejected(Invalid(422, "Invalid", "no")))
    sent = len(writes.writes)
    kit.clock.advance(RETRIES.seconds(0))
    drains.step()
    assert len(writes.writes) == sent + 1, "the first refusal again"


def test_a_unit_whose_report_raised_is_asked_again_after_a_new_start(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain_one(kit)
    drains = drains_of(kit)
    drains.step()
    raise_once(monkeypatch, kit.shared, "apply")
    kit.send()
    put(kit, "u", "Running", conditions=[])
    look(kit, drains)
    assert evicted(kit.unit("u")) == ("True", "QueueStopped")


def test_room_is_left_for_decisions(kit: ShellKit) -> None:
    for number in range(MAX_IN_FLIGHT + 1):
        kit.add_unit(f"u{number}")
        put(kit, f"u{number}", "Running")
    annotate(kit, "HoldAndDrain")
    writes = HeldWrites()
    drains = drains_of(kit, writes)
    assert drains.step() == FULL_REST_SECONDS
    assert len(writes.writes) == MAX_IN_FLIGHT
    assert drains.step() == FULL_REST_SECONDS
    assert len(writes.writes) == MAX_IN_FLIGHT, "none of them has been settled"
    writes.settle(rejected(Invalid(422, "Invalid", "no")))
    drains.step()
    assert writes.writes[-1].name == f"u{MAX_IN_FLIGHT}"


def test_a_replica_that_does_not_lead_asks_no_unit(kit: ShellKit) -> None:
    drain_one(kit)
    kit.leads = False
    writes = HeldWrites()
    assert drains_of(kit, writes).step() == POLL_SECONDS
    assert writes.writes == []


def test_a_drained_queue_empties_and_resumes_when_it_may() -> None:
    with running_world() as world:
        world.add_quota()
        world.start()
        world.add_unit("u")
        world.settle()
        assert world.phase("u") == "Dequeued"
        annotate_on(world.direct, "HoldAndDrain")
        world.add_unit("v")
        world.settle(8.0)
        assert evicted(world.unit("u")) == ("False", "Requeued"), "no job has to be stopped for it"
        assert [world.reason(name) for name in ("u", "v")] == ["StoppedQueue", "StoppedQueue"]
        ready = condition_of(world.queue(), "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "Stopped")
        world.start()  # a restart changes nothing
        assert world.phase("v") == "Enqueued"
        annotate_on(world.direct, None)
        world.settle()
        assert [world.phase(name) for name in ("u", "v")] == ["Dequeued", "Dequeued"]
        world.settle(8.0)
        assert condition_of(world.queue(), "Ready")["status"] == "True"


def test_a_unit_whose_request_raises_delays_no_other(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[None] = []
    drain_one(kit)
    kit.add_unit("v")
    put(kit, "v", "Running")
    drains = QueueDrain(
        kit.shared,
        kit.dispatcher,
        kit.note_written,
        kit.may_write,
        kit.clock,
        lambda: errors.append(None),
    )
    raise_once(monkeypatch, queue_drain, "build_drain")
    look(kit, drains)
    asked = [name for name in ("u", "v") if evicted(kit.unit(name))[0] == "True"]
    assert (len(asked), len(errors)) == (1, 1)
    kit.clock.advance(RETRIES.seconds(0))
    look(kit, drains)
    assert all(evicted(kit.unit(name))[0] == "True" for name in ("u", "v"))
