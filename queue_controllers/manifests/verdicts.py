"""The unit that the controllers would make of a job that is applied now, or why none.

A reconcile's own parts answer, over caches that have only this job: `JobReader` reads it,
`decide` builds its unit, `explain_job` has the words. What the caches of a cluster would say in
addition, and is not known here, is listed in `NOT_LOOKED_UP`.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from queue_controllers.debug_api.explanation import Problem, explain_job
from queue_controllers.decision.actions import CreateUnit
from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_ownership import NAMES_NOTHING, Rule
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.decision.owners import Above, ChildName, Refusal
from queue_controllers.decision.queue_unit_builder import build_sync, choose_unit_name
from queue_controllers.extension_list import find_extensions
from queue_controllers.jobframework.generic_job import JobFacts, JobKind
from queue_controllers.manifests.submissions import (
    Document,
    FieldError,
    Submission,
    Submissions,
    read_document,
)
from queue_controllers.reconcile.job_reader import JobReader, Lookups, Sources, unit_indexes
from queue_controllers.watches.cluster_context import ClusterContextReader, ContextCaches
from shared_api.informer.indexed_store import IndexedStore
from shared_api.manifest_documents import ManifestError, read_documents
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, OwnerReference
from shared_api.objects.namespace import Namespace
from shared_api.objects.pod import Pod
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import SystemClock
from shared_api.queue_unit_phases import is_final, occupies_quota
from shared_api.timestamps import rfc3339
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

__all__ = [
    "DEFAULTS",
    "ClusterFacts",
    "Document",
    "FieldError",
    "Manifest",
    "ManifestError",
    "Verdict",
]

DEFAULTS: Final = "defaults of the API server, and admission webhooks"
"""What a dry run by the API server looks up."""

NOT_LOOKED_UP: Final = (
    "the controllers' configuration: which kinds are enabled, which jobs are managed",
    "LimitRanges, RuntimeClasses and ServiceAccounts of the namespace",
    DEFAULTS,
    "owners that the object names",
    "whether Kueue is installed",
)
"""What a unit may depend on, and is not known here."""

CLASSES_NOT_LOOKED_UP: Final = "PriorityClasses: a priority that a class gives counts as 0"
"""The same, where these are not known."""

OBJECTS_OF_QUEUES: Final = frozenset({"ElasticQuota", "ElasticQuotaTree", "Queue", "ResourceQuota"})
"""Kinds that are often in one manifest with the jobs that depend on them."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster.

    Attributes:
        wall: The time of creation.
        quotas: All ElasticQuotas.
        namespace: Returns a namespace; None if there is none of this name, as far as is known.
        unit: Returns an existing unit by `namespace/name`, None if there is none.
        priority_classes: All PriorityClasses; None if they are not known.
    """

    wall: datetime
    quotas: tuple[ElasticQuota, ...] = ()
    namespace: Callable[[str], Namespace | None]
    unit: Callable[[str], QueueUnit | None]
    priority_classes: tuple[PriorityClass, ...] | None = None

    @property
    def not_looked_up(self) -> tuple[str, ...]:
        """What a unit may depend on, and is not known."""
        missing = () if self.priority_classes is not None else (CLASSES_NOT_LOOKED_UP,)
        return (*missing, *NOT_LOOKED_UP)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the controllers would make of one job of a manifest, or of an object that is none.

    Attributes:
        documents: The objects that it is made of; the first one stands for it.
        kind: Its kind; None if no extension has it.
        managed: Whether the queue would manage it.
        reason: Why, or why not, as a word for programs.
        message: The same in words.
        unit: The QueueUnit that would be created, as JSON values; None: none would be.
        existing: Of a job that is queued already: its unit, `namespace/name`; "" if it has none.
        patch: What the manifest changes of that unit, as a JSON merge patch.
        problems: What an event on the job would warn of.
        errors: What is wrong with the object.
        known_kinds: Of an unknown kind, those that are known.
    """

    documents: tuple[Document, ...]
    kind: JobKind | None = None
    managed: bool = False
    reason: str
    message: str
    unit: dict[str, Any] | None = None
    existing: str = ""
    patch: dict[str, Any] = {}
    problems: tuple[Problem, ...] = ()
    errors: tuple[FieldError, ...] = ()
    known_kinds: tuple[str, ...] = ()

    @property
    def document(self) -> Document:
        """The object that stands for the job."""
        return self.documents[0]


