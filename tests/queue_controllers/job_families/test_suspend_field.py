"""What kinds with a field `suspend` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from queue_controllers.job_families.suspend_field import (
    SPEC_SUSPEND,
    ManagedByField,
    SuspendField,
    release_by_spec_suspend,
)
from queue_controllers.jobframework.generic_job import PodStamp
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


DEEPER = SuspendField(parse_path(".spec.policy.suspend"), attrgetter("spec.policy"))


def thing(**spec: Any) -> Thing:
    return msgspec.convert({"spec": spec}, Thing)


@pytest.mark.parametrize(("said", "want"), [(True, True), (False, False), (None, False)])
def test_whether_the_switch_is_on(said: bool | None, want: bool) -> None:
    assert SPEC_SUSPEND.is_suspended(thing(suspend=said)) is want
    assert DEEPER.is_suspended(thing(suspend=not said, policy={"suspend": said})) is want


class Adapter:
    """Knows how templates change."""

    release_patch = release_by_spec_suspend

    def update_patch(self, job: Thing, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        return {"spec": {"template": update_body(updates["main"])}} if updates else {}


def test_a_release_annotates_in_the_same_patch() -> None:
    template = {"metadata": {"labels": {"a": "b"}}}
    stamps = {"main": PodStamp(labels={"a": "b"})}
    want = {"spec": {"suspend": False, "template": template}}
    assert Adapter().release_patch(thing(), stamps) == want
    assert Adapter().release_patch(thing(), {}) == {"spec": {"suspend": False}}
    assert DEEPER.release_patch(Adapter(), thing(), stamps) == {
        "spec": {"policy": {"suspend": False}, "template": template}
    }


def test_every_job_can_be_suspended() -> None:
    assert SPEC_SUSPEND.suspend_patch(thing()) == {"spec": {"suspend": True}}
    assert DEEPER.suspend_patch(thing()) == {"spec": {"policy": {"suspend": True}}}


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(None, "", id="nobody"),
        pytest.param("example.com/usual", "", id="the usual one"),
        pytest.param("example.com/other", "example.com/other", id="another"),
    ],
)
def test_only_the_default_controller_is_no_foreign_manager(said: str | None, want: str) -> None:
    usual = "example.com/usual"
    assert ManagedByField(usual).foreign_manager(thing(managedBy=said)) == want
    deeper = ManagedByField(usual, attrgetter("spec.policy"))
    assert deeper.foreign_manager(thing(policy={"managedBy": said})) == want
