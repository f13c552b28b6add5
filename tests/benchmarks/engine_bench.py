"""How fast the engine decides: ``python -m tests.benchmarks.engine_bench [--json]``.

One cycle is a whole life as the engine sees it: a unit is decided, its write is confirmed, its
job succeeds. Measured with room for all, and with full quotas, where every end wakes a class, and
every start is followed by a refusal and a rest. Quotas are naive (a max each), so that the figures
are the engine's own. Few and many units wait in 100 queues: the difference is the growth. What
counts is the CPU time of this process, not the time that passes: the machine is shared.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from queue_scheduler.decision import Dequeue, Rest
from queue_scheduler.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import (
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
)

QUEUES = 100
RUNNING_PER_QUEUE = 5
CYCLES = 20_000
FORKS = 7


@dataclass(frozen=True)
class Figures:
    """What was measured with so many units waiting."""

    pending: int
    free_cycles_per_second: float
    full_cycles_per_second: float
    insert_microseconds: float
    fork_milliseconds: float
    bytes_per_unit: float


def waiting_units(count: int, *, shapes: int) -> list[QueueUnit]:
    """Units spread over the queues; `shapes` different demands."""
    return [
        build_unit(
            f"job-{n:06}",
            f"q{n % QUEUES}",
            namespace=f"ns-{n % 50}",
            cpu=None,
            pods=(("main", 1, 1000 + n // QUEUES % shapes),),
            created=n // QUEUES % 80_000,
            version=n + 1,
            job=f"job-uid-{n}",
        )
        for n in range(count)
    ]


def filled_engine(units: Iterable[QueueUnit], *, cpu: int | None) -> tuple[Engine, float]:
    """An engine that knows these units, and the microseconds that each took."""
    engine, _ = new_engine()
    for n in range(QUEUES):
        engine.on_quota(build_quota(f"q{n}", cpu=cpu))
        engine.on_queue(build_queue(f"q{n}", ("Priority", "Block", "FIFO")[n % 3]))
    began = time.process_time()
    count = 0
    for unit in units:
        engine.on_queue_unit(unit)
        count += 1
    return engine, (time.process_time() - began) / max(1, count) * 1e6


def start_all(engine: Engine) -> list[Dequeue]:
    """Decide until every queue rests; return what was started."""
    return [decision for n in range(QUEUES) for decision in ask(engine, f"q{n}")]


def ask(engine: Engine, queue: str) -> Iterator[Dequeue]:
    """Decide until the queue rests; yield what is started."""
    while not isinstance(decision := engine.decide_next(queue, 0.0), Rest):
        if isinstance(decision, Dequeue):
            yield decision


def run_free_cycles(engine: Engine, cycles: int, version: int) -> float:
    """Return lives per second where everybody has room."""
    written, ended = answers(engine, version)
    began = time.process_time()
    for n in range(cycles):
        decision = engine.decide_next(f"q{n % QUEUES}", 0.0)
        assert isinstance(decision, Dequeue)
        engine.on_written(decision, written[decision.unit])
        engine.on_queue_unit(ended[decision.unit])
    return cycles / (time.process_time() - began)


def run_full_cycles(engine: Engine, started: list[Dequeue], cycles: int, version: int) -> float:
    """Return lives per second where one starts when another ends."""
    written, ended = answers(engine, version)
    lives = deque(started)
    began = time.process_time()
    for _ in range(cycles):
        decision = lives.popleft()
        engine.on_written(decision, written[decision.unit])
        for queue in engine.on_queue_unit(ended[decision.unit]):
            lives.extend(ask(engine, queue))
    spent = time.process_time() - began
    assert len(lives) == len(started), "as many start as end"
    return cycles / spent


def answers(engine: Engine, version: int) -> tuple[dict[str, QueueUnit], dict[str, QueueUnit]]:
    """What the server will say of every unit, built beforehand: it is not the engine's work."""
    units = [record.unit for record in engine.units.records.values()]
    written = {unit.metadata.key: admitted(unit, version + 1) for unit in units}
    ended = {key: changed(unit, version + 2, "Succeed") for key, unit in written.items()}
    return written, ended


def fork_milliseconds(engine: Engine) -> float:
    """Return the median time of a fork."""
    spent = []
    for _ in range(FORKS):
        began = time.process_time()
        twin = engine.fork()
        spent.append(time.process_time() - began)
        del twin
    return sorted(spent)[FORKS // 2] * 1e3


def measure(pending: int, *, shapes: int) -> Figures:
    """Measure with so many units waiting."""
    count = pending + QUEUES * RUNNING_PER_QUEUE
    cycles = min(CYCLES, pending // 2)
    units = waiting_units(count, shapes=shapes)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine, insert_microseconds = filled_engine(units, cpu=RUNNING_PER_QUEUE * 1000 + 999)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    started = start_all(engine)
    fork = fork_milliseconds(engine)
    full = run_full_cycles(engine, started, cycles, count)
    engine, _ = filled_engine(units, cpu=None)
    free = run_free_cycles(engine, cycles, count)
    return Figures(pending, free, full, insert_microseconds, fork, grown * 1024 / count)


def main() -> None:
    """Measure few and many, and say how they compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--shapes", type=int, default=4, help="different demands per queue")
    parser.add_argument("--pending", type=int, nargs="*", default=[1_000, 100_000])
    options = parser.parse_args()
    found = [measure(pending, shapes=options.shapes) for pending in options.pending]
    if options.json:
        json.dump([vars(figures) for figures in found], sys.stdout)
        return
    for each in found:
        print(
            f"{each.pending:>7} pending: {each.free_cycles_per_second:8,.0f} lives/s with room,"
            f" {each.full_cycles_per_second:8,.0f} in full quotas;"
            f" insert {each.insert_microseconds:5.1f} us, fork {each.fork_milliseconds:6.2f} ms,"
            f" {each.bytes_per_unit:5.0f} B/unit"
        )
    growth = found[0].full_cycles_per_second / found[-1].full_cycles_per_second
    print(f"growth: {growth:.2f}")


if __name__ == "__main__":
    main()
