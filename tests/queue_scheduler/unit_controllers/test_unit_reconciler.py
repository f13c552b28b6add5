"""A unit is reconciled until there is nothing to do about it, whatever raises on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.cycles.dequeue_cycle import CONFLICT_WITHOUT_CHANGE
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    RequeueAfter,
    Result,
    SendStatus,
    UnitReconciler,
)
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.objects.queue_unit import QueueUnit
from tests.queue_scheduler.fault_kit import PluginError, raise_once
from tests.queue_scheduler.shell_kit import UNIT_STATUS, ShellKit
from tests.queue_scheduler.unit_news import access_of
from tests.stepped_host import exhaust

KEY = "default/u"


class Reconciling:
    """Reconciles a unit by writing a message into it unless it is there."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.due = kit.work_queue()
        self.looked = 0
        self.is_there = True
        self.answer: Callable[[QueueUnit], Result] = lambda unit: SendStatus(
            unit, {"message": "hi"}, self.on_written
        )
        self.reported: list[Notice] = []
        access = access_of(kit, self.due, report=self.reported.append)
        self.reconciler = UnitReconciler(access, self.reconcile, self.find)
        kit.add_unit("u")

    def reconcile(self, key: str) -> Result:
        self.looked += 1
        if not self.is_there:
            return None
        record = self.kit.shared.ask(Engine.record, key)
        assert record is not None
        return None if record.unit.status.message == "hi" else self.answer(record.unit)

    def on_written(self, unit: QueueUnit) -> None:
        """Take the server's answer."""

    def find(self, engine: Engine) -> list[str]:
        return list(engine.units.records)

    def work(self) -> None:
        """Do what there is to do, now and a pause later."""
        exhaust(self.reconciler.step)
        self.kit.send()
        self.kit.clock.advance(1.0)
        self.kit.learn("u")
        exhaust(self.reconciler.step)
        self.kit.send()
        exhaust(self.reconciler.step)
        self.due.validate()

    def message(self) -> str:
        return str(self.kit.unit("u")["status"].get("message", ""))


@pytest.fixture
def looker(kit: ShellKit) -> Reconciling:
    return Reconciling(kit)


def test_it_is_written_once_and_then_forgotten(looker: Reconciling) -> None:
    looker.work()
    assert looker.message() == "hi"
    assert looker.kit.writes() == 1
    assert looker.due.seconds_until_ready() is None


