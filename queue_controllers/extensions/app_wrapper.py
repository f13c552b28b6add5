"""Facts about AppWrapper (workload.codeflare.dev/v1beta2), of CodeFlare.

Held by `spec.suspend`: the objects that it wraps are created when it is off, and deleted when it is
turned on again. `status.phase` says how far that is: Suspended only when all of them are gone.
Failed is the end when they are, too: until then pods may run, for the user to inspect.

Its pods: `spec.components[].podSets`, by the path of a pod template in the component. For kinds
that the controller knows they may be left out, and stand in `status.componentStatus` after its
first reconcile, also of a suspended wrapper; until then the job is held without a unit. Nothing
says which of the pods are done.

The wrapped objects cannot be changed. What the queue adds to their templates goes through
`podSetInfos`, one for each pod set; it is meant for that, and the controller applies it when it
creates the objects. Their pods have a label that names the wrapper; their pod set is named only by
the annotation that a release adds.

Source: the CRD, documentation and sources of v1.2. There is no recording of the real controller.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from queue_controllers.job_families.suspend_field import (
    SPEC_SUSPEND,
    ManagedByField,
    release_by_spec_suspend,
)
from queue_controllers.jobframework.generic_job import (
    Child,
    JobKind,
    JobPodSet,
    Outcome,
    StatusFacts,
    priority_of_pod_sets,
)
from queue_controllers.jobframework.list_patches import BY_POSITION
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.field_path import FieldPathError, parse_path
from shared_api.memory_size import memory_of_json
from shared_api.objects.meta import (
    Condition,
    ObjectMeta,
    WireStruct,
    find_condition,
    is_condition_true,
)
from shared_api.text_decoding import TextError, convert_value, decode_json

KIND: Final = JobKind(
    key="appwrapper",
    group="workload.codeflare.dev",
    version="v1beta2",
    kind="AppWrapper",
    plural="appwrappers",
    name_suffix="aw-qu",
)

APP_WRAPPER_LABEL: Final = "workload.codeflare.dev/appwrapper"
"""The label of every pod with the name of its AppWrapper."""

_ROOT: Final = "template"
"""The start of all paths."""

MAX_WRAPPED: Final = 256
"""Wrapped objects whose parsed content is remembered: some kB each. They never change, and a job is
reconciled half a dozen times."""

MAX_WRAPPED_BYTES: Final = 128 << 10
"""Most memory that one of them takes, by `memory_of_json`: 32 MiB in all, and several times the
usual ones. Users may write more than a MB."""

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
    """One of `spec.components`.

    The whole object, since a path may lead anywhere in it; as text, which is a sixth of its size.
    """

    template: msgspec.Raw = msgspec.Raw(b"{}")
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
    """It is not known which pods a component creates; the text says why."""


class AppWrapperAdapter:
    """The `GenericJob` of AppWrapper."""

    kind = KIND
    object_type = AppWrapper
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    priority_of = priority_of_pod_sets
    foreign_manager = ManagedByField("workload.codeflare.dev/appwrapper-controller").foreign_manager
    pod_labels = (APP_WRAPPER_LABEL,)
    list_keys: Mapping[str, str] = {
        "spec.components": BY_POSITION,
        "spec.components.podSetInfos": BY_POSITION,
    }

    def __init__(self) -> None:
        # What was read last, and of which object: each reconcile asks for it three times.
        self._read: tuple[AppWrapper | None, tuple[JobPodSet, ...], str] = (None, (), "")

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the wrapper's name."""
        return labels.get(APP_WRAPPER_LABEL, "")

    makes: ClassVar[str] = "the objects in spec.components"

    def child_of(self, job: AppWrapper, kind: str, name: str) -> Child | None:
        """Return what a component wraps; None too if its pods are not known."""
        try:
            positions = [
                at
                for at, each in enumerate(job.spec.components)
                if _names(_json_object(bytes(each.template)), kind, name)
            ]
            places = [each.component for each in _sets_of(job)] if positions else []
        except UnknownPodsError:
            return None
        if not positions:
            return None
        sets = zip(
            places, self.pod_sets(job), strict=False
        )  # without the sets of unknown components
        return Child(pod_sets=tuple(each for at, each in sets if at == positions[0]))

    def why_unknown(self, job: AppWrapper) -> str:
        """Return which component's pods are not known."""
        return self._sets_and_trouble(job)[1]

    def status_of(self, job: AppWrapper) -> StatusFacts:
        """Return what the phase says; the condition `QuotaReserved` says when it was suspended."""
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
        """Return one per pod set of a component, named after its kind; none if one is unknown."""
        return self._sets_and_trouble(job)[0]

    def _sets_and_trouble(self, job: AppWrapper) -> tuple[tuple[JobPodSet, ...], str]:
        """Return the pod sets, and why they are not known."""
        known, sets, trouble = self._read  # as one: other threads replace it
        if known is job:
            return sets, trouble
        try:
            sets, trouble = _read_sets(job), ""
        except UnknownPodsError as error:
            sets, trouble = (), str(error)
        self._read = (job, sets, trouble)
        return sets, trouble

    def update_patch(self, job: AppWrapper, updates: Mapping[str, TemplateUpdate]) -> Json:
        """Return the patch that changes templates: infos of all sets of each changed component."""
        sets = tuple(_sets_of(job)) if updates else ()
        if not any(each.name in updates for each in sets):
            return {}
        components: list[Json] = [{} for _ in job.spec.components]
        for each in sets:
            info = _info_of(updates[each.name], each) if each.name in updates else {}
            components[each.component].setdefault("podSetInfos", []).append(info)
        return {"spec": {"components": components}}


