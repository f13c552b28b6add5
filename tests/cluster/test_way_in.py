"""The way in: jobs and queues of Kueue are taken over, and programs ask through the client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from koord_queue.cli.app import run
from tests.cluster.page_commands import run as type_command
from tests.cluster.program_process import ROOT
from tests.cluster.queue_world import (
    JOBS,
    MERGE,
    OWN_TIMES_SECONDS,
    QUEUE_NAMESPACE,
    QUOTA_LABEL,
    QUOTAS,
    Cluster,
    QueueWorld,
    quota_view,
    refusal_of,
)
from tests.cluster.served_kinds import install_crds
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.sample_jobs import KUEUE_WORKLOADS, crd
from tests.waiting import until

Json = dict[str, Any]
Command = Callable[..., str]

KUEUE: Final = ROOT / "tests/data/kueue"
KINDS: Final = (
    *("clusterqueues", "cohorts", "localqueues", "resourceflavors"),
    *("workloadpriorityclasses", "admissionchecks"),
)
CLUSTER_QUEUES: Final = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
CLUSTER_QUEUE: Final = f"{CLUSTER_QUEUES}/cluster-queue"
LONG: Final = "600"
RUNNING: Final = ("one", "two")
"""Jobs that Kueue has released."""
PAGE: Final = (ROOT / "docs/python.md").read_text(encoding="utf-8")
SWITCHOVER: Final = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
KUEUE_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WORKLOAD: Final = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
IN_USE: Final = {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}}


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Both programs run beside the kinds of Kueue, with the objects of its quick start."""
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        install_crds(world.plane, KUEUE_WORKLOADS, *map(crd, KINDS))
        for name in ("single-clusterqueue-setup", "cohort", "workload-priority-class"):
            world.plane.apply(KUEUE / f"{name}.yaml")
        scheduler = world.start_scheduler("--leader-elect=false")
        yield Cluster(world, scheduler, world.start_controllers("--leader-elect=false"))


@pytest.fixture
def environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment of a person on this cluster; return the folder that is current."""
    port = cluster.scheduler.port_of("--debug-address")
    monkeypatch.setenv("KUBECONFIG", str(cluster.world.plane.kubeconfig))
    monkeypatch.setenv("KOORD_QUEUE_SERVER", f"http://127.0.0.1:{port}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(environment: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; returns what it prints."""
    assert environment.is_dir()

    def call(*arguments: str) -> str:
        code = run(arguments)
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return printed.out

    return call


def sample_job(world: QueueWorld, name: str, *, suspend: bool, **labels: str) -> None:
    """Create the sample job of Kueue's documentation: three pods of one core each.

    Kueue has released it, or holds it; its pods run for long.
    """
    body = yaml.safe_load((KUEUE / "sample-job.yaml").read_text(encoding="utf-8"))
    body["metadata"] = {"name": name, "labels": {**body["metadata"]["labels"], **labels}}
    body["spec"]["suspend"] = suspend
    annotations = {"koord-queue.test/run-seconds": LONG}
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    world.api.request("POST", JOBS.format("default"), body)


def test_running_and_waiting_jobs_of_kueue_are_taken_over(
    cluster: Cluster, command: Command
) -> None:
    world = cluster.world
    hold = {"spec": {"stopPolicy": "Hold"}}
    world.api.request("PATCH", CLUSTER_QUEUE, hold, content_type=MERGE)
    urgent = {"kueue.x-k8s.io/priority-class": "sample-priority"}
    sample_job(world, "fits", suspend=True, **urgent)
    sample_job(world, "waits", suspend=True)
    for name in RUNNING:
        sample_job(world, name, suspend=False)
        world.await_running(name, 3)
    assert world.units() == [], "Kueue's jobs are left alone while it is there"
    assert "Job/default/one" in command("import", "kueue", "--jobs")
    assert world.units() == [], "without --apply nothing is written"

    command("import", "kueue", "--apply")
    assert world.units() == [], "quotas and queues alone touch no job"
    printed = command("import", "kueue", "--jobs", "--apply")
    assert "Job/default/one goes on, charged to cluster-queue" in printed
    for name in RUNNING:
        assert condition_of(world.unit_of(name), "Adopted")["status"] == "True"
        assert len(world.running_pods(name)) == 3
        assert not world.is_suspended(name)
    until(lambda: world.quota_reserved("fits").get("reason") == "StoppedQueue")
    command("resume", "cluster-queue")
    until(lambda: world.running_pods("fits"))
    assert world.unit_of("fits")["spec"]["priority"] == 10000
    until(lambda: quota_view(cluster.scheduler, "cluster-queue")["used"]["cpu"] == "9")
    unit = world.unit_of("waits")["metadata"]["name"]
    until(lambda: refusal_of(cluster.scheduler, unit).get("reason") == "OverQuotaMax")
    world.delete_job("one")
    until(lambda: world.running_pods("waits"), OWN_TIMES_SECONDS)


