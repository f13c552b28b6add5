"""Facts about SparkApplication."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.job_state import NO_PODS, PodCounts, judge_job
from queue_controllers.decision.queue_unit_builder import demand_of, priority_of_job
from queue_controllers.extensions.spark_application import (
    SparkApplication,
    SparkApplicationAdapter,
)
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
    read_facts,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.well_known_labels import SUSPEND
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, sample_sets, troubles_of

ADAPTER: GenericJob[SparkApplication] = SparkApplicationAdapter()
AT = "2026-11-01T10:00:00Z"


def app(status: dict[str, Any] | None = None, **spec: Any) -> SparkApplication:
    body = sample("sparkapp")
    body["spec"] |= spec
    return msgspec.convert({**body, "status": status or {}}, SparkApplication)


def says(state: str, executors: str = "", **more: Any) -> dict[str, Any]:
    """Return a status with executors in these states."""
    states = {f"exec-{index}": each for index, each in enumerate(executors.split())}
    return {"applicationState": {"state": state}, "executorState": states, **more}


def test_the_sample_is_decoded() -> None:
    """Python: 512m and 384 MiB for the driver, 4096 and 1638 MiB for each of three executors."""
    assert sample_sets(ADAPTER, "sparkapp") == [("driver", 1), ("executor", 3)]
    memory = (512 + 384 + 3 * (4096 + 1638)) * 2**20
    assert demand_of(ADAPTER.pod_sets(app())) == {"cpu": 7000, "memory": memory}


def test_the_sample_is_valid() -> None:
    assert troubles_of(sample("sparkapp"), "sparkapplications") == []


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="no status yet"),
        pytest.param(says("SUSPENDING"), StatusFacts(), id="not suspended yet"),
        pytest.param(says("SUBMITTED"), StatusFacts(), id="submitted"),
        pytest.param(
            says("RUNNING", "RUNNING RUNNING COMPLETED", driverInfo={"podName": "d"}),
            StatusFacts(running=True, pods=3),
            id="runs",
        ),
        pytest.param(
            says("RUNNING", "RUNNING RUNNING PENDING"), StatusFacts(pods=3), id="one is missing"
        ),
        pytest.param(says("INVALIDATING"), StatusFacts(), id="changed"),
        pytest.param(says("PENDING_RERUN"), StatusFacts(), id="tried again"),
        pytest.param(says("SUBMISSION_FAILED"), StatusFacts(), id="may be retried"),
        pytest.param(says("SUCCEEDING"), StatusFacts(), id="about to succeed"),
        pytest.param(says("FAILING"), StatusFacts(), id="about to fail"),
        pytest.param(
            says("COMPLETED"), StatusFacts(outcome=Outcome(succeeded=True)), id="succeeded"
        ),
        pytest.param(
            {"applicationState": {"state": "FAILED", "errorMessage": "no image"}},
            StatusFacts(outcome=Outcome(succeeded=False, message="no image")),
            id="failed",
        ),
    ],
)
def test_status(status: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(app(status)) == want


def test_with_dynamic_allocation_the_minimum_runs() -> None:
    dynamic = {"enabled": True, "initialExecutors": 5, "minExecutors": 1}
    of = app(says("RUNNING", "RUNNING"), dynamicAllocation=dynamic)
    assert ADAPTER.status_of(of).running
    assert not ADAPTER.status_of(app(says("RUNNING"), dynamicAllocation=dynamic)).running


@pytest.mark.parametrize(
    ("submitted", "want"),
    [
        pytest.param(AT, "2026-11-01T10:00:00.999999Z", id="after a run"),
        pytest.param(None, None, id="before any"),
    ],
)
def test_suspended_after_its_submission(submitted: str | None, want: str | None) -> None:
    said = ADAPTER.status_of(app(says("SUSPENDED", lastSubmissionAttemptTime=submitted)))
    assert (said.suspended, said.suspended_since) == (True, want)


def test_an_unreadable_one_is_left_alone() -> None:
    assert ADAPTER.why_not_suspendable(app()) == ""
    odd = app(says("RUNNING"), driver={"memory": "1.5g"})
    assert "spec.driver.memory" in ADAPTER.why_not_suspendable(odd)
    assert ADAPTER.pod_sets(odd) == ()
    no_number = app(says("RUNNING"), executor={}, sparkConf={"spark.executor.instances": "many"})
    assert ADAPTER.status_of(no_number).running


def test_the_switch() -> None:
    assert ADAPTER.is_suspended(app())
    assert not ADAPTER.is_suspended(app(suspend=None))
    assert ADAPTER.suspend_patch(app()) == {"spec": {"suspend": True}}
    assert ADAPTER.release_patch(app(), {}) == {"spec": {"suspend": False}}
    assert ADAPTER.kind.held_only_at_creation


def test_a_release_annotates_driver_and_executors() -> None:
    stamp = PodStamp(labels={"a": "b"}, annotations={"c": "d"})
    of_one = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert ADAPTER.release_patch(app(), {"driver": stamp, "executor": stamp}) == {
        "spec": {"suspend": False, "driver": of_one, "executor": of_one}
    }


def test_updates_go_to_the_fields_that_pods_are_created_from() -> None:
    adapter = SparkApplicationAdapter()
    update = TemplateUpdate(labels={"a": "b"}, node_selector={"zone": "z"})
    assert adapter.update_patch(app(), {"driver": update}) == {
        "spec": {"driver": {"labels": {"a": "b"}, "nodeSelector": {"zone": "z"}}}
    }
    templated = app(executor={"template": {"spec": {"containers": []}}})
    where = {"spec": {"nodeSelector": {"zone": "z"}}}
    assert adapter.update_patch(templated, {"executor": update}) == {
        "spec": {"executor": {"labels": {"a": "b"}, "template": where}}
    }
    assert adapter.update_patch(app(), {}) == {}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"executor": {"priorityClassName": "c"}}, "c", id="the executors'"),
        pytest.param(
            {"driver": {"priorityClassName": "b"}, "executor": {"priorityClassName": "c"}},
            "b",
            id="the driver's first",
        ),
        pytest.param(
            {
                "batchSchedulerOptions": {"priorityClassName": "a"},
                "driver": {"priorityClassName": "b"},
            },
            "a",
            id="the batch scheduler's before both",
        ),
    ],
)
def test_priority(spec: dict[str, Any], want: str) -> None:
    assert ADAPTER.priority_of(app(**spec)) == PrioritySource(want)


def test_whose_pods() -> None:
    adapter = SparkApplicationAdapter()
    labels = {"sparkoperator.k8s.io/app-name": "pi", "spark-role": "executor"}
    assert set(adapter.pod_labels) == labels.keys()
    assert adapter.job_name_of(labels) == "pi"
    assert adapter.pod_set_of(Pod(metadata=ObjectMeta(labels=labels))) == "executor"
    other = {"spark-role": "shuffle"}
    assert adapter.pod_set_of(Pod(metadata=ObjectMeta(labels=other))) == ""


# --- upstream's tests ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "sets", "cpu", "memory_mib"),
    [
        pytest.param(
            {
                "mode": "cluster",
                "driver": {"cores": 2, "memory": "4g"},
                "executor": {"cores": 1, "memory": "2g", "instances": 2},
            },
            [("driver", 1), ("executor", 2)],
            4,
            8 * 1024 + 409 + 2 * 384,
            id="cluster",
        ),
        pytest.param(
            {"mode": "client", "executor": {"cores": 2, "memory": "2g", "instances": 3}},
            [("executor", 3)],
            6,
            6 * 1024 + 3 * 384,
            id="client",
        ),
    ],
)
def test_sets_and_demand(
    spec: dict[str, Any], sets: list[tuple[str, int]], cpu: int, memory_mib: int
) -> None:
    """[ctl-56] Upstream's 8Gi and 6Gi are the JVMs' alone; pods request an overhead as well."""
    found = ADAPTER.pod_sets(app(type="Java", sparkConf={}, **spec))
    assert [(each.name, each.count) for each in found] == sets
    assert demand_of(found) == {"cpu": cpu * 1000, "memory": memory_mib * 2**20}


def test_the_value_of_its_priority_class_counts() -> None:
    """[ctl-57]."""
    of = app(batchSchedulerOptions={"priorityClassName": "high-priority"})
    context = ClusterContext(priority_classes={"high-priority": 1000})
    facts = read_facts(ADAPTER, of, held_by_annotation=False)
    assert priority_of_job(facts, context) == ("high-priority", 1000)


RUNS = PodCounts(total=1, living=1, running=1)


@pytest.mark.parametrize(
    ("state", "annotation", "pods", "want"),
    [
        pytest.param("COMPLETED", "false", NO_PODS, "finished", id="COMPLETED"),
        pytest.param("FAILED", "false", NO_PODS, "finished", id="FAILED"),
        pytest.param("RUNNING", "false", RUNS, "running", id="RUNNING"),
        pytest.param("", "false", NO_PODS, "starting", id="released: upstream's Pending"),
        pytest.param("", "true", NO_PODS, "held", id="asks to be queued: Queuing, or Created"),
    ],
)
def test_its_state(state: str, annotation: str, pods: PodCounts, want: str) -> None:
    """[ctl-58] With an operator configured to honor the annotation; a queued job has a unit."""
    of = app(says(state, "RUNNING RUNNING RUNNING") if state else {}, suspend=False)
    meta = msgspec.structs.replace(of.metadata, annotations={SUSPEND: annotation})
    of = msgspec.structs.replace(of, metadata=meta)
    facts = read_facts(ADAPTER, of, held_by_annotation=True)
    assert judge_job(facts, pods, admitted=False, believed=False).state.value == want


def test_a_recorded_life() -> None:
    assert " ".join(told_states("sparkapplication-abcde")) == (
        "held stopping held released starting running stopping"
        " held released starting running starting finished gone"
    )
    assert demands_of("sparkapplication-abcde")[0] == {"cpu": "3", "memory": "4224Mi"}


def test_a_change_restarts_it_or_has_it_say_anew_that_it_is_suspended() -> None:
    states = " ".join(told_states("sparkapplication-i-mutate"))
    assert states == (
        "held stopping held stopping held released starting running starting running stopping"
        " held stopping held released starting running deleting gone"
    )
