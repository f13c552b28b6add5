"""The mark of the queue on Jobs, over the fake API server: what is written, and how often."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from shared_api.fake_api_server.object_metadata import MAX_ANNOTATION_BYTES
from shared_api.testing.faults import Match
from shared_api.testing.object_builders import elastic_quota_body
from shared_api.well_known_labels import SUSPEND
from tests.sample_jobs import KUEUE_WORKLOADS
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]
MARK, GRANTED = "koord-queue/marked-uid", "koord-queue/granted-count"
JOBS: Final = Match(plural="jobs", verb="patch")
OF_TEAM: Final = {"quota.scheduling.koordinator.sh/namespaces": json.dumps(["team"])}
QUOTA: Final = elastic_quota_body("gold", namespace="team", metadata={"annotations": OF_TEAM})


def mark_of(world: World) -> tuple[str | None, str | None]:
    annotations = world.get_job()["metadata"].get("annotations", {})
    return annotations.get(MARK), annotations.get(GRANTED)


@pytest.mark.parametrize("suspend", [True, False], ids=["suspended", "running"])
@pytest.mark.parametrize("labelled", [True, False], ids=["named", "by namespace"])
def test_a_job_costs_no_write_more_unless_nothing_else_tells(
    world: World, *, suspend: bool, labelled: bool
) -> None:
    world.direct.create(QUOTA)
    world.start()
    world.job(suspend=suspend, labelled=labelled)
    world.settle()
    uid = world.get_job()["metadata"]["uid"]
    is_marked = not (suspend and labelled)
    assert mark_of(world) == ((uid, None) if is_marked else (None, None))
    assert writes_to(world.server).count("patch jobs") == int(is_marked)
    world.admit()
    world.settle()
    world.run_pods()
    world.settle()
    assert mark_of(world) == (uid, "2")
    assert writes_to(world.server).count("patch jobs") == 1 + int(is_marked)


@pytest.mark.parametrize("said", [None, "x", "false"])
def test_a_job_that_takes_no_annotation_is_suspended_without(
    world: World, said: str | None
) -> None:
    """As where its user has filled all the room that there is for them."""
    world.direct.create(QUOTA)
    world.start()
    annotations = {} if said is None else {SUSPEND: said}
    room = MAX_ANNOTATION_BYTES - sum(len(f"{key}{text}") for key, text in annotations.items())
    annotations["a"] = "x" * (room - 1)
    world.job(suspend=False, labelled=False, annotations=annotations)
    world.settle(5.0)
    assert world.is_suspended()
    assert mark_of(world) == (None, None)
    assert world.units() == ["main"]
    assert "MarkRefused" in world.events()
    world.patch_job({"spec": {"suspend": False}})
    world.settle(5.0)
    assert world.is_suspended()


def test_a_job_that_is_given_up_loses_its_mark(world: World) -> None:
    world.direct.create(QUOTA)
    world.direct.create(KUEUE_WORKLOADS)
    world.start()
    world.job(labelled=False)
    world.settle()
    assert mark_of(world)[0]
    world.patch_job({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}})
    world.settle()
    assert mark_of(world) == (None, None)
    assert world.units() == []


def test_a_job_that_is_evicted_keeps_its_mark_without_the_grant(world: World) -> None:
    world.run_a_job()
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    world.patch_unit_status({"conditions": [{**asked, "lastTransitionTime": world.now()}]})
    world.settle()
    assert world.is_suspended()
    assert mark_of(world) == (world.get_job()["metadata"]["uid"], None)


def test_what_is_granted_later_is_in_the_mark_too(world: World) -> None:
    world.start()
    world.job(annotations={"koord-queue/min-parallelism": "1"})
    world.settle()
    world.admit(replicas=1)
    world.settle()
    assert mark_of(world)[1] == "1"
    world.run_pods(1)
    world.settle()
    world.patch_unit_status({"admissions": [{"name": "main", "replicas": 2, "running": 1}]})
    world.settle()
    assert world.get_job()["spec"]["parallelism"] == 2
    assert mark_of(world)[1] == "2"
