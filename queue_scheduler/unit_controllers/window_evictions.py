r"""Evicts what still runs when a window of a reservation begins, where that asks for it.

    window, atStart Evict, `grace` before it begins --> what runs: Evicted=True/ReservedFor

The job's side carries the eviction out, as any other. The unit is then pending again, without a
backoff, and starts when the window is over.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.evicting_windows import find_reason, find_units
from queue_scheduler.unit_controllers.unit_reconciler import (
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    UnitSweep,
)
from queue_scheduler.unit_writes.eviction_patches import build_request
from shared_api.evictions import RESERVED_FOR
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock

SWEEP_SECONDS: Final = 5.0
"""Between two looks at the windows: graces are minutes."""


class WindowEvictions:
    """Follows the windows that evict.

    Args:
        access: How units are read and written.
        clock: The time.
    """

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._clock = clock
        self._reconciler = UnitReconciler(access, self._reconcile, lambda _: [])
        self._sweep = UnitSweep(access, clock, self._reconciler, SWEEP_SECONDS, self._find_units)

    def step(self) -> float:
        """Reconcile one unit; return after how many seconds to be called again."""
        return self._sweep.step()

    def _find_units(self) -> None:
        for key in self._shared.ask(_list_units, self._second()):
            self._reconciler.add(key)

    def _reconcile(self, key: str) -> Result:
        # Asked again: the window may be moved or deleted between the look and the write.
        found = self._shared.ask(_find_reason, key, self._second())
        if found is None:
            return None
        unit, why = found
        return SendStatus(unit, build_request(unit, RESERVED_FOR, why, self._clock.now()))

    def _second(self) -> int:
        return int(self._clock.now().timestamp())


def _list_units(engine: Engine, second: int) -> list[str]:
    return sorted(record.key for record, _ in find_units(engine, second))


def _find_reason(engine: Engine, key: str, second: int) -> tuple[QueueUnit, str] | None:
    record = engine.record(key)
    why = None if record is None else find_reason(engine, record, second)
    return None if record is None or why is None else (record.unit, why)
