"""A decision is written once, and its outcome is settled, whatever happens on the way."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles import dequeue_cycle
from queue_scheduler.cycles.dequeue_cycle import (
    CONFLICT_SECONDS,
    DROPPED_PAUSE_SECONDS,
)
from queue_scheduler.decision import Rest, UndecidedError
from shared_api.fake_api_server.faults import Match
from tests.object_states import condition_of
from tests.queue_scheduler.fault_kit import PluginError, raise_once
from tests.queue_scheduler.shell_kit import UNIT_STATUS, Line
from tests.stepped_host import exhaust


def test_a_decision_is_one_patch_and_confirmed_by_the_answer(line: Line) -> None:
    line.start()
    assert line.state("a") is UnitState.ASSUMED
    line.kit.clock.advance(3.0)
    line.kit.send()
    assert line.state("a") is UnitState.ADMITTED
    unit = line.kit.unit("a")
    assert unit["status"]["phase"] == "Dequeued"
    assert unit["status"]["admissions"] == [
        {"name": "main", "replicas": 1, "running": 0, "resources": {"cpu": "1"}}
    ]
    assert unit["status"]["lastAllocateTime"] == unit["status"]["lastUpdateTime"]
    assert condition_of(unit, "Admitted")["status"] == "True"
    assert line.kit.writes() == 1
    assert line.observer.seen == [("team", 3.0)]
    assert [each.metadata.name for each in line.kit.noted] == ["a"]


def test_pods_given_back_in_an_earlier_run_are_requested_again(line: Line) -> None:
    kit = line.kit
    kit.add_unit("a", count=4)
    stale = {"status": {"reclaimablePods": [{"name": "main", "count": 3}]}}
    kit.direct.patch("queueunits", "a", stale, namespace="default", subresource="status")
    kit.learn("a")
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert kit.unit("a")["status"]["reclaimablePods"] == []
    assert kit.used() == 4000


def test_a_decision_ended_by_an_event_before_it_is_sent_is_not_sent(line: Line) -> None:
    kit = line.kit
    kit.add_unit("a")
    decision = kit.dequeue()
    ended = {"status": {"phase": "Failed"}}
    kit.direct.patch("queueunits", "a", ended, namespace="default", subresource="status")
    kit.learn("a")
    before = kit.writes()
    line.cycle.carry_out(decision)
    kit.send()
    assert kit.writes() == before
    assert kit.used() == 0


def test_a_conflict_releases_the_usage_until_the_fresh_object_arrives(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    assert line.state("a") is UnitState.CONFLICT
    assert line.kit.used() == 0
    assert isinstance(line.kit.decide(), Rest)
    line.kit.learn("a")
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_after_a_conflict_the_object_is_read_if_no_watch_delivers_it(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    assert line.cycle.step() == CONFLICT_SECONDS
    line.kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.WAITING
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_nothing_is_read_once_the_watch_has_delivered(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    line.kit.learn("a")
    line.kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.kit.noted == []
    assert line.state("a") is UnitState.WAITING


def test_a_deleted_unit_releases_its_usage(line: Line) -> None:
    line.start()
    line.kit.direct.delete("queueunits", "a", "default")
    line.kit.send()
    assert line.kit.used() == 0


def test_a_unit_deleted_before_the_write_is_not_written(line: Line) -> None:
    unit = line.kit.add_unit("a")
    decision = line.kit.dequeue()
    line.kit.shared.apply(type(line.kit.engine).on_queue_unit_gone, unit)
    line.cycle.carry_out(decision)
    line.kit.send()
    assert line.kit.writes() == 0
    assert line.kit.used() == 0


def test_without_the_lease_nothing_is_sent_and_the_queue_pauses(line: Line) -> None:
    line.kit.leads = False
    line.start()
    line.kit.send()
    assert line.kit.writes() == 0
    assert line.kit.used() == 0
    rest = line.kit.decide()
    assert isinstance(rest, Rest)
    assert rest.until == line.kit.clock.monotonic() + DROPPED_PAUSE_SECONDS


def test_a_busy_server_is_left_alone_by_all_units_of_the_queue(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(429, match=UNIT_STATUS, retry_after_seconds=60)
    kit.add_unit("b")
    line.start()
    decided_later = kit.dequeue()
    kit.send()
    line.cycle.carry_out(decided_later)
    kit.send()
    assert kit.writes() == 1
    assert kit.used() == 0
    rest = kit.decide()
    assert isinstance(rest, Rest)
    assert rest.until is not None
    assert rest.until >= kit.clock.monotonic() + 60.0
    kit.clock.advance(60.0)
    for _ in range(2):
        line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert (kit.phase("a"), kit.phase("b"), kit.writes()) == ("Dequeued", "Dequeued", 3)


def test_an_unreadable_unit_is_read_again_when_the_server_said(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.faults.clear()
    line.kit.server.faults.fail(429, match=Match(verb="get"), retry_after_seconds=60)
    assert line.cycle.step() == 0.0
    assert line.cycle.step() == pytest.approx(60.0)


def test_a_lost_answer_stays_booked_and_is_read(line: Line) -> None:
    """Every try is carried out and its answer lost; the outcome is unknown, so the unit is read."""
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.state("a") is UnitState.ASSUMED
    assert line.kit.used() == 1000
    line.kit.server.faults.clear()
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ADMITTED
    assert line.kit.phase("a") == "Dequeued"
    assert line.kit.used() == 1000


def test_a_write_that_never_arrived_is_detected_by_reading(line: Line) -> None:
    line.kit.server.faults.fail(503, times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.state("a") is UnitState.ASSUMED
    line.kit.server.faults.clear()
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.WAITING
    assert line.kit.used() == 0


def test_the_object_is_read_until_the_server_answers(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.go_down()
    for _ in range(3):
        exhaust(line.cycle.step)
        assert line.state("a") is UnitState.ASSUMED
        assert line.cycle.step() == pytest.approx(1.0)
        line.kit.clock.advance(1.0)
    line.kit.server.come_up()
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ADMITTED
    assert line.cycle.step() is None


def test_a_unit_deleted_meanwhile_releases_its_usage(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.direct.delete("queueunits", "a", "default")
    exhaust(line.cycle.step)
    assert line.kit.used() == 0
    assert line.cycle.step() is None


def test_the_echo_of_its_own_success_is_not_taken_for_a_conflict(line: Line) -> None:
    """The first try was carried out, its answer lost; the second meets our own version."""
    line.kit.server.faults.lose_answer(times=1, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.state("a") is UnitState.ASSUMED
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ADMITTED
    assert line.kit.used() == 1000


def test_a_server_that_is_slow_to_read_is_asked_again(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.faults.clear()
    line.kit.server.faults.fail(503, times=20, match=Match(verb="get", plural="queueunits"))
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ASSUMED
    line.kit.server.faults.clear()
    line.kit.clock.advance(1.0)
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ADMITTED


# --- a plugin raises -----------------------------------------------------------------------------


def test_a_decision_that_cannot_be_handed_over_is_undone_and_made_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_once(monkeypatch, dequeue_cycle, "build_dequeue_patch")
    with pytest.raises(PluginError):
        line.start()
    assert (line.state("a"), line.kit.used()) == (UnitState.WAITING, 0)
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_a_decision_whose_report_raises_is_made_again_without_an_event(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = line.kit
    plugin = next(iter(kit.engine.plugins))
    kit.add_unit("a")
    raise_once(monkeypatch, plugin, "stirred_domains")
    with pytest.raises(UndecidedError, match="default/a"):
        kit.decide()
    assert (line.state("a"), kit.used()) == (UnitState.WAITING, 0)
    kit.engine.validate()
    assert kit.dequeue().unit == "default/a"


@pytest.mark.parametrize("status", [0, 403, 409, 422, 429])
def test_an_answer_whose_report_raises_is_detected(
    line: Line, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """The usage is not kept forever, and the unit is not forgotten."""
    kit = line.kit
    line.start()
    if status:
        kit.server.faults.fail(status, times=10 if status == 429 else 1, match=UNIT_STATUS)
    raise_once(monkeypatch, kit.shared, "apply")
    kit.send()
    kit.server.faults.clear()
    assert line.state("a") is UnitState.ASSUMED
    kit.clock.advance(1.0)
    exhaust(line.cycle.step)
    if status:
        line.cycle.carry_out(kit.dequeue())
        kit.send()
    assert (line.state("a"), kit.used()) == (UnitState.ADMITTED, 1000)
    assert kit.phase("a") == "Dequeued"


def test_a_read_that_raises_is_repeated(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    line.kit.server.faults.lose_answer(times=1, match=UNIT_STATUS)
    line.kit.server.faults.fail(500, times=10, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.faults.clear()
    assert line.state("a") is UnitState.ASSUMED
    raise_once(monkeypatch, line.kit.shared, "apply")
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ASSUMED
    line.kit.clock.advance(1.0)
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.ADMITTED
