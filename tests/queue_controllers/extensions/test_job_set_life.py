"""JobSets, from their arrival to the release of all their templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shared_api.fake_api_server.faults import Match
from tests.sample_jobs import crd, sample

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

UNIT = "train-jobset-qu"


def start(world: World) -> dict[str, Any]:
    world.direct.create(crd("jobsets"))
    world.priority_class("high")
    world.start("--enabled-extensions=jobset")
    made = world.direct.create(sample("jobset"))
    world.settle()
    return made


def job_set(world: World) -> dict[str, Any]:
    return world.direct.get("jobsets", "train", "team")


def test_a_release_annotates_every_template_and_loses_nothing(world: World) -> None:
    before = start(world)["spec"]
    (unit,) = world.direct.list("queueunits")
    assert unit["metadata"]["name"] == UNIT
    assert [(each["name"], each["count"]) for each in unit["spec"]["podSet"]] == [
        ("driver", 1),
        ("workers", 8),
    ]
    world.admit_unit(UNIT)
    world.settle()
    after = job_set(world)["spec"]
    assert after["suspend"] is False
    for was, now in zip(before["replicatedJobs"], after["replicatedJobs"], strict=True):
        metadata = now["template"]["spec"]["template"].pop("metadata")
        assert metadata["annotations"] == {
            "koord-queue/related-queueunit": f"team/{UNIT}",
            "koord-queue/related-podset-name": now["name"],
        }
        assert now == was


def test_a_job_set_that_changes_while_it_is_read_is_released_as_it_is_then(world: World) -> None:
    start(world)
    # A write of the job, whose watch event comes too late.
    world.server.faults.fail(409, match=Match(verb="patch", plural="jobsets"))
    world.admit_unit(UNIT)
    world.settle(2.0)
    spec = job_set(world)["spec"]
    assert spec["suspend"] is False
    assert all(
        "metadata" in each["template"]["spec"]["template"] for each in spec["replicatedJobs"]
    )


def test_pods_of_its_jobs_are_counted_by_role(world: World) -> None:
    start(world)
    world.admit_unit(UNIT)
    world.settle()
    said = {"active": 2, "ready": 1, "failed": 0, "succeeded": 0, "suspended": 0}
    status = {"replicatedJobsStatus": [{"name": "workers", **said}]}
    world.direct.patch(
        "jobsets", "train", {"status": status}, namespace="team", subresource="status"
    )
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    }
    world.direct.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team", "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        }
    )
    world.patch_pod_status("p", phase="Running")
    world.settle(2.0)
    status = world.direct.get("queueunits", UNIT, "team")["status"]
    assert status["phase"] == "Running"
    running = {each["name"]: each.get("running", 0) for each in status["admissions"]}
    assert running == {"driver": 0, "workers": 1}


def test_the_reason_of_missing_pods_may_be_on_a_job_of_it(world: World) -> None:
    world.direct.create(crd("jobsets"))
    world.priority_class("high")
    world.start("--enabled-extensions=job,jobset")
    made = world.direct.create(sample("jobset"))
    world.settle()
    world.admit_unit(UNIT)
    world.settle()
    owner = {"apiVersion": made["apiVersion"], "kind": "JobSet", "name": "train"}
    owner |= {"uid": made["metadata"]["uid"], "controller": True}
    template = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    more = {"owners": [owner], "labelled": False, "suspend": False}
    child = world.job("train-driver-0", **{**template, **more})
    about = {"kind": "Job", "name": "train-driver-0", "namespace": "team"}
    said = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "train.", "namespace": "team"},
        "involvedObject": {**about, "uid": child["metadata"]["uid"]},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": "the webhook is down",
        "lastTimestamp": world.now(),
        "reportingComponent": "job-controller",
    }
    world.direct.create(said)
    world.settle(15.0)
    conditions = world.get_unit(UNIT)["status"]["conditions"]
    (ready,) = (each for each in conditions if each["type"] == "PodsReady")
    assert ready["reason"] == "NoPods"
    assert "Job train-driver-0: FailedCreate: the webhook is down" in ready["message"]