def test_a_reconcile_that_raises_is_repeated(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_once(monkeypatch, Reconciling, "reconcile")
    looker = Reconciling(kit)
    assert looker.reconciler.step() == 0.0, "the thread goes on with others"
    assert looker.due.longest_processing_seconds() == 0.0
    looker.work()
    assert looker.message() == "hi"


def test_a_search_for_units_that_raises_is_repeated(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_once(monkeypatch, Reconciling, "find")
    looker = Reconciling(kit)
    with pytest.raises(PluginError):
        looker.reconciler.step()
    looker.work()
    assert looker.message() == "hi"


def test_a_count_of_pods_that_raises_is_repeated(
    looker: Reconciling, monkeypatch: pytest.MonkeyPatch
) -> None:
    looker.answer = lambda unit: SendStatus(unit, {"message": "hi"}, frees=True)
    pods = looker.kit.engine.living_pods
    raise_once(monkeypatch, pods, "has_living")
    assert looker.reconciler.step() == 0.0
    looker.work()
    assert looker.message() == "hi"


@pytest.mark.parametrize(
    ("owner", "name"),
    [(ShellKit, "note_written"), (SharedEngine, "apply"), (Reconciling, "on_written")],
)
def test_an_answer_whose_report_raises_does_not_block_the_unit_forever(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch, owner: type[object], name: str
) -> None:
    """It raises on a writer's thread, which goes on."""
    raise_once(monkeypatch, owner, name, lambda *args: args[-1].status.message == "hi")
    looker = Reconciling(kit)
    exhaust(looker.reconciler.step)
    kit.send()
    looked = looker.looked
    looker.work()
    assert looker.looked == looked + 1
    kit.direct.patch(
        "queueunits", "u", {"status": {"message": ""}}, namespace="default", subresource="status"
    )
    kit.learn("u")
    looker.reconciler.add(KEY)
    looker.work()
    assert looker.looked > looked + 1, "its events are handled"


def test_a_unit_that_has_to_wait_is_reconciled_again_in_time(looker: Reconciling) -> None:
    looker.answer = lambda _: RequeueAfter(5.0)
    exhaust(looker.reconciler.step)
    assert looker.looked == 1
    looker.kit.clock.advance(4.0)
    exhaust(looker.reconciler.step)
    assert looker.looked == 1
    looker.kit.clock.advance(1.0)
    exhaust(looker.reconciler.step)
    assert looker.looked == 2


# --- failed writes --------------------------------------------------------------------------------


def test_one_conflict_without_another_writer_is_not_reported(looker: Reconciling) -> None:
    looker.kit.server.faults.fail(409, match=UNIT_STATUS)
    looker.work()
    assert (looker.message(), looker.reported) == ("hi", [])


def test_conflicts_without_another_writer_are_reported_once_per_version(
    looker: Reconciling,
) -> None:
    """A webhook may answer so, whatever is written."""
    looker.kit.server.faults.fail(409, times=EVERY_TIME, match=UNIT_STATUS)
    for _ in range(4):
        looker.work()
    (reported,) = looker.reported
    assert (reported.key, reported.reason) == (KEY, "StatusRefused")
    assert CONFLICT_WITHOUT_CHANGE in reported.note
    body = {"metadata": {"labels": {"a": "b"}}}
    looker.kit.direct.patch("queueunits", "u", body, namespace="default")
    for _ in range(4):
        looker.work()
    assert [each.reason for each in looker.reported] == ["StatusRefused"] * 2
    looker.kit.server.faults.clear()
    looker.work()
    assert looker.message() == "hi"


def test_conflicts_because_the_watch_is_late_are_not_reported(looker: Reconciling) -> None:
    """The unit is read: the newer version is used before the watch delivers it."""
    exhaust(looker.reconciler.step)
    body = {"metadata": {"labels": {"a": "b"}}}
    looker.kit.direct.patch("queueunits", "u", body, namespace="default")
    looker.kit.send()
    looker.kit.clock.advance(1.0)
    exhaust(looker.reconciler.step)
    looker.kit.send()
    assert (looker.message(), looker.reported) == ("hi", [])
    assert looker.kit.writes() == 2


@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_write_is_reported_once(looker: Reconciling, status: int) -> None:
    looker.kit.server.faults.fail(status, times=EVERY_TIME, match=UNIT_STATUS)
    for _ in range(4):
        looker.work()
    (reported,) = looker.reported
    assert (reported.key, reported.reason) == (KEY, "StatusRefused")
    assert str(status) in reported.note


def test_a_unit_that_cannot_be_read_after_a_conflict_is_read_again(looker: Reconciling) -> None:
    looker.kit.server.faults.fail(409, match=UNIT_STATUS)
    looker.kit.server.faults.fail(503, times=5, match=Match(verb="get", plural="queueunits"))
    exhaust(looker.reconciler.step)
    looker.kit.send()
    for _ in range(10):
        looker.kit.clock.advance(1.0)
        exhaust(looker.reconciler.step)
        looker.kit.send()
    assert looker.kit.server.faults.armed_count == 0
    assert looker.message() == "hi"


def test_a_write_found_to_be_applied_is_reported_once(looker: Reconciling) -> None:
    written: list[QueueUnit] = []
    looker.answer = lambda unit: SendStatus(
        unit, {"message": "hi"}, written.append, known_by=lambda status: status.message
    )
    looker.kit.server.faults.lose_answer(times=9, match=UNIT_STATUS)
    exhaust(looker.reconciler.step)
    looker.kit.send()
    looker.kit.server.faults.clear()
    for _ in range(2):
        looker.work()
    assert [unit.status.message for unit in written] == ["hi"]


def test_a_unit_deleted_after_a_conflict_is_forgotten(looker: Reconciling) -> None:
    exhaust(looker.reconciler.step)
    gone = looker.kit.learn("u")
    looker.kit.server.faults.fail(409, match=UNIT_STATUS)
    looker.kit.send()
    looker.kit.direct.delete("queueunits", "u", "default")
    for _ in range(3):
        looker.kit.clock.advance(1.0)
        exhaust(looker.reconciler.step)
        looker.kit.send()
    looker.kit.shared.apply(Engine.on_queue_unit_gone, gone)
    looker.is_there = False
    looker.kit.clock.advance(1.0)
    exhaust(looker.reconciler.step)
    assert looker.due.seconds_until_ready() is None
    assert looker.reported == []


def test_writes_of_others_meanwhile_are_not_reported(looker: Reconciling) -> None:
    written: list[QueueUnit] = []
    looker.answer = lambda unit: SendStatus(
        unit, {"message": "hi"}, written.append, known_by=lambda status: status.message
    )
    looker.kit.server.faults.fail(504, times=9, match=UNIT_STATUS)
    exhaust(looker.reconciler.step)
    looker.kit.send()
    looker.kit.server.faults.clear()
    body = {"status": {"message": "ho"}}
    looker.kit.direct.patch("queueunits", "u", body, namespace="default", subresource="status")
    looker.kit.learn("u")
    looker.answer = lambda _: None
    looker.work()
    assert written == []
