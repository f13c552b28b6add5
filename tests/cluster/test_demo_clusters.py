"""The demo on real API servers: one of its own, and an existing one."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from shared_api.client.resource_types import JOBS, NODES, PODS
from shared_api.process.clock import SystemClock
from tests.controlplane.control_plane import ControlPlane
from tests.demo.clusters import QUOTA_CRD, connect
from tests.demo.current_cluster import CurrentCluster
from tests.demo.demo_process import DemoProcess, demo_starter
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings, Where
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import GPU
from tests.demo.local_cluster import LocalCluster
from tests.demo.terminal import Terminal
from tests.waiting import until

READY_SECONDS = 200.0
RUN_SECONDS = 600.0
GONE_SECONDS = 200.0
NO_NODE: Final = re.compile(
    r"admitted, but no node for \d+ pods?: 0/\d+ nodes are available: \d+ Insufficient GPU"
)


@pytest.fixture
def start(controlplane_binaries: Path, tmp_path: Path) -> Iterator[Callable[..., DemoProcess]]:
    """Start one; it ends with the test, even if that fails."""
    assert controlplane_binaries.is_dir()
    with demo_starter(tmp_path, cluster="local") as start_one:
        yield start_one


def test_a_short_run_on_a_control_plane_of_its_own(start: Callable[..., DemoProcess]) -> None:
    demo = start("--once")
    assert demo.wait(RUN_SECONDS) == 0, demo.output
    assert "40 of 40 jobs completed" in demo.output
    assert "no quota exceeded" in demo.output
    assert "\n  koord-queue units -A\n" in demo.output
    assert demo.leaves_nothing()


def test_jobs_are_created_suspended(controlplane_binaries: Path) -> None:
    assert controlplane_binaries.is_dir()
    cluster = LocalCluster()
    try:
        cluster.start()
        api = connect(cluster, SystemClock())
        with contextlib.closing(api):
            until(lambda: _is_created_suspended(api))
    finally:
        cluster.stop()


def _is_created_suspended(api: JsonApi) -> bool:
    """Dry-run a job that names a quota; a policy takes effect a moment after its creation."""
    labels = {"quota.scheduling.koordinator.sh/name": "team-a"}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "image"}]}
    metadata = {"generateName": "tried-", "namespace": "default", "labels": labels}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    made = api.create(JOBS, {**job, "spec": {"template": {"spec": pod}}})
    return bool(made["spec"]["suspend"])


class SaidSo(Exception):
    """The table shows what the test waits for."""


def test_the_table_shows_that_large_jobs_find_no_node(controlplane_binaries: Path) -> None:
    """Each node has one GPU too few for them, while their quota has enough."""
    assert controlplane_binaries.is_dir()
    text = io.StringIO()

    def end_when_said() -> None:
        if NO_NODE.search(text.getvalue()):
            raise SaidSo

    run = DemoRun(
        Settings(where=Where.LOCAL, once=True, jobs=40, submit_seconds=4.0),
        Terminal(text, is_live=True),
        SystemClock(),
        make_cluster=lambda _settings, _folder, _clock: LocalCluster(),
        visitor=_take_a_gpu_of_each_node,
        check_interruption=end_when_said,
    )
    with contextlib.suppress(SaidSo):
        run.run()
    assert NO_NODE.search(text.getvalue()), text.getvalue()


def _take_a_gpu_of_each_node(api: JsonApi) -> None:
    gpu = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    for node in api.list_all(NODES):
        name = node["metadata"]["name"]
        container = {"name": "main", "image": "image", "resources": gpu}
        metadata = {"name": name, "namespace": "default"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        api.create(PODS, {**pod, "spec": {"nodeName": name, "containers": [container]}})


@pytest.mark.parametrize("sign", ["starting", "ready after"], ids=["while it starts", "in the run"])
def test_an_interrupt_leaves_nothing(start: Callable[..., DemoProcess], sign: str) -> None:
    demo = start()
    demo.wait_for_output(sign, READY_SECONDS)
    time.sleep(1.0)  # not in its first moment
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait(GONE_SECONDS) == 130, demo.output
    assert demo.leaves_nothing()


def test_an_existing_cluster_is_left_as_it_was(
    controlplane_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ControlPlane(
        controlplane_binaries, controller_manager=True, scheduler=True, kwok=True, nodes=2
    ) as plane:
        plane.apply(QUOTA_CRD)
        plane.await_kinds("elasticquotas.scheduling.sigs.k8s.io")
        before = everything_in(plane)
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
        text = io.StringIO()
        run = DemoRun(
            Settings(where=Where.CURRENT, once=True, jobs=40, submit_seconds=4.0),
            Terminal(text),
            SystemClock(),
            make_cluster=lambda _settings, _folder, clock: CurrentCluster(clock, lambda _: "y"),
        )
        run.run()
        assert run.outcome.exit_status == 0, text.getvalue()
        assert everything_in(plane) == before


def everything_in(plane: ControlPlane) -> set[str]:
    """Return what a run could leave behind; events expire."""
    kinds = "namespaces,customresourcedefinitions,priorityclasses,elasticquotas,jobs,pods"
    listed = json.loads(plane.kubectl("get", kinds, "--all-namespaces", "--output", "json"))
    return {f"{item['kind']} {item['metadata']['name']}" for item in listed["items"]}