class Manifest:
    """A manifest to try out.

    Args:
        content: Its text.
        is_json: Whether it is JSON, not YAML.
        namespace: The namespace of objects that name none.

    Raises:
        ManifestError: It cannot be parsed, or is too large.
        FlagError: An installed extension cannot be loaded.
    """

    def __init__(self, content: bytes, *, is_json: bool, namespace: str) -> None:
        bodies = read_documents(content, is_json=is_json)
        self._adapters = tuple(find_extensions().values())
        self.documents = tuple(
            read_document(number, body, self._adapters, namespace)
            for number, body in enumerate(bodies, 1)
        )

    def judge(self, facts: ClusterFacts) -> Iterator[Verdict]:
        """Yield what would be made of its jobs, in the order in which they would be created."""
        now = rfc3339(facts.wall)
        submissions = Submissions(self.documents, self._adapters, now)
        for each in submissions.read():
            if isinstance(each, Submission):
                yield _judge(each, submissions, facts)
            else:
                yield _judge_other(each, [adapter.kind for adapter in self._adapters])


def _judge_other(document: Document, kinds: Sequence[JobKind]) -> Verdict:
    """Return what is said of an object that is no job."""
    kind = None if document.adapter is None else document.adapter.kind
    if document.errors:
        message = "It cannot be read: " + "; ".join(
            f"{each.field}: {each.message}" if each.field else each.message
            for each in document.errors
        )
        return Verdict(
            documents=(document,),
            kind=kind,
            reason="Unreadable",
            message=message,
            errors=document.errors,
        )
    if document.kind == "PodGroup":
        message = "It says how many pods a group has; the group is tried with its pods"
        return Verdict(documents=(document,), kind=kind, reason="NoJob", message=message)
    if kind is not None:
        message = f"It is not managed: {NAMES_NOTHING}"
        rule = Rule.NAMES_NOTHING.value
        return Verdict(documents=(document,), kind=kind, reason=rule, message=message)
    names = sorted({f"{each.kind} ({each.api_version})" for each in kinds})
    hint = ""
    if document.kind in {"Deployment", "ReplicaSet", "CronJob"}:
        hint = f". A {document.kind} is no job: try what it creates"
    elif document.kind in OBJECTS_OF_QUEUES:
        hint = ". Jobs are tried as if it were not in the manifest: create it first"
    return Verdict(
        documents=(document,),
        reason="UnknownKind",
        message=f"{document.kind} ({document.api_version}) is no kind of job that is known{hint}",
        known_kinds=tuple(names),
    )


def _judge(submission: Submission, submissions: Submissions, facts: ClusterFacts) -> Verdict:
    adapter, job = submission.adapter, submission.job
    units = IndexedStore[QueueUnit](indexes=unit_indexes())
    reader, lookups = _reader_of(submission, submissions, facts, units)
    found = reader.read(job, None, lookups)
    if (other := _unit_of_name(found.facts, facts)) is not None:
        units.put_observed(other)
    view = reader.view(found, JobMemory(arrived=True), None)
    explanation = explain_job(view, found.facts)
    if explanation.managed and other is not None and _is_unit_of(other, found.facts):
        return Verdict(
            documents=submission.documents,
            kind=adapter.kind,
            managed=True,
            reason=explanation.reason.value,
            message=explanation.message,
            existing=other.metadata.key,
            patch=build_sync(found.facts, other, view.context, waiting=_waits(other)),
            problems=explanation.problems,
        )
    decision = decide(view)
    created = (each.body for each in decision.actions if isinstance(each, CreateUnit))
    unit = next(created, None)
    message = explanation.message
    if unit is None and explanation.managed:
        why = found.facts.unknown_demand or "; ".join(each.message for each in explanation.problems)
        message = f"It would be held without a unit: {why}"
    return Verdict(
        documents=submission.documents,
        kind=adapter.kind,
        managed=explanation.managed,
        reason=explanation.reason.value,
        message=message,
        unit=unit,
        problems=explanation.problems,
        errors=tuple(_find_conflicts(found.facts, facts)),
    )