def test_a_second_import_changes_nothing(cluster: Cluster, command: Command) -> None:
    is_open = {"spec": {"stopPolicy": "None"}}
    cluster.world.api.request("PATCH", CLUSTER_QUEUE, is_open, content_type=MERGE)
    command("import", "kueue", "--jobs", "--apply")
    again = command("import", "kueue", "--jobs", "--apply").splitlines()
    assert [line for line in again if not line.endswith(" unchanged")] == []
    assert len(again) > 5


def test_a_cohort_becomes_a_tree_that_lends(cluster: Cluster, command: Command) -> None:
    command("import", "kueue", "--apply")
    world = cluster.world
    for name, want in (("team-a-cq", "10"), ("team-b-cq", "21")):
        quota = world.api.request("GET", f"{QUOTAS.format(QUEUE_NAMESPACE)}/{name}")
        assert quota["spec"]["max"]["cpu"] == want
        label = quota["metadata"]["labels"]["quota.scheduling.koordinator.sh/parent"]
        assert label == "team-ab"
    tree = until(lambda: quota_view(cluster.scheduler, "team-ab"))
    assert {child["name"] for child in tree["children"]} == {"team-a-cq", "team-b-cq"}
    assert all(not child["problems"] for child in (tree, *tree["children"]))
    until(lambda: condition_of(world.queue("team-a-cq"), "Ready").get("status") == "True")


# --- the client ---------------------------------------------------------------------------------


def blocks() -> list[str]:
    """Return the examples of the page."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def job(name: str, cpu: str = "1", seconds: str = "0.5") -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"koord-queue.test/run-seconds": seconds}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": name, "labels": {QUOTA_LABEL: "team-a"}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return {**body, "spec": {"template": template}}


def test_the_examples_of_the_page_run(
    cluster: Cluster, environment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = cluster.world
    world.create_quota("team-a", cpu_max=1)
    (environment / "job.yaml").write_text(json.dumps(job("first")))
    follow, ask, catch, wait, _ = blocks()
    exec(follow, {})  # noqa: S102 - the page is our own
    lines = capsys.readouterr().out.splitlines()
    assert (lines[-1], len(lines) > 1) == ("succeeded", True)

    world.create_job("holds", "team-a", run_seconds=LONG)
    until(lambda: world.running_pods("holds"))
    world.create_job("train", "team-a")
    until(lambda: world.quota_reserved("train").get("reason") == "OverQuotaMax")
    exec(ask, {})  # noqa: S102 - the same
    why, listed, started = capsys.readouterr().out.splitlines()
    assert "max of quota team-a" in why
    assert listed.split() == ["1", "train", "OverQuotaMax"]
    assert started == "['default/train']"
    exec(catch, {})  # noqa: S102 - the same
    assert "no unit of namespace default belongs to job/no-such-job" in capsys.readouterr().out

    world.delete_job("holds")
    several = "\n---\n".join(json.dumps(job(name)) for name in ("second", "third"))
    (environment / "jobs.yaml").write_text(several)
    exec(wait, {})  # noqa: S102 - the same


# --- all examples, last: their quotas are more than the cluster has ----------------------------


def test_each_example_of_the_documentation_is_accepted(cluster: Cluster, command: Command) -> None:
    """Kueue's CRDs accept what the documentation shows, and ours what becomes of it."""
    world = cluster.world
    # One of them takes the resources of a ClusterQueue away that another one gives it.
    for path in sorted(KUEUE.glob("*.yaml"), key=lambda path: path.stem != "preemption"):
        if path.stem != "sample-job":
            world.plane.apply(path)
            command("import", "kueue", "--file", str(path), "--apply")
    command("import", "kueue", "--apply")
    names = {each["metadata"]["name"] for each in world.api.request("GET", CLUSTER_QUEUES)["items"]}
    assert len(names) > 4
    quotas = world.api.request("GET", QUOTAS.format(QUEUE_NAMESPACE))["items"]
    made = {each["metadata"]["name"] for each in quotas}
    assert names <= made
    for name in made:
        assert until(partial(quota_view, cluster.scheduler, name))["problems"] == []
    assert {each["metadata"]["name"] for each in world.queues()} >= names


