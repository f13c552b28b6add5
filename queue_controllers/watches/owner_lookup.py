"""What the owners of a job are: read once, and remembered for a while.

The kind of a job's owner stands in the job. The owner of that owner stands in the owner, which may
be of any kind, so there is no cache of it: it is read, and only its metadata is used. That takes
the right to get the kind. The chart grants it for CronJobs; for other kinds between a job and its
top an administrator has to grant it. What may not be read, or does not exist, ends the walk.

An owner that is a job itself is read as a whole: whether it has created the job that names it
(`decision.owners`). It is taken from the cache of its kind if that is queued, and read if it is
not, or if the cache may be behind: no refusal depends on a cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from queue_controllers.decision.owners import (
    Above,
    ChildName,
    NotReadError,
    OwnerJob,
    Refusal,
    group_of,
    judge_child,
)
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobFacts,
    JobKind,
    MakesJobs,
    read_facts,
)
from queue_controllers.reconcile.execute import job_type_of
from queue_controllers.reconcile.job_reader import find_units
from shared_api.client.discovery import RawReader, served_kinds
from shared_api.client.errors import ApiFailure, Forbidden, MalformedAnswer, NotFound
from shared_api.client.event_recorder import MAX_NOTE_BYTES, cut
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import OnlyMetadata
from shared_api.informer.indexed_store import IndexedStore
from shared_api.memory_size import memory_of_json
from shared_api.objects.meta import ObjectMeta, OwnerReference, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

BELIEVED_SECONDS: Final = 600.0
"""How long an answer counts: owners are set at creation, rights and kinds change by hand. A kind
that may not be read costs one refused request in this time."""

MAX_REMEMBERED: Final = 10_000
"""Owners, and kinds, that were asked for last and are certainly remembered; at most twice as many
are, some MB."""

MAX_REMEMBERED_BYTES: Final = 16 << 20
"""How much memory the objects that were asked for last may take, by `memory_of`: thousands, which
have some kB each; at most twice as much is remembered. Users may make objects of more than a MB."""

MAX_FIELD_CHARS: Final = 253 + 1 + 63
"""Longest text of an owner reference that can be real: an apiVersion of a group and a version. The
API server accepts any."""

READ_SECONDS: Final = 10.0
"""How old a read of an owner may be that its children are judged by: they are created together."""

REFUSED_SECONDS: Final = 10.0
"""How long a refusal counts: each costs a read, and its job is reconciled several times."""

NO_SUCH_KIND: Final = "its kind is not served here"
NO_SUCH_OBJECT: Final = "no such object is there with this uid"

_GROUP_VERSION: Final = re.compile(r"[a-z0-9]([-.]?[a-z0-9])*(/[a-z0-9]+)?")
"""The API server accepts nearly any text as the apiVersion of an owner."""

log = structlog.get_logger("owner_lookup")


class JobClient(Protocol):
    """What is used of the `ResourceClient` for owners that are jobs."""

    def get(self, resource_type: ResourceType[Any], namespace: str, name: str) -> Any:  # noqa: ANN401 - of any kind
        """Return one object; raises ApiFailure."""


class OwnerClient(RawReader, Protocol):
    """What is used of the `ResourceClient`."""

    def get(
        self, resource_type: ResourceType[OnlyMetadata], namespace: str, name: str
    ) -> OnlyMetadata:
        """Return one object; raises ApiFailure."""


class _Answer(msgspec.Struct, frozen=True):
    above: Above
    believed_until: float


class _Kind(msgspec.Struct, frozen=True):
    resource_type: ResourceType[OnlyMetadata] | None
    """The kind as the server has it, or None if it is not served, or may not be read."""
    believed_until: float
    is_hidden: bool = False
    """It may not be read."""


_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


def memory_of(value: object) -> int:
    """Return about how many bytes an object of the API takes in memory."""
    return memory_of_json(msgspec.json.encode(value))


class _Generation(Generic[_KeyT, _ValueT]):
    """What was remembered in one time, and how much that is."""

    __slots__ = ("bytes", "values")

    def __init__(self) -> None:
        self.values: dict[_KeyT, tuple[_ValueT, int]] = {}
        # Two threads that add at once may count only one: a generation gets so much larger, once.
        self.bytes = 0

    def put(self, key: _KeyT, value: _ValueT, size: int) -> None:
        _, before = self.values.get(key, (None, 0))
        self.values[key] = (value, size)
        self.bytes += size - before


class Remembered(Generic[_KeyT, _ValueT]):
    """A bounded dict for many threads: what was used last stays, the rest is evicted over time.

    Two generations: what is set or found is in the young one; when that is full it replaces the old
    one. So nothing in use is forgotten, however much else is added.

    Args:
        weigh: Returns how many bytes a value takes, where values may be large: they are bounded by
            these too.
    """

    # The two are replaced together, so that threads which find the young one full at once replace
    # the same two, and no old generation is lost. What a thread puts into a young one that has just
    # become old is found there.

    def __init__(self, weigh: Callable[[_ValueT], int] = lambda _: 0) -> None:
        self._weigh = weigh
        self._generations: tuple[_Generation[_KeyT, _ValueT], _Generation[_KeyT, _ValueT]] = (
            _Generation(),
            _Generation(),
        )

    def get(self, key: _KeyT) -> _ValueT | None:
        """Return the value, None if it is not remembered."""
        young, old = self._generations
        entry = young.values.get(key)
        if entry is None and (entry := old.values.get(key)) is not None:
            self._put(key, *entry)
        return None if entry is None else entry[0]

    def put(self, key: _KeyT, value: _ValueT) -> None:
        """Remember the value."""
        self._put(key, value, self._weigh(value))

    def _put(self, key: _KeyT, value: _ValueT, size: int) -> None:
        young, _ = self._generations
        is_full = len(young.values) >= MAX_REMEMBERED and key not in young.values
        if is_full or (young.values and young.bytes + size > MAX_REMEMBERED_BYTES):
            young, _ = self._generations = (_Generation(), young)
        young.put(key, value, size)


def _is_possible(owner: OwnerReference) -> bool:
    """Return whether there can be such an owner; one that cannot be is not worth its memory."""
    texts = (owner.api_version, owner.kind, owner.name, owner.uid)
    return all(len(each) <= MAX_FIELD_CHARS and each.isascii() for each in texts)


class OwnerReader:
    """Reads owners for the reconcilers; called on all of their threads.

    Two calls with the same question at once both ask the server, and remember the same.
    """

    def __init__(self, client: OwnerClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        # By all that was asked: a uid alone is a text that any user may write into a job.
        self._answers: Remembered[tuple[str, str, str, str, Uid], _Answer] = Remembered()
        self._kinds: Remembered[tuple[str, str], _Kind] = Remembered()

    def __call__(self, namespace: str, owner: OwnerReference) -> Above:
        """Return what is known of an owner in a namespace.

        Raises:
            ApiFailure: The server could not be asked, and never was about this owner.
        """
        if not _is_possible(owner):
            return Above(missing=NO_SUCH_OBJECT)
        now = self._clock.monotonic()
        question = (namespace, owner.api_version, owner.kind, owner.name, owner.uid)
        answer = self._answers.get(question)
        if answer is not None and now < answer.believed_until:
            return answer.above
        try:
            above = self._read(namespace, owner, now)
        except ApiFailure:
            # A group whose own server is down must not keep a job from being reconciled.
            if answer is None:
                raise
            above = answer.above
        self._answers.put(question, _Answer(above, now + BELIEVED_SECONDS))
        return above

    def recall(self, namespace: str, owner: OwnerReference) -> Above:
        """Return the last answer about an owner, however old; sends no request.

        Raises:
            NotReadError: There is none.
        """
        if not _is_possible(owner):
            return Above(missing=NO_SUCH_OBJECT)
        question = (namespace, owner.api_version, owner.kind, owner.name, owner.uid)
        answer = self._answers.get(question)
        if answer is None:
            raise NotReadError(f"{owner.kind} {owner.name}")
        return answer.above

    def _read(self, namespace: str, owner: OwnerReference, now: float) -> Above:
        try:
            kind = self._kind_of(owner, now)
            if kind.resource_type is None:
                return Above() if kind.is_hidden else Above(missing=NO_SUCH_KIND)
            fetched = self._client.get(kind.resource_type, namespace, owner.name)
        except NotFound:
            return Above(missing=NO_SUCH_OBJECT)
        except Forbidden:
            log.warning("owners of this kind may not be read", kind=owner.kind)
            self._remember_kind(owner, _Kind(None, now + BELIEVED_SECONDS, is_hidden=True))
            return Above()
        if fetched.metadata.uid != owner.uid:
            return Above(missing=NO_SUCH_OBJECT)
        above = fetched.metadata.controller_owner
        return Above(owner=above if above is not None and _is_possible(above) else None)

    def _kind_of(self, owner: OwnerReference, now: float) -> _Kind:
        known = self._kinds.get((owner.api_version, owner.kind))
        if known is None or known.believed_until <= now:
            served = _Kind(self._discover(owner), now + BELIEVED_SECONDS)
            return self._remember_kind(owner, served)
        return known

    def _discover(self, owner: OwnerReference) -> ResourceType[OnlyMetadata] | None:
        if _GROUP_VERSION.fullmatch(owner.api_version) is None:
            return None
        group, slash, version = owner.api_version.partition("/")
        group, version = (group, version) if slash else ("", group)
        for each in served_kinds(self._client, group, version).values():
            if each.kind == owner.kind:
                return ResourceType(
                    group,
                    version,
                    each.plural,
                    each.kind,
                    namespaced=each.namespaced,
                    object_type=OnlyMetadata,
                )
        return None

    def _remember_kind(self, owner: OwnerReference, kind: _Kind) -> _Kind:
        self._kinds.put((owner.api_version, owner.kind), kind)
        return kind


class JobFinder(Protocol):
    """Finds jobs of the kinds that are queued, in their caches."""

    def __call__(self, kind: JobKind, key: str) -> Any | None:  # noqa: ANN401 - of any kind
        """Return a job by its kind and key, None if it does not exist or its kind is not queued."""


class _Read(msgspec.Struct, frozen=True):
    """The result of reading an owner."""

    job: Any | None
    trouble: str
    """Why there is none."""
    read_at: float


class _Judged(msgspec.Struct, frozen=True):
    """The judgment of a job and its owner; it counts while the job's spec is unchanged."""

    generation: int
    owner: Uid
    refusal: Refusal | None
    believed_until: float

    def counts_for(self, job: ObjectMeta, owner: OwnerReference, now: float) -> bool:
        return self.is_about(job, owner) and (self.refusal is None or now < self.believed_until)

    def is_about(self, job: ObjectMeta, owner: OwnerReference) -> bool:
        return (self.generation, self.owner) == (job.generation, owner.uid)


