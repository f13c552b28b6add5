"""Facts about RayJob."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_state import NO_PODS, PodCounts, judge_job
from queue_controllers.decision.queue_unit_builder import choose_unit_name, demand_of
from queue_controllers.extensions.ray_job import RayJob, RayJobAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
    read_facts,
)
from queue_controllers.jobframework.list_patches import fill_lists
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, sample_sets, troubles_of

ADAPTER: GenericJob[RayJob] = RayJobAdapter()
BORN, LATER = "2026-11-01T10:00:00Z", "2026-11-01T10:00:07Z"
MIB = 2**20


def job(status: dict[str, Any] | None = None, **spec: Any) -> RayJob:
    body = sample("rayjob")
    body["spec"] |= spec
    body["metadata"]["creationTimestamp"] = BORN
    return msgspec.convert({**body, "status": status or {}}, RayJob)


def test_the_sample_is_decoded() -> None:
    assert sample_sets(ADAPTER, "rayjob") == [("head", 1), ("gpu", 4), ("submitter", 1)]


def test_the_sample_is_valid() -> None:
    assert troubles_of(sample("rayjob"), "rayjobs") == []


def test_demand_with_the_submitter() -> None:
    """Four workers of 4 cores and 8Gi, a head of 1 and 2Gi, a submitter of 500m and 200Mi."""
    assert demand_of(ADAPTER.pod_sets(job())) == {
        "cpu": 17_500,
        "memory": (34 * 1024 + 200) * MIB,
        "nvidia.com/gpu": 4,
    }


SUBMITS = {"spec": {"containers": [{"name": "s", "resources": {"requests": {"cpu": "2"}}}]}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"submissionMode": None}, (1000, 500), id="no field: a Job"),
        pytest.param({"submissionMode": "K8sJobMode"}, (1000, 500), id="a Job"),
        pytest.param({"submitterPodTemplate": SUBMITS}, (1000, 2000), id="of its own size"),
        pytest.param({"submissionMode": "SidecarMode"}, (1500, None), id="in the head's pod"),
        pytest.param({"submissionMode": "HTTPMode"}, (1000, None), id="the operator itself"),
        pytest.param({"submissionMode": "InteractiveMode"}, (1000, None), id="somebody else"),
    ],
)
def test_the_submitter(spec: dict[str, Any], want: tuple[int, int | None]) -> None:
    sets = {each.name: each for each in ADAPTER.pod_sets(job(**spec))}
    cpu = {name: pod_requests(each.template.spec)["cpu"] for name, each in sets.items()}
    assert (cpu["head"], cpu.get("submitter")) == want


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        pytest.param({}, "", id="survives"),
        pytest.param({"shutdownAfterJobFinishes": False}, "shutdownAfterJobFinishes", id="stays"),
        pytest.param({"shutdownAfterJobFinishes": None}, "shutdownAfterJobFinishes", id="absent"),
        pytest.param(
            {"clusterSelector": {"ray.io/cluster": "x"}, "rayClusterSpec": None},
            "clusterSelector",
            id="runs elsewhere",
        ),
    ],
)
def test_jobs_that_cannot_be_held(spec: dict[str, Any], names: str) -> None:
    said = ADAPTER.why_not_suspendable(job(**spec))
    assert names in said
    assert bool(said) is bool(names)


def test_without_a_cluster_of_its_own_it_requests_nothing() -> None:
    elsewhere = job(rayClusterSpec=None)
    assert ADAPTER.pod_sets(elsewhere) == ()
    assert ADAPTER.priority_of(elsewhere) == PrioritySource()


@pytest.mark.parametrize(
    ("stage", "more", "want"),
    [
        pytest.param("Initializing", {"startTime": LATER}, StatusFacts(), id="initializing"),
        pytest.param("", {"startTime": LATER}, StatusFacts(), id="between suspended and that"),
        pytest.param(
            "Running",
            {"rayClusterStatus": {"state": "ready", "availableWorkerReplicas": 2}},
            StatusFacts(running=True, pods=2),
            id="runs",
        ),
        pytest.param("Running", {}, StatusFacts(), id="its cluster is not ready yet"),
        pytest.param("ValidationFailed", {}, StatusFacts(), id="invalid is no end"),
        pytest.param("Retrying", {"jobStatus": "FAILED"}, StatusFacts(), id="tried again"),
        pytest.param("Running", {"jobStatus": "RUNNING"}, StatusFacts(), id="still running"),
        *(
            pytest.param("Running", {"jobStatus": end}, StatusFacts(is_ending=True), id=end)
            for end in ("SUCCEEDED", "FAILED", "STOPPED")
        ),
        pytest.param(
            "Complete",
            {"jobStatus": "SUCCEEDED"},
            StatusFacts(outcome=Outcome(succeeded=True)),
            id="succeeded",
        ),
        pytest.param(
            "Complete",
            {"jobStatus": "STOPPED", "message": "by hand"},
            StatusFacts(outcome=Outcome(succeeded=False, message="by hand")),
            id="stopped",
        ),
        pytest.param(
            "Failed",
            {"message": "too late"},
            StatusFacts(outcome=Outcome(succeeded=False, message="too late")),
            id="failed",
        ),
    ],
)
def test_status(stage: str, more: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(job({"jobDeploymentStatus": stage, **more})) == want


def test_no_status_yet() -> None:
    assert ADAPTER.status_of(job()) == StatusFacts(is_empty=True)


@pytest.mark.parametrize(
    ("started", "want"),
    [
        pytest.param(LATER, "2026-11-01T10:00:07.999999Z", id="it has run"),
        pytest.param(BORN, BORN, id="created suspended: it has not run"),
        pytest.param(None, None, id="no word"),
    ],
)
def test_suspended_after_the_start_of_its_run(started: str | None, want: str | None) -> None:
    said = ADAPTER.status_of(job({"jobDeploymentStatus": "Suspended", "startTime": started}))
    assert (said.suspended, said.suspended_since) == (True, want)


def test_the_switch() -> None:
    assert ADAPTER.is_suspended(job())
    assert not ADAPTER.is_suspended(job(suspend=None)), "the operator drops a false"
    assert ADAPTER.suspend_patch(job()) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(job(), {}) == {"spec": {"suspend": False}}


def test_a_release_annotates_the_existing_templates() -> None:
    stamp = PodStamp(labels={"a": "b"})
    stamps = dict.fromkeys(("head", "gpu", "submitter"), stamp)
    patch = ADAPTER.release_patch(job(), stamps)
    spec = fill_lists(patch, sample("rayjob"), RayJobAdapter().list_keys)["spec"]
    assert spec.keys() == {"suspend", "rayClusterSpec"}
    (workers,) = spec["rayClusterSpec"]["workerGroupSpecs"]
    assert workers["template"]["metadata"] == {"labels": {"a": "b"}}
    assert workers["numOfHosts"] == 2
    own = ADAPTER.release_patch(job(submitterPodTemplate=SUBMITS), stamps)["spec"]
    assert own["submitterPodTemplate"] == {"metadata": {"labels": {"a": "b"}}}


def test_updates_reach_the_templates() -> None:
    adapter, update = RayJobAdapter(), TemplateUpdate(labels={"a": None})
    head = {"headGroupSpec": {"template": {"metadata": {"labels": {"a": None}}}}}
    assert adapter.update_patch(job(), {"head": update}) == {"spec": {"rayClusterSpec": head}}
    assert adapter.update_patch(job(), {"submitter": update}) == {}
    assert [each.has_template for each in adapter.pod_sets(job())] == [True, True, False]
    own = job(submitterPodTemplate=SUBMITS)
    assert [each.has_template for each in adapter.pod_sets(own)] == [True, True, True]


RAY_POD = {"ray.io/cluster": "train-x2k4z", "ray.io/group": "gpu", "ray.io/node-type": "worker"}
SUBMITTER = {
    "job-name": "train",
    "ray.io/originated-from-cr-name": "train",
    "ray.io/originated-from-crd": "RayJob",
}


@pytest.mark.parametrize(
    ("labels", "pod_set"),
    [
        pytest.param(RAY_POD, "gpu", id="worker"),
        pytest.param({**RAY_POD, "ray.io/node-type": "head"}, "head", id="head"),
        pytest.param(SUBMITTER, "submitter", id="submitter"),
    ],
)
def test_whose_pods(labels: dict[str, str], pod_set: str) -> None:
    adapter = RayJobAdapter()
    kept = {key: value for key, value in labels.items() if key in adapter.pod_labels}
    assert adapter.pod_set_of(Pod(metadata=ObjectMeta(labels=kept))) == pod_set
    assert adapter.job_name_of(kept) == "train"


def test_its_owner() -> None:
    adapter = RayJobAdapter()
    assert adapter.foreign_manager(job(managedBy="kueue.x-k8s.io/multikueue")) != ""
    assert adapter.foreign_manager(job(managedBy="ray.io/kuberay-operator")) == ""
    assert adapter.foreign_manager(job()) == ""


def test_priority_comes_from_the_templates() -> None:
    cluster = {"headGroupSpec": {"template": {"spec": {"priority": 5}}}}
    assert ADAPTER.priority_of(job(rayClusterSpec=cluster)) == PrioritySource("", 5)


# --- upstream's tests ---------------------------------------------------------------------------


def ray_pod(cpu: str, memory: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"spec": {"containers": [{"name": "ray", "resources": {"requests": requests}}]}}


def of_groups(*groups: tuple[str, int], **spec: Any) -> RayJob:
    """Return a RayJob with a head of 2 cores and 4Gi, and groups of workers of 1 and 2Gi."""
    workers = [
        {"groupName": name, "replicas": replicas, "template": ray_pod("1", "2Gi")}
        for name, replicas in groups
    ]
    cluster = {"headGroupSpec": {"template": ray_pod("2", "4Gi")}, "workerGroupSpecs": workers}
    return job(rayClusterSpec=cluster, **spec)


@pytest.mark.parametrize(
    ("group", "name"),
    [("worker-group-1", "worker-group-1"), ("", "worker"), ("WorkerGroup", "workergroup")],
)
def test_sets_are_head_and_groups(group: str, name: str) -> None:
    """[ctl-52] The submitter pod is another set, which upstream leaves out."""
    sets = ADAPTER.pod_sets(of_groups((group, 2)))
    assert [(each.name, each.count) for each in sets] == [("head", 1), (name, 2), ("submitter", 1)]


@pytest.mark.parametrize(
    ("mode", "cpu", "memory_mib"),
    [
        pytest.param("HTTPMode", 5000, 10 * 1024, id="as upstream counts"),
        pytest.param("K8sJobMode", 5500, 10 * 1024 + 200, id="with the submitter pod"),
    ],
)
def test_demand_is_that_of_all_pods(mode: str, cpu: int, memory_mib: int) -> None:
    """[ctl-52]."""
    found = ADAPTER.pod_sets(of_groups(("worker-group-1", 3), submissionMode=mode))
    assert demand_of(found) == {"cpu": cpu, "memory": memory_mib * MIB}


def test_the_name_of_its_unit_has_its_suffix_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """[ctl-53] A variable of Alibaba's platform removes it upstream; here it has no effect."""
    monkeypatch.setenv("PAI_ENV", "true")
    facts = read_facts(ADAPTER, job(), held_by_annotation=False)
    assert choose_unit_name(facts, is_taken=False) == (f"{facts.metadata.name}-ray-qu", False)


