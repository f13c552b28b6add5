"""Users gain nothing by editing a unit, or by naming one, on a real API server."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import pytest

from shared_api.well_known_labels import RELATED_QUEUE_UNIT
from tests.cluster.api_audit import CONTROLLERS_AGENT
from tests.cluster.played_pods import LONG, RUN_SECONDS
from tests.cluster.queue_world import MERGE, QUOTA_LABEL, UNITS, Json, QueueWorld, quota_view
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true
from tests.waiting import stays, until

if TYPE_CHECKING:
    from tests.cluster.queue_world import Cluster

MARK: Final = "koord-queue/adopted"
FORGED: Final = {
    "type": "Adopted",
    "status": "True",
    "reason": "RanBefore",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def edit(world: QueueWorld, name: str, body: Json) -> Json:
    """Change a unit as a user with `edit` can: not its status."""
    path = f"{UNITS.format('default')}/{name}"
    edited: Json = world.api.request("PATCH", path, body, content_type=MERGE)
    return edited


def test_a_unit_that_claims_adoption_waits_in_the_queue(
    cluster: Cluster, world: QueueWorld
) -> None:
    """The status is dropped from a create and from an ordinary patch."""
    world.create_quota("forged", cpu_max=1)
    world.create_unit("forged-first", "forged", cpu=1)
    until(lambda: world.phase("forged-first") == "Dequeued")
    world.create_unit("forged", "forged", cpu=1000)
    status = {"phase": "Running", "conditions": [FORGED]}
    body = {"metadata": {"annotations": {MARK: "true"}}, "status": status}
    edited = edit(world, "forged", body)
    assert edited["metadata"]["annotations"][MARK] == "true"
    assert not is_true(edited, "Adopted")
    stays(lambda: world.phase("forged") == "Enqueued")
    assert quota_view(cluster.scheduler, "forged")["used"] == {"cpu": "1"}


def test_a_unit_cannot_be_dated_to_the_front_of_a_queue(world: QueueWorld) -> None:
    world.create_quota("dated", cpu_max=1, labels={"koord-queue/queue-policy": "FIFO"})
    world.create_unit("dated-runs", "dated", cpu=1)
    until(lambda: world.phase("dated-runs") == "Dequeued")
    for name in ("dated-first", "dated-late"):
        world.create_unit(name, "dated", cpu=1)
    dated = {"koord-queue/managed-by": "me", "koord-queue/job-created-at": "2020-01-01T00:00:00Z"}
    edit(world, "dated-late", {"metadata": {"annotations": dated}})
    world.finish_unit("dated-runs")
    until(lambda: world.phase("dated-first") == "Dequeued")
    assert world.phase("dated-late") == "Enqueued"


def test_an_admitted_unit_stays_in_its_quota_until_it_is_requeued(
    cluster: Cluster, world: QueueWorld
) -> None:
    """The status names the quota, and an ordinary edit cannot change it."""
    world.create_quota("moved-from", cpu_max=1)
    world.create_quota("moved-to", cpu_max=1)
    world.create_unit("moved", "moved-from", cpu=1)
    until(lambda: world.phase("moved") == "Dequeued")
    placement = world.unit("moved")["status"]["placement"]
    assert (placement["quota"], placement["labels"]) == ("moved-from", {QUOTA_LABEL: "moved-from"})
    edit(world, "moved", {"metadata": {"labels": {QUOTA_LABEL: "moved-to"}}})

    def used() -> list[str]:
        quotas = ("moved-from", "moved-to")
        views = [quota_view(cluster.scheduler, each) for each in quotas]
        return [view.get("used", {}).get("cpu", "0") for view in views]

    stays(lambda: used() == ["1", "0"])
    world.requeue_unit("moved")
    until(lambda: used() == ["0", "1"])
    until(lambda: world.phase("moved") == "Dequeued")
    assert world.unit("moved")["status"]["placement"]["quota"] == "moved-to"


def test_a_pod_that_names_a_unit_of_another_quota_is_charged_to_its_own(
    cluster: Cluster, world: QueueWorld
) -> None:
    """It neither uses the other quota, nor is it covered by the unit's admission."""
    world.create_quota("named", cpu_max=3)
    world.create_quota("naming", cpu_max=9)
    world.create_unit("named", "named", cpu=1)
    until(lambda: world.phase("named") == "Dequeued")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    metadata = {
        "name": "naming",
        "labels": {QUOTA_LABEL: "naming"},
        "annotations": {RELATED_QUEUE_UNIT: "default/named", RUN_SECONDS: LONG},
    }
    path = "/api/v1/namespaces/default/pods"
    body = {"metadata": metadata, "spec": {"containers": [container]}}
    world.api.request("POST", path, body)
    until(lambda: quota_view(cluster.scheduler, "naming").get("used") == {"cpu": "2"})
    assert quota_view(cluster.scheduler, "named")["used"] == {"cpu": "1"}
    world.create_unit("named-rest", "named", cpu=2)
    until(lambda: world.phase("named-rest") == "Dequeued")
    world.api.request("DELETE", f"{path}/naming", {"gracePeriodSeconds": 0})
    until(lambda: quota_view(cluster.scheduler, "naming")["used"] == {})


