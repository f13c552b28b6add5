"""Facts about the mpi-operator's MPIJob."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.extensions.mpi_job import MpiJob, MpiJobAdapter
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    LabelsPods,
    NamesPods,
    PodStamp,
    PrioritySource,
    StatusFacts,
    pod_set_of_pod,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.pod import Pod
from tests.queue_controllers.extensions.kubeflow_kit import (
    CHANGED,
    asked_by_job,
    condition,
    demand_found,
    random_roles,
    role,
)
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, troubles_of

Json = dict[str, Any]

ADAPTER: Final = MpiJobAdapter()
SEEDS: Final = range(100)


def job(status: Json | None = None, **spec: Any) -> MpiJob:
    body = {"metadata": {"name": "main"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, MpiJob)


def labels(**said: str) -> dict[str, str]:
    return {f"training.kubeflow.org/{key.replace('_', '-')}": text for key, text in said.items()}


def test_the_kind() -> None:
    adapter: GenericJob[MpiJob] = ADAPTER
    kind = adapter.kind
    assert (kind.key, kind.api_version, kind.kind, kind.plural, kind.name_suffix) == (
        *("mpijob", "kubeflow.org/v2beta1", "MPIJob", "mpijobs", "mpi-qu"),
    )
    assert kind.has_suspend_field


def test_the_switch() -> None:
    assert ADAPTER.is_suspended(job(runPolicy={"suspend": True}))
    assert not ADAPTER.is_suspended(job(runPolicy={"suspend": False}))
    assert not ADAPTER.is_suspended(job())
    assert ADAPTER.suspend_patch(job()) == {"spec": {"runPolicy": {"suspend": True}}}
    assert ADAPTER.release_patch(job(), {}) == {"spec": {"runPolicy": {"suspend": False}}}
    assert ADAPTER.why_not_suspendable(job()) == ""


def test_a_release_annotates_the_templates_in_the_same_patch() -> None:
    of = job(mpiReplicaSpecs={"Launcher": role(), "Worker": role()})
    stamp = PodStamp(annotations={"a": "b"})
    template = {"template": {"metadata": {"annotations": {"a": "b"}}}}
    assert ADAPTER.release_patch(of, {"launcher": stamp, "worker": stamp}) == {
        "spec": {
            "runPolicy": {"suspend": False},
            "mpiReplicaSpecs": {"Launcher": template, "Worker": template},
        }
    }


def test_updates_reach_the_templates() -> None:
    of = job(mpiReplicaSpecs={"Launcher": role(), "Worker": role()})
    update = TemplateUpdate(node_selector={"rack": "r"})
    template = {"spec": {"nodeSelector": {"rack": "r"}}}
    assert ADAPTER.update_patch(of, {"launcher": update}) == {
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}}}
    }


def test_other_controllers_are_recognized() -> None:
    assert ADAPTER.foreign_manager(job(runPolicy={"managedBy": "x.y/z"})) == "x.y/z"
    assert ADAPTER.foreign_manager(job(runPolicy={"managedBy": "kubeflow.org/mpi-operator"})) == ""
    assert ADAPTER.foreign_manager(job()) == ""


def test_the_launcher_comes_first() -> None:
    specs = {"Worker": role(3), "Launcher": role()}
    for as_worker in (False, True):
        found = ADAPTER.pod_sets(job(mpiReplicaSpecs=specs, runLauncherAsWorker=as_worker))
        assert [(each.name, each.count) for each in found] == [("launcher", 1), ("worker", 3)]
        assert not any(each.template.spec.init_containers for each in found)


def test_finished_pods_count_while_the_run_goes_on() -> None:
    specs = {"Launcher": role(), "Worker": role(3)}
    status = {"replicaStatuses": {"Launcher": {"succeeded": 1}}}
    launcher, _ = ADAPTER.pod_sets(job(status, mpiReplicaSpecs=specs))
    assert (launcher.count, launcher.is_done) == (0, True)
    held = job(status, runPolicy={"suspend": True}, mpiReplicaSpecs=specs)
    assert ADAPTER.pod_sets(held)[0].count == 1


def test_whole_templates_are_those_of_the_object() -> None:
    raw = {"spec": {"mpiReplicaSpecs": {"Worker": role(), "Launcher": role(cpu="2")}}}
    assert ADAPTER.full_templates(raw) == {
        "launcher": role(cpu="2")["template"],
        "worker": role()["template"],
    }


def test_priority_comes_from_the_policy_or_the_first_template() -> None:
    specs = {"Worker": role(priorityClassName="low"), "Launcher": role(priorityClassName="high")}
    assert ADAPTER.priority_of(job(mpiReplicaSpecs=specs)) == PrioritySource("high")
    policy = {"schedulingPolicy": {"priorityClass": "policy"}}
    of = job(runPolicy=policy, mpiReplicaSpecs=specs)
    assert ADAPTER.priority_of(of) == PrioritySource("policy")


def test_a_launcher_may_be_active_while_suspended() -> None:
    status = {
        "conditions": [condition("Suspended"), condition("Running", "False")],
        "replicaStatuses": {"Launcher": {"active": 1}, "Worker": {}},
    }
    want = StatusFacts(suspended=True, suspended_since=CHANGED, pods=1)
    assert ADAPTER.status_of(job(status)) == want
    assert ADAPTER.status_of(job()).is_empty


@pytest.mark.parametrize(
    ("of", "job_name", "pod_set"),
    [
        pytest.param(
            labels(operator_name="mpi-operator", job_name="a", job_role="launcher"),
            *("a", "launcher"),
            id="a launcher, whose controller is a Job",
        ),
        pytest.param(
            labels(operator_name="mpi-operator", job_name="a", job_role="worker"),
            *("a", "worker"),
            id="a worker",
        ),
        pytest.param(
            labels(operator_name="mpijob-controller", job_name="a", replica_type="worker"),
            *("", ""),
            id="another operator's, of the same name",
        ),
        pytest.param({}, "", "", id="one without labels"),
    ],
)
def test_pods_are_found_by_labels(of: dict[str, str], job_name: str, pod_set: str) -> None:
    kept = {key: text for key, text in of.items() if key in ADAPTER.pod_labels}
    assert ADAPTER.job_name_of(kept) == job_name
    pod = msgspec.convert({"metadata": {"labels": kept}}, Pod)
    assert pod_set_of_pod(ADAPTER, pod, ("launcher", "worker")) == pod_set


def test_its_pods_have_several_controllers() -> None:
    """That of the launcher is not known before it exists."""
    assert not ADAPTER.kind.owns_pods
    assert isinstance(ADAPTER, LabelsPods)
    assert not isinstance(ADAPTER, NamesPods)


# --- samples, random specs, lives ---------------------------------------------------------------


def test_the_sample_is_accepted_and_read() -> None:
    body = sample("mpijob")
    assert troubles_of(body, "mpijobs-v2beta1") == []
    of = msgspec.convert(body, MpiJob)
    assert ADAPTER.is_suspended(of)
    found = [(each.name, each.count) for each in ADAPTER.pod_sets(of)]
    assert found == [("launcher", 1), ("worker", 2)]


def test_demand_is_that_of_the_spec() -> None:
    for seed in SEEDS:
        rng = random.Random(f"mpijob-{seed}")
        roles = random_roles(rng, ("Launcher", "Worker"))
        body = {"spec": {"mpiReplicaSpecs": roles}}
        assert demand_found(ADAPTER, body) == asked_by_job(roles, {}), f"seed {seed}"


def test_a_life_as_it_was() -> None:
    """Stopping ends with the launcher's last word, not with `Suspended`."""
    states, demands = told_states("mpijob-v2beta1-abcde"), demands_of("mpijob-v2beta1-abcde")
    assert states == [
        *("held", "released", "starting", "running", "stopping"),
        *("held", "released", "starting", "running", "finished", "gone"),
    ]
    assert demands == [{"cpu": "3", "memory": "3Gi"}]


def test_edits_while_held_change_the_demand() -> None:
    demands = demands_of("mpijob-v2beta1-i-mutate")
    assert demands == [
        {"cpu": "3", "memory": "3Gi"},
        {"cpu": "4", "memory": "2Gi"},
        {"cpu": "6"},
    ]


def test_a_launcher_that_comes_late_is_waited_for() -> None:
    states = told_states("mpijob-v2beta1-o-waitready")
    assert states == [
        *("held", "released", "starting", "running", "stopping"),
        *("held", "released", "starting", "running", "deleting", "gone"),
    ]