def _find_conflicts(job: JobFacts, facts: ClusterFacts) -> Iterator[FieldError]:
    """Yield why the object could not be created, as far as that is known here."""
    meta = job.metadata
    if facts.namespace(meta.namespace) is None:
        yield FieldError("metadata.namespace", f"namespace {meta.namespace} does not exist")


def _is_unit_of(unit: QueueUnit, job: JobFacts) -> bool:
    """Return whether a unit is that of a job of the manifest, which exists then."""
    consumer = unit.spec.consumer_ref
    named = (job.kind.kind, job.metadata.name)
    return consumer is not None and (consumer.kind, consumer.name) == named


def _waits(unit: QueueUnit) -> bool:
    """Return whether a unit may still get another shape and queue."""
    return not occupies_quota(unit) and not is_final(unit)


def _unit_of_name(job: JobFacts, facts: ClusterFacts) -> QueueUnit | None:
    """Return the unit that has the name which this job's would have."""
    name, _ = choose_unit_name(job, is_taken=False)
    return facts.unit(f"{job.metadata.namespace}/{name}")


def _reader_of(
    submission: Submission,
    submissions: Submissions,
    facts: ClusterFacts,
    units: IndexedStore[QueueUnit],
) -> tuple[JobReader[Any], Lookups]:
    """Return what reads the job in a reconcile, over caches of what is known."""
    name = submission.job.metadata.namespace
    known = facts.namespace(name) or Namespace(metadata=ObjectMeta(name=name))
    context = ClusterContextReader(
        ContextCaches(
            quotas=_Objects(facts.quotas),
            namespaces=_Objects((known,)),
            priority_classes=_Objects(facts.priority_classes or ()),
        ),
        on_all_changed=lambda: None,
        on_namespace_changed=lambda _: None,
    )
    sources = Sources(
        units=units,
        pods=_NoPods(),
        context=context,
        clock=_Moment(facts.wall),
        rng=random.Random(0),
    )
    jobs = _Objects((submission.job,))
    reader = JobReader[Any](submission.adapter, sources, jobs, JobSettings(), lambda _: None)
    lookups = Lookups(
        owners=lambda _: _OwnersByKind(),
        others=lambda job, wanted: submissions.others(job.namespace, wanted),
    )
    return reader, lookups


# --- caches of what is known ----------------------------------------------------------------------


class _Moment(SystemClock):
    """A clock that says when the manifest is tried."""

    def __init__(self, wall: datetime) -> None:
        self._wall = wall

    def now(self) -> datetime:
        return self._wall


class _NoPods:
    def __call__(self, kind: JobKind, job: ObjectMeta, unit_key: str) -> list[Pod]:
        return []


class _Keyed(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


KeyedT = TypeVar("KeyedT", bound=_Keyed)


class _Objects(Generic[KeyedT]):
    """A cache of a few objects."""

    def __init__(self, objects: Iterable[KeyedT]) -> None:
        self._objects = {each.metadata.key: each for each in objects}

    def get(self, key: str) -> KeyedT | None:
        return self._objects.get(key)

    def list(self) -> builtins.list[KeyedT]:
        return [*self._objects.values()]

    def __len__(self) -> int:
        return len(self._objects)


class _OwnersByKind:
    """Believes what an object says of its owners: they are not looked up."""

    def above(self, owner: OwnerReference) -> Above:
        return Above()

    def is_job(self, owner: OwnerReference) -> bool:
        return owner.kind in KNOWN_JOB_KINDS

    def why_not_made(
        self, job: JobFacts, child: ChildName, owner: OwnerReference
    ) -> Refusal | None:
        return None
