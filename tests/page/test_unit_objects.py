"""A unit's part of the cluster in the browser: asked for when opened, and only ever text."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.page.test_hostile_text import HOSTILE, assert_only_text
from tests.page.test_views import UNIT, assert_read_on_a_phone, assert_sound
from tests.page.window_kit import Window

VISITOR: Final = {"user": "ann", "login": True, "readsAll": True, "whatIf": True}
OF_UNIT: Final = f"/page{UNIT}"
PODS: Final[dict[str, Any]] = {
    "pods": [
        {"name": "train-1-0", "node": "node-7", "phase": "Running", "reason": "", "message": "",
         "restarts": 1, "started": "2026-01-01T10:00:00Z", "ran": "2026-01-01T10:00:05Z",
         "ended": None},
        {"name": "train-1-1", "node": "", "phase": "Pending", "reason": "Unschedulable",
         "message": "0/3 nodes are available: 3 Insufficient cpu.", "restarts": 0, "started": None,
         "ran": None, "ended": None},
    ],
    "more": False,
    "leftOut": 0,
    "problem": "",
}  # fmt: skip
EVENTS: Final[dict[str, Any]] = {
    "events": [
        {"time": "2026-01-01T10:00:00Z", "type": "Warning", "reason": "FailedScheduling",
         "message": "0/3 nodes are available", "about": "Pod/train-1-1", "count": 12}
    ],
    "more": True,
    "podsLeftOut": 4,
    "problem": "",
}  # fmt: skip
MANIFEST: Final[dict[str, Any]] = {
    "manifest": {"kind": "QueueUnit", "metadata": {"name": "train-1"}, "spec": {"priority": 3}},
    "problem": "",
}


@pytest.fixture
def visitor(window: Window) -> Window:
    """A tab of somebody who has logged in; the API server answers as above."""
    window.answer("/page/session", VISITOR)
    window.answer(f"{OF_UNIT}/pods", PODS)
    window.answer(f"{OF_UNIT}/events", EVENTS)
    window.answer(f"{OF_UNIT}/manifests/unit", MANIFEST)
    return window


def open_part(window: Window, title: str) -> None:
    window.page.locator("summary", has_text=title).first.click()


def test_nothing_is_asked_before_a_part_is_opened(visitor: Window) -> None:
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    visitor.open(UNIT)
    visitor.sees("In the cluster")
    assert not any(each.partition(UNIT)[2] for each in asked)
    open_part(visitor, "Events")
    visitor.sees("FailedScheduling")
    assert [rest for each in asked if (rest := each.partition(UNIT)[2])] == ["/events"]


def test_pods_events_and_yaml_are_shown(visitor: Window) -> None:
    visitor.open(UNIT)
    for title in ("Pods (", "Events", "YAML of the unit"):
        open_part(visitor, title)
    row = visitor.page.get_by_role("row", name="train-1-1")
    row.get_by_text("Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.").wait_for()
    visitor.page.get_by_role("row", name="train-1-0 Running 1 restart node-7").wait_for()
    visitor.sees("Those of 4 further pods were not read.")
    yaml = visitor.page.get_by_label("YAML of the unit", exact=True)
    assert "  name: train-1\n" in yaml.inner_text()
    for label in ("Pods of the unit", "Events"):
        assert_read_on_a_phone(visitor, label)
    assert_sound(visitor, "unit-objects")


def test_a_part_is_opened_by_the_keyboard_and_read_again(visitor: Window) -> None:
    visitor.open(UNIT)
    visitor.page.locator("summary", has_text="Pods (").focus()
    visitor.page.keyboard.press("Enter")
    visitor.sees("Unschedulable")
    visitor.page.unroute_all()
    late = {"pods": [], "more": False, "leftOut": 2, "problem": "The time was up."}
    visitor.answer(f"{OF_UNIT}/pods", late)
    visitor.page.get_by_role("button", name="Read again").first.click()
    visitor.sees("The time was up.")
    visitor.sees("Not read: 2 pods that the queue knows of.")


def test_a_refusal_is_said_in_its_part_alone(visitor: Window) -> None:
    refused = "The API server does not let you read this: events is forbidden"
    visitor.answer(f"{OF_UNIT}/events", EVENTS | {"events": [], "problem": refused})
    visitor.open(UNIT)
    open_part(visitor, "Events")
    visitor.sees(refused)
    visitor.sees("What keeps it from starting")
    assert_sound(visitor, "unit-objects-refused")


def test_without_a_login_there_are_commands_to_copy(window: Window) -> None:
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    pods = [{"name": "train-1-0", "node": "node-7"}]
    window.edit(OF_UNIT, lambda body: body.update(pods=pods, podCount=1))
    window.open(UNIT)
    window.sees("Without a login the page does not ask the API server")
    for title in ("Pods (1 now)", "Events", "YAML of the unit"):
        open_part(window, title)
    window.page.get_by_role("row", name="train-1-0 node-7").wait_for()
    window.sees("kubectl get pods train-1-0 --output wide --namespace default")
    window.sees("kubectl get queueunit.v1alpha1.scheduling.x-k8s.io train-1 --output yaml")
    assert not any(each.partition(UNIT)[2] for each in asked)
    assert_sound(window, "unit-objects-local")


def poisoned(value: Any) -> Any:
    match value:
        case dict():
            return {key: poisoned(each) for key, each in value.items()}
        case list():
            return [poisoned(each) for each in value]
        case str() if value and not value.startswith("2026"):
            return HOSTILE
        case _:
            return value


def test_hostile_answers_of_the_api_server_are_only_text(visitor: Window) -> None:
    visitor.answer(f"{OF_UNIT}/pods", poisoned(PODS) | {"problem": HOSTILE})
    visitor.answer(f"{OF_UNIT}/events", poisoned(EVENTS) | {"problem": HOSTILE})
    manifest = {"manifest": {HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}, "problem": ""}
    visitor.answer(f"{OF_UNIT}/manifests/unit", manifest)
    visitor.open(UNIT)
    for title in ("Pods (", "Events", "YAML of the unit"):
        open_part(visitor, title)
    visitor.page.get_by_label("YAML of the unit", exact=True).get_by_text("onerror").wait_for()
    assert visitor.page.locator("td", has_text="onerror").count() > 4
    assert_only_text(visitor)


def test_a_large_manifest_is_cut(visitor: Window) -> None:
    spec = [{"name": f"p{n}", "image": "i" * 100} for n in range(12_000)]
    large = {"manifest": {"metadata": {"name": "train-1"}, "spec": spec}, "problem": ""}
    visitor.answer(f"{OF_UNIT}/manifests/unit", large)
    visitor.open(UNIT)
    open_part(visitor, "YAML of the unit")
    visitor.sees("It is long: this is its beginning.")
    shown = visitor.page.get_by_label("the beginning of the YAML of the unit", exact=True)
    assert len(shown.inner_text()) == 300_000
