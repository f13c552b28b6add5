"""Updates of jobs' pods by admission checks, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queue_controllers.configuration import read_configuration
from tests.queue_controllers.controllers_world import evict_after_release
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

ACTIVE = "scheduling.x-k8s.io/active"
NOTE = "koord-queue/pod-set-updates"
CONFLICT = "PodSetUpdatesConflict"
SPOT = {"key": "spot", "operator": "Exists"}
OWN = {"key": "own", "operator": "Exists"}
ZONE_ONE = {"nodeSelector": {"zone": "z1"}, "labels": {"from": "check"}, "tolerations": [SPOT]}
ZONE_TWO = {"nodeSelector": {"zone": "z2"}, "annotations": {"why": "moved"}}


@pytest.mark.parametrize("full", [False, True], ids=["reduced templates", "whole templates"])
def test_each_run_has_the_updates_of_its_checks_and_the_user_sees_none(
    world: World, full: bool
) -> None:
    start(world, full=full)
    user = template_of(world)
    shown = shown_template(world)
    admit(world, ZONE_ONE)
    template = template_of(world)
    assert template["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "z1"}
    assert template["spec"]["tolerations"] == [OWN, SPOT]
    assert template["metadata"]["labels"]["from"] == "check"
    assert NOTE in world.get_job()["metadata"]["annotations"]
    evict_after_release(world)
    written = len(writes_to(world.server))
    world.settle(5.0)
    assert len(writes_to(world.server)) == written
    assert shown_template(world)["spec"] == shown["spec"], "what the user wants"
    assert "from" not in shown_template(world)["metadata"]["labels"]
    assert NOTE not in world.get_unit()["metadata"]["annotations"]
    admit(world, ZONE_TWO)
    template = template_of(world)
    assert template["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "z2"}
    assert template["spec"]["tolerations"] == [OWN]
    assert "from" not in template["metadata"]["labels"]
    assert template["metadata"]["annotations"]["why"] == "moved"
    evict_after_release(world)
    admit(world)
    template = template_of(world)
    assert template["spec"] == user["spec"]
    assert "why" not in template["metadata"]["annotations"]
    assert NOTE not in world.get_job()["metadata"]["annotations"]


def test_edits_of_the_user_between_two_runs_are_kept(world: World) -> None:
    start(world)
    admit(world, ZONE_ONE)
    evict_after_release(world)
    mine = {"nodeSelector": {"zone": "mine"}}
    world.patch_job({"spec": {"template": {"spec": mine}}})
    world.settle()
    assert shown_template(world)["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "mine"}
    admit(world)
    assert template_of(world)["spec"]["nodeSelector"]["zone"] == "mine"


def test_a_job_whose_checks_contradict_each_other_is_not_released(world: World) -> None:
    start(world)
    admit(world, ZONE_ONE, ZONE_TWO)
    world.settle(5.0)
    unit = world.get_unit()
    assert world.is_suspended()
    assert template_of(world)["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert (unit["status"]["phase"], unit["spec"]["active"]) == ("Enqueued", False)
    said = {each["type"]: each for each in unit["status"]["conditions"]}
    why = (
        "Admission check b wants node selector zone of pod set main to be z2,"
        " and admission check a z1"
    )
    assert (said[CONFLICT]["status"], said["Evicted"]["status"]) == ("True", "False")
    assert said[CONFLICT]["message"] == (
        f'Deactivated: {why}. To have it tried again, annotate the job {ACTIVE}: "true"'
    )
    assert why in world.notes_on_jobs()[CONFLICT]
    world.settle(60.0)
    assert world.get_unit()["spec"]["active"] is False
    world.patch_job({"metadata": {"annotations": {ACTIVE: "true"}}})
    world.settle()
    admit(world, ZONE_ONE, ZONE_ONE)
    assert not world.is_suspended()
    assert template_of(world)["spec"]["nodeSelector"]["zone"] == "z1"


def start(world: World, *, full: bool = False) -> None:
    """Create a queued job whose template has a field of each kind."""
    options = {"job": {"fullPodTemplates": full}}
    world.start(configuration=read_configuration(options, {"job"}))
    job = world.job()
    template = job["spec"]["template"]
    template["spec"] |= {"nodeSelector": {"disk": "ssd"}, "tolerations": [OWN]}
    world.patch_job({"spec": {"template": template}})
    world.settle()


def admit(world: World, *wanted: dict[str, Any]) -> None:
    """Admit the job as the scheduler does when its checks, which want this, are ready."""
    checks = [
        {
            "name": name,
            "state": "Ready",
            "lastTransitionTime": world.now(),
            "message": "",
            "podSetUpdates": [{"name": "main", **each}],
        }
        for name, each in zip("ab", wanted, strict=False)
    ]
    world.patch_unit_status({"admissionChecks": checks})
    world.admit()
    world.settle()


def shown_template(world: World) -> dict[str, Any]:
    """Return the template in the unit."""
    template: dict[str, Any] = world.get_unit()["spec"]["podSet"][0]["template"]
    return template


def template_of(world: World) -> dict[str, Any]:
    template: dict[str, Any] = world.get_job()["spec"]["template"]
    return template