def test_shrinking_a_pending_unit_starts_nothing(world: QueueWorld) -> None:
    """The controllers undo it; however the race ends, the job is not released for less."""
    world.create_quota("shrunk", cpu_max=1)
    world.create_job("shrunk", "shrunk", cpu="2")
    until(lambda: world.phase_of_job("shrunk") == "Enqueued")
    unit = world.unit_of("shrunk")
    (pod_set,) = unit["spec"]["podSet"]
    asks: Json = {"requests": {"cpu": "1m"}}
    template = {"spec": {"containers": [{"name": "main", "resources": asks}]}}
    small = {"podSet": [{**pod_set, "template": template}], "request": {"cpu": "1m"}}
    edit(world, unit["metadata"]["name"], {"spec": small})

    def is_as_its_job() -> bool:
        of = world.unit_of("shrunk")
        (now,) = of["spec"]["podSet"]
        return bool(now == pod_set and of["status"]["phase"] == "Enqueued")

    until(is_as_its_job)
    stays(is_as_its_job)
    assert world.is_suspended("shrunk")
    assert not world.running_pods("shrunk")


each_edit = pytest.mark.parametrize(
    ("name", "spec", "of_pod_set"),
    [
        pytest.param("queue", {"queue": "nobodys"}, {}, id="another queue"),
        pytest.param("least", {}, {"minCount": 1}, id="fewer pods are enough"),
        pytest.param("time", {"maximumExecutionTimeSeconds": 1}, {}, id="a shorter time to run"),
        pytest.param("priority", {"priority": 9000}, {}, id="a higher priority"),
    ],
)


def edit_spec(world: QueueWorld, name: str, spec: Json, of_pod_set: Json) -> Json:
    """Edit the spec of a unit with one pod set; return what it was before."""
    before: Json = world.unit(name)["spec"]
    (pod_set,) = before["podSet"]
    edit(world, name, {"spec": {**spec, "podSet": [{**pod_set, **of_pod_set}]}})
    return before


def without_templates(spec: Json) -> Json:
    """Remove what a release writes into the templates and leaves there."""
    sets = [{**each, "template": None} for each in spec["podSet"]]
    return {**spec, "podSet": sets}


@each_edit
def test_an_edit_of_a_waiting_unit_is_undone_once(
    world: QueueWorld, name: str, spec: Json, of_pod_set: Json
) -> None:
    """However the race with the scheduler ends, the job does not start with less."""
    world.create_quota(name, cpu_max=1)
    annotations = {"koord-queue/running-timeout": "3s"}  # how long it waits for the rest of it
    sizes: Json = {"parallelism": 2, "completions": 2}
    world.create_job(name, name, annotations=annotations, **sizes)
    until(lambda: world.phase_of_job(name) == "Enqueued")
    before = edit_spec(world, name, spec, of_pod_set)

    def is_undone() -> bool:
        unit = world.unit(name)
        return bool(unit["spec"] == before and unit["status"]["phase"] == "Enqueued")

    def edits() -> int:
        written = world.audit.accepted(CONTROLLERS_AGENT, name)
        return [(each.verb, each.resource) for each in written].count(("patch", "queueunits"))

    until(is_undone)
    until(lambda: edits() == 1)
    stays(lambda: is_undone() and edits() == 1)
    assert world.is_suspended(name)
    assert world.pods(name) == []


@each_edit
def test_an_edit_of_an_admitted_unit_changes_nothing_of_its_job(
    cluster: Cluster, world: QueueWorld, name: str, spec: Json, of_pod_set: Json
) -> None:
    """Fields that count until its end are undone at once, the others before it is requeued."""
    job = f"{name}-admitted"
    world.create_quota(job, cpu_max=2)
    sizes: Json = {"parallelism": 2, "completions": 2}
    world.create_job(job, job, run_seconds=600, **sizes)
    until(lambda: world.phase_of_job(job) == "Running")
    before = edit_spec(world, job, spec, of_pod_set)

    def goes_on() -> bool:
        used = quota_view(cluster.scheduler, job)["used"]
        return used == {"cpu": "2"} and len(world.running_pods(job)) == 2

    to_the_end = ("priority", "maximumExecutionTimeSeconds")
    until(lambda: all(world.unit(job)["spec"].get(key) == before.get(key) for key in to_the_end))
    stays(goes_on)
    world.patch_job(job, {"metadata": {"annotations": {"scheduling.x-k8s.io/active": "false"}}})
    until(lambda: world.phase(job) == "Enqueued")
    after = world.unit(job)["spec"]
    assert without_templates(after) == {**without_templates(before), "active": False}


def test_a_unit_stays_the_only_one_of_its_job(world: QueueWorld) -> None:
    """Another version of the job's kind is nothing to the queue; another group is refused."""
    world.create_quota("version", cpu_max=1)
    world.create_job("version", "version", cpu="2")
    until(lambda: world.phase_of_job("version") == "Enqueued")
    uid = world.unit("version")["metadata"]["uid"]
    for group, is_taken in (("batch", True), ("example.com", False)):
        body = {"spec": {"consumerRef": {"apiVersion": f"{group}/v9"}}}
        with nullcontext() if is_taken else pytest.raises(ApiError, match="group"):
            edit(world, "version", body)
        stays(lambda: world.unit_of("version")["metadata"]["uid"] == uid)