# --- what is left of Kueue goes, last of all ----------------------------------------------------


def leave_kueue_without_its_manager(world: QueueWorld) -> None:
    """Let its objects have its finalizers, and older versions need its conversion webhook."""
    world.api.request("POST", WORKLOAD, {"apiVersion": "kueue.x-k8s.io/v1beta1", **workload()})
    for kind in ("clusterqueues", "resourceflavors", "admissionchecks"):
        path = f"/apis/kueue.x-k8s.io/v1beta2/{kind}"
        for each in world.api.request("GET", path)["items"]:
            name = each["metadata"]["name"]
            world.api.request("PATCH", f"{path}/{name}", IN_USE, content_type=MERGE)
    path = f"{KUEUE_CRDS}/{KUEUE_WORKLOADS['metadata']['name']}"
    (older,) = KUEUE_WORKLOADS["spec"]["versions"]
    newer = {**older, "name": "v1beta2"}
    webhook = {
        "clientConfig": {"url": "https://127.0.0.1:9/convert"},
        "conversionReviewVersions": ["v1"],
    }
    spec = {
        "versions": [{**older, "storage": False}, newer],
        "conversion": {"strategy": "Webhook", "webhook": webhook},
    }
    world.api.request("PATCH", path, {"spec": spec}, content_type=MERGE)
    until(lambda: is_unreadable(world))


def workload() -> Json:
    return {"kind": "Workload", "metadata": {"name": "job-two", **IN_USE["metadata"]}}


def is_unreadable(world: QueueWorld) -> bool:
    """Return whether Workloads cannot be read in the newer version."""
    try:
        world.api.request("GET", WORKLOAD.replace("v1beta1", "v1beta2"))
    except ApiError as error:
        return "conversion webhook" in str(error)
    return False


def kinds_of_kueue(world: QueueWorld) -> set[str]:
    names = (each["metadata"]["name"] for each in world.api.request("GET", KUEUE_CRDS)["items"])
    return {name.partition(".")[0] for name in names if name.endswith(".kueue.x-k8s.io")}


def test_the_last_step_of_the_switchover_removes_kueue(cluster: Cluster, tmp_path: Path) -> None:
    world = cluster.world
    leave_kueue_without_its_manager(world)
    uids = {pod["metadata"]["uid"] for pod in world.running_pods("two")}
    assert len(uids) == 3
    _, begin, rest = SWITCHOVER.partition("       kubectl get crds")
    step, end, _ = rest.partition("xargs kubectl delete\n")
    type_command(world, begin + step + end, tmp_path)
    until(lambda: kinds_of_kueue(world) == {"admissionchecks"})
    checks = world.api.request("GET", "/apis/kueue.x-k8s.io/v1beta2/admissionchecks")["items"]
    assert checks
    assert not any(each["metadata"].get("finalizers") for each in checks)
    assert {pod["metadata"]["uid"] for pod in world.running_pods("two")} == uids
    assert world.phase_of_job("two") == "Running"
