"""Only threads, and locks only in a few modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy.source_tree import (
    Finding,
    SourceFile,
    planted,
    report,
    shipped_files,
    source_files,
)

# Modules that provide locks, threads, or processes.
THREADING_MODULES = frozenset(
    ("_thread", "concurrent.futures", "multiprocessing", "queue", "threading")
)

# Modules that may import them, and why. The comment of a lock names the fields it guards.
LOCK_HOLDERS = {
    "queue_controllers/watches/pod_preview.py": "results shared by all workers",
    "queue_controllers/observed/job_watch.py": "changes of all informers, taken by the recorder",
    "queue_insight/shadow_program/quota_watch.py": "the same of quotas",
    "queue_scheduler/debug_api/state_answers.py": "one answer is built at a time",
    "queue_insight/insight_program/horizons.py": "what is learned, read by horizons",
    "queue_scheduler/cycles/dequeue_cycle.py": "refusals reported by every writer",
    "queue_scheduler/cycles/preemption_cycle.py": "answers of a round reported by every writer",
    "queue_insight/debug_api/report_routes.py": "kept reports, put and found by request threads",
    "queue_insight/page/job_table.py": "one table is read at a time, for all visitors",
    "queue_insight/page/kept_changes.py": "kept changes, put and found by the port's threads",
    "queue_insight/page/known_state.py": "one state is read at a time, for all visitors",
    "queue_insight/page/shared_answers.py": "one answer is made at a time, for all visitors",
    "queue_insight/page/login.py": "how often logins are tried, in all request threads",
    "queue_insight/page/sessions.py": "who has logged in, read by all request threads",
    "queue_scheduler/reporting/metrics.py": "counts of workers and writers, read by scrapes",
    "queue_insight/record/record_writer.py": "one thread begins what another breaks off",
    "queue_insight/record/time_travel.py": "engines of the past, restored for many threads",
    "queue_scheduler/cycles/shared_engine.py": "the one lock around the engine",
    "queue_insight/visibility/snapshots.py": "states kept for the further pages of lists",
    "shared_api/metrics.py": "counts of all threads, read by scrapes",
    "shared_api/authorization/review_cache.py": "results for all request threads",
    "shared_api/client/response_decoding.py": "decoders are made one at a time",
    "shared_api/client/flow_control.py": "one budget of requests for all threads",
    "shared_api/client/http_connection.py": "a watch is closed by another thread than its reader",
    "shared_api/client/credential_refresh.py": "one renewal at a time for all threads",
    "shared_api/client/write_dispatcher.py": "writes handed over from workers to senders",
    "shared_api/informer/indexed_store.py": "one writer, many readers",
    "shared_api/debug_api/app_server.py": "requests handed over from workers to the application",
    "shared_api/process/answer_desk.py": "shares of a port's requests, for all its workers",
    "shared_api/process/caller_turns.py": "shares of all request threads",
    "shared_api/process/clock.py": "waits for an Event that others own",
    "shared_api/local_program.py": "an Event that ends the process",
    "shared_api/process/alarm.py": "how a thread rests and is woken",
    "shared_api/process/loop_thread.py": "starts, wakes and stops every thread",
    "shared_api/testing/virtual_clock.py": "it wakes those that wait, in any thread",
    "shared_api/fake_api_server/": "it answers several threads; no program imports it",
    "shared_api/work_queue.py": "keys handed over from informers to workers",
}

# Coroutines that a framework requires; all other functions are plain.
ASYNC_PLACES: dict[str, str] = {
    "queue_insight/page/page_server.py": "uvicorn begins to serve in a coroutine",
    "queue_insight/page/caller_bound.py": "a refusal waits without a thread",
    "tests/queue_insight/page/test_caller_bound.py": "it plays the loop of a server",
    "queue_insight/debug_api/answer_turns.py": "who waits for its share holds no thread",
    "tests/queue_insight/page/test_page_metrics.py": "it plays an application",
    "tests/queue_insight/debug_api/test_answer_turns.py": "it plays the loop of a server",
    "queue_insight/page/event_stream.py": "answers that do not end hold no thread",
    "queue_insight/page/page_metrics.py": "an ASGI middleware that counts answers",
    "queue_insight/page/login.py": "a refusal waits without a thread",
    "queue_insight/page/browser_guard.py": "an ASGI middleware that adds headers to answers",
    "tests/benchmarks/page_viewers.py": "200 open pages in one process",
    "shared_api/debug_api/app_server.py": "an application is a coroutine (ASGI)",
    "tests/shared_api/debug_api/test_app_server.py": "it plays applications",
    "tests/properties/hidden_world.py": "it asks applications without a socket",
    "shared_api/debug_api/json_body.py": "Starlette's body of a request can only be awaited",
}


def coroutines(source: SourceFile) -> Iterator[Finding]:
    """Yield each ``async def`` except in the places above."""
    if _listed(source.path, ASYNC_PLACES):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AsyncFunctionDef):
            yield source.finding(node.lineno, f"async def {node.name}: threads only")


def stray_threading(source: SourceFile) -> Iterator[Finding]:
    """Yield imports of threading and similar modules outside the list of lock holders."""
    if _listed(source.path, LOCK_HOLDERS):
        return
    for line, module in _imports(source.tree):
        if module in THREADING_MODULES:
            yield source.finding(line, f"import {module}: not in the list of lock holders")


def _listed(path: PurePosixPath, rows: dict[str, str]) -> bool:
    return any(str(path) == row or (row[-1] == "/" and str(path).startswith(row)) for row in rows)


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield (node.lineno, module)
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case _:
                pass


def test_there_is_no_coroutine() -> None:
    assert report(coroutines, source_files()) == ""


def test_only_lock_holders_import_threading() -> None:
    assert report(stray_threading, shipped_files()) == ""


def test_listed_lock_holders_import_threading() -> None:
    holders = {
        str(source.path)
        for source in shipped_files()
        if any(module in THREADING_MODULES for _, module in _imports(source.tree))
    }
    existing = {str(source.path) for source in shipped_files()}
    assert sorted((LOCK_HOLDERS.keys() & existing) - holders) == []


def test_coroutines_are_found() -> None:
    assert report(coroutines, [planted("class A:\n    async def step(self): ...")])


@pytest.mark.parametrize(
    "text",
    [
        "import threading",
        "from threading import Lock",
        "import multiprocessing as mp",
        "from concurrent import futures",
        "import concurrent.futures",
        "def f():\n    import queue",
    ],
)
def test_stray_threading_is_found(text: str) -> None:
    assert report(stray_threading, [planted(text)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("shared_api/work_queue.py", "import threading", id="a lock holder"),
        pytest.param(
            "shared_api/fake_api_server/fake.py", "import threading", id="a folder of them"
        ),
        pytest.param(
            "queue_scheduler/engine/engine.py", "from shared_api.objects import queue", id="ours"
        ),
    ],
)
def test_allowed_imports_are_no_finding(path: str, text: str) -> None:
    assert not report(stray_threading, [planted(text, path)])
