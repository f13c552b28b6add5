"""The protocols of a kind of job: one that every adapter implements, and optional ones.

An *adapter* knows one kind and states facts: where its suspend field is, which pods it will create,
what its status says. It never decides what to do: holding, releasing and ending are the same for
every kind (`job_state`, `decide`). One small protocol is required; abilities of only some kinds
have protocols of their own, and an adapter that has the method has the ability.

`read_facts` turns an adapter and an object into `JobFacts`, which are the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import (
    NOTHING_ADDED,
    AddedParts,
    TemplateUpdate,
    read_added,
    take_off,
)
from shared_api.objects.meta import NO_UID, ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Pod
from shared_api.timestamps import read_time
from shared_api.well_known_labels import (
    MARKED_UID,
    POD_SET_UPDATES,
    RELATED_POD_SET,
    RELEASED_AT,
    SUSPEND,
    TOUCHED_AT,
    read_annotation,
)


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """The names of a kind of job, and what is fixed for all of its objects."""

    key: str
    """Name of the extension, as in `--enabled-extensions` (upstream's registry key)."""
    group: str
    version: str
    kind: str
    plural: str
    name_suffix: str = ""
    """Suffix of the unit's name, after a dash; none for Job and Workflow."""
    has_suspend_field: bool = True
    """It has a suspend field of its own. Kinds without are held by the annotation."""
    releases_on_absence: bool = False
    """Its operator takes any suspend annotation for "suspended": a release removes it."""

    owns_pods: bool = False
    """All of its pods have the job itself as controller: nothing in between."""
    makes_pods_at_once: bool = False
    """Its operator creates the first pods as soon as it sees the release: a job that has no pod
    minutes later gets none."""
    nudge_seconds: float | None = None
    """A job that has been released and without a pod object for so long is touched, in case its
    operator no longer acts on it; None if its operator always does."""
    held_only_at_creation: bool = False
    """Only objects that are created suspended are held: one that arrives running is adopted."""
    held_by_gates: bool = False
    """Its jobs are pods, held by scheduling gates, and stopped by deleting them."""
    has_object: bool = True
    """Each of its jobs has an object, which owns the unit; else only its pods describe it."""
    made_by: frozenset[str] = frozenset()
    """Kinds that create its pods, and are no jobs themselves: what stands above them counts."""

    @property
    def api_version(self) -> str:
        """`group/version`, or `version` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def as_controller(self, job: ObjectMeta) -> OwnerReference:
        """Return the controller reference of pods that a job creates itself."""
        return OwnerReference(
            api_version=self.api_version,
            kind=self.kind,
            name=job.name,
            uid=job.uid,
            controller=True,
        )


class JobPodSet(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one shape that the job still needs: finished ones are left out."""

    name: str
    count: int
    template: ScheduledPodTemplate
    """The template that pods will have: as the user wants it, without what releases have added for
    admission checks, and with what the API server makes of it (`pod_admission`)."""
    written: ScheduledPodTemplate | None = None
    """The template as the user wrote it, if the API server changes it."""
    is_sum: bool = False
    """The template only states the total of all pods of the job: no pod is created from it."""
    is_to_come: bool = False
    """True for a job made of pods that has none of this set yet: the template is that of the
    object which will create them."""
    has_limits: bool = True
    """The template states the limits of its containers; else the job's operator sets them."""
    takes_stamps: bool = True
    """A release can write labels into the template."""
    has_template: bool = True
    """The template stands in the job, so that a release can change it; else the operator has it."""
    added: AddedParts = NOTHING_ADDED
    """What releases have added, as far as it is still there; `read_facts` removes it."""
    min_count: int | None = None
    wanted_parallelism: int | None = None
    """How many pods the job wants to run at a time, of a kind that can run with fewer; None if it
    cannot."""
    released_parallelism: int | None = None
    """How many may run at a time now, if a release allowed no more."""
    is_sized: bool = False
    """One field of the job counts its pods, and nothing else of the job counts any: the chart's
    policy can compare that with the grant (`pods` of the kind in the chart's `_kinds.tpl`)."""
    work_left: int | None = None
    """At most so many pods it can need from now on, whatever its count is changed to; None: as many
    as its count is changed to."""
    is_done: bool = False
    """All of its work is done: the job's end will say so. A set that is scaled to zero needs no
    pods either, but is not done."""


class Outcome(msgspec.Struct, frozen=True):
    """How a job ended; final, even if something changes on the object later."""

    succeeded: bool
    message: str = ""


class StatusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's status says, and nothing of its spec."""

    is_empty: bool = False
    """The operator has not written anything yet."""
    suspended: bool = False
    """The status says that the job is held back. Its pods may still live."""
    suspended_since: Timestamp | None = None
    is_at_odds: bool = False
    """Its conditions and its counts do not agree yet: it neither holds the job back, nor lets it
    go."""
    running: bool = False
    """It says that pods of the job run, or are about to."""
    outcome: Outcome | None = None
    is_ending: bool = False
    """Its work has ended, and the operator is about to say how: suspended now, it begins anew."""
    pods: int = 0
    """How many unfinished pods it counts; they may not have reached the pod cache yet."""
    ready: int = 0
    """How many pods it counts as ready. Read only where no pod of the job is seen: of kinds that
    neither own their pods nor label them (`LabelsPods`), and while pods cannot be watched."""


class PrioritySource(msgspec.Struct, frozen=True):
    """Where a job's priority comes from: a class, a number, or neither."""

    class_name: str = ""
    value: int | None = None


def priority_of_templates(templates: Iterable[ScheduledPodTemplate]) -> PrioritySource:
    """Return class and number of the first template that has either."""
    for template in templates:
        spec = template.spec
        if spec.priority_class_name or spec.priority is not None:
            return PrioritySource(spec.priority_class_name, spec.priority)
    return PrioritySource()


class PodStamp(msgspec.Struct, frozen=True):
    """Labels and annotations that a release adds to a pod template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def updates_of_stamps(stamps: Mapping[str, PodStamp]) -> dict[str, TemplateUpdate]:
    """Return stamps as changes of templates."""
    return {
        name: TemplateUpdate(labels=dict(stamp.labels), annotations=dict(stamp.annotations))
        for name, stamp in stamps.items()
    }


class ApiJob(Protocol):
    """An object with metadata; frozen."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, uid, resourceVersion, labels, annotations, owners."""


JobT = TypeVar("JobT", bound=ApiJob)


class GenericJob(Protocol[JobT]):
    """An adapter: facts about one kind of job. Stateless; called from any thread, and often."""

    @property
    def kind(self) -> JobKind:
        """The kind's names."""

    @property
    def object_type(self) -> type[JobT]:
        """The struct that objects of the kind are decoded into: only fields that are read."""

    def is_suspended(self, job: JobT) -> bool:
        """Return whether the suspend field is on. Kinds without one return False."""

    def why_not_suspendable(self, job: JobT) -> str:
        """Return the field because of which this job would not survive being suspended.

        "" if it survives. A job that does not is left alone and counted as foreign demand.
        """

    def status_of(self, job: JobT) -> StatusFacts:
        """Return what the status says."""

    def pod_sets(self, job: JobT) -> tuple[JobPodSet, ...]:
        """Return the pods that the job still needs, in a fixed order.

        Finished work lowers the counts: while the job is held the unit follows them; after the
        release the difference is what the unit gives back.
        """

    def priority_of(self, job: JobT) -> PrioritySource:
        """Return where the priority comes from."""

    def suspend_patch(self, job: JobT) -> dict[str, Any]:
        """Return the merge patch that suspends the job, without metadata."""

    def release_patch(self, job: JobT, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Return the merge patch that resumes the job and adds labels to the templates.

        `stamps` is by pod set, empty when nothing may be added; kinds whose template cannot change
        at that moment leave them out.
        """


@runtime_checkable
class ManagedElsewhere(Protocol):
    """A kind whose objects can name another controller (`spec.managedBy`)."""

    def foreign_manager(self, job: Any) -> str:  # noqa: ANN401 - a capability is asked of any kind
        """Return the name of the controller that manages the job, "" if it is the usual one."""


@runtime_checkable
class ReadsPodLabels(Protocol):
    """A kind that reads labels of pods: needed in addition to the two below."""

    @property
    def pod_labels(self) -> tuple[str, ...]:
        """The keys of all pod labels that are read; no others are kept."""


@runtime_checkable
class SortsPods(Protocol):
    """A kind whose pods name their pod set by labels."""

    def pod_set_of(self, pod: Pod) -> str:
        """Return the pod set's name, "" if the pod does not name one."""


@runtime_checkable
class LabelsPods(Protocol):
    """A kind whose pods name their job by labels, if a child of the job created them."""

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name of the job that pods with these labels belong to, or ""."""


@runtime_checkable
class LearnsDemand(Protocol):
    """A kind with jobs whose pods may not be known yet."""

    def why_unknown(self, job: Any) -> str:  # noqa: ANN401 - a capability is asked of any kind
        """Return what is missing, "" if nothing is. Until then the job is held, without a unit."""


class OtherObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of another kind, in a job's namespace, that the job controls."""

    group: str
    version: str
    plural: str
    kind: str
    name: str
    object_type: type[Any]
    """The struct that it is decoded into; it has metadata."""
    is_child: bool = True
    """The job is its controller: one of another job does not count."""
    uid: Uid = NO_UID
    """Its uid, if its watch has it; then an answer about it counts as long as it is unchanged."""
    generation: int = 0
    """Its generation, as the watch has it."""


@runtime_checkable
class NeedsOther(LearnsDemand, Protocol):
    """A kind with jobs whose pods are described by another object.

    Without that object `why_unknown` says so.
    """

    def other_of(self, job: Any) -> OtherObject | None:  # noqa: ANN401 - a capability is asked of any kind
        """Return the object that describes the pods; None if none does."""

    def with_other(self, job: Any, other: Any) -> Any:  # noqa: ANN401 - a capability is asked of any kind
        """Return the job together with that object."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a job creates, and that creates pods in its turn."""

    pod_sets: tuple[JobPodSet, ...] | None = None
    """All pods that it may create; None: what the job was admitted with is read off this object."""
    is_named: bool = True
    """Nothing more is to come that names it. False: the job's status will, and does not yet."""
    outlives: bool = False
    """It may still exist when the job has ended."""


@runtime_checkable
class MakesJobs(Protocol):
    """A kind whose operator creates objects of kinds that are jobs themselves."""

    @property
    def makes(self) -> str:
        """What it creates, as the end of a sentence ("Jobs named ...")."""

    def child_of(self, job: Any, kind: str, name: str) -> Child | None:  # noqa: ANN401 - a capability is asked of any kind
        """Return what the operator creates under this name for a job; None: nothing.

        `kind` is written `group/Kind`. The answer must depend on what users cannot choose freely:
        the rule by which the operator names its objects, or the job's status.
        """


class PodOwner(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies the pods of a set before they exist."""

    controller: OwnerReference
    """Their controller."""
    labels: dict[str, str] = {}
    """Their labels, if their controller has pods of other sets as well."""


@runtime_checkable
class NamesPods(Protocol):
    """A kind whose pods can be identified before they exist: node capacity can be kept for them."""

    def pod_owner(self, job: Any, pod_set: str) -> PodOwner:  # noqa: ANN401 - a capability is asked of any kind
        """Return what identifies the pods of a set."""


@runtime_checkable
class GivesFullTemplates(Protocol):
    """A kind whose pod templates stand in the object as they are."""

    def full_templates(self, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the whole pod templates of an object as it came from the server, by pod set."""


@runtime_checkable
class TakesTemplateUpdates(Protocol):
    """A kind whose pod templates may change when a job of it is released.

    Jobs of other kinds are not released if an admission check wants their pods changed.
    """

    def update_patch(self, job: Any, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:  # noqa: ANN401 - a capability is asked of any kind
        """Return the merge patch, without metadata, that changes the templates of pod sets.

        It is merged with that of `release_patch`; where both set a field it wins.
        """


@runtime_checkable
class ListsTemplates(Protocol):
    """A kind whose templates stand in lists, which a merge patch can only replace as a whole.

    Its patches hold only the changed items of such a list, and only the changed fields of these:
    the rest is read from the server and sent along.
    """

    @property
    def list_keys(self) -> Mapping[str, str]:
        """The keys of its lists, as `list_patches.fill_lists` takes them."""


@runtime_checkable
class LocksTemplates(Protocol):
    """A kind whose templates cannot change while its status tells of an earlier run."""

    def status_to_clear(self, job: Any) -> dict[str, Any]:  # noqa: ANN401 - a capability is asked of any kind
        """Return the merge patch of `status` after which its templates may change; {}: none."""


@runtime_checkable
class RunsWithFewerPods(Protocol):
    """A kind whose jobs may run with fewer pods than they want.

    Their pod sets state `wanted_parallelism`.
    """

    def resize_patch(self, job: Any, counts: Mapping[str, int]) -> dict[str, Any]:  # noqa: ANN401 - a capability is asked of any kind
        """Return the merge patch, without metadata, that lets so many pods of a set run at a time.

        It may be merged with those of `release_patch` and `suspend_patch`.
        """


def priority_of_pod_sets(adapter: GenericJob[JobT], job: JobT) -> PrioritySource:
    """Return class and number of the first pod set that has either; the method of its adapter."""
    return priority_of_templates(each.template for each in adapter.pod_sets(job))


AWAITS_PREVIEW: Final = "the API server is asked what it makes of its pods"
"""Why a job's pods are unknown for some seconds: no event is needed."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One job at one moment, whatever its kind."""

    kind: JobKind
    metadata: ObjectMeta
    suspended: bool
    status: StatusFacts = StatusFacts()
    pod_sets: tuple[JobPodSet, ...] = ()
    priority: PrioritySource = PrioritySource()
    why_not_suspendable: str = ""
    foreign_manager: str = ""
    takes_updates: bool = False
    """Its templates may be changed when it is released."""
    sees_pods: bool = True
    """Its pods are found among those that are watched; else only its status tells of them."""
    unknown_demand: str = ""
    """Why its pods are unknown: then it has no pod sets, and is not released."""
    template_differences: str = ""
    """What the API server makes of its templates that differs from them, and why."""
    stamped_quota: str = ""
    """The quota that a release writes, if such pods were previewed; the API server may charge them
    to another. Else ""."""
    pods_refused: str = ""
    """Why the API server would refuse its pods now: until that is over it is not released."""

    @property
    def uid(self) -> Uid:
        """The job's uid."""
        return self.metadata.uid

    @property
    def released_at(self) -> datetime | None:
        """When the controllers last released the job; None if they never did."""
        return read_time(read_annotation(self.metadata.annotations, RELEASED_AT))

    @property
    def touched_at(self) -> datetime | None:
        """When its operator was last woken; None if it never was."""
        return read_time(read_annotation(self.metadata.annotations, TOUCHED_AT))

    @property
    def marked(self) -> bool:
        """Whether it has the mark of the controllers; one that was copied is another job's."""
        return self.metadata.annotations.get(MARKED_UID) == self.metadata.uid

    @property
    def suspend_annotation(self) -> str:
        """The suspend annotation's value, "" without one."""
        return self.metadata.annotations.get(SUSPEND, "")


def read_facts(adapter: GenericJob[JobT], job: JobT, *, held_by_annotation: bool) -> JobFacts:
    """Return all facts of one object, by its adapter.

    `held_by_annotation`: the configuration says that the operator of this kind honors the suspend
    annotation in addition to its own field.
    """
    kind = adapter.kind
    suspended = adapter.is_suspended(job)
    if held_by_annotation or not kind.has_suspend_field:
        suspended = suspended or job.metadata.annotations.get(SUSPEND) == "true"
    # Not `isinstance(adapter, ManagedElsewhere)`, which gives the same result and takes longer than
    # all the rest of this function.
    foreign_manager = getattr(adapter, "foreign_manager", None)
    manager = "" if foreign_manager is None else foreign_manager(job)
    why_unknown = getattr(adapter, "why_unknown", None)
    return JobFacts(
        kind=kind,
        metadata=job.metadata,
        suspended=suspended,
        status=adapter.status_of(job),
        pod_sets=_without_updates(adapter.pod_sets(job), job.metadata),
        priority=adapter.priority_of(job),
        why_not_suspendable=adapter.why_not_suspendable(job),
        foreign_manager=manager,
        takes_updates=hasattr(adapter, "update_patch"),
        sees_pods=kind.owns_pods or kind.held_by_gates or hasattr(adapter, "job_name_of"),
        unknown_demand="" if why_unknown is None else why_unknown(job),
    )


def _without_updates(pod_sets: tuple[JobPodSet, ...], job: ObjectMeta) -> tuple[JobPodSet, ...]:
    """Return the pod sets with templates as their user wants them."""
    if POD_SET_UPDATES not in job.annotations:
        return pod_sets
    added = read_added(job.annotations)
    cleaned = []
    for each in pod_sets:
        template, there = take_off(each.template, added.get(each.name, NOTHING_ADDED))
        cleaned.append(msgspec.structs.replace(each, template=template, added=there))
    return tuple(cleaned)


def pod_set_of_pod(adapter: object, pod: Pod, names: Sequence[str]) -> str:
    """Return to which of a job's pod sets a pod belongs, "" if nothing says so."""
    annotated = pod.metadata.annotations.get(RELATED_POD_SET, "")
    if annotated in names:
        return annotated
    # Not `isinstance(adapter, SortsPods)`: as above, and this is called for every pod.
    pod_set_of = getattr(adapter, "pod_set_of", None)
    if pod_set_of is not None:
        return str(pod_set_of(pod))
    return names[0] if len(names) == 1 else ""


TRANSPARENT_KINDS: Final = frozenset({"CronJob"})
"""Owners that only start jobs: what they create is managed like what a user creates."""
