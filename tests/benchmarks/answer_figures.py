"""How long an explanation takes, alone and while another thread decides as fast as it can.

An answer is asked as the debug API asks it, and built as its JSON. The units are pending ones of
all queues, in turns, with a pause between two. The lock is the engine's own, as in the program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle, islice, product
from typing import Any, Final, cast

from queue_insight.debug_api.dump_routes import Dumps
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explain_views import view_explanation, with_changes
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.what_if_routes import view_what_if
from queue_insight.what_if.at_once import answer_at_once
from queue_insight.what_if.edit import Edit
from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from shared_api.objects.elastic_quota import ElasticQuota
from tests.benchmarks.engine_load import EngineLoad, flat_load
from tests.benchmarks.figures import Figure, percentile

PENDING: Final = 10_000
QUEUES: Final = 100
ANSWERS: Final = 1_000
SLOW_ANSWERS: Final = 100
"""With changes: each takes a hundred times as long."""
NOW: Final = Moment(0.0, datetime(2026, 11, 1, tzinfo=UTC))
PAUSE_SECONDS: Final = 0.002
"""Before each question: so it comes while the other thread runs, which must give way."""


class _LockedEngine:
    """The methods of an engine that a load calls, each under the lock of a SharedEngine."""

    def __init__(self, engine: Engine) -> None:
        self.shared = SharedEngine(engine, lambda _queues: None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(Engine, name)

        def call(*args: Any) -> Any:
            return self.shared.ask(method, *args)

        return call


def run(*, quick: bool = False) -> list[Figure]:
    """Measure both; `quick` asks a quarter of the questions."""
    answers = ANSWERS // 4 if quick else ANSWERS
    load = flat_load(PENDING, QUEUES)
    places = list(islice(cycle(product(load.queues, range(5))), answers))
    engine = _LockedEngine(load.engine)
    slow = places[: SLOW_ANSWERS // 4 if quick else SLOW_ANSWERS]
    what_if = _ask_what_if(engine.shared, 3 if quick else 10)
    dump = _take_dumps(engine.shared, 3 if quick else 10)
    alone, slow_alone = _ask(engine.shared, places), _ask(engine.shared, slow, changes=True)
    load.engine = cast("Engine", engine)
    stop = threading.Event()
    worker = threading.Thread(target=_decide, args=(load, stop))
    worker.start()
    busy, slow_busy = _ask(engine.shared, places), _ask(engine.shared, slow, changes=True)
    stop.set()
    worker.join()
    note = f"{PENDING} pending in {QUEUES} queues, {len(places)} answers; control: alone"
    return [
        *what_if,
        dump,
        Figure(name="explain_ms", value=percentile(alone, 0.5), unit="ms", note="alone; median"),
        Figure(
            name="explain_p99_ms",
            value=percentile(busy, 0.99),
            unit="ms",
            control=percentile(alone, 0.99),
            note=f"while a thread decides; {load.lives} lives meanwhile; {note}",
        ),
        Figure(
            name="changes_ms",
            value=percentile(slow_alone, 0.5),
            unit="ms",
            note=f"with ?changes=true, alone; median of {len(slow)}",
        ),
        Figure(
            name="changes_busy_ms",
            value=percentile(slow_busy, 0.5),
            unit="ms",
            control=percentile(slow_alone, 0.5),
            note=f"while a thread decides; median; p90 {percentile(slow_busy, 0.9):.0f} ms",
        ),
    ]


def _ask_what_if(shared: SharedEngine, times: int) -> list[Figure]:
    """Measure what-if questions: one quota that starts its waiting units, and all quotas."""
    names = [each.metadata.name for each in shared.fork().objects.of_kind(ElasticQuota)]
    found = []
    for name, asked, note in (
        ("what_if_ms", names[:1], "one quota is raised"),
        ("what_if_all_ms", names, f"{len(names)} quotas are raised, and all units start"),
    ):
        patch = {"spec": {"max": {"cpu": "1000000"}}}
        edits = [Edit(kind="ElasticQuota", name=each, patch=patch) for each in asked]
        took, started = [], 0
        for _ in range(times):
            began = time.perf_counter()
            answer = answer_at_once(shared.fork(), edits, NOW)
            view = view_what_if(answer, leader=True)
            view.model_dump_json()
            took.append(1e3 * (time.perf_counter() - began))
            started = view.started_count
        said = f"{note}: {started} units start; median of {times}"
        found.append(Figure(name=name, value=percentile(took, 0.5), unit="ms", note=said))
    return found


def _take_dumps(shared: SharedEngine, times: int) -> Figure:
    dumps = Dumps(lambda: State(shared.fork(), NOW), lambda: True, EngineSettings())
    took, data = [], b""
    for _ in range(times):
        began = time.perf_counter()
        data = dumps.take((), compress=False)
        took.append(1e3 * (time.perf_counter() - began))
    note = f"{len(data) / 1e6:.1f} MB; median of {times}"
    return Figure(name="dump_ms", value=percentile(took, 0.5), unit="ms", note=note)


def _decide(load: EngineLoad, stop: threading.Event) -> None:
    while not stop.is_set():
        load.run(load.lives + 50, at_most_seconds=1e9)


def _ask(
    shared: SharedEngine, places: list[tuple[str, int]], *, changes: bool = False
) -> list[float]:
    """Return how long each answer took, in milliseconds.

    Args:
        shared: The engine.
        places: Queues, and places in them; the units there change while they are asked.
        changes: Whether to ask what would start the unit.
    """
    took = []
    explanations = Explanations(shared, lambda: datetime(2026, 11, 1, tzinfo=UTC))
    for queue, place in places:
        key = shared.ask(_key_at, queue, place)
        time.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        got = explanations.explain(key)
        if got is not None:
            view = view_explanation(got, leader=True)
            view = with_changes(view, explanations.changes(key)) if changes else view
            view.model_dump_json()
        took.append(1e3 * (time.perf_counter() - began))
    return took


def _key_at(engine: Engine, queue: str, place: int) -> str:
    """Return the unit at a place of a queue, which has more than that."""
    return next(islice(pending_units(engine.units, queue), place, None)).key
