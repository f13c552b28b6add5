"""A scheduler with faults that signals set off, whose self-audit has a round each second.

SIGUSR1: it misses the next event of a unit. SIGUSR2: one step of the self-audit fails.
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

planted: set[signal.Signals] = set()


def plant(number: int, _frame: object) -> None:
    """Set a fault off."""
    planted.add(signal.Signals(number))


def happens(number: signal.Signals) -> bool:
    """Return, once, whether a fault was set off."""
    is_planted = number in planted
    planted.discard(number)
    return is_planted


def main() -> int:
    """Run the scheduler."""
    on_queue_unit, step = EventHandlers.on_queue_unit, SelfAudit.step

    def miss_one(self: EventHandlers, old: Any, new: Any) -> None:
        if not happens(signal.SIGUSR1):
            on_queue_unit(self, old, new)

    def fail_once(self: SelfAudit) -> float:
        if happens(signal.SIGUSR2):
            raise RuntimeError("planted")
        return step(self)

    self_audit.ROUND_SECONDS = 1.0  # type: ignore[misc] # it is final elsewhere
    EventHandlers.on_queue_unit = miss_one  # type: ignore[method-assign] # the fault
    SelfAudit.step = fail_once  # type: ignore[method-assign] # the fault
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, plant)
    return run_program(run, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
