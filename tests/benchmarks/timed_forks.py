"""The scheduler; it logs of each fork how long the engine's lock was held for it.

Beside it, how long a `dict()` of all units took on the same thread, and how much of the time under
the lock was the garbage collector's.
"""

from __future__ import annotations

import gc
import time
from typing import Final

import structlog

from queue_scheduler.__main__ import main
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine

EVENT: Final = "forked"

log = structlog.get_logger("benchmark")


class _Collections:
    """The seconds that collections have taken. They never overlap: one runs at a time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, _: object) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._began = now
        else:
            self.seconds += now - self._began


_collections = _Collections()


def _fork(shared: SharedEngine) -> Engine:
    with shared._lock:  # noqa: SLF001 - how long it is held is the question
        began, used, collected = time.perf_counter(), time.thread_time(), _collections.seconds
        twin = shared._copy()  # noqa: SLF001 - as SharedEngine does
        held, cpu = time.perf_counter() - began, time.thread_time() - used
        collected = _collections.seconds - collected
    began = time.perf_counter()
    dict(twin.units.records)
    copied = time.perf_counter() - began
    log.info(
        EVENT,
        held_ms=1e3 * held,
        cpu_ms=1e3 * cpu,
        copied_ms=1e3 * copied,
        collected_ms=1e3 * collected,
    )
    return twin


if __name__ == "__main__":
    setattr(SharedEngine, "fork", _fork)  # noqa: B010 - mypy refuses to assign a method
    main()
