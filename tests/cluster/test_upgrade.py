"""An upgrade from the version before, and the way back, while jobs run and wait.

A real Helm installs both versions from their own charts. Their programs run with the arguments,
files and accounts of these charts. As in a rolling update, the programs of one version are ready
before those of the other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.charts.render import CHART, Helm, run_helm
from tests.cluster.chart_programs import ChartPrograms
from tests.cluster.previous_version import unpack_previous_version
from tests.cluster.program_process import ROOT
from tests.cluster.queue_world import QUEUE_NAMESPACE, QueueWorld
from tests.controlplane.helm import require_helm, require_helm_3
from tests.waiting import until

Json = Any

KIND_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.scheduling.x-k8s.io"
NO_PODS: Final = "--set=scheduler.replicas=0,controllers.replicas=0"
"""The programs are processes here."""
RELEASE: Final = "koord-queue"
FOREVER: Final = 3600
RUNNING: Final = ("runs-1", "runs-2")
BEHIND: Final = "behind"
"""Waits for the quota of `adopted`, which ran before there was a queue."""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_previous_version(tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path, previous: Path) -> Iterator[QueueWorld]:
    assert previous.is_dir(), "asked for first: without it nothing has to be started"
    with QueueWorld(controlplane_binaries, jobs=True, crds=False) as world:
        world.create_priority_class("high", 1000)
        for quota in ("team", "other"):
            world.create_quota(quota, cpu_max=4)
        yield world


class Versions:
    """Installs one version after the other."""

    def __init__(self, world: QueueWorld, folder: Path, stack: ExitStack) -> None:
        self._world = world
        self._folder = folder
        self._stack = stack
        self._programs: ChartPrograms | None = None

    def install(self, tree: Path, *arguments: str, helm: Helm = require_helm) -> None:
        """Run Helm, then the programs of that version; return when they lead."""
        where = f"--namespace={QUEUE_NAMESPACE}"
        run_helm(*arguments, where, kubeconfig=self._world.plane.kubeconfig, helm=helm)
        for plural in ("queues", "queueunits"):
            want = yaml.safe_load((tree / "crds" / f"{plural}.yaml").read_text())
            got = self._world.api.request("GET", KIND_PATH.format(plural))
            assert got["spec"]["versions"] == want["spec"]["versions"], arguments[0]
        folder = self._folder / arguments[0]
        folder.mkdir()
        before, self._programs = (
            self._programs,
            ChartPrograms(self._world, tree, folder, self._stack),
        )
        if before is not None:
            self._programs.take_over_from(before)
        self._prove(arguments[0])

    def _prove(self, name: str) -> None:
        """Wait until both programs have started a job: they have seen all others by then."""
        self._world.create_quota(name, cpu_max=1)
        self._world.create_job(name, name, run_seconds=FOREVER)
        self._world.await_running(name, 1)


def test_jobs_live_through_an_upgrade_and_the_way_back(
    world: QueueWorld, previous: Path, tmp_path: Path
) -> None:
    world.create_job("adopted", "other", cpu="4", run_seconds=FOREVER, suspend=False)
    world.await_running("adopted", 1)
    with ExitStack() as stack:
        versions = Versions(world, tmp_path, stack)
        older = str(previous / CHART.relative_to(ROOT))
        versions.install(previous, "install", RELEASE, older, NO_PODS, helm=require_helm_3)
        jobs = Jobs(world)

        versions.install(ROOT, "upgrade", RELEASE, str(CHART), NO_PODS)
        jobs.assert_unmoved()
        jobs.end("runs-1", starts="urgent")

        versions.install(previous, "rollback", RELEASE, "1")
        jobs.assert_unmoved()
        jobs.end("runs-2", starts="first")
        jobs.end("urgent", starts="second")
        jobs.end("adopted", starts=BEHIND)


class Jobs:
    """Jobs that fill two quotas, and those that wait for them."""

    def __init__(self, world: QueueWorld) -> None:
        self._world = world
        high = {"priorityClassName": "high"}
        for name in RUNNING:
            world.create_job(name, "team", cpu="2", run_seconds=FOREVER, pod_spec=high)
        self._pods = {name: self._pod_of(name) for name in ("adopted", *RUNNING)}
        self._waiting = ["first", "second", "urgent", BEHIND]
        for name in self._waiting:
            quota = "other" if name == BEHIND else "team"
            spec = high if name == "urgent" else {}
            world.create_job(name, quota, cpu="2", run_seconds=FOREVER, pod_spec=spec)
            until(partial(self._has_phase, name, "Enqueued"))
        for name in self._pods:
            until(partial(self._has_phase, name, "Running"))

        self._queues, self._units = self._uids()

    def _uids(self) -> tuple[set[str], set[str]]:
        """Return the uids of all queues, and of the units of these jobs."""
        queues = {each["metadata"]["uid"] for each in self._world.queues()}
        units = [self._world.unit_of(name) for name in (*self._pods, *self._waiting)]
        return queues, {each["metadata"]["uid"] for each in units}

    def _has_phase(self, name: str, phase: str) -> bool:
        return self._world.phase_of_job(name) == phase

    def _pod_of(self, name: str) -> str:
        """Return the uid of the one pod of a job, once it runs."""
        (pod,) = self._world.await_running(name, 1)
        uid: str = pod["metadata"]["uid"]
        return uid

    def assert_unmoved(self) -> None:
        """Assert that what ran runs in the same pods and is charged, and what waited waits."""
        assert {name: self._pod_of(name) for name in self._pods} == self._pods
        queues, units = self._uids()
        assert queues >= self._queues
        assert units <= self._units, "none is made anew"
        for name in self._pods:
            assert self._has_phase(name, "Running")
        for name in self._waiting:
            assert self._world.is_suspended(name), "the quotas are full"
            assert self._has_phase(name, "Enqueued")

    def end(self, name: str, *, starts: str) -> None:
        """End a job; another one starts, and nothing else changes."""
        (pod,) = self._world.running_pods(name)
        self._world.end_pod(pod["metadata"]["name"])
        del self._pods[name]
        self._waiting.remove(starts)
        self._pods[starts] = self._pod_of(starts)
        until(partial(self._has_phase, starts, "Running"))
        self.assert_unmoved()
