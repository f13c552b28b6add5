"""A decision is written once, and what became of it is settled, whatever happens on the way."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler import dequeue_cycle
from queue_scheduler.decision import Dequeue, Rest
from queue_scheduler.dequeue_cycle import (
    ASIDE,
    CONFLICT_SECONDS,
    DROPPED_PAUSE_SECONDS,
    LOST_TO_NOBODY,
    MANY_IN_A_ROW,
    REJECTED_PAUSE_SECONDS,
    DequeueCycle,
    build_dequeue_patch,
)
from queue_scheduler.engine import Engine
from queue_scheduler.unit_record import Standing
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.meta import Timestamp, Uid
from shared_api.testing.faults import Match
from shared_api.testing.object_builders import pod_set
from tests.queue_scheduler.shell_kit import UNIT_STATUS, ShellKit, condition_of, exhaust


class Admissions:
    """An `AdmissionObserver` that keeps what it gets."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        self.seen.append((queue, waited_seconds))


class Line:
    """A kit with its cycle."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.observer = Admissions()
        self.unsettled = kit.work_queue()
        self.cycle = DequeueCycle(
            kit.shared,
            kit.dispatcher,
            lambda namespace, name: kit.client.get(QUEUE_UNITS, namespace, name),
            kit.note_written,
            kit.clock,
            self.unsettled,
            self.observer,
        )

    def standing(self, name: str) -> Standing:
        record = self.kit.engine.record(f"default/{name}")
        assert record is not None
        return record.standing

    def start(self, name: str = "a") -> Dequeue:
        """Create a unit of one cpu, decide it, and hand the decision over."""
        self.kit.add_unit(name)
        decision = self.kit.dequeue()
        self.cycle.carry_out(decision)
        return decision


@pytest.fixture
def line(kit: ShellKit) -> Line:
    return Line(kit)


def test_a_decision_is_one_patch_and_confirmed_by_the_answer(line: Line) -> None:
    line.start()
    assert line.standing("a") is Standing.DECIDED
    line.kit.clock.advance(3.0)
    line.kit.send()
    assert line.standing("a") is Standing.BOOKED
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


def test_what_an_earlier_run_gave_back_is_asked_for_again(line: Line) -> None:
    kit = line.kit
    kit.add_unit("a", count=4)
    stale = {"status": {"reclaimablePods": [{"name": "main", "count": 3}]}}
    kit.direct.patch("queueunits", "a", stale, namespace="default", subresource="status")
    kit.learn("a")
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert kit.unit("a")["status"]["reclaimablePods"] == []
    assert kit.used() == 4000


def test_a_decision_that_news_has_ended_before_it_is_sent_is_not_sent(line: Line) -> None:
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


def test_a_conflict_takes_the_booking_back_until_the_fresh_object_comes(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    assert line.standing("a") is Standing.STALE
    assert line.kit.used() == 0
    assert isinstance(line.kit.decide(), Rest)
    line.kit.learn("a")
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_after_a_conflict_the_object_is_read_where_no_watch_brings_it(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    assert line.cycle.step() == CONFLICT_SECONDS
    line.kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.WAITING
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_a_conflict_with_nobody_is_a_refusal(line: Line) -> None:
    """As of an admission webhook that answers 409: others are admitted, it stands aside."""
    kit = line.kit
    kit.server.faults.fail(409, match=Match(plural="queueunits", subresource="status", name="a"))
    line.start()
    kit.send()
    kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.STALE
    (told,) = kit.shared.ask(Engine.take_notices)
    assert (told.key, told.reason, told.note) == ("default/a", "AdmissionRefused", LOST_TO_NOBODY)
    line.start("b")
    kit.send()
    assert kit.phase("b") == "Dequeued"
    assert line.cycle.step() == ASIDE.seconds(0)
    kit.clock.advance(ASIDE.seconds(0))
    exhaust(line.cycle.step)
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert kit.phase("a") == "Dequeued"


def test_one_that_always_meets_a_conflict_with_nobody_stands_aside_longer(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(409, times=100, match=UNIT_STATUS)
    line.start()
    asides = []
    for _ in range(3):
        kit.send()
        kit.clock.advance(CONFLICT_SECONDS)
        exhaust(line.cycle.step)
        asides.append(line.cycle.step())
        kit.clock.advance(asides[-1] or 0.0)
        exhaust(line.cycle.step)
        line.cycle.carry_out(kit.dequeue())
    assert asides == [60.0, 120.0, 240.0]


def test_nothing_is_read_once_the_watch_has_told(line: Line) -> None:
    line.start()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    line.kit.direct.patch("queueunits", "a", changed, namespace="default")
    line.kit.send()
    line.kit.learn("a")
    line.kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.kit.noted == []
    assert line.standing("a") is Standing.WAITING


def test_a_unit_that_is_gone_gives_its_booking_back(line: Line) -> None:
    line.start()
    line.kit.direct.delete("queueunits", "a", "default")
    line.kit.send()
    assert line.kit.used() == 0


def test_a_unit_that_went_before_the_write_is_not_written(line: Line) -> None:
    unit = line.kit.add_unit("a")
    decision = line.kit.dequeue()
    line.kit.shared.tell(type(line.kit.engine).on_queue_unit_gone, unit)
    line.cycle.carry_out(decision)
    line.kit.send()
    assert line.kit.writes() == 0
    assert line.kit.used() == 0


@pytest.mark.parametrize("status", [403, 422])
def test_what_the_server_refuses_stands_aside_and_is_tried_again(line: Line, status: int) -> None:
    line.kit.server.faults.fail(status, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.standing("a") is Standing.STALE
    assert line.kit.used() == 0
    (told,) = line.kit.shared.ask(Engine.take_notices)
    assert (told.key, told.reason, str(status) in told.note) == (
        "default/a",
        "AdmissionRefused",
        True,
    )
    line.kit.clock.advance(ASIDE.seconds(0))
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.WAITING
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_it_stands_aside_longer_each_time_until_it_is_admitted(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(403, times=6, match=UNIT_STATUS)
    line.start()
    asides = []
    for _ in range(6):
        kit.send()
        asides.append(line.cycle.step())
        kit.clock.advance(asides[-1] or 0.0)
        exhaust(line.cycle.step)
        line.cycle.carry_out(kit.dequeue())
    assert asides == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0]
    kit.send()
    assert kit.phase("a") == "Dequeued"


def test_one_that_was_changed_is_tried_at_once_and_counts_anew(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(403, times=2, match=UNIT_STATUS)
    line.start()
    kit.send()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    kit.direct.patch("queueunits", "a", changed, namespace="default")
    kit.learn("a")
    kit.clock.advance(ASIDE.seconds(0))
    exhaust(line.cycle.step)
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert line.cycle.step() == ASIDE.seconds(0)


def test_one_that_changed_unseen_is_read_and_counts_anew(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(403, times=2, match=UNIT_STATUS)
    line.start()
    kit.send()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    kit.direct.patch("queueunits", "a", changed, namespace="default")
    kit.clock.advance(ASIDE.seconds(0))
    exhaust(line.cycle.step)
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert line.cycle.step() == ASIDE.seconds(0)


@pytest.mark.parametrize(("status", "after"), [(403, ASIDE.seconds(0)), (409, CONFLICT_SECONDS)])
def test_the_end_of_an_older_decision_does_not_end_a_refusal(
    line: Line, status: int, after: float
) -> None:
    """What the older decision waits for is due while the unit stands aside for the newer."""
    kit = line.kit
    kit.server.faults.fail(status, match=UNIT_STATUS)
    line.start()
    kit.send()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    kit.direct.patch("queueunits", "a", changed, namespace="default")
    kit.learn("a")
    kit.clock.advance(after / 2)
    kit.server.faults.fail(403, times=2, match=UNIT_STATUS)
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    for _ in range(2):
        rest = line.cycle.step()
        assert rest
        kit.clock.advance(rest)
        exhaust(line.cycle.step)
    assert line.standing("a") is Standing.WAITING
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert line.cycle.step() == ASIDE.seconds(2 if status == 403 else 1)


def test_of_very_many_refused_units_the_last_are_counted(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dequeue_cycle, "MAX_REFUSED", 2)
    decision = line.start()
    refusals = dequeue_cycle.Refusals()
    uids = ("a", "b", "a", "c", "a", "b")
    got = [refusals.note(replace(decision, uid=Uid(uid))) for uid in uids]
    assert got == [60.0, 60.0, 120.0, 60.0, 240.0, 60.0]


def test_what_is_forbidden_to_many_in_a_row_lets_the_queue_rest(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(403, times=MANY_IN_A_ROW, match=UNIT_STATUS)
    for number in range(MANY_IN_A_ROW):
        rest = kit.decide()
        assert rest == Rest()
        line.start(f"u{number}")
        kit.send()
    rest = kit.decide()
    assert isinstance(rest, Rest)
    assert rest.until == kit.clock.monotonic() + REJECTED_PAUSE_SECONDS


def test_an_admission_between_shows_that_it_is_not_about_all(line: Line) -> None:
    kit = line.kit
    for number in range(3 * MANY_IN_A_ROW):
        if number % 2:
            kit.server.faults.fail(403, match=UNIT_STATUS)
        kit.add_unit(f"u{number}", cpu=0)
        line.cycle.carry_out(kit.dequeue())
        kit.send()
    assert kit.decide() == Rest()


def test_many_that_are_refused_for_good_leave_room_for_others(line: Line) -> None:
    """They come first, and each takes all the room while it is tried."""
    kit = line.kit
    for number in range(100):
        name = f"bad-{number}"
        match = Match(plural="queueunits", subresource="status", name=name)
        kit.server.faults.fail(403, times=100, match=match)
        kit.add_unit(name, cpu=4, priority=9)
    kit.add_unit("good", cpu=4)
    for _ in range(600):
        decision = kit.decide()
        if isinstance(decision, Dequeue):
            line.cycle.carry_out(decision)
            kit.send()
        exhaust(line.cycle.step)
        kit.clock.advance(0.1)
    assert kit.phase("good") == "Dequeued"


@pytest.mark.parametrize("status", [403, 422])
def test_a_unit_that_is_always_refused_keeps_no_room_from_others(line: Line, status: int) -> None:
    """It comes first, and takes all the room each time that it is decided."""
    kit = line.kit
    match = Match(plural="queueunits", subresource="status", name="bad")
    kit.server.faults.fail(status, times=100, match=match)
    kit.add_unit("bad", cpu=4, priority=9)
    for name in ("a", "b"):
        kit.add_unit(name, cpu=2)
    for _ in range(20):
        for _ in range(5):
            decision = kit.decide()
            if isinstance(decision, Dequeue):
                line.cycle.carry_out(decision)
        kit.send()
        exhaust(line.cycle.step)
        kit.clock.advance(1.0)
    assert [kit.phase(name) for name in ("bad", "a", "b")] == ["Enqueued", "Dequeued", "Dequeued"]


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


def test_a_unit_that_can_not_be_read_is_read_again_when_the_server_said(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.faults.clear()
    line.kit.server.faults.fail(429, match=Match(verb="get"), retry_after_seconds=60)
    assert line.cycle.step() == 0.0
    assert line.cycle.step() == pytest.approx(60.0)


def test_a_lost_answer_stays_booked_and_is_read(line: Line) -> None:
    """Every try is carried out and its answer lost: nobody knows, so the object is asked."""
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.standing("a") is Standing.DECIDED
    assert line.kit.used() == 1000
    line.kit.server.faults.clear()
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.BOOKED
    assert line.kit.phase("a") == "Dequeued"
    assert line.kit.used() == 1000


def test_a_write_that_never_arrived_is_found_out_by_reading(line: Line) -> None:
    line.kit.server.faults.fail(503, times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.standing("a") is Standing.DECIDED
    line.kit.server.faults.clear()
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.WAITING
    assert line.kit.used() == 0


def test_the_object_is_read_until_the_server_answers(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.go_down()
    for _ in range(3):
        exhaust(line.cycle.step)
        assert line.standing("a") is Standing.DECIDED
        assert line.cycle.step() == pytest.approx(1.0)
        line.kit.clock.advance(1.0)
    line.kit.server.come_up()
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.BOOKED
    assert line.cycle.step() is None


def test_a_unit_that_vanished_meanwhile_gives_its_booking_back(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.direct.delete("queueunits", "a", "default")
    exhaust(line.cycle.step)
    assert line.kit.used() == 0
    assert line.cycle.step() is None


def test_the_echo_of_an_own_success_is_not_taken_for_a_conflict(line: Line) -> None:
    """The first try was carried out, its answer lost; the second meets our own version."""
    line.kit.server.faults.lose_answer(times=1, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.standing("a") is Standing.DECIDED
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.BOOKED
    assert line.kit.used() == 1000


def test_a_server_that_is_slow_to_read_is_asked_again(line: Line) -> None:
    line.kit.server.faults.lose_answer(times=20, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    line.kit.server.faults.clear()
    line.kit.server.faults.fail(503, times=20, match=Match(verb="get", plural="queueunits"))
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.DECIDED
    line.kit.server.faults.clear()
    line.kit.clock.advance(1.0)
    exhaust(line.cycle.step)
    assert line.standing("a") is Standing.BOOKED


def test_the_patch_is_guarded_and_grants_every_pod_set(kit: ShellKit) -> None:
    sets = [pod_set("head", 1), pod_set("workers", 2)]
    unit = kit.add_unit("a", podSet=sets)
    patch = build_dequeue_patch(unit, kit.dequeue(), Timestamp("2026-11-01T10:00:00Z"))
    assert patch["metadata"] == {"resourceVersion": unit.metadata.resource_version}
    assert patch["status"]["admissions"] == [
        {"name": "head", "replicas": 1, "running": 0, "resources": {"cpu": "1"}},
        {"name": "workers", "replicas": 2, "running": 0, "resources": {"cpu": "2"}},
    ]
    assert patch["status"]["message"] == "admitted through queue team, charged to quota team"


@pytest.mark.parametrize("waits", [True, False])
def test_the_patch_says_that_the_queue_waits_for_the_pods(kit: ShellKit, waits: bool) -> None:
    unit = kit.add_unit("a")
    decision = replace(kit.dequeue(), is_waited_for=waits)
    patch = build_dequeue_patch(unit, decision, Timestamp("2026-11-01T10:00:00Z"))
    found = condition_of(patch, "PodsReady")
    assert found == (
        {
            "type": "PodsReady",
            "status": "False",
            "reason": "WaitForPodsRunning",
            "message": "queue team waits until its pods run",
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        }
        if waits
        else {}
    )
