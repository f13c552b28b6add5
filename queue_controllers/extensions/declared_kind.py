"""Facts about kinds of jobs that are declared in the configuration: no code, only paths.

A declaration names the kind, where its suspend field is, where its pod templates and their counts
are, and what its status says when the job runs, has succeeded or has failed::

    - apiVersion: example.com/v1
      kind: Widget
      plural: widgets
      suspend: .spec.suspend
      podSets:
        - {name: worker, count: .spec.workers, template: .spec.template}
      succeeded: {path: .status.phase, values: [Done]}
      failed: {path: .status.phase, values: [Failed]}

Without `suspend` the kind is held by the annotation. Without `suspended`, an evicted job is taken
for stopped a minute after its last pod has gone, since nothing says it before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
    priority_of_templates,
    updates_of_stamps,
)
from queue_controllers.jobframework.list_patches import combine_patches
from queue_controllers.jobframework.pod_set_names import pod_set_name
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import update_body
from shared_api.field_path import FieldPath, FieldPathError, parse_path
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import MAX_POD_SETS
from shared_api.text_decoding import TextError, convert_value

Name = Annotated[str, Meta(pattern="^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$")]
Scalar = str | int | bool


class DeclarationError(ValueError):
    """A declaration is not valid; the message names the field."""


class DeclaredTest(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """A field, and the values of it for which something is so."""

    path: str
    values: Annotated[tuple[Scalar, ...], Meta(min_length=1)]


class DeclaredPodSet(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Pods of one shape: the path of their template, and how many (a number, or a path to one)."""

    name: Name
    template: str
    count: str | int = 1