class OwnerJudge:
    """Judges whether owners that are jobs have created what names them; called on all threads.

    Args:
        client: Reads them.
        clock: The time of what is remembered.
        adapters: All that the program has, whether their kinds are queued or not. An owner of an
            added or declared kind counts by its children if its adapter names them, else as one of
            an unknown kind.
        find: Their caches.
        units: All units.
    """

    def __init__(
        self,
        client: JobClient,
        clock: Clock,
        *,
        adapters: Iterable[GenericJob[Any]],
        find: JobFinder,
        units: IndexedStore[QueueUnit],
    ) -> None:
        self._client = client
        self._clock = clock
        self._find = find
        self._units = units
        self._adapters: dict[tuple[str, str], list[GenericJob[Any]]] = {}
        for each in adapters:
            is_known = each.kind.kind in KNOWN_JOB_KINDS or isinstance(each, MakesJobs)
            if is_known and not each.kind.held_by_gates:
                key = (each.kind.group, each.kind.kind)
                self._adapters.setdefault(key, []).append(each)
        self._reads: Remembered[tuple[str, str, str, str], _Read] = Remembered(memory_of)
        # By the child's uid. A proof is kept for good: an owner may shrink, end and go before its
        # children do. To become larger a child must change itself.
        self._judged: Remembered[Uid, _Judged] = Remembered()

    def knows(self, owner: OwnerReference) -> bool:
        """Return whether the owner is of a kind that has an adapter."""
        return (group_of(owner), owner.kind) in self._adapters

    def why_not_made(
        self, job: JobFacts, child: ChildName, owner: OwnerReference
    ) -> Refusal | None:
        """Return why an owner has not created a child; None if it has.

        Raises:
            ApiFailure: The server could not be asked.
        """
        if not _is_possible(owner):
            return Refusal(NO_SUCH_OBJECT)
        now, meta = self._clock.monotonic(), job.metadata
        known = self._judged.get(meta.uid)
        if known is not None and known.counts_for(meta, owner, now):
            return known.refusal
        refusal = self._judge(job, child, owner, now)
        if refusal is not None:  # it may repeat what a user has written into the owner
            refusal = msgspec.structs.replace(refusal, why=cut(refusal.why, MAX_NOTE_BYTES))
        may_pass = refusal is not None and refusal.may_pass
        until = now if may_pass else now + REFUSED_SECONDS
        self._judged.put(meta.uid, _Judged(meta.generation, owner.uid, refusal, until))
        return refusal

    def recall(self, job: JobFacts, child: ChildName, owner: OwnerReference) -> Refusal | None:
        """Return the last answer about a job and its owner, or the caches'; sends no request.

        Raises:
            NotReadError: There is none, and the caches do not prove that the owner created it.
        """
        if not _is_possible(owner):
            return Refusal(NO_SUCH_OBJECT)
        now, meta = self._clock.monotonic(), job.metadata
        known = self._judged.get(meta.uid)
        if known is not None and known.is_about(meta, owner):
            return known.refusal
        adapter = self._adapter_of(owner)
        if not isinstance(adapter, MakesJobs):
            return self._judge(job, child, owner, now)
        cached = self._find(adapter.kind, f"{meta.namespace}/{owner.name}")
        if self._why_not(adapter, _Read(cached, "", now), owner, job, child) is not None:
            raise NotReadError(f"{owner.kind} {owner.name}")
        return None

    def _judge(
        self, job: JobFacts, child: ChildName, owner: OwnerReference, now: float
    ) -> Refusal | None:
        adapter = self._adapter_of(owner)
        if not isinstance(adapter, MakesJobs):  # the object need not be read
            meta = ObjectMeta(name=owner.name, namespace=job.metadata.namespace)
            above = JobFacts(kind=adapter.kind, metadata=meta, suspended=False)
            return judge_child(job, child, OwnerJob(facts=above))
        namespace = job.metadata.namespace
        cached = self._find(adapter.kind, f"{namespace}/{owner.name}")
        if self._why_not(adapter, _Read(cached, "", now), owner, job, child) is None:
            return None
        read = self._read(adapter, namespace, owner, now, READ_SECONDS)
        refusal = self._why_not(adapter, read, owner, job, child)
        if refusal is None or read.read_at == now:
            return refusal
        read = self._read(adapter, namespace, owner, now, 0.0)
        return self._why_not(adapter, read, owner, job, child)

    def _adapter_of(self, owner: OwnerReference) -> GenericJob[Any]:
        """Return the adapter of the very version; any of the kind if there is none."""
        adapters = self._adapters[group_of(owner), owner.kind]
        exact = (each for each in adapters if each.kind.api_version == owner.api_version)
        return next(exact, adapters[0])

    def _why_not(
        self,
        adapter: GenericJob[Any],
        read: _Read,
        owner: OwnerReference,
        job: JobFacts,
        child: ChildName,
    ) -> Refusal | None:
        above = read.job
        if above is None or above.metadata.uid != owner.uid:
            return Refusal(read.trouble or NO_SUCH_OBJECT)
        assert isinstance(adapter, MakesJobs)
        facts = read_facts(adapter, above, held_by_annotation=False)
        made = adapter.child_of(above, child.kind, child.name)
        unit = find_units(self._units, adapter.kind, above.metadata.key, facts.uid).own
        parent = OwnerJob(facts=facts, makes=adapter.makes, child=made, unit=unit)
        return judge_child(job, child, parent)

    def _read(
        self,
        adapter: GenericJob[Any],
        namespace: str,
        owner: OwnerReference,
        now: float,
        oldest_seconds: float,
    ) -> _Read:
        kind = adapter.kind
        question = (namespace, kind.api_version, kind.kind, owner.name)
        known = self._reads.get(question)
        if known is not None and now - known.read_at < oldest_seconds:
            return known
        resource_type = job_type_of(adapter)
        job, trouble = None, ""
        try:
            job = self._client.get(resource_type, namespace, owner.name)
        except NotFound:
            trouble = NO_SUCH_OBJECT
        except Forbidden:
            trouble = f"the controllers may not get {kind.plural}.{kind.group}"
            log.warning("owners of this kind may not be read", kind=owner.kind)
        except MalformedAnswer as error:
            trouble = f"it cannot be read: {error}"
        read = _Read(job, trouble, now)
        self._reads.put(question, read)
        return read


class OwnersOf:
    """Answers about the owners of jobs in one namespace."""

    def __init__(self, namespace: str, reader: OwnerReader, judge: OwnerJudge) -> None:
        self._namespace = namespace
        self._reader = reader
        self.is_job = judge.knows
        self.why_not_made = judge.why_not_made

    def above(self, owner: OwnerReference) -> Above:
        """Return what is known of an owner of any kind; raises ApiFailure."""
        return self._reader(self._namespace, owner)


class RecalledOwners:
    """Answers from what this process has read for its reconcilers; sends no request.

    Its methods raise `NotReadError` if nothing was read.
    """

    def __init__(self, namespace: str, reader: OwnerReader, judge: OwnerJudge) -> None:
        self._namespace = namespace
        self._reader = reader
        self.is_job = judge.knows
        self.why_not_made = judge.recall

    def above(self, owner: OwnerReference) -> Above:
        """Return what was known of an owner of any kind."""
        return self._reader.recall(self._namespace, owner)
