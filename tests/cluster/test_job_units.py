"""A Job's unit on a real cluster, and how it follows the Job while that waits.

Ids in brackets stand for tests of upstream's (upstream/README.md).
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.cluster.api_audit import CONTROLLERS_AGENT
from tests.cluster.queue_world import (
    QUOTA_LABEL,
    Cluster,
    Json,
    QueueWorld,
    debug,
    pod_sets_of,
    quota_view,
    reason_of,
    refusal_of,
)
from tests.waiting import until

LONG = 600
PRIORITY = "scheduling.x-k8s.io/priority"
ACTIVE = "scheduling.x-k8s.io/active"
MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"
HIGH = "job-units-high"
HIGH_VALUE = 20


# --- its fields ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def never(cluster: Cluster) -> str:
    """A quota that none of these jobs fits into, and a priority class."""
    cluster.world.create_quota("never", cpu_max=1)
    cluster.world.create_priority_class(HIGH, HIGH_VALUE)
    # Until the controllers have seen the class.
    cluster.world.create_job("class", "never", pod_spec={"priorityClassName": HIGH})
    until(lambda: cluster.world.unit_of("class").get("spec", {}).get("priority") == HIGH_VALUE)
    return "never"


@pytest.mark.parametrize(
    ("name", "annotation", "pod_spec", "want"),
    [
        pytest.param("none", None, {}, 0, id="ctl-29 neither class nor annotation"),
        pytest.param("abc", "abc", {}, 0, id="ctl-29 not a number: ignored"),
        pytest.param("forty-two", "42", {}, 42, id="ctl-29 a number"),
        pytest.param("minus", "-5", {}, -5, id="ctl-29 it may be negative"),
        pytest.param(
            "of-class", None, {"priorityClassName": HIGH}, HIGH_VALUE, id="ctl-30 of the class"
        ),
        pytest.param("wins", "99", {"priorityClassName": HIGH}, 99, id="ctl-30 annotation wins"),
        pytest.param(
            "no-number",
            "not-a-number",
            {"priorityClassName": HIGH},
            HIGH_VALUE,
            id="ctl-30 not a number: that of the class",
        ),
        pytest.param("alone", "7", {}, 7, id="ctl-30 annotation without class"),
        pytest.param(
            "gone",
            None,
            {"priorityClassName": "test-priority-class", "priority": 5},
            5,
            id="ctl-43 missing class: the literal",
        ),
    ],
)
def test_priority_at_creation(
    world: QueueWorld,
    never: str,
    name: str,
    annotation: str | None,
    pod_spec: Json,
    want: int,
) -> None:
    annotations = {} if annotation is None else {PRIORITY: annotation}
    job = f"priority-{name}"
    world.create_job(job, never, cpu="2", annotations=annotations, pod_spec=pod_spec)
    spec = until(lambda: world.unit_of(job))["spec"]
    assert spec["priority"] == want
    assert spec.get("priorityClassName", "") == pod_spec.get("priorityClassName", "")


@pytest.mark.parametrize(
    ("name", "annotations", "want"),
    [
        pytest.param("absent", {}, (None, None), id="ctl-31 absent"),
        pytest.param("empty", {ACTIVE: ""}, (None, None), id="ctl-31 empty"),
        pytest.param("nope", {ACTIVE: "nope"}, (None, None), id="ctl-31 not a boolean"),
        pytest.param("false", {ACTIVE: "false"}, (False, None), id="ctl-31 false"),
        pytest.param("true", {ACTIVE: "true"}, (True, None), id="ctl-31 true"),
        pytest.param("seconds", {MAX_EXEC: "3600"}, (None, 3600), id="ctl-32 seconds"),
        pytest.param("zero", {MAX_EXEC: "0"}, (None, None), id="ctl-32 zero"),
        pytest.param("negative", {MAX_EXEC: "-5"}, (None, None), id="ctl-32 negative"),
        pytest.param("hour", {MAX_EXEC: "1h"}, (None, None), id="ctl-32 not a number"),
    ],
)
def test_activation_at_creation(
    world: QueueWorld,
    never: str,
    name: str,
    annotations: dict[str, str],
    want: tuple[bool | None, int | None],
) -> None:
    job = f"active-{name}"
    world.create_job(job, never, cpu="2", annotations=annotations)
    spec = until(lambda: world.unit_of(job))["spec"]
    assert (spec.get("active"), spec.get("maximumExecutionTimeSeconds")) == want


# --- its demand ---------------------------------------------------------------------------------


def container(name: str, cpu: int, **more: object) -> Json:
    """Return a container that requests CPUs."""
    requests = {"resources": {"requests": {"cpu": str(cpu)}}}
    return {"name": name, "image": "none", **requests, **more}


@pytest.mark.parametrize(
    ("name", "pod_spec", "want"),
    [
        pytest.param("init", {"initContainers": [container("init", 3)]}, 3, id="the larger init"),
        pytest.param(
            "sidecar",
            {"initContainers": [container("side", 1, restartPolicy="Always")]},
            2,
            id="a sidecar in addition to the main container",
        ),
        pytest.param(
            "limits",
            {
                "containers": [
                    {"name": "main", "image": "none", "resources": {"limits": {"cpu": "2"}}}
                ]
            },
            2,
            id="limits alone are requests",
        ),
        pytest.param(
            "whole-pod", {"resources": {"requests": {"cpu": "3"}}}, 3, id="resources of the pod"
        ),
    ],
)
def test_demand_is_counted_as_kubernetes_counts_it(
    cluster: Cluster, world: QueueWorld, name: str, pod_spec: Json, want: int
) -> None:
    """A quota of that size is full with it; in a quota of one less it never starts."""
    small, exact = f"{name}-small", f"{name}-exact"
    world.create_quota(small, cpu_max=want - 1)
    world.create_quota(exact, cpu_max=want)
    for quota in (small, exact):
        world.create_job(quota, quota, run_seconds=LONG, pod_spec=pod_spec)
    until(lambda: world.phase_of_job(exact) == "Running")
    used = {"cpu": str(want)}
    assert quota_view(cluster.scheduler, exact)["used"] == used
    assert quota_view(cluster.scheduler, exact)["charged"] == used
    until(lambda: refusal_of(cluster.scheduler, small).get("requested") == str(want))
    assert world.phase_of_job(small) == "Enqueued"


def test_usage_of_finished_indexes_is_released(cluster: Cluster, world: QueueWorld) -> None:
    """[ctl-41] One index done, one failed for good: two pods less, now and when it is requeued."""
    world.create_quota("indexed", cpu_max=4)
    world.create_job(
        "indexed",
        "indexed",
        parallelism=4,
        completions=4,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        run_seconds=LONG,
    )
    world.await_running("indexed", 4)
    pods = {
        pod["metadata"]["labels"][INDEX]: pod["metadata"]["name"] for pod in world.pods("indexed")
    }
    world.end_pod(pods["0"], "Failed")
    world.end_pod(pods["1"])
    until(lambda: quota_view(cluster.scheduler, "indexed")["used"] == {"cpu": "2"})
    given_back = world.unit_of("indexed")["status"]["reclaimablePods"]
    assert given_back == [{"name": "indexed", "count": 2}]
    world.patch_job("indexed", {"metadata": {"annotations": {ACTIVE: "false"}}})
    until(lambda: world.phase_of_job("indexed") == "Enqueued")
    until(lambda: pod_sets_of(world.unit_of("indexed")) == [("indexed", 2)])


INDEX = "batch.kubernetes.io/job-completion-index"


def test_some_pods_of_a_job_done_and_some_to_come(world: QueueWorld) -> None:
    """[ctl-40] Two at a time of four, one done: it needs two when it is requeued."""
    world.create_quota("some", cpu_max=2)
    world.create_job("some", "some", parallelism=2, completions=4, run_seconds=LONG)
    first, _ = world.await_running("some", 2)
    world.end_pod(first["metadata"]["name"])
    until(lambda: world.job("some")["status"].get("succeeded") == 1)
    world.await_running("some", 2)
    assert "reclaimablePods" not in world.unit_of("some")["status"]
    world.patch_job("some", {"metadata": {"annotations": {ACTIVE: "false"}}})
    until(lambda: world.phase_of_job("some") == "Enqueued")
    assert pod_sets_of(world.unit_of("some")) == [("some", 2)]


# --- its changes --------------------------------------------------------------------------------


def test_the_unit_of_an_elastic_job_follows_it_while_it_waits(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[ctl-1, ctl-2] Nothing is written while nothing changes; smaller, it fits and starts."""
    world.create_quota("elastic", cpu_max=2)
    world.create_job("elastic", "elastic", parallelism=3, completions=6, run_seconds=LONG)
    until(lambda: refusal_of(cluster.scheduler, "elastic").get("requested") == "3")
    world.patch_job("elastic", {"spec": {"parallelism": 5}})
    until(lambda: pod_sets_of(world.unit_of("elastic")) == [("elastic", 5)])
    until(lambda: refusal_of(cluster.scheduler, "elastic").get("requested") == "5")
    world.patch_job("elastic", {"metadata": {"labels": {"a-label": "of-mine"}}})
    until(lambda: world.unit_of("elastic")["metadata"]["labels"].get("a-label") == "of-mine")
    world.patch_job("elastic", {"spec": {"parallelism": 2}})
    world.await_running("elastic", 2)
    assert pod_sets_of(world.unit_of("elastic")) == [("elastic", 2)]
    assert quota_view(cluster.scheduler, "elastic")["used"] == {"cpu": "2"}
    written = world.audit.accepted(CONTROLLERS_AGENT, "elastic")
    create_three_edits_release = [*["queueunits"] * 4, "jobs"]
    assert [each.resource for each in written][:5] == create_three_edits_release


