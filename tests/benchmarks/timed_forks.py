"""The scheduler; it logs of each fork how long the engine's lock was held for it.

Beside it, how long a `dict()` of all units took on the same thread.
"""

from __future__ import annotations

import time
from typing import Final

import structlog

from queue_scheduler.__main__ import main
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine

EVENT: Final = "forked"

log = structlog.get_logger("benchmark")


def _fork(shared: SharedEngine) -> Engine:
    with shared._lock:  # noqa: SLF001 - how long it is held is the question
        began, used = time.perf_counter(), time.thread_time()
        twin = shared._engine.fork()  # noqa: SLF001 - as SharedEngine does
        held, cpu = time.perf_counter() - began, time.thread_time() - used
    began = time.perf_counter()
    dict(twin.units.records)
    copied = time.perf_counter() - began
    log.info(EVENT, held_ms=1e3 * held, cpu_ms=1e3 * cpu, copied_ms=1e3 * copied)
    return twin


if __name__ == "__main__":
    setattr(SharedEngine, "fork", _fork)  # noqa: B010 - mypy refuses to assign a method
    main()
