"""What a unit does, from what the scheduler keeps of it."""

from __future__ import annotations

from queue_insight.insight.explain import lifecycle_state_of
from queue_scheduler.cache.known_units import count_admitted, count_pending
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.lifecycle import ADMITTED, PENDING
from tests.queue_scheduler.shell_kit import ShellKit


def states(shared: SharedEngine) -> dict[str, str]:
    units = shared.fork().units
    return {record.unit.metadata.name: lifecycle_state_of(record).value for record in units}


def test_a_unit_waits_then_starts(kit: ShellKit) -> None:
    kit.add_unit("a")
    kit.add_unit("lost", "not-there")
    kit.add_unit("idle", active=False)
    assert states(kit.shared) == {"a": "waiting", "lost": "on hold", "idle": "on hold"}
    kit.dequeue()
    assert states(kit.shared)["a"] == "starting", "its admission is being written"


def test_the_states_count_as_queues_do(kit: ShellKit) -> None:
    for name in "abcdef":
        kit.add_unit(name)
    kit.add_unit("idle", active=False)
    kit.dequeue()
    engine: Engine = kit.shared.fork()
    found = [lifecycle_state_of(record) for record in engine.units]
    assert sum(each in ADMITTED for each in found) == count_admitted(engine.units, "team") == 1
    assert sum(each in PENDING for each in found) == count_pending(engine.units, "team") == 6
