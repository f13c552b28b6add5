"""Units whose admission the server refuses stand aside, without taking room or time from others."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles import dequeue_cycle
from queue_scheduler.cycles.dequeue_cycle import (
    ASIDE,
    ASIDE_AFTER_CONFLICT,
    CONFLICT_SECONDS,
    CONFLICT_WITHOUT_CHANGE,
    MANY_IN_A_ROW,
    REJECTED_PAUSE_SECONDS,
)
from queue_scheduler.decision import Dequeue, Rest
from queue_scheduler.engine.engine import Engine
from shared_api.fake_api_server.faults import Match
from shared_api.objects.meta import Uid
from tests.queue_scheduler.shell_kit import UNIT_STATUS, Line
from tests.stepped_host import exhaust


def test_a_conflict_without_another_writer_is_a_refusal(line: Line) -> None:
    """As from an admission webhook that answers 409: the unit stands aside, others are admitted."""
    kit = line.kit
    kit.server.faults.fail(409, match=Match(plural="queueunits", subresource="status", name="a"))
    line.start()
    kit.send()
    kit.clock.advance(CONFLICT_SECONDS)
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.CONFLICT
    (reported,) = kit.shared.ask(Engine.take_notices)
    assert (reported.key, reported.reason, reported.note) == (
        "default/a",
        "AdmissionRefused",
        CONFLICT_WITHOUT_CHANGE,
    )
    line.start("b")
    kit.send()
    assert kit.phase("b") == "Dequeued"
    assert line.cycle.step() == ASIDE_AFTER_CONFLICT.seconds(0)
    kit.clock.advance(ASIDE_AFTER_CONFLICT.seconds(0))
    exhaust(line.cycle.step)
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert kit.phase("a") == "Dequeued"


def asides_of(line: Line, times: int, *, read_after: float = 0.0) -> list[float | None]:
    """Have the admission of `a` refused this often; return how long it stood aside each time."""
    asides = []
    for _ in range(times):
        line.kit.send()
        line.kit.clock.advance(read_after)
        exhaust(line.cycle.step)
        asides.append(line.cycle.step())
        line.kit.clock.advance(asides[-1] or 0.0)
        exhaust(line.cycle.step)
        line.cycle.carry_out(line.kit.dequeue())
    return asides


def test_a_unit_with_constant_conflicts_stands_aside_longer(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(409, times=100, match=UNIT_STATUS)
    line.start()
    asides = asides_of(line, 12, read_after=CONFLICT_SECONDS)
    assert asides == [float(min(2**number, 900)) for number in range(12)]


@pytest.mark.parametrize("status", [403, 422])
def test_a_refused_unit_stands_aside_and_is_retried(line: Line, status: int) -> None:
    line.kit.server.faults.fail(status, match=UNIT_STATUS)
    line.start()
    line.kit.send()
    assert line.state("a") is UnitState.CONFLICT
    assert line.kit.used() == 0
    (reported,) = line.kit.shared.ask(Engine.take_notices)
    assert (reported.key, reported.reason, str(status) in reported.note) == (
        "default/a",
        "AdmissionRefused",
        True,
    )
    line.kit.clock.advance(ASIDE.seconds(0))
    exhaust(line.cycle.step)
    assert line.state("a") is UnitState.WAITING
    line.cycle.carry_out(line.kit.dequeue())
    line.kit.send()
    assert line.kit.phase("a") == "Dequeued"


def test_it_stands_aside_longer_each_time_until_it_is_admitted(line: Line) -> None:
    kit = line.kit
    kit.server.faults.fail(403, times=6, match=UNIT_STATUS)
    line.start()
    asides = asides_of(line, 6)
    assert asides == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0]
    kit.send()
    assert kit.phase("a") == "Dequeued"


def refuse_and_change(line: Line, status: int, *, times: int = 1) -> None:
    """Have the admission of `a` refused; then change it, unseen by the cache so far."""
    kit = line.kit
    kit.server.faults.fail(status, times=times, match=UNIT_STATUS)
    line.start()
    kit.send()
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    kit.direct.patch("queueunits", "a", changed, namespace="default")


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_changed_unit_is_retried_and_counts_anew(line: Line, is_seen: bool) -> None:
    """At once if the watch delivers the change, else after its time aside, when it is read."""
    kit = line.kit
    refuse_and_change(line, 403, times=2)
    if is_seen:
        kit.learn("a")
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
    refuse_and_change(line, status)
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
    assert line.state("a") is UnitState.WAITING
    line.cycle.carry_out(kit.dequeue())
    kit.send()
    assert line.cycle.step() == ASIDE.seconds(2 if status == 403 else 1)


def test_among_very_many_refused_units_the_last_are_counted(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dequeue_cycle, "MAX_REFUSED", 2)
    decision = line.start()
    refusals = dequeue_cycle.Refusals()
    uids = ("a", "b", "a", "c", "a", "b")
    got = [refusals.note(replace(decision, uid=Uid(uid))) for uid in uids]
    assert got == [60.0, 60.0, 120.0, 60.0, 240.0, 60.0]


def test_many_forbidden_writes_in_a_row_let_the_queue_rest(line: Line) -> None:
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


def test_an_admission_in_between_shows_that_not_all_are_forbidden(line: Line) -> None:
    kit = line.kit
    for number in range(3 * MANY_IN_A_ROW):
        if number % 2:
            kit.server.faults.fail(403, match=UNIT_STATUS)
        kit.add_unit(f"u{number}", cpu=0)
        line.cycle.carry_out(kit.dequeue())
        kit.send()
    assert kit.decide() == Rest()


def test_many_units_refused_for_good_leave_room_for_others(line: Line) -> None:
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
    """It comes first, and takes all the room each time it is decided."""
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
