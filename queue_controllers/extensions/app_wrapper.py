"""Facts about AppWrapper (workload.codeflare.dev/v1beta2), of CodeFlare.

Held by `spec.suspend`: the objects that it wraps are made when it is off, and deleted when it goes
on again. `status.phase` says how far that is: Suspended only when all of them are gone. Failed is
the end when they are, too: until then pods may run, for the user to look at.

Which pods they make: `spec.components[].podSets`, by the path of a pod template in the component.
For kinds that the controller knows they may be left out, and stand in `status.componentStatus`
after its first look, also of one that is suspended; until then the job is held without a unit.
Nothing says which of the pods are done.

The wrapped objects can not be changed. What the queue adds to their templates goes through
`podSetInfos`, one for each pod set; it is made for that, and the controller takes it when it makes
the objects. Their pods have a label that names the wrapper; to which pod set they belong they say
only by the annotation that a release adds.

Source: the CRD, documentation and sources of v1.2. There is no recording of the real controller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.list_patches import BY_POSITION
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.queue_unit_builder import pod_set_name
from queue_controllers.jobframework.replicated_jobs import priority_of_sets
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import (
    Condition,
    ObjectMeta,
    WireStruct,
    find_condition,
    is_condition_true,
)

KIND: Final = JobKind(
    key="appwrapper",
    group="workload.codeflare.dev",
    version="v1beta2",
    kind="AppWrapper",
    plural="appwrappers",
    name_suffix="aw-qu",
)

APP_WRAPPER_CONTROLLER: Final = "workload.codeflare.dev/appwrapper-controller"
"""What `spec.managedBy` says when the usual controller owns the job."""

APP_WRAPPER_LABEL: Final = "workload.codeflare.dev/appwrapper"
"""On every pod: the wrapper it comes from."""

_STEP: Final = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<position>\d+)\]")
_PATH: Final = re.compile(r"template(\.[^.\[\]]+|\[\d+\])*")

Json = dict[str, Any]


class WrappedPodSet(WireStruct, frozen=True):
    """A pod set of a component; absent `replicas` is 1."""

    path: str = ""
    replicas: int | None = None


class PodSetInfo(WireStruct, frozen=True):
    """What is added to the template of a pod set."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Json, ...] | None = None


class Component(WireStruct, frozen=True):
    """One of `spec.components`; the whole object, since a path may lead anywhere in it."""

    template: dict[str, Any] = msgspec.field(default_factory=dict)
    pod_sets: tuple[WrappedPodSet, ...] | None = None
    pod_set_infos: tuple[PodSetInfo, ...] | None = None


class AppWrapperSpec(WireStruct, frozen=True):
    """`spec`."""

    suspend: bool | None = None
    managed_by: str | None = None
    components: tuple[Component, ...] = ()


class ComponentStatus(WireStruct, frozen=True):
    """One of `status.componentStatus`: pod sets as declared, or as the controller knows them."""

    pod_sets: tuple[WrappedPodSet, ...] | None = None


class AppWrapperStatus(WireStruct, frozen=True):
    """`status`."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    component_status: tuple[ComponentStatus, ...] | None = None


class AppWrapper(WireStruct, frozen=True):
    """An AppWrapper."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AppWrapperSpec = AppWrapperSpec()
    status: AppWrapperStatus = AppWrapperStatus()


class UnknownPodsError(ValueError):
    """It can not be said which pods a component makes; the text says why."""


class AppWrapperAdapter:
    """The `GenericJob` of AppWrapper."""

    kind = KIND
    object_type = AppWrapper
    pod_labels = (APP_WRAPPER_LABEL,)
    list_keys: Mapping[str, str] = {
        "spec.components": BY_POSITION,
        "spec.components.podSetInfos": BY_POSITION,
    }

    def is_suspended(self, job: AppWrapper) -> bool:
        """Say whether `spec.suspend` is on."""
        return job.spec.suspend is True

    def why_not_hold(self, job: AppWrapper) -> str:
        """Every AppWrapper survives being suspended."""
        return ""

    def foreign_manager(self, job: AppWrapper) -> str:
        """Return `spec.managedBy` unless it is CodeFlare's own controller."""
        manager = job.spec.managed_by or ""
        return "" if manager == APP_WRAPPER_CONTROLLER else manager

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the wrapper's name."""
        return labels.get(APP_WRAPPER_LABEL, "")

    def why_unknown(self, job: AppWrapper) -> str:
        """Say of which component it is not known which pods it makes."""
        try:
            _read_sets(job)
        except UnknownPodsError as error:
            return str(error)
        return ""

    def status_of(self, job: AppWrapper) -> StatusFacts:
        """Read the phase; the condition `QuotaReserved` says when it was suspended."""
        status = job.status
        reserved = find_condition(status.conditions, "QuotaReserved")
        suspended = status.phase == "Suspended"
        since = None
        if suspended and reserved is not None and reserved.status == "False":
            since = reserved.last_transition_time
        return StatusFacts(
            is_empty=not status.phase,
            suspended=suspended,
            suspended_since=since,
            running=status.phase == "Running",
            outcome=_outcome_of(status),
        )

    def pod_sets(self, job: AppWrapper) -> tuple[JobPodSet, ...]:
        """One per pod set of a component, named after its kind; none while one is unknown."""
        try:
            return _read_sets(job)
        except UnknownPodsError:
            return ()

    def priority_of(self, job: AppWrapper) -> PrioritySource:
        """Those of the first template, in the order of the components, that has any."""
        return priority_of_sets(self.pod_sets(job))

    def suspend_patch(self, job: AppWrapper) -> Json:
        """Turn `spec.suspend` on."""
        return {"spec": {"suspend": True}}

    def release_patch(self, job: AppWrapper, stamps: Mapping[str, PodStamp]) -> Json:
        """Turn `spec.suspend` off and have the templates stamped."""
        infos = {
            name: _given(labels=stamp.labels, annotations=stamp.annotations)
            for name, stamp in stamps.items()
        }
        return {"spec": {"suspend": False, **_components_patch(job, infos)}}

    def update_patch(self, job: AppWrapper, updates: Mapping[str, TemplateUpdate]) -> Json:
        """Have templates changed."""
        infos = {}
        for _, name, component, pod_set in _sets_of(job):
            update = updates.get(name)
            if update is None:
                continue
            info: Json = _given(
                labels=update.labels,
                annotations=update.annotations,
                nodeSelector=update.node_selector,
            )
            if update.tolerations is not None:
                own = _template_at(component, pod_set.path).spec.tolerations
                info["tolerations"] = [each for each in update.tolerations if each not in own]
            infos[name] = info
        patch = _components_patch(job, infos)
        return {"spec": patch} if patch else {}


