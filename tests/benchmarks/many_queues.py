"""A scheduler with 100,000 units that wait in 500 queues, on a real API server.

What it takes of memory; what it does when nothing happens; how long `/debug/queues` takes, and how
long a fork holds the engine's lock, while 20 units a second end and others start in their place.
The scheduler has the last core, and everything else the first.
Controls: the same scheduler before the units are there; `json.dumps` of the same answer; a `dict()`
of all units.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from shared_api.client.resource_client import WatchStream
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase
from tests.benchmarks import timed_forks
from tests.benchmarks.cluster_world import ClusterWorld, connect
from tests.benchmarks.distant_server import AS_SHIPPED
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.followed_scheduler import CORES, pin, pin_others
from tests.benchmarks.load_player import NAMESPACE
from tests.benchmarks.process_usage import Usage, cpu_seconds, usage
from tests.benchmarks.release_latency import END
from tests.benchmarks.standing_units import (
    CLASSES,
    queue_name,
    running_name,
    start_first,
    waiting_name,
    write_copies,
)
from tests.benchmarks.unit_watch import watch_units
from tests.cluster.program_process import ROOT

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

UNITS: Final = 100_000
QUEUES: Final = 500
IDLE_SECONDS: Final = 60.0
"""One round of the self-audit begins in it."""
ENDS_PER_SECOND: Final = 20.0
ASKS: Final = 200
FORKS: Final = 50
PAUSE_SECONDS: Final = 0.05
"""Between two questions."""
SETTLE_SECONDS: Final = 20.0
"""Once it is calm: until the last status is written and seen."""
CALM_SECONDS: Final = 5.0
CALM_CORES: Final = 0.2
"""What a scheduler uses at most that has nothing more to write."""
PATIENCE_SECONDS: Final = 120.0
PATHS: Final = {"debug_queues_500": "/debug/queues?limit=1000", "debug_queues": "/debug/queues"}
SCHEDULER: Final = "tests/benchmarks/timed_forks.py"


class Size(NamedTuple):
    """How much is measured."""

    units: int
    queues: int
    idle_seconds: float
    asks: int
    forks: int


class Measured(NamedTuple):
    """What one scheduler took.

    Attributes:
        used: Its memory, at the end.
        idle: Percent of a core when nothing happens.
        took: Milliseconds of each answer, by figure.
        dumps: Milliseconds of `json.dumps` of the same answers.
        forks: What the log says of each fork.
        started: How many units were started meanwhile.
    """

    used: Usage
    idle: float
    took: dict[str, list[float]]
    dumps: dict[str, list[float]]
    forks: list[dict[str, object]]
    started: int


def run(before: Path | None = None, *, quick: bool = False) -> list[Figure]:
    """Measure; `quick` with a hundredth of the units, and for a short time.

    Args:
        before: A checkout whose scheduler is measured first, on the same units.
        quick: See above.
    """
    size = Size(1000, 20, 5.0, 30, 5) if quick else Size(UNITS, QUEUES, IDLE_SECONDS, ASKS, FORKS)
    with ClusterWorld() as world:
        pin_others(world.plane.pids)
        first = start_first(world, size.queues)
        _await_calm(first.pid)
        few, few_idle = usage(first.pid), _idle_percent(first.pid, size.idle_seconds)
        first.stop()
        write_copies(world, size.queues, size.units)
        roots = [ROOT] if before is None else [before, ROOT]
        found = [_measure(world, root, size, turn) for turn, root in enumerate(roots)]
    figures = [_figures(each, size, few, few_idle) for each in found]
    earlier = [each.renamed(f"{each.name}_before") for more in figures[:-1] for each in more]
    return [*figures[-1], *earlier]


def _measure(world: ClusterWorld, root: Path, size: Size, turn: int) -> Measured:
    scheduler = world.start(SCHEDULER, *AS_SHIPPED, "--debug-address=127.0.0.1:0", root=root)
    pin(scheduler.pid, CORES[-1:])
    _await_calm(scheduler.pid)
    idle = _idle_percent(scheduler.pid, size.idle_seconds)
    queues = [queue_name(number) for number in range(size.queues)]
    # Each turn ends other units than those before.
    ending = [running_name(queue, 2 * turn + number) for queue in queues for number in (0, 1)]
    # Of the largest class, which does not fit where one small unit has ended.
    largest = range((CLASSES - 1) * size.queues, CLASSES * size.queues)[: size.forks]
    asked = [waiting_name(queues[number % size.queues], number) for number in largest]
    port = scheduler.port_of("--debug-address")
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client:
        for path in PATHS.values():
            client.get(path).raise_for_status()  # the first request builds the application
        with _deciding(world.plane.kubeconfig, ending) as started:
            took = _ask(client, [*PATHS.values()] * size.asks)
            _ask(client, [f"/debug/queueunits/{NAMESPACE}/{name}" for name in asked])
        dumps = {name: _dump(client, path, size.asks) for name, path in PATHS.items()}
    used = usage(scheduler.pid)
    forks = [each for each in scheduler.events() if each.get("event") == timed_forks.EVENT]
    scheduler.stop()
    by_name = {name: took[path] for name, path in PATHS.items()}
    return Measured(used, idle, by_name, dumps, forks, sum(started))


def _await_calm(pid: int) -> None:
    """Return when a scheduler does little: it has written what there was to write."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _idle_percent(pid, CALM_SECONDS) > 100 * CALM_CORES:
        if time.monotonic() > deadline:
            raise RuntimeError("the scheduler does not come to rest")
    time.sleep(SETTLE_SECONDS)


