"""A scheduler with faults, whose self-audit has a round each second.

It misses the first event of a unit with the annotation `missed`: whatever else happens to the unit
meanwhile. SIGUSR2: one step of the self-audit fails.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from queue_scheduler.__main__ import run
from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.unit_controllers import self_audit
from queue_scheduler.unit_controllers.self_audit import SelfAudit
from shared_api.program import run_program

MISSED = "missed"
planted = {MISSED}


def plant_failure(number: int, _frame: object) -> None:
    """Let the next step of the self-audit fail."""
    planted.add(signal.Signals(number).name)


def happens(fault: str) -> bool:
    """Return, once, whether a fault is planted."""
    is_planted = fault in planted
    planted.discard(fault)
    return is_planted


def main() -> int:
    """Run the scheduler."""
    on_queue_unit, step = EventHandlers.on_queue_unit, SelfAudit.step

    def miss_one(self: EventHandlers, old: Any, new: Any) -> None:
        is_marked = new is not None and MISSED in new.metadata.annotations
        if not (is_marked and happens(MISSED)):
            on_queue_unit(self, old, new)

    def fail_once(self: SelfAudit) -> float:
        if happens(signal.SIGUSR2.name):
            raise RuntimeError("planted")
        return step(self)

    self_audit.ROUND_SECONDS = 1.0  # type: ignore[misc] # it is final elsewhere
    EventHandlers.on_queue_unit = miss_one  # type: ignore[method-assign] # the fault
    SelfAudit.step = fail_once  # type: ignore[method-assign] # the fault
    signal.signal(signal.SIGUSR2, plant_failure)
    return run_program(run, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
