"""The life of a Job over the fake API server, and what can happen to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog

from queue_controllers.configuration import Configuration, GeneralOptions
from shared_api.fake_api_server.faults import Match
from shared_api.testing.object_builders import elastic_quota_body
from tests.queue_controllers.controllers_world import make_unit
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

STATUS = Match(plural="queueunits", subresource="status")


def test_a_job_runs_from_start_to_end_with_four_writes(world: World) -> None:
    world.start()
    job = world.job()
    world.settle()
    unit = world.get_unit()
    assert unit["spec"]["consumerRef"]["uid"] == job["metadata"]["uid"]
    assert unit["spec"]["queue"] == "gold"
    assert unit["spec"]["request"] == {"cpu": "2"}
    world.admit()
    world.settle()
    released = world.get_job()
    assert released["spec"]["suspend"] is False
    stamped = released["spec"]["template"]["metadata"]
    assert stamped["annotations"] == {
        "koord-queue/related-queueunit": "team/main",
        "koord-queue/stamped-quota": "gold",
    }
    assert stamped["labels"]["quota.scheduling.koordinator.sh/name"] == "gold"
    world.run_pods()
    world.settle()
    assert world.get_unit()["status"]["admissions"][0]["running"] == 2
    assert world.phase() == "Running"
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"
    assert world.get_unit()["status"]["admissions"] == []
    assert writes_to(world.server) == [
        "create queueunits",
        "patch jobs",
        "patch queueunits/status",
        "patch queueunits/status",
    ]


def test_changes_without_effect_are_not_reconciled(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    assert world.looks() == 1, "the unit that it created comes back by the watch, and is no news"
    world.patch_job_status({"uncountedTerminatedPods": {}})
    world.settle()
    assert world.looks() == 1
    world.admit()
    world.settle()
    assert world.looks() == 2, "nor is the job that it has released"
    world.run_pods()
    world.settle()
    assert world.phase() == "Running"
    assert world.looks() == 3, "pods and the job's status are handled together"
    world.complete()
    world.settle()
    assert world.looks() == 4


def test_a_system_at_rest_writes_nothing(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    before = world.server.resource_version
    world.settle(30.0)
    world.start()  # and a restart finds nothing to do either
    assert world.server.resource_version == before


def test_an_unsuspended_arrival_is_suspended_and_queued(world: World) -> None:
    world.start()
    world.job(suspend=False)
    world.settle()
    assert world.is_suspended()
    assert world.phase() == "Enqueued"
    assert writes_to(world.server) == ["patch jobs", "create queueunits"]


def test_resumed_by_hand_it_is_suspended_again(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.patch_job({"spec": {"suspend": False}})
    world.settle()
    assert world.is_suspended()
    assert "SuspendedAgain" in world.events()


def test_it_is_suspended_again_as_often_as_it_is_resumed(world: World) -> None:
    world.start()
    world.job()
    for _ in range(5):
        world.settle(2.0)
        world.patch_job({"spec": {"suspend": False}})
    world.settle(2.0)
    assert world.is_suspended()
    conditions = {each["type"]: each for each in world.get_unit()["status"]["conditions"]}
    assert conditions["SuspendContested"]["status"] == "True"
    assert world.events() >= {"SuspendedAgain", "SuspendContested"}


def test_suspended_by_hand_while_it_runs_it_is_resumed(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"suspend": True}})
    world.settle()
    assert world.is_suspended()  # its pods live: it is not resumed in addition to them
    world.end_pods()
    world.settle()
    assert not world.is_suspended()
    assert "Resumed" in world.events()


def test_deactivated_while_it_runs_it_is_released_when_its_pods_are_gone(
    world: World,
) -> None:
    """Conformance item ctl-38."""
    run(world)
    world.patch_job({"metadata": {"annotations": {"scheduling.x-k8s.io/active": "false"}}})
    world.settle()
    assert world.is_suspended()
    assert world.phase() == "Running"
    assert world.get_unit()["status"]["admissions"] != []
    world.end_pods()
    world.settle()
    assert world.phase() == "Enqueued"
    assert world.get_unit()["status"]["admissions"] == []
    world.admit()  # even if it is admitted, it is not released
    world.settle()
    assert world.is_suspended()


def test_an_inactive_job_gets_an_inactive_unit(world: World) -> None:
    """Conformance item ctl-37."""
    world.start()
    world.job(annotations={"scheduling.x-k8s.io/active": "false"})
    world.settle()
    assert world.get_unit()["spec"]["active"] is False


def test_an_eviction_requested_by_others_is_carried_out_and_the_job_runs_again(
    world: World,
) -> None:
    run(world)
    asked = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "for a better one",
        "lastTransitionTime": world.now(),
    }
    world.patch_unit_status({"conditions": [asked]})
    world.settle()
    world.end_pods()
    world.settle()
    assert world.phase() == "Enqueued"
    world.admit()
    world.settle()
    assert not world.is_suspended()


def test_an_eviction_survives_a_restart_at_every_step(world: World) -> None:
    run(world)
    world.direct.patch("queueunits", "main", {"spec": {"active": False}}, namespace="team")
    # Each controller runs for a moment only, then the next one continues from the objects.
    for _ in range(4):
        world.start()
        world.clock.advance(0.1)
    assert world.is_suspended()
    world.end_pods()
    for _ in range(3):
        world.start()
    assert world.phase() == "Enqueued"


def run(world: World) -> None:
    """Bring a job to Running, and let some time pass."""
    world.run_a_job()
    world.clock.advance(5.0)


def test_a_job_created_again_under_its_name_gets_its_own_unit(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    first = world.get_unit()["metadata"]["uid"]
    world.direct.delete("jobs", "main", "team", propagation="Background")
    second = world.job()
    world.settle()
    units = world.direct.list("queueunits")
    assert [each["spec"]["consumerRef"]["uid"] for each in units] == [second["metadata"]["uid"]]
    assert units[0]["metadata"]["uid"] != first


def test_a_taken_name_does_not_collide(world: World) -> None:
    world.start()
    other = {"apiVersion": "x/v1", "kind": "Other", "name": "main", "uid": "another"}
    make_unit(world, consumer=other)
    job = world.job()
    world.settle()
    own = f"main-{job['metadata']['uid'].replace('-', '')[:8]}"
    assert sorted(world.units()) == ["main", own]
    assert "NameCut" in world.events()


def test_a_unit_made_by_hand_is_never_deleted(world: World) -> None:
    world.start()
    make_unit(world, "mine", consumer={"name": "ghost", "uid": "no-such"})
    world.settle(20.0)
    assert world.units() == ["mine"]


def test_a_waiting_unit_follows_its_job(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    labels = {"quota.scheduling.koordinator.sh/name": "silver"}
    annotations = {"scheduling.x-k8s.io/priority": "7"}
    world.patch_job(
        {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"parallelism": 1}}
    )
    world.settle()
    unit = world.get_unit()
    assert unit["spec"]["queue"] == "silver"
    assert unit["spec"]["priority"] == 7
    assert unit["spec"]["podSet"][0]["count"] == 1
    assert unit["spec"]["request"] == {"cpu": "1"}
    assert unit["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] == "silver"


def test_a_pending_unit_that_was_edited_gets_its_jobs_demand_back(
    world: World,
) -> None:
    world.start()
    world.job()
    world.settle()
    unit = world.get_unit()
    requests = unit["spec"]["podSet"][0]["template"]["spec"]["containers"][0]["resources"]
    requests["requests"] = {"cpu": "1m"}
    world.direct.patch("queueunits", "main", unit, namespace="team")
    world.settle()
    edited = world.get_unit()["spec"]["podSet"][0]["template"]["spec"]["containers"][0]
    assert edited["resources"] == {"requests": {"cpu": "1"}}
    before = world.server.resource_version
    world.settle(30.0)
    assert world.server.resource_version == before


def test_a_unit_has_the_whole_template_where_that_is_set(world: World) -> None:
    world.start()
    world.job("slim")
    world.settle()
    whole = Configuration(general=GeneralOptions(full_pod_templates=True))
    world.start(configuration=whole)
    world.job("whole")
    world.settle()
    slim, full = (
        world.get_unit(name)["spec"]["podSet"][0]["template"]["spec"]["containers"][0]
        for name in ("slim", "whole")
    )
    assert "env" not in slim
    assert full["env"][0]["name"] == "LONG"
    before = world.server.resource_version
    world.settle(10.0)
    assert world.server.resource_version == before


def test_a_namespace_quota_makes_its_jobs_managed_when_it_is_created(world: World) -> None:
    world.start()
    world.job(labelled=False)
    world.settle()
    assert world.units() == []
    world.direct.create(elastic_quota_body("team", namespace="team", max={"cpu": "4"}))
    world.settle()
    assert world.get_unit()["spec"]["queue"] == "team"


@pytest.mark.parametrize(
    ("changes", "namespace"),
    [
        pytest.param({"managedBy": "example.com/other"}, "team", id="managed by another"),
        pytest.param({}, "kube-system", id="in kube-system"),
        pytest.param({"labelled": False}, "team", id="names nothing"),
    ],
)
def test_jobs_that_are_left_alone(world: World, changes: dict[str, Any], namespace: str) -> None:
    world.start()
    world.job(namespace=namespace, suspend=False, **changes)
    world.settle()
    assert world.units() == []
    assert writes_to(world.server) == []


@pytest.mark.parametrize("lost", ["answer", "request"])
@pytest.mark.parametrize(
    ("verb", "plural"), [("create", "queueunits"), ("patch", "jobs"), ("patch", "queueunits")]
)
def test_a_broken_connection_changes_nothing_in_the_end(
    world: World, lost: str, verb: str, plural: str
) -> None:
    world.start()
    match = Match(verb=verb, plural=plural)
    lose = world.server.faults.lose_answer if lost == "answer" else world.server.faults.lose_request
    lose(times=1, match=match)
    world.job()
    world.settle(3.0)
    world.admit()
    world.settle(3.0)
    world.run_pods()
    world.settle(3.0)
    assert world.server.faults.armed_count == 0
    assert not world.is_suspended()
    assert world.phase() == "Running"
    assert world.units() == ["main"]


def test_refused_writes_are_retried(world: World) -> None:
    world.start()
    world.server.faults.fail(403, times=3, match=Match(plural="queueunits", verb="create"))
    world.job()
    world.settle(10.0)
    assert world.units() == ["main"]


def test_a_unit_that_the_schema_refuses_is_reported_on_the_job(world: World) -> None:
    world.start()
    world.server.faults.fail(
        422, times=1, match=Match(plural="queueunits", verb="create"), message="too odd"
    )
    world.job()
    world.settle(3.0)
    assert "UnitRefused" in world.events()
    assert world.units() == ["main"]


def test_an_invalid_priority_is_reported_and_logged(world: World) -> None:
    with structlog.testing.capture_logs() as logs:
        world.start()
        world.job(annotations={"scheduling.x-k8s.io/priority": "high"})
        world.settle()
        assert "IgnoredAnnotation" in world.events()
    (line,) = (each for each in logs if each["event"] == "job needs attention")
    assert (line["log_level"], line["job"]) == ("warning", "team/main")
    assert "'high' is not a whole number" in line["note"]
