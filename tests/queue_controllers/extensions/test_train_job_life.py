"""TrainJobs, whose demand is in another object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.sample_jobs import crd, sample

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

UNIT = "tune-train-qu"


def start(world: World, **spec: Any) -> dict[str, Any]:
    world.direct.create(crd("jobsets"))
    world.direct.create(crd("trainjobs"))
    world.priority_class("high")
    world.start("--enabled-extensions=trainjob")
    body = sample("trainjob")
    made = world.direct.create({**body, "spec": {**body["spec"], **spec}})
    world.settle()
    return made


def make_job_set(world: World, train_job: dict[str, Any]) -> None:
    """Create the JobSet as Trainer does."""
    body = sample("jobset")
    owner = {key: train_job[key] for key in ("apiVersion", "kind")}
    owner |= {key: train_job["metadata"][key] for key in ("name", "uid")}
    metadata = {"name": "tune", "namespace": "team"}
    metadata["ownerReferences"] = [{**owner, "controller": True}]  # type: ignore[assignment] # a list among texts
    world.direct.create({**body, "metadata": metadata})


def events(world: World) -> list[str]:
    return [each["reason"] for each in world.direct.list("events")]


def test_one_without_its_job_set_is_held_and_reported(world: World) -> None:
    start(world, suspend=False)
    assert world.direct.get("trainjobs", "tune", "team")["spec"]["suspend"] is True
    assert world.units() == []
    assert "DemandUnknown" not in events(world), "it is mostly created a moment later"
    world.settle(6.0)
    assert events(world).count("DemandUnknown") == 1
    world.settle(40.0)
    assert events(world).count("DemandUnknown") == 1
    assert world.units() == []


def test_its_unit_is_created_when_its_job_set_exists(world: World) -> None:
    made = start(world)
    make_job_set(world, made)
    world.settle(6.0)
    (unit,) = world.direct.list("queueunits")
    assert unit["metadata"]["name"] == UNIT
    sets = [(each["name"], each["count"]) for each in unit["spec"]["podSet"]]
    assert sets == [("driver", 1), ("workers", 8)]
    assert "DemandUnknown" not in events(world)


def test_it_is_released_with_annotations_in_the_queues_own_entry(world: World) -> None:
    made = start(world)
    make_job_set(world, made)
    world.settle(6.0)
    world.admit_unit(UNIT)
    world.settle()
    spec = world.direct.get("trainjobs", "tune", "team")["spec"]
    assert spec["suspend"] is False
    (patch,) = spec["runtimePatches"]
    jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert [each["name"] for each in jobs] == ["driver", "workers"]


def test_a_unit_stays_while_its_job_set_is_unknown(world: World) -> None:
    made = start(world)
    make_job_set(world, made)
    world.settle(6.0)
    before = world.get_unit(UNIT)["spec"]
    world.direct.delete("jobsets", "tune", namespace="team")
    world.start("--enabled-extensions=trainjob")  # what was read before is forgotten
    world.settle(6.0)
    assert world.get_unit(UNIT)["spec"] == before
    assert "DemandUnknown" in events(world)