def test_growth_of_a_running_elastic_job_is_recorded(cluster: Cluster, world: QueueWorld) -> None:
    """Beyond its quota: it is never evicted for that, and nothing else is admitted meanwhile."""
    world.create_quota("grows", cpu_max=2)
    world.create_job("grows", "grows", parallelism=1, completions=4, run_seconds=LONG)
    until(lambda: world.phase_of_job("grows") == "Running")
    world.patch_job("grows", {"spec": {"parallelism": 3}})
    world.await_running("grows", 3)
    until(lambda: quota_view(cluster.scheduler, "grows")["used"] == {"cpu": "3"})
    until(lambda: "Grown" in world.event_notes("grows"))
    world.create_job("grows-next", "grows")
    until(lambda: refusal_of(cluster.scheduler, "grows-next"))
    assert not world.is_suspended("grows")


def test_priority_raised_while_queued_changes_the_order(
    cluster: Cluster, world: QueueWorld
) -> None:
    """[ctl-22 to ctl-28] The annotation is added, changed and removed; the order follows."""
    hold = "order-holder"
    world.create_quota("order", cpu_max=1)
    world.create_job(hold, "order", run_seconds=LONG)
    [pod] = until(lambda: world.running_pods(hold))
    for name in ("order-a", "order-b", "order-c"):
        world.create_job(name, "order", run_seconds=LONG)
        until(partial(world.unit_of, name))  # of several at once, any may get its unit first

    def line() -> list[str]:
        return [unit["name"] for unit in debug(cluster.scheduler, "/debug/queues/order")["units"]]

    until(lambda: line() == ["order-a", "order-b", "order-c"])
    set_priority(world, "order-b", "5")
    until(lambda: line() == ["order-b", "order-a", "order-c"])
    set_priority(world, "order-c", "9")
    until(lambda: line() == ["order-c", "order-b", "order-a"])
    set_priority(world, "order-b", None)
    until(lambda: line() == ["order-c", "order-a", "order-b"])
    assert world.unit_of("order-b")["spec"]["priority"] == 0
    world.end_pod(pod["metadata"]["name"])
    until(lambda: world.running_pods("order-c"))
    assert [world.phase_of_job(f"order-{each}") for each in "ab"] == ["Enqueued", "Enqueued"]


