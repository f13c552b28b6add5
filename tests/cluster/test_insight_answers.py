"""What the insight program foresees, asked through the scheduler; all programs are processes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from tests.cluster.kind_jobs import Kinds, pod_of, torch
from tests.cluster.kind_kit import install
from tests.cluster.observer import Observer
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUOTA_LABEL, UNITS, QueueWorld
from tests.waiting import PATIENCE_SECONDS, until

Json = dict[str, Any]

TORCH: Final = "pytorchjob"
JOBS_RUN, TORCH_RUN = 5, 3
"""How many of each kind have ended: two numbers, so that one is not taken for the other."""
LONG: Final = 600
HOUR: Final = 3600


class Foreseen(NamedTuple):
    """A world in which jobs of two kinds have ended, and one of each waits."""

    world: QueueWorld
    scheduler: ProgramProcess
    insight: ProgramProcess

    def ask(self, path: str, body: Json | None = None) -> httpx.Response:
        """Ask the scheduler's debug API; with a body it is a POST."""
        return self.scheduler.ask(path, body=body)

    def forecast(self, unit: str) -> Json:
        """Return the forecast of a unit, {} before there is one."""
        answer = self.ask(f"/debug/queueunits/default/{unit}/forecast")
        return answer.json() if answer.status_code == 200 else {}


@pytest.fixture(scope="module")
def foreseen(controlplane_binaries: Path) -> Iterator[Foreseen]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QueueWorld(controlplane_binaries, jobs=True) as world,
    ):
        install(world.plane, TORCH)
        world.create_quota("team", cpu_max=8)
        insight = world.start_insight(f"--socket-dir={folder}")
        scheduler = world.start_scheduler("--leader-elect=false", f"--insight-socket-dir={folder}")
        world.start_controllers("--leader-elect=false", f"--enabled-extensions=job,{TORCH}")
        found = Foreseen(world, scheduler, insight)
        until(lambda: found.ask("/debug/insight").status_code == 200)
        with Observer(world.plane.client_for(), {"queueunits": UNITS.format("default")}) as seen:
            play_jobs(world, Kinds(world, seen))
            yield found


def play_jobs(world: QueueWorld, kinds: Kinds) -> None:
    """Let jobs of both kinds end, and one of each wait behind a job that runs for long."""
    for number in range(JOBS_RUN):
        world.create_job(f"job-{number}", "team", run_seconds=1)
    for number in range(TORCH_RUN):
        run_torch(kinds, f"torch-{number}")
    until(lambda: all(has_succeeded(world, f"job-{number}") for number in range(JOBS_RUN)))
    world.resize_quota("team", 1)
    world.create_job("long", "team", run_seconds=LONG)
    world.await_running("long", 1)
    world.create_job("waits", "team")
    kinds.create(TORCH, "torch-waits", torch(Master=pod_of()), "team")
    kinds.made_unit("torch-waits")


def has_succeeded(world: QueueWorld, job: str) -> bool:
    return bool(world.job(job).get("status", {}).get("succeeded"))


def run_torch(kinds: Kinds, name: str) -> None:
    kinds.create(TORCH, name, torch(Master=pod_of()), "team")
    kinds.await_released(TORCH, name)
    operator = kinds.operator(TORCH)
    operator.start(name, pods=1)
    kinds.await_phase(name, "Running")
    operator.end(name, succeeded=True)
    kinds.await_phase(name, "Succeed")


def test_a_forecast_is_made_from_runs_of_the_same_kind(foreseen: Foreseen) -> None:
    """What was charged for a run is what a waiting unit requests: otherwise no run is like it."""
    names = {"waits": JOBS_RUN, "torch-waits-py-qu": TORCH_RUN}
    for unit, want in names.items():
        found = until(partial(foreseen.forecast, unit), OWN_TIMES_SECONDS)
        assert found["similarRuns"] == want, found
        assert found["sample"] > 0
    assert not foreseen.insight.errors()


def test_a_manifest_that_is_tried_has_a_forecast(foreseen: Foreseen) -> None:
    manifest = foreseen.world.job("waits")
    body = {key: manifest[key] for key in ("apiVersion", "kind")} | {
        "metadata": {"name": "tried", "labels": {QUOTA_LABEL: "team"}},
        "spec": {"suspend": True, "template": template_of(manifest)},
    }
    answer = foreseen.ask("/debug/try", body)
    assert answer.status_code == 200, answer.text
    (job,) = answer.json()["jobs"]
    assert (job["startsNow"], answer.json()["noForecast"]) == (False, "")
    assert job["forecast"]["similarRuns"] == JOBS_RUN
    assert job["forecast"]["sample"] > 0


def template_of(job: Json) -> Json:
    """Return the template that a test has written, without what the API server has added."""
    containers = job["spec"]["template"]["spec"]["containers"]
    own = {key: containers[0][key] for key in ("name", "image", "resources")}
    return {"spec": {"restartPolicy": "Never", "containers": [own]}}


def test_a_horizon_compares_both_sides(foreseen: Foreseen) -> None:
    """The jobs of the last minute go on arriving; one core is by far too little for them."""
    larger = {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": {"cpu": "999"}}}}
    body = {"edits": [larger], "horizonSeconds": HOUR, "seed": 7}
    answer = foreseen.ask("/debug/what-if", body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert {each["unit"] for each in found["started"]} == {
        "default/waits",
        "default/torch-waits-py-qu",
    }
    horizon = found["horizon"]
    assert (horizon["seed"], horizon["paths"] >= 5) == (7, True)
    assert f"{JOBS_RUN + TORCH_RUN} runs that have ended" in horizon["basis"]
    (queue,) = (each for each in horizon["queues"] if each["name"] == "team")
    before, after = (queue["waitP50"][side]["p50"] for side in ("before", "after"))
    assert after < HOUR / 2
    assert before is None or before > after
    cpu = next(each for each in horizon["resources"] if each["resource"] == "cpu")
    assert cpu["used"]["isClear"]
    assert cpu["used"]["difference"]["p50"] > 0


def test_without_the_program_only_the_horizon_is_missing(foreseen: Foreseen) -> None:
    foreseen.insight.kill()
    body: Json = {"edits": [], "horizonSeconds": 60}
    until(lambda: foreseen.ask("/debug/what-if", body).status_code == 503, PATIENCE_SECONDS)
    assert "without horizonSeconds" in foreseen.ask("/debug/what-if", body).json()["detail"]
    assert foreseen.ask("/debug/what-if", {"edits": []}).status_code == 200
