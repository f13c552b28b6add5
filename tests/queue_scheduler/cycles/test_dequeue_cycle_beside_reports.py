"""A decision meets this process's own report on why the unit still waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.engine import Engine
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.write_dispatcher import Lane, Outcome, Write, Written
from tests.queue_scheduler.shell_kit import Line, ShellKit


def report_on(
    kit: ShellKit, name: str, *, in_flight: Callable[[], None], known: Callable[[], None]
) -> None:
    """Write why a unit waits; something happens while that is in flight, and when it is known."""
    body = {
        "metadata": {"resourceVersion": kit.unit(name)["metadata"]["resourceVersion"]},
        "status": {"message": "waits for quota"},
    }
    write = Write(
        resource_type=QUEUE_UNITS,
        namespace="default",
        name=name,
        body=body,
        subresource="status",
        lane=Lane.LOW,
    )

    def on_outcome(outcome: Outcome[Any]) -> None:
        assert isinstance(outcome, Written)
        in_flight()
        kit.shared.apply(Engine.on_queue_unit, outcome.object)
        known()

    kit.dispatcher.submit(write, on_outcome)


def test_room_that_a_report_took_from_a_decision_is_not_given_away_twice(line: Line) -> None:
    """The engine undoes the decision, since the object has changed: so must the server."""
    kit, cycle = line.kit, line.cycle
    kit.add_unit("first", cpu=4)
    started: list[str] = []

    def start_next() -> None:
        decision = kit.dequeue()
        started.append(decision.unit)
        cycle.carry_out(decision)

    def start_urgent() -> None:
        kit.add_unit("urgent", cpu=4, priority=9)
        start_next()

    report_on(kit, "first", in_flight=start_next, known=start_urgent)
    kit.send()
    assert started == ["default/first", "default/urgent"]
    phases = {name: kit.phase(name) for name in ("first", "urgent")}
    assert phases == {"first": "Enqueued", "urgent": "Dequeued"}
    assert kit.used() == 4000


def test_a_decision_that_a_report_ended_is_made_again(line: Line) -> None:
    """The next decision rests on the object after the report, and is written."""
    kit, cycle = line.kit, line.cycle
    kit.add_unit("first", cpu=4)

    def start() -> None:
        cycle.carry_out(kit.dequeue())

    report_on(kit, "first", in_flight=start, known=start)
    kit.send()
    assert kit.phase("first") == "Dequeued"
    record = kit.engine.record("default/first")
    assert record is not None
    assert (record.state, kit.used()) == (UnitState.ADMITTED, 4000)