def _outcome_of(status: AppWrapperStatus) -> Outcome | None:
    if status.phase == "Succeeded":
        return Outcome(succeeded=True)
    if status.phase != "Failed" or is_condition_true(status.conditions, "ResourcesDeployed"):
        return None
    unhealthy = find_condition(status.conditions, "Unhealthy")
    message = "" if unhealthy is None else unhealthy.message or unhealthy.reason
    return Outcome(succeeded=False, message=message)


# --- pod sets -----------------------------------------------------------------------------------


def _sets_of(job: AppWrapper) -> Iterator[tuple[int, str, Component, WrappedPodSet]]:
    """Yield position of the component, name of the set, component and set, in their order.

    Raises:
        UnknownPodsError: Nobody has said yet which sets a component has.
    """
    components, said = job.spec.components, job.status.component_status or ()
    number = 0
    for position, component in enumerate(components):
        sets = component.pod_sets or ()
        if len(said) == len(components):
            sets = said[position].pod_sets or sets
        elif not sets:
            path = f"spec.components[{position}]"
            raise UnknownPodsError(f"{path} has no podSets, and its controller has added none")
        kind = str(component.template.get("kind", "pods"))
        for each in sets:
            yield position, pod_set_name(f"{kind}-{number}"), component, each
            number += 1


def _read_sets(job: AppWrapper) -> tuple[JobPodSet, ...]:
    sets, of_component = [], dict.fromkeys(range(len(job.spec.components)), 0)
    for position, name, component, pod_set in _sets_of(job):
        at, of_component[position] = of_component[position], of_component[position] + 1
        try:
            template = _template_at(component, pod_set.path)
        except UnknownPodsError as error:
            raise UnknownPodsError(f"spec.components[{position}].podSets[{at}]: {error}") from error
        infos = component.pod_set_infos or ()
        count = 1 if pod_set.replicas is None else max(pod_set.replicas, 0)
        info = infos[at] if at < len(infos) else PodSetInfo()
        sets.append(JobPodSet(name=name, count=count, template=_with_info(template, info)))
    return tuple(sets)


def _template_at(component: Component, path: str) -> ScheduledPodTemplate:
    """Return the pod template at a path like "template.spec.groups[0].template".

    Raises:
        UnknownPodsError: There is none.
    """
    if _PATH.fullmatch(path) is None:
        raise UnknownPodsError(f"path {path!r} can not be read")
    found: Any = component.template
    for step in _STEP.finditer(path):
        found = _step_into(found, step["field"], step["position"])
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        raise UnknownPodsError(f"path {path!r} leads to no pod template")
    try:
        return msgspec.convert(found, ScheduledPodTemplate)
    except msgspec.ValidationError as error:
        raise UnknownPodsError(f"pod template at {path!r}: {error}") from error


def _step_into(value: Any, field: str | None, position: str | None) -> Any:  # noqa: ANN401 - JSON
    if field is not None:
        return value.get(field) if isinstance(value, dict) else None
    at = int(position or 0)
    return value[at] if isinstance(value, list) and at < len(value) else None


def _with_info(template: ScheduledPodTemplate, info: PodSetInfo) -> ScheduledPodTemplate:
    """Return a template as the wrapped object gets it."""
    meta, spec = template.metadata, template.spec
    meta = msgspec.structs.replace(
        meta,
        labels={**meta.labels, **(info.labels or {})},
        annotations={**meta.annotations, **(info.annotations or {})},
    )
    spec = msgspec.structs.replace(
        spec,
        node_selector={**spec.node_selector, **(info.node_selector or {})},
        tolerations=(*spec.tolerations, *(info.tolerations or ())),
    )
    return msgspec.structs.replace(template, metadata=meta, spec=spec)


def _components_patch(job: AppWrapper, infos: Mapping[str, Json]) -> Json:
    """Return the patch of `podSetInfos`, all of them of each component that has pod sets."""
    components: list[Json] = [{} for _ in job.spec.components]
    if not infos:
        return {}
    for position, name, _, _ in _sets_of(job):
        components[position].setdefault("podSetInfos", []).append(infos.get(name, {}))
    return {"components": components}


def _given(**values: Any) -> Json:  # noqa: ANN401 - any JSON value
    return {key: value for key, value in values.items() if value}
