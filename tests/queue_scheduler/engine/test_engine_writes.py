"""The outcomes of a decision: written, refused, lost, overtaken by events."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.known_units import count_admitted, count_pending
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, Reason, Rest, UndecidedError, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.well_known_labels import QUOTA_NAME
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
)
from tests.properties.naive_quota import NaiveQuota
from tests.queue_scheduler.fault_kit import PluginError, raise_once

UNIT = build_unit("u", "a", cpu=3, version=10)
NEXT = build_unit("v", "a", cpu=3, created=1, version=11)


class Story:
    """An engine that has decided to start UNIT; NEXT waits for the same room."""

    def __init__(self) -> None:
        self.engine, self.plugin = decided_engine()
        decision = self.engine.decide_next("a", 0.0)
        assert isinstance(decision, Dequeue)
        self.decision = decision
        self.engine.decide_next("a", 0.0)  # NEXT is refused

    def state(self, key: str = "ns/u") -> UnitState | None:
        self.engine.validate()
        record = self.engine.record(key)
        return record.state if record is not None else None

    def decide(self) -> str:
        """Return the unit that starts next, or ""."""
        decision = self.engine.decide_next("a", 0.0)
        return decision.unit if isinstance(decision, Dequeue) else ""

    @property
    def used(self) -> int:
        return self.plugin.used("a").get("cpu", 0)


def decided_engine() -> tuple[Engine, NaiveQuota]:
    engine, plugin = new_engine()
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_queue(build_queue("a"))
    engine.on_queue_unit(UNIT)
    engine.on_queue_unit(NEXT)
    return engine, plugin


@pytest.fixture
def story() -> Story:
    return Story()


# --- it was written -----------------------------------------------------------------------------


def test_the_answer_confirms(story: Story) -> None:
    written = admitted(UNIT, 12)
    assert story.engine.on_written(story.decision, written) == ()
    assert (story.state(), story.used) == (UnitState.ADMITTED, 3000)
    assert story.engine.on_queue_unit(written) == (), "the watch delivers the same later"
    assert story.engine.on_written(story.decision, written) == ()


def test_the_watch_may_be_faster_than_the_answer(story: Story) -> None:
    written = admitted(UNIT, 12)
    assert story.engine.on_queue_unit(written) == ()
    assert story.engine.on_queue_unit(changed(written, 13, "Running")) == ()
    assert story.engine.on_written(story.decision, written) == ()
    record = story.engine.record("ns/u")
    assert record is not None
    assert record.unit.status.phase == "Running", "the older answer changes nothing"
    assert story.used == 3000


def test_less_was_granted_than_was_booked(story: Story) -> None:
    granted = (Admission(name="koord-queue/default-requirement", replicas=0),)
    woken = story.engine.on_written(
        story.decision, changed(UNIT, 12, "Dequeued", admissions=granted)
    )
    assert (woken, story.used) == (("a",), 0)


# --- it was not ---------------------------------------------------------------------------------


def test_after_a_conflict_the_unit_waits_for_its_fresh_object(story: Story) -> None:
    woken = story.engine.on_write_failed(story.decision, WriteFailure.CONFLICT)
    assert woken == ("a",), "the room is free for the next"
    assert (story.state(), story.used) == (UnitState.CONFLICT, 0)
    refusal = refusal_of_unit(story.engine, "ns/u")
    assert refusal is not None
    assert refusal.reason is Reason.WRITE_FAILED
    assert count_pending(story.engine.units, "a") == 2, "it waits, though not in the queue"
    assert story.engine.on_queue_unit(changed(UNIT, 12, message="x")) == (), "a was woken already"
    assert story.decide() == "ns/u", "back in its old position"


def test_the_fresh_object_may_have_arrived_before_the_conflict(story: Story) -> None:
    assert story.engine.on_queue_unit(changed(UNIT, 12, message="x")) == ("a",)
    assert story.state() is UnitState.WAITING
    assert story.engine.on_write_failed(story.decision, WriteFailure.CONFLICT) == ()
    assert story.state() is UnitState.WAITING


def test_an_old_failure_does_not_end_a_new_decision(story: Story) -> None:
    story.engine.on_queue_unit(changed(UNIT, 12, message="x"))
    assert story.decide() == "ns/u"
    assert story.engine.on_write_failed(story.decision, WriteFailure.CONFLICT) == ()
    assert (story.state(), story.used) == (UnitState.ASSUMED, 3000)


def test_a_deleted_unit_releases_its_room(story: Story) -> None:
    assert story.engine.on_write_failed(story.decision, WriteFailure.GONE) == ("a",)
    assert story.engine.on_queue_unit_gone(UNIT) == ()
    assert (story.state(), story.used) == (None, 0)
    assert story.decide() == "ns/v"


def test_the_queue_rests_after_the_server_refused(story: Story) -> None:
    woken = story.engine.on_write_failed(story.decision, WriteFailure.REJECTED, retry_at=5.0)
    assert woken == ("a",), "its worker has to learn of the pause"
    assert story.engine.decide_next("a", 4.9) == Rest(until=5.0)
    assert (story.state(), story.used) == (UnitState.WAITING, 0)
    decision = story.engine.decide_next("a", 5.0)
    assert isinstance(decision, Dequeue)
    assert decision.unit == "ns/u"


def test_the_pause_lasts_until_the_last_of_several_failures() -> None:
    engine, _ = decided_engine()
    engine.on_quota(build_quota("a", cpu=9))
    decisions = [engine.decide_next("a", 0.0) for _ in range(2)]
    for decision, retry_at in zip(decisions, (7.0, 5.0), strict=True):
        assert isinstance(decision, Dequeue)
        engine.on_write_failed(decision, WriteFailure.REJECTED, retry_at=retry_at)
    assert engine.decide_next("a", 6.0) == Rest(until=7.0)


def test_a_queue_that_rests_lets_its_neighbors_continue(story: Story) -> None:
    engine = story.engine
    engine.on_quota(build_quota("top", cpu=4))
    for name in ("a", "b"):
        engine.on_quota(build_quota(name, cpu=9, parent="top"))
    engine.on_queue(build_queue("b"))
    engine.on_queue_unit(build_unit("w", "b", cpu=4))
    engine.decide_next("b", 0.0)
    woken = engine.on_write_failed(story.decision, WriteFailure.REJECTED, retry_at=5.0)
    assert set(woken) == {"a", "b"}
    decision = engine.decide_next("b", 0.0)
    assert isinstance(decision, Dequeue)


# --- unknown outcomes ---------------------------------------------------------------------------


def test_a_lost_write_that_was_applied(story: Story) -> None:
    story.engine.on_written(story.decision, admitted(UNIT, 12))
    assert story.state() is UnitState.ADMITTED


def test_a_lost_write_that_was_not(story: Story) -> None:
    assert story.engine.on_written(story.decision, UNIT) == ("a",)
    assert (story.state(), story.used) == (UnitState.WAITING, 0)
    assert story.decide() == "ns/u"


def test_a_lost_write_to_a_recreated_unit(story: Story) -> None:
    again = build_unit("u", "a", uid="other", cpu=3, version=20)
    story.engine.on_written(story.decision, again)
    record = story.engine.record("ns/u")
    assert record is not None
    assert (record.uid, record.state, story.used) == ("other", UnitState.WAITING, 0)
    assert story.engine.on_queue_unit_gone(UNIT) == ()


# --- events in mid-write ------------------------------------------------------------------------


def test_deleted_in_mid_write(story: Story) -> None:
    assert story.engine.on_queue_unit_gone(UNIT) == ("a",)
    assert (story.state(), story.used) == (None, 0)
    assert story.engine.on_written(story.decision, admitted(UNIT, 12)) == ()
    assert story.state() is None, "the answer to the write does not bring it back"
    assert story.engine.on_queue_unit(admitted(UNIT, 12)) == (), "nor does a late event"
    assert story.state() is None


def test_recreated_in_mid_write(story: Story) -> None:
    again = build_unit("u", "a", uid="other", cpu=1, version=20)
    story.engine.on_queue_unit(again)
    story.engine.on_written(story.decision, admitted(UNIT, 12))
    record = story.engine.record("ns/u")
    assert record is not None
    assert record.uid == "other"
    story.engine.on_queue_unit_gone(UNIT)
    assert story.state() is not None


def test_its_queue_is_deleted_in_mid_write(story: Story) -> None:
    story.engine.on_queue_gone("a")
    assert (story.state(), story.used) == (UnitState.ASSUMED, 3000)
    assert count_admitted(story.engine.units, "a") == 1
    story.engine.on_written(story.decision, admitted(UNIT, 12))
    assert (story.state(), story.used) == (UnitState.ADMITTED, 3000)
    assert count_admitted(story.engine.units, "a") == 1
    story.engine.on_queue(build_queue("a"))
    assert count_admitted(story.engine.units, "a") == 1


def test_its_queue_is_deleted_and_the_write_fails(story: Story) -> None:
    story.engine.on_queue_gone("a")
    story.engine.on_write_failed(story.decision, WriteFailure.REJECTED, retry_at=5.0)
    assert (story.state(), story.used) == (UnitState.ON_HOLD, 0)
    assert story.engine.on_queue(build_queue("a")) == ("a",)
    assert story.state() is UnitState.WAITING


def test_its_namespace_changes_quotas_in_mid_write() -> None:
    engine, plugin = new_engine()
    engine.on_quota(build_quota("a", cpu=4, namespaces='["ns"]'))
    engine.on_queue(build_queue("shared", takes="*"))
    unit = build_unit("u", queue="shared", version=10)
    engine.on_queue_unit(unit)
    decision = engine.decide_next("shared", 0.0)
    assert isinstance(decision, Dequeue)
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_quota(build_quota("b", cpu=4, namespaces='["ns"]'))
    engine.on_written(decision, admitted(unit, 12))
    engine.validate()
    assert plugin.used("a") == {}
    assert plugin.used("b") == {"cpu": 1000}


def test_relabeled_in_mid_write(story: Story) -> None:
    story.engine.on_quota(build_quota("b", cpu=9))
    story.engine.on_queue(build_queue("b"))
    other = replace(UNIT.metadata, labels={QUOTA_NAME: "b"}, resource_version="12")
    assert story.engine.on_queue_unit(replace(UNIT, metadata=other)) == ("b",)
    assert (story.state(), story.used) == (UnitState.WAITING, 0)
    story.engine.on_write_failed(story.decision, WriteFailure.CONFLICT)
    decision = story.engine.decide_next("b", 0.0)
    assert isinstance(decision, Dequeue)
    assert (decision.unit, decision.quota) == ("ns/u", "b")


@pytest.mark.parametrize(
    ("failure", "want"),
    [(WriteFailure.CONFLICT, 1000), (WriteFailure.REJECTED, 1000), (WriteFailure.GONE, 1000)],
)
def test_pods_of_an_earlier_run_stay_charged(failure: WriteFailure, want: int) -> None:
    engine, plugin = decided_engine()
    engine.on_pod(build_pod("old", unit="ns/u", quota="a"))
    assert plugin.used("a") == {"cpu": 1000}
    decision = engine.decide_next("a", 0.0)
    assert isinstance(decision, Dequeue)
    assert plugin.used("a") == {"cpu": 3000}, "the larger of the two, not the sum"
    engine.on_write_failed(decision, failure)
    engine.validate()
    assert plugin.used("a") == {"cpu": want}


def other_kinds_of(unit: QueueUnit) -> list[QueueUnit]:
    return [changed(unit, 12, phase) for phase in ("Succeed", "Failed", "TimeoutBackoff")]


@pytest.mark.parametrize("news", other_kinds_of(UNIT), ids=lambda unit: unit.status.phase)
def test_any_other_event_frees_the_room(story: Story, news: QueueUnit) -> None:
    assert story.engine.on_queue_unit(news) == ("a",)
    assert story.used == 0
    assert story.engine.on_written(story.decision, UNIT) == ()
    assert story.state() in {UnitState.ENDED, UnitState.ON_HOLD}
    assert story.engine.usage.charge_of(Uid("uid-u")) is None


# --- a plugin that raises ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reserve", "take_woken", "protect"])
def test_a_decision_whose_report_raises_is_undone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The caller gets the exception with the unit, and may ask again."""
    engine, plugin = decided_engine()
    raise_once(monkeypatch, plugin, name)
    with pytest.raises(UndecidedError, match="ns/u") as caught:
        engine.decide_next("a", 0.0)
    assert isinstance(caught.value.__cause__, PluginError)
    engine.validate()
    assert plugin.used("a") == {}
    decision = engine.decide_next("a", 0.0)
    assert isinstance(decision, Dequeue)
    assert decision.unit == "ns/u"
    engine.validate()
    assert plugin.used("a") == {"cpu": 3000}