@pytest.mark.parametrize(
    ("status", "pods", "want"),
    [
        pytest.param(
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": LATER},
            NO_PODS,
            "finished",
            id="Complete",
        ),
        pytest.param(
            {"jobDeploymentStatus": "Failed", "endTime": LATER}, NO_PODS, "finished", id="Failed"
        ),
        pytest.param(
            {
                "jobDeploymentStatus": "Running",
                "startTime": LATER,
                "rayClusterStatus": {"state": "ready"},
            },
            PodCounts(total=1, living=1, running=1),
            "running",
            id="Running",
        ),
        pytest.param({}, NO_PODS, "starting", id="released: upstream's Pending"),
    ],
)
def test_its_state(status: dict[str, Any], pods: PodCounts, want: str) -> None:
    """[ctl-54] An end counts at once: remaining pods are charged until they are gone."""
    facts = read_facts(ADAPTER, job(status, suspend=False), held_by_annotation=False)
    assert judge_job(facts, pods, admitted=True, believed=False).state.value == want


def test_a_recorded_life() -> None:
    assert " ".join(told_states("rayjob-abcde")) == (
        "held stopping held released starting running stopping"
        " held released starting running finished gone"
    )
    assert demands_of("rayjob-abcde")[0] == {"cpu": "3500m", "memory": "3272Mi"}
