"""From an adapter and an object to facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobKind,
    JobPodSet,
    PodStamp,
    PrioritySource,
    StatusFacts,
    pod_set_of_pod,
    priority_of_templates,
    read_facts,
)
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.well_known_labels import SUSPEND

NO_TEMPLATE = ScheduledPodTemplate()


class Thing(msgspec.Struct, frozen=True):
    """An object of a kind."""

    metadata: ObjectMeta = ObjectMeta()
    suspended: bool = False


class ThingAdapter:
    """A minimal adapter."""

    object_type = Thing

    def __init__(self, *, has_suspend_field: bool = True) -> None:
        self.kind = JobKind(
            key="thing",
            group="x",
            version="v1",
            kind="Thing",
            plural="things",
            has_suspend_field=has_suspend_field,
        )

    def is_suspended(self, job: Thing) -> bool:
        return job.suspended

    def why_not_suspendable(self, job: Thing) -> str:
        return "spec.x" if not job.metadata.name else ""

    def status_of(self, job: Thing) -> StatusFacts:
        return StatusFacts(is_empty=not job.suspended)

    def pod_sets(self, job: Thing) -> tuple[JobPodSet, ...]:
        return () if job.suspended else (JobPodSet(name="a", count=1, template=NO_TEMPLATE),)

    def priority_of(self, job: Thing) -> PrioritySource:
        return PrioritySource(job.metadata.name)

    def suspend_patch(self, job: Thing) -> dict[str, Any]:
        return {"spec": {"on": job.suspended}}

    def release_patch(self, job: Thing, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        return {"spec": {"on": job.suspended, "stamps": len(stamps)}}


class Sorting(ThingAdapter):
    """An adapter that knows its pods."""

    def pod_set_of(self, pod: Pod) -> str:
        return pod.metadata.labels.get("role", "")


class Foreign(ThingAdapter):
    """An adapter whose objects may have another controller."""

    def foreign_manager(self, job: Thing) -> str:
        return f"manager-of-{job.metadata.name}"


def thing(*, suspended: bool, annotation: str = "") -> Thing:
    annotations = {SUSPEND: annotation} if annotation else {}
    return Thing(ObjectMeta(name="a", annotations=annotations), suspended)


@pytest.mark.parametrize(
    ("field", "annotation", "has_suspend_field", "held_by_annotation", "want"),
    [
        pytest.param(True, "", True, False, True, id="the field"),
        pytest.param(False, "true", True, False, False, id="the annotation only queues"),
        pytest.param(False, "true", True, True, True, id="configured: the annotation holds"),
        pytest.param(False, "true", False, False, True, id="no field: the annotation holds"),
        pytest.param(False, "false", False, True, False, id="the annotation is false"),
    ],
)
def test_suspended(
    field: bool, annotation: str, has_suspend_field: bool, held_by_annotation: bool, want: bool
) -> None:
    adapter: GenericJob[Thing] = ThingAdapter(has_suspend_field=has_suspend_field)
    of = thing(suspended=field, annotation=annotation)
    assert read_facts(adapter, of, held_by_annotation=held_by_annotation).suspended is want


def test_capabilities_are_used_only_where_they_exist() -> None:
    of = thing(suspended=True)
    assert read_facts(ThingAdapter(), of, held_by_annotation=False).foreign_manager == ""
    assert read_facts(Foreign(), of, held_by_annotation=False).foreign_manager == "manager-of-a"


@pytest.mark.parametrize(
    ("adapter", "pod", "names", "want"),
    [
        pytest.param(ThingAdapter(), {}, ["main"], "main", id="there is only one set"),
        pytest.param(ThingAdapter(), {}, ["a", "b"], "", id="ctl-60 no label"),
        pytest.param(
            ThingAdapter(),
            {"annotations": {"koord-queue/related-podset-name": "b"}},
            ["a", "b"],
            "b",
            id="ctl-60 its annotation",
        ),
        pytest.param(
            Sorting(),
            {"annotations": {"koord-queue/related-podset-name": "b"}, "labels": {"role": "a"}},
            ["a", "b"],
            "b",
            id="ctl-60 its annotation precedes the kind's label",
        ),
        pytest.param(
            ThingAdapter(),
            {"annotations": {"koord-queue/related-podset-name": "c"}},
            ["a", "b"],
            "",
            id="an annotation of an unknown set",
        ),
        pytest.param(Sorting(), {"labels": {"role": "a"}}, ["a", "b"], "a", id="the kind's label"),
    ],
)
def test_the_set_of_a_pod(
    adapter: object, pod: dict[str, Any], names: list[str], want: str
) -> None:
    assert pod_set_of_pod(adapter, msgspec.convert({"metadata": pod}, Pod), names) == want


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([{}, {"priorityClassName": "high"}], PrioritySource("high"), id="the second"),
        pytest.param(
            [{"priority": 3}, {"priorityClassName": "high"}], PrioritySource("", 3), id="the first"
        ),
        pytest.param([{}], PrioritySource(), id="none"),
    ],
)
def test_priority_is_that_of_the_first_template_with_one(
    pods: list[dict[str, Any]], want: PrioritySource
) -> None:
    templates = msgspec.convert([{"spec": pod} for pod in pods], list[ScheduledPodTemplate])
    assert priority_of_templates(templates) == want
