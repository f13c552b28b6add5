"""What kinds with a field `suspend` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from queue_controllers.job_families.suspend_field import ManagedByField
from queue_controllers.jobframework.generic_job import JobPodSet, PodStamp, PrioritySource
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.field_path import parse_path
from shared_api.objects.meta import ObjectMeta, WireStruct


class Switch(WireStruct, frozen=True):
    suspend: bool | None = None
    managed_by: str | None = None


class ThingSpec(Switch, frozen=True):
    policy: Switch = Switch()


class Thing(WireStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ThingSpec = ThingSpec()


class ThingAdapter(ManagedByField[Thing]):
    usual_manager = "example.com/usual"

    def pod_sets(self, job: Thing) -> tuple[JobPodSet, ...]:
        pods: tuple[dict[str, str], ...] = ({}, {"priorityClassName": "high"})
        templates = msgspec.convert([{"spec": pod} for pod in pods], list[ScheduledPodTemplate])
        return tuple(JobPodSet(name="x", count=1, template=each) for each in templates)

    def update_patch(self, job: Thing, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        if "main" not in updates:
            return {}
        return {"spec": {"template": update_body(updates["main"])}}


class DeeperAdapter(ThingAdapter):
    switch_path = parse_path(".spec.policy.suspend")

    def switch_of(self, job: Thing) -> Switch:
        return job.spec.policy


def thing(**spec: Any) -> Thing:
    return msgspec.convert({"spec": spec}, Thing)


@pytest.mark.parametrize(("said", "want"), [(True, True), (False, False), (None, False)])
def test_whether_the_switch_is_on(said: bool | None, want: bool) -> None:
    assert ThingAdapter().is_suspended(thing(suspend=said)) is want
    assert DeeperAdapter().is_suspended(thing(suspend=not said, policy={"suspend": said})) is want


def test_a_release_stamps_in_the_same_patch() -> None:
    adapter, stamps = ThingAdapter(), {"main": PodStamp(labels={"a": "b"})}
    template = {"metadata": {"labels": {"a": "b"}}}
    assert adapter.release_patch(thing(), stamps) == {
        "spec": {"suspend": False, "template": template}
    }
    assert adapter.release_patch(thing(), {}) == {"spec": {"suspend": False}}
    assert DeeperAdapter().release_patch(thing(), stamps) == {
        "spec": {"policy": {"suspend": False}, "template": template}
    }


def test_every_job_can_be_held() -> None:
    assert ThingAdapter().why_not_hold(thing()) == ""
    assert ThingAdapter().suspend_patch(thing()) == {"spec": {"suspend": True}}
    assert DeeperAdapter().suspend_patch(thing()) == {"spec": {"policy": {"suspend": True}}}


def test_priority_comes_from_the_templates() -> None:
    assert ThingAdapter().priority_of(thing()) == PrioritySource("high")


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(None, "", id="nobody"),
        pytest.param("example.com/usual", "", id="the usual one"),
        pytest.param("example.com/other", "example.com/other", id="another"),
    ],
)
def test_only_the_usual_controller_is_no_foreign_manager(said: str | None, want: str) -> None:
    assert ThingAdapter().foreign_manager(thing(managedBy=said)) == want
    assert DeeperAdapter().foreign_manager(thing(policy={"managedBy": said})) == want