def _outcome_of(status: AppWrapperStatus) -> Outcome | None:
    if status.phase == "Succeeded":
        return Outcome(succeeded=True)
    if status.phase != "Failed" or is_condition_true(status.conditions, "ResourcesDeployed"):
        return None
    unhealthy = find_condition(status.conditions, "Unhealthy")
    message = "" if unhealthy is None else unhealthy.message or unhealthy.reason
    return Outcome(succeeded=False, message=message)


def _names(wrapped: Json, kind: str, name: str) -> bool:
    """Return whether a wrapped object has this `group/Kind` and name."""
    meta = wrapped.get("metadata")
    group, slash, _ = str(wrapped.get("apiVersion", "")).partition("/")
    its_kind = f"{group if slash else ''}/{wrapped.get('kind', '')}"
    return its_kind == kind and isinstance(meta, dict) and meta.get("name") == name


# --- pod sets -----------------------------------------------------------------------------------


class _NamedSet(NamedTuple):
    """A pod set, and where it stands: the component's position, and its own in that."""

    component: int
    at: int
    name: str
    path: str
    replicas: int | None
    wrapped: bytes
    """What the component wraps, as JSON."""


def _sets_of(job: AppWrapper) -> Iterator[_NamedSet]:
    """Yield all pod sets in their order.

    Raises:
        UnknownPodsError: The sets of a component are not stated yet, or cannot be parsed.
    """
    components, statuses = job.spec.components, job.status.component_status or ()
    number = 0
    for position, component in enumerate(components):
        sets = component.pod_sets or ()
        if len(statuses) == len(components):
            sets = statuses[position].pod_sets or sets
        elif not sets:
            path = f"spec.components[{position}]"
            raise UnknownPodsError(f"{path} has no podSets, and its controller has added none")
        wrapped = bytes(component.template)
        kind = _kind_of(wrapped) if sets else ""
        for at, each in enumerate(sets):
            name = pod_set_name(f"{kind}-{number}")
            yield _NamedSet(position, at, name, each.path, each.replicas, wrapped)
            number += 1


def _read_sets(job: AppWrapper) -> tuple[JobPodSet, ...]:
    sets = []
    for each in _sets_of(job):
        try:
            template = _template_at(each.wrapped, each.path)
        except UnknownPodsError as error:
            place = f"spec.components[{each.component}].podSets[{each.at}]"
            raise UnknownPodsError(f"{place}: {error}") from error
        infos = job.spec.components[each.component].pod_set_infos or ()
        if each.at < len(infos):
            template = _with_info(template, infos[each.at])
        count = 1 if each.replicas is None else max(each.replicas, 0)
        sets.append(JobPodSet(name=each.name, count=count, template=template))
    return tuple(sets)


def _kind_of(wrapped: bytes) -> str:
    """Return the kind of an object, "pods" if it has none."""
    is_small = memory_of_json(wrapped) <= MAX_WRAPPED_BYTES
    return (_read_kind if is_small else _read_kind.__wrapped__)(wrapped)


def _template_at(wrapped: bytes, path: str) -> ScheduledPodTemplate:
    """Return an object's pod template at a path like "template.spec.groups[0].template".

    Raises:
        UnknownPodsError: There is none.
    """
    is_small = memory_of_json(wrapped) + len(path) <= MAX_WRAPPED_BYTES
    return (_read_template if is_small else _read_large_template)(wrapped, path)


@functools.lru_cache(maxsize=1)  # a path may be listed a thousand times
def _read_large_template(wrapped: bytes, path: str) -> ScheduledPodTemplate:
    return _read_template.__wrapped__(wrapped, path)


@functools.lru_cache(maxsize=MAX_WRAPPED)
def _read_kind(wrapped: bytes) -> str:
    return str(_json_object(wrapped).get("kind", "pods"))


@functools.lru_cache(maxsize=MAX_WRAPPED)
def _read_template(wrapped: bytes, path: str) -> ScheduledPodTemplate:
    if not path.startswith(_ROOT):
        raise UnknownPodsError(f"path {path!r} cannot be read: it begins with no {_ROOT}")
    try:
        found = parse_path(path).read({_ROOT: _json_object(wrapped)})
    except FieldPathError as error:
        raise UnknownPodsError(f"path {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict):
        raise UnknownPodsError(f"path {path!r} leads to no pod template")
    try:
        return convert_value(found, ScheduledPodTemplate)
    except TextError as error:
        raise UnknownPodsError(f"pod template at {path!r}: {error}") from error


def _json_object(text: bytes) -> Json:
    """Return the object of a text, {} if it is no object.

    Raises:
        UnknownPodsError: It is nested too deep.
    """
    try:
        found = decode_json(text.decode(), object)
    except TextError as error:
        raise UnknownPodsError(f"what it wraps cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}


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


def _info_of(update: TemplateUpdate, of: _NamedSet) -> Json:
    """Return an update as an info, whose tolerations come beside those of the template."""
    body = update_body(update)
    info = {**body.get("metadata", {}), **body.get("spec", {})}
    if "tolerations" in info:
        own = _template_at(of.wrapped, of.path).spec.tolerations
        info["tolerations"] = [each for each in info["tolerations"] if each not in own]
    return info
