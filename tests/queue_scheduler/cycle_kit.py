"""The dequeue cycle over the fake API server."""

from __future__ import annotations

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.dequeue_cycle import DequeueCycle
from queue_scheduler.decision import Dequeue
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import WriteSink
from tests.queue_scheduler.shell_kit import ShellKit


class Admissions:
    """An `AdmissionObserver` that keeps what it gets."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        self.seen.append((queue, waited_seconds))


class Line:
    """A kit with its cycle, and the outcomes of its decisions."""

    def __init__(self, kit: ShellKit, writes: WriteSink | None = None) -> None:
        self.kit = kit
        self.observer = Admissions()
        self.unsettled = kit.work_queue()
        self.cycle = DequeueCycle(
            kit.shared,
            writes or kit.dispatcher,
            lambda namespace, name: kit.client.get(QUEUE_UNITS, namespace, name),
            kit.note_written,
            kit.clock,
            self.unsettled,
            self.observer,
        )

    def state(self, name: str) -> UnitState:
        record = self.kit.engine.record(f"default/{name}")
        assert record is not None
        return record.state

    def start(self, name: str = "a") -> Dequeue:
        """Create a unit of one CPU, decide it, and hand the decision over."""
        self.kit.add_unit(name)
        decision = self.kit.dequeue()
        self.cycle.carry_out(decision)
        return decision