def _idle_percent(pid: int, seconds: float) -> float:
    """Return what a process uses of a core, in percent."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / seconds


def _ask(client: httpx.Client, paths: list[str]) -> dict[str, list[float]]:
    """Ask in this order; return how many milliseconds the answers took, by path."""
    took: dict[str, list[float]] = {}
    for path in paths:
        time.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        client.get(path).raise_for_status()
        took.setdefault(path, []).append(1e3 * (time.perf_counter() - began))
    return took


def _dump(client: httpx.Client, path: str, times: int) -> list[float]:
    """Return how many milliseconds `json.dumps` takes for an answer."""
    answer, took = client.get(path).json(), []
    for _ in range(times):
        time.sleep(PAUSE_SECONDS / 10)
        began = time.perf_counter()
        json.dumps(answer)
        took.append(1e3 * (time.perf_counter() - began))
    return took


# --- units that end and start ---------------------------------------------------------------------


@contextmanager
def _deciding(kubeconfig: Path, names: list[str]) -> Iterator[list[int]]:
    """End these units one by one, in a process of its own; yield a list for how many started."""
    context, started = multiprocessing.get_context("spawn"), list[int]()
    ours, theirs = context.Pipe()
    player = context.Process(target=_play, args=(str(kubeconfig), names, theirs), daemon=True)
    player.start()
    theirs.close()
    try:
        ours.recv()
        yield started
        ours.send("enough")
        started.append(ours.recv())
    finally:
        player.terminate()
        player.join(PATIENCE_SECONDS)
    if not started[0]:
        raise RuntimeError("no unit was started meanwhile")


def _play(kubeconfig: str, names: list[str], parent: Connection) -> None:
    client, _ = connect(Path(kubeconfig))
    stream, seen = watch_units(client), dict[str, None]()
    threading.Thread(target=_watch, args=(stream, seen, names), daemon=True).start()
    parent.send("watching")
    due, rng = time.monotonic(), random.Random(1)
    while not parent.poll(max(0.0, due - time.monotonic())):
        name = names.pop(rng.randrange(len(names)))
        client.patch(QUEUE_UNITS, NAMESPACE, name, END, subresource="status")
        due += 1 / ENDS_PER_SECOND
    parent.send(len(seen))
    parent.recv()  # this process is ended, and with it the watch


def _watch(stream: WatchStream[QueueUnit], seen: dict[str, None], names: list[str]) -> None:
    while (event := stream.next_event(PATIENCE_SECONDS)) is not None:
        unit = event.object
        if unit is None or unit.status.phase != Phase.DEQUEUED or unit.metadata.name in seen:
            continue
        seen[unit.metadata.name] = None
        names.append(unit.metadata.name)


# --- figures --------------------------------------------------------------------------------------


def _figures(found: Measured, size: Size, few: Usage, few_idle: float) -> list[Figure]:
    note = f"{size.units} units in {size.queues} queues"
    busy = f"{note}; {found.started} units were started meanwhile"
    held, cpu, copied, collected = (
        [float(str(each[name])) for each in found.forks]
        for name in ("held_ms", "cpu_ms", "copied_ms", "collected_ms")
    )
    return [
        Figure(
            name="many_queues_rss_mb",
            value=found.used.peak_rss_mb,
            unit="MB",
            control=few.rss_mb,
            note=f"peak; {note}; control: the queues without units",
        ),
        Figure(
            name="many_queues_idle_percent",
            value=found.idle,
            unit="% of a core",
            control=few_idle,
            note=f"when nothing happens; {note}; control: the queues without units",
        ),
        *(
            Figure(
                name=f"{name}_ms_{what}",
                value=percentile(times, share),
                unit="ms",
                control=median(found.dumps[name]),
                note=f"of {len(times)}, slowest {max(times):.0f}; {busy}; control: json.dumps",
            )
            for name, times in found.took.items()
            for what, share in (("p50", 0.5), ("p99", 0.99))
        ),
        Figure(
            name="many_queues_fork_lock_ms",
            value=median(held),
            unit="ms",
            control=median(copied),
            note=f"median of {len(held)}, slowest {max(held):.1f}, up to {max(collected):.1f} of it"
            f" garbage collection; of CPU {median(cpu):.1f}; {busy}; control: dict() of all units",
        ),
    ]
