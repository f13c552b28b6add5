"""The whole life of a job of a kind that is only declared in the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from queue_controllers.configuration import Configuration, read_configuration
from tests.sample_jobs import WIDGET_DECLARATION, open_crd

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import Json, World

UNIT = "main-widget-qu"


def configuration() -> Configuration:
    return read_configuration(yaml.safe_load(WIDGET_DECLARATION), {"job"})


class Widgets:
    """Widgets, and their operator."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.direct.create(open_crd("Widget", "widgets", "example.com", status=True))

    def create(self, **spec: Any) -> Json:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        body = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {
                "name": "main",
                "namespace": "team",
                "labels": {"quota.scheduling.koordinator.sh/name": "gold"},
            },
            "spec": {"workers": 3, "template": {"spec": {"containers": [container]}}, **spec},
        }
        return self.world.direct.create(body)

    def get(self) -> Json:
        return self.world.direct.get("widgets", "main", "team")

    def suspend_annotation(self) -> str | None:
        annotations: dict[str, str] = self.get()["metadata"].get("annotations") or {}
        return annotations.get("scheduling.x-k8s.io/suspend")

    def say(self, phase: str) -> None:
        status = {"status": {"phase": phase}}
        self.world.direct.patch("widgets", "main", status, namespace="team", subresource="status")

    def run_pods(self, number: int) -> None:
        """Create pods as a child of the widget would: by a label alone."""
        for each in range(number):
            name = f"main-{each}"
            meta = {"name": name, "namespace": "team", "labels": {"example.com/widget": "main"}}
            owner = {
                "apiVersion": "example.com/v1",
                "kind": "Gear",
                "name": "g",
                "uid": "gear-1",
                "controller": True,
            }
            self.world.direct.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {**meta, "ownerReferences": [owner]},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                }
            )
            self.world.patch_pod_status(name, phase="Running")

    def set_active(self, *, active: bool) -> None:
        body = {"spec": {"active": active}}
        self.world.direct.patch("queueunits", UNIT, body, namespace="team")
        self.world.settle()

    def admit(self, count: int = 3) -> None:
        self.world.admit_unit(UNIT, worker=count)
        self.world.settle()


@pytest.fixture
def widgets(world: World) -> Widgets:
    return Widgets(world)


def test_the_whole_life_of_a_declared_kind(world: World, widgets: Widgets) -> None:
    world.start(configuration=configuration())
    widgets.create()
    world.settle()
    assert widgets.get()["spec"]["suspend"] is True
    unit = world.get_unit(UNIT)
    assert unit["spec"]["request"] == {"cpu": "3"}
    assert [(each["name"], each["count"]) for each in unit["spec"]["podSet"]] == [("worker", 3)]
    assert unit["spec"]["consumerRef"]["kind"] == "Widget"

    widgets.admit()
    released = widgets.get()["spec"]
    assert released["suspend"] is False
    stamp = released["template"]["metadata"]["annotations"]
    assert stamp["koord-queue/related-queueunit"] == f"team/{UNIT}"

    widgets.say("Running")
    widgets.run_pods(3)
    world.settle(2.0)
    status = world.get_unit(UNIT)["status"]
    assert (status["phase"], status["admissions"][0]["running"]) == ("Running", 3)
    assert status["podOwners"] == ["gear-1"], "its pods have no mark of the unit"

    widgets.say("Done")
    world.settle()
    assert world.phase(UNIT) == "Succeed"


@pytest.mark.parametrize(
    ("on_absence", "released"),
    [pytest.param(False, "false", id="by its value"), pytest.param(True, None, id="by absence")],
)
def test_without_a_field_the_annotation_holds(
    world: World, widgets: Widgets, on_absence: bool, released: str | None
) -> None:
    body = yaml.safe_load(WIDGET_DECLARATION)
    (widget,) = body["kinds"]
    del widget["suspend"]
    widget["releasesOnAbsence"] = on_absence
    world.start(configuration=read_configuration(body, {"job"}))
    widgets.create()
    world.settle()
    for _ in range(2):
        assert widgets.suspend_annotation() == "true"
        widgets.admit()
        assert widgets.suspend_annotation() == released
        widgets.set_active(active=False)
        world.settle(90.0)  # its operator, which reports nothing, has its minute
        widgets.set_active(active=True)


def test_a_kind_is_queued_within_ten_seconds_of_its_crd(world: World) -> None:
    world.start(configuration=configuration())
    world.settle(25.0)
    widgets = Widgets(world)
    widgets.create()
    world.settle(10.0)
    assert world.units() == [UNIT]


def test_an_unreadable_one_is_left_alone_and_reported(world: World, widgets: Widgets) -> None:
    world.start(configuration=configuration())
    widgets.create(workers="three")
    world.settle()
    assert "suspend" not in widgets.get()["spec"]
    assert world.units() == []
    assert "CanNotBeHeld" in world.events()


def test_the_master_switch_turns_declared_kinds_off_as_well(world: World, widgets: Widgets) -> None:
    world.start("--enable-job-extensions=false", configuration=configuration())
    widgets.create()
    world.settle()
    assert "suspend" not in widgets.get()["spec"]


# --- a status without a time --------------------------------------------------------------------


def run_once(widgets: Widgets) -> None:
    """Bring a widget to Running, whose operator reported it suspended before."""
    widgets.world.start(configuration=configuration())
    widgets.create()
    widgets.world.settle()
    widgets.say("Suspended")
    widgets.admit()
    widgets.say("Running")
    widgets.run_pods(3)
    widgets.world.settle(2.0)
    assert widgets.world.phase(UNIT) == "Running"


def stop(widgets: Widgets, *, pods: int = 3) -> None:
    """Deactivate it; its operator deletes the pods, and has not reported that yet."""
    widgets.set_active(active=False)
    assert widgets.get()["spec"]["suspend"] is True
    for number in range(pods):
        widgets.world.direct.delete("pods", f"main-{number}", "team")
    widgets.world.settle(2.0)
    assert widgets.world.phase(UNIT) != "Enqueued"


def test_a_status_after_a_run_ends_that_run(world: World, widgets: Widgets) -> None:
    run_once(widgets)
    stop(widgets)
    widgets.say("Suspended")
    world.settle(2.0)
    status = world.get_unit(UNIT)["status"]
    assert status["phase"] == "Enqueued"
    assert "OperatorSilent" not in {each["type"] for each in status["conditions"]}


def test_a_status_before_the_release_does_not(world: World, widgets: Widgets) -> None:
    """It may be about to create pods: it has its minute."""
    world.start(configuration=configuration())
    widgets.create()
    world.settle()
    widgets.say("Suspended")
    widgets.admit()
    stop(widgets, pods=0)
    world.settle(30.0)
    assert world.phase(UNIT) == "Dequeued"
    world.settle(60.0)
    assert world.phase(UNIT) == "Enqueued"


def test_nor_does_a_status_after_an_earlier_run(world: World, widgets: Widgets) -> None:
    run_once(widgets)
    stop(widgets)
    widgets.say("Suspended")
    world.settle(2.0)
    widgets.set_active(active=True)
    widgets.admit()
    assert widgets.get()["spec"]["suspend"] is False
    stop(widgets, pods=0)
    world.settle(30.0)
    assert world.phase(UNIT) == "Dequeued"