def test_a_queued_job_moves_with_its_quota_label(cluster: Cluster, world: QueueWorld) -> None:
    """It moves from one queue to another, and its pods are charged to the new quota."""
    world.create_quota("full", cpu_max=1)
    world.create_quota("free", cpu_max=2)
    world.create_job("moves", "full", cpu="2", run_seconds=LONG)
    until(lambda: reason_of(world.unit_of("moves")))
    assert world.unit_of("moves")["spec"]["queue"] == "full"
    world.patch_job("moves", {"metadata": {"labels": {QUOTA_LABEL: "free"}}})
    [pod] = until(lambda: world.running_pods("moves"))
    assert world.unit_of("moves")["spec"]["queue"] == "free"
    assert pod["metadata"]["labels"][QUOTA_LABEL] == "free"
    assert quota_view(cluster.scheduler, "free")["used"] == {"cpu": "2"}
    assert quota_view(cluster.scheduler, "full")["used"] == {}


def set_priority(world: QueueWorld, job: str, priority: str | None) -> None:
    """Annotate a job with its priority, or remove the annotation."""
    world.patch_job(job, {"metadata": {"annotations": {PRIORITY: priority}}})


def test_a_running_job_that_names_another_quota_moves_when_requeued(
    cluster: Cluster, world: QueueWorld
) -> None:
    for name in ("stays", "elsewhere"):
        world.create_quota(name, cpu_max=2)
    world.create_job("relabelled", "stays", run_seconds=LONG)
    until(lambda: world.phase_of_job("relabelled") == "Running")
    world.patch_job("relabelled", {"metadata": {"labels": {QUOTA_LABEL: "elsewhere"}}})
    until(lambda: "LabelChangeIgnored" in world.event_notes("relabelled"))
    note = world.event_notes("relabelled")["LabelChangeIgnored"]
    assert note.startswith("It names quota elsewhere, and is charged to quota stays, where it was")

    def used() -> list[Json]:
        return [quota_view(cluster.scheduler, each)["used"] for each in ("stays", "elsewhere")]

    assert used() == [{"cpu": "1"}, {}]
    assert world.phase_of_job("relabelled") == "Running"
    world.patch_job("relabelled", {"metadata": {"annotations": {ACTIVE: "false"}}})
    until(lambda: world.phase_of_job("relabelled") == "Enqueued")
    world.patch_job("relabelled", {"metadata": {"annotations": {ACTIVE: "true"}}})
    until(lambda: used() == [{}, {"cpu": "1"}])
