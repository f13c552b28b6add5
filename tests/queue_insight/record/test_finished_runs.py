"""Runs that end, from the calls that an engine has played."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.record.finished_runs import FinishedRuns
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import (
    elastic_quota,
    queue,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.timestamps import read_time
from shared_api.well_known_labels import QUOTA_NAME, USER
from tests.queue_insight.insight_kit import new_engine

CREATED = "2026-11-01T10:00:00Z"
READY = "2026-11-01T10:05:00Z"


def epoch(text: str) -> float:
    moment = read_time(text)
    assert moment is not None
    return moment.timestamp()


class World:
    """An engine, and the runs that have ended in it; each call is 100 seconds after the last."""

    def __init__(self) -> None:
        self.engine = new_engine()
        self.engine.on_quota(elastic_quota("team", max={"cpu": 4}))
        self.engine.on_queue(queue("team"))
        self.finished = FinishedRuns()
        self.wall = epoch(READY)
        self.runs: list[FinishedRun] = []
        self._number = 0

    def call(self, method: Any, *args: Any) -> None:
        self._number += 1
        self.wall += 100.0
        call = EngineCall(self._number, self.wall, method.__name__, args)
        play(self.engine, call)
        run = self.finished.run_of(call, self.engine)
        if run is not None:
            self.runs.append(run)

    def apply(self, phase: str, *, ready: str = "", uid: str = "u1") -> None:
        self.call(Engine.on_queue_unit, self.unit(phase, ready, uid))

    def unit(self, phase: str, ready: str = "", uid: str = "u1") -> QueueUnit:
        meta = {
            "uid": uid,
            "resourceVersion": str(self._number + 5),
            "creationTimestamp": CREATED,
            "labels": {USER: "ada", QUOTA_NAME: "team"},
        }
        since = {"type": "PodsReady", "status": "True", "lastTransitionTime": ready}
        body = queue_unit_body(
            "a",
            quota="team",
            metadata=meta,
            consumerRef={"kind": "Job", "name": "a"},
            maximumExecutionTimeSeconds=900,
        )
        status: dict[str, Any] = {"phase": phase, "conditions": [since] if ready else []}
        return to_struct(QueueUnit, with_status(body, **status))


def test_a_run_that_ends_is_told_whole() -> None:
    world = World()
    for phase in ("Enqueued", "Dequeued"):
        world.apply(phase)
    world.apply("Running", ready=READY)
    world.apply("Succeed", ready=READY)
    world.apply("Succeed")
    want = FinishedRun(
        unit="default/a",
        uid="u1",
        kind="Job",
        user="ada",
        queue="team",
        quota="team",
        charge={"cpu": 1000},
        created=epoch(CREATED),
        started=epoch(READY),
        ended=epoch(READY) + 400.0,
        declared_seconds=900,
    )
    assert world.runs == [want]


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("Failed", "failed", id="failed"),
        pytest.param("TimeoutBackoff", "evicted", id="evicted into backoff"),
        pytest.param("Enqueued", "evicted", id="evicted into its queue"),
    ],
)
def test_how_a_run_ended(phase: str, want: str) -> None:
    world = World()
    world.apply("Running")
    began = world.wall
    world.apply(phase)
    (run,) = world.runs
    assert (run.ended_by, run.started, run.ended) == (want, began, began + 100.0)


def test_a_unit_that_is_deleted_while_it_runs() -> None:
    world = World()
    world.apply("Running")
    world.call(Engine.on_queue_unit_gone, world.unit("Running"))
    world.apply("Running", uid="u2")
    world.apply("Enqueued", uid="u3")
    assert [(run.uid, run.ended_by) for run in world.runs] == [("u1", "deleted"), ("u2", "deleted")]


def test_a_unit_that_was_not_admitted_has_no_run() -> None:
    world = World()
    world.apply("Enqueued")
    world.apply("Failed")
    world.apply("Enqueued", uid="u2")
    world.call(Engine.on_queue_unit_gone, world.unit("Enqueued", uid="u2"))
    assert world.runs == []


def test_pods_that_never_ran_did_not_start() -> None:
    world = World()
    world.apply("Dequeued")
    world.apply("Enqueued")
    assert [(run.ended_by, run.started) for run in world.runs] == [("evicted", None)]


@pytest.mark.parametrize(
    ("ready", "started"),
    [
        pytest.param(READY, epoch(READY), id="it says since when it runs"),
        pytest.param("", None, id="it does not say"),
    ],
)
def test_it_begins_with_what_runs(ready: str, started: float | None) -> None:
    world = World()
    world.apply("Running", ready=ready)
    world.finished.begin(world.engine)
    world.apply("Running", ready=ready)
    world.apply("Succeed")
    assert [run.started for run in world.runs] == [started]


def test_after_a_gap_it_is_not_known_when_a_run_ended() -> None:
    world = World()
    world.apply("Running")
    play(world.engine, EngineCall(99, 0.0, "on_queue_unit_gone", (world.unit("Running"),)))
    world.finished.begin(world.engine)
    world.apply("Enqueued", uid="u2")
    assert world.runs == []