class DeclaredKind(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """One entry of `kinds` in the configuration file."""

    api_version: Annotated[str, Meta(pattern="^[-a-z0-9.]+/[a-z0-9]+$")]
    kind: Name
    plural: Name
    pod_sets: Annotated[tuple[DeclaredPodSet, ...], Meta(min_length=1, max_length=MAX_POD_SETS)]
    succeeded: DeclaredTest
    failed: DeclaredTest
    key: Name = ""
    """Its name in settings and metrics; the kind in lower case where it is not said."""
    name_suffix: str = ""
    """The suffix of the units' names; "": `<key>-qu`."""
    suspend: str = ""
    suspended: DeclaredTest | None = None
    running: DeclaredTest | None = None
    message: str = ""
    """Where a text says why it failed."""
    priority_class: str = ""
    pod_label: str = ""
    """Label of its pods whose value is the job's name, where a child of the job makes them."""
    pod_set_label: str = ""
    """Label of its pods whose value is the pod set's name."""
    releases_on_absence: bool = False
    """Its operator takes the suspend annotation for "suspended", whatever it says."""


class DeclaredJob(WireStruct, frozen=True):
    """An object of such a kind, as it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class _Test(msgspec.Struct, frozen=True):
    path: FieldPath
    values: frozenset[str]

    def holds(self, body: Mapping[str, Any]) -> bool:
        """Return whether it is so in an object; values are compared as texts."""
        value = self.path.read(body)
        return value is not None and _text_of(value) in self.values


class _PodSet(msgspec.Struct, frozen=True):
    name: str
    template: FieldPath
    count: FieldPath | int


class _UnreadableError(Exception):
    """An object's value cannot be parsed; the message names the field."""


_TOP_FIELDS: Final = ("spec", "status")


class DeclaredAdapter:
    """The `GenericJob` of one declaration."""

    object_type = DeclaredJob

    def __init__(self, declared: DeclaredKind) -> None:
        """Parse a declaration.

        Raises:
            DeclarationError: It is not valid.
        """
        group, _, version = declared.api_version.partition("/")
        key = declared.key or declared.kind.lower()
        self._suspend = _path("suspend", declared.suspend) if declared.suspend else None
        if self._suspend is not None and self._suspend.names is None:
            raise DeclarationError(f"suspend: {declared.suspend}: a field in a list cannot be set")
        self.kind = JobKind(
            key=key,
            group=group,
            version=version,
            kind=declared.kind,
            plural=declared.plural,
            name_suffix=declared.name_suffix or f"{key}-qu",
            has_suspend_field=self._suspend is not None,
            releases_on_absence=declared.releases_on_absence,
        )
        self._pod_sets = _pod_sets_of(declared)
        counted = [each.name for each in self._pod_sets if isinstance(each.count, FieldPath)]
        self._sized = counted[0] if len(counted) == 1 else ""
        self._succeeded = _test("succeeded", declared.succeeded)
        self._failed = _test("failed", declared.failed)
        self._suspended = _test("suspended", declared.suspended) if declared.suspended else None
        self._running = _test("running", declared.running) if declared.running else None
        self._message = _path("message", declared.message) if declared.message else None
        self._priority_class = (
            _path("priorityClass", declared.priority_class) if declared.priority_class else None
        )
        self._pod_label, self._pod_set_label = declared.pod_label, declared.pod_set_label
        self.pod_labels = tuple(each for each in (self._pod_label, self._pod_set_label) if each)

    def is_suspended(self, job: DeclaredJob) -> bool:
        """Return whether the declared field is on."""
        return self._suspend is not None and self._suspend.read(_body(job)) is True

    def why_not_suspendable(self, job: DeclaredJob) -> str:
        """Return the field that cannot be parsed, if any: its demand is not known then."""
        try:
            self._read_pod_sets(job)
        except _UnreadableError as error:
            return str(error)
        return ""

    def status_of(self, job: DeclaredJob) -> StatusFacts:
        """Return the results of the declared tests; without `running` that is left to the pods."""
        body = _body(job)
        outcome = None
        if self._succeeded.holds(body):
            outcome = Outcome(succeeded=True)
        elif self._failed.holds(body):
            why = None if self._message is None else self._message.read(body)
            outcome = Outcome(succeeded=False, message="" if why is None else str(why))
        return StatusFacts(
            is_empty=not job.status,
            suspended=self._suspended is not None and self._suspended.holds(body),
            running=self._running is None or self._running.holds(body),
            outcome=outcome,
        )

    def pod_sets(self, job: DeclaredJob) -> tuple[JobPodSet, ...]:
        """Return the declared sets, in their order; none if one cannot be parsed."""
        try:
            return self._read_pod_sets(job)
        except _UnreadableError:
            return ()

    def priority_of(self, job: DeclaredJob) -> PrioritySource:
        """Return the declared class, else the first template's."""
        if self._priority_class is not None:
            name = self._priority_class.read(_body(job))
            if isinstance(name, str) and name:
                return PrioritySource(name)
        return priority_of_templates(each.template for each in self.pod_sets(job)[:1])

    def suspend_patch(self, job: DeclaredJob) -> dict[str, Any]:
        """Return the patch that turns the declared field on."""
        return {} if self._suspend is None else self._suspend.patch(value=True)

    def release_patch(self, job: DeclaredJob, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Return the patch that turns the field off, and labels the templates outside of lists."""
        updates = updates_of_stamps(stamps)
        switch = [] if self._suspend is None else [self._suspend.patch(value=False)]
        templates = (
            each.template.patch(value=update_body(updates[each.name]))
            for each in self._pod_sets
            if each.name in updates and each.template.names is not None
        )
        return reduce(combine_patches, (*switch, *templates), {})

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the declared label's value."""
        return labels.get(self._pod_label, "") if self._pod_label else ""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the declared label's value; if there is one set, its name."""
        if self._pod_set_label:
            return pod.metadata.labels.get(self._pod_set_label, "")
        return self._pod_sets[0].name if len(self._pod_sets) == 1 else ""

    def _read_pod_sets(self, job: DeclaredJob) -> tuple[JobPodSet, ...]:
        body = _body(job)
        return tuple(
            JobPodSet(
                name=each.name,
                count=_read_count(each, body),
                template=_read_template(each, body),
                takes_stamps=each.template.names is not None,
                is_sized=each.name == self._sized,
            )
            for each in self._pod_sets
        )


# --- declarations -------------------------------------------------------------------------------


def _pod_sets_of(declared: DeclaredKind) -> tuple[_PodSet, ...]:
    found: dict[str, _PodSet] = {}
    for index, each in enumerate(declared.pod_sets):
        at, name, count = f"podSets[{index}]", pod_set_name(each.name), each.count
        if name in found:
            raise DeclarationError(f"{at}.name: {each.name!r} is there twice")
        if isinstance(count, int) and count < 0:
            raise DeclarationError(f"{at}.count: {count} is negative")
        found[name] = _PodSet(
            name,
            _path(f"{at}.template", each.template),
            count if isinstance(count, int) else _path(f"{at}.count", count),
        )
    return tuple(found.values())


def _test(field: str, declared: DeclaredTest) -> _Test:
    values = frozenset(_text_of(each) for each in declared.values)
    return _Test(_path(f"{field}.path", declared.path), values)


def _path(field: str, text: str) -> FieldPath:
    try:
        path = parse_path(text)
    except FieldPathError as error:
        raise DeclarationError(f"{field}: {error}") from error
    top = path.names[0] if path.names else getattr(path.steps[0], "name", "")
    if top not in _TOP_FIELDS:
        raise DeclarationError(f"{field}: {text}: paths begin with .spec or .status")
    return path


# --- objects ------------------------------------------------------------------------------------


def _body(job: DeclaredJob) -> dict[str, Any]:
    return {"spec": job.spec, "status": job.status}


def _read_count(pod_set: _PodSet, body: Mapping[str, Any]) -> int:
    """Return how many pods a set has; 1 if the field is absent."""
    if isinstance(pod_set.count, int):
        return pod_set.count
    count = pod_set.count.read(body)
    if count is None:
        return 1
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise _UnreadableError(f"{pod_set.count.text}: {count!r} is no number of pods")
    return count


def _read_template(pod_set: _PodSet, body: Mapping[str, Any]) -> ScheduledPodTemplate:
    template = pod_set.template.read(body)
    if template is None:
        raise _UnreadableError(f"{pod_set.template.text}: there is no pod template")
    try:
        return convert_value(template, ScheduledPodTemplate)
    except TextError as error:
        raise _UnreadableError(f"{pod_set.template.text}: {error}") from error


def _text_of(value: object) -> str:
    """Return a scalar as an object's text: YAML's `True` is often written for `"True"`."""
    return str(value)
