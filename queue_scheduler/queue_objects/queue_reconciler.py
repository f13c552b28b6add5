"""A Queue for every ElasticQuota: made, kept in step, deleted with it.

Ours are the queues with the label `create-by-koordqueue: "true"`. Only they are deleted with
their quota, and only they get policy, parent and `koord-queue/` annotations from it. A queue that
a person made is left as it is, also when a quota of its name appears.

Queues are made for other things as well (`QueueSource`): nodes of an ElasticQuotaTree, `default`.
Where they want a queue of the same name, they come first.

The queue has a list of the annotations that are its quota's: they go when the quota loses them.
What people add to one of our queues stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import structlog

from shared_api.client.errors import AlreadyExists, ApiFailure, Conflict, Invalid, NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUES
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    COPIED_ANNOTATIONS,
    CREATED_BY_KOORD_QUEUE,
    LEGACY_PREFIX,
    PREFIX,
    QUEUE_POLICY,
    QUOTA_FULLNAME,
    QUOTA_PARENT,
    QUOTA_QUEUE_ENABLE,
    SPECIAL_QUOTAS,
    read_annotation,
)
from shared_api.work_queue import WorkQueue

OWN_QUEUE_PRIORITY: Final = 1000
"""What upstream gives the queues that it makes."""

DEFAULT_POLICY: Final = "Priority"

NOT_WRITING_SECONDS: Final = 1.0
"""Until it is looked again whether this replica may write; nobody tells when a lease that was about
to run out is renewed."""

UNKNOWN_SECONDS: Final = 5.0
"""Until a queue without quota is looked at again while nobody knows what quotas there are."""

UNREADABLE_SECONDS: Final = 30.0
"""Until a queue that cannot be read is looked at again: nobody tells when one is deleted of which
there never was a good version. A look is at caches alone."""

BY_NAME: Final = "by-name"
"""Index of the quota store: quota names are global, objects are namespaced."""

log = structlog.get_logger("queue_reconciler")


class CreateQueue(msgspec.Struct, frozen=True):
    """Make this queue."""

    body: dict[str, Any]


class PatchQueue(msgspec.Struct, frozen=True):
    """Merge this into the queue."""

    body: dict[str, Any]


class DeleteQueue(msgspec.Struct, frozen=True):
    """Delete the queue of this uid."""

    uid: Uid


QueueAction = CreateQueue | PatchQueue | DeleteQueue | None


class QueueSource(Protocol):
    """Something else that queues are made for. Called by the reconciler's thread."""

    def wants(self, name: str) -> bool:
        """Return whether there has to be a queue of that name."""
        ...

    def has_made(self, queue: Queue) -> bool:
        """Return whether a queue is there because of this."""
        ...

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Say what has to be done about a queue that it wants or has made."""
        ...

    def is_complete(self) -> bool:
        """Return whether all is known. Until then an unwanted queue stays."""
        ...


def decide_queue(
    name: str, namespace: str, quota: ElasticQuota | None, queue: Queue | None
) -> QueueAction:
    """Say what has to be done about the queue of a quota's name; pure."""
    if name in SPECIAL_QUOTAS:
        return None
    if quota is None:
        return None if queue is None or is_of_node(queue) else decide_deletion(queue)
    if queue is None:
        return CreateQueue(_build_queue(name, namespace, quota))
    return _decide_patch(quota, queue) if is_ours(queue) else None


def is_ours(queue: Queue) -> bool:
    """Return whether the scheduler made the queue."""
    return queue.metadata.labels.get(CREATED_BY_KOORD_QUEUE) == "true"


def is_of_node(queue: Queue) -> bool:
    """Return whether the scheduler made the queue for a node of an ElasticQuotaTree."""
    return is_ours(queue) and QUOTA_FULLNAME in queue.metadata.annotations


def decide_deletion(queue: Queue) -> DeleteQueue | None:
    """Say what has to be done about a queue that nothing is left for: only ours are deleted."""
    if not is_ours(queue) or queue.metadata.deletion_timestamp:
        return None
    return DeleteQueue(queue.metadata.uid)


def oldest(quotas: Iterable[ElasticQuota]) -> ElasticQuota | None:
    """Return the quota that counts among those of one name: the oldest, ties by namespace."""
    return min(
        quotas, key=lambda q: (q.metadata.creation_timestamp, q.metadata.namespace), default=None
    )


def _build_queue(name: str, namespace: str, quota: ElasticQuota) -> dict[str, Any]:
    parent = quota.metadata.labels.get(QUOTA_PARENT)
    return build_queue(
        name,
        namespace,
        labels={QUOTA_PARENT: parent} if parent else {},
        annotations=_wanted_annotations(quota),
        spec={
            "queuePolicy": _policy_of(quota) or DEFAULT_POLICY,
            "priority": OWN_QUEUE_PRIORITY,
        },
    )


def build_queue(
    name: str,
    namespace: str,
    *,
    spec: dict[str, Any],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the body of a queue of ours."""
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {CREATED_BY_KOORD_QUEUE: "true", **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
    }


def _policy_of(quota: ElasticQuota) -> str:
    return read_annotation(quota.metadata.labels, QUEUE_POLICY) or ""


def _wanted_annotations(quota: ElasticQuota) -> dict[str, str]:
    """Return what the queue has from its quota, under the names of today, and the list of it."""
    found = quota.metadata.annotations
    legacy = (key for key in found if key.startswith(LEGACY_PREFIX))
    keys = {PREFIX + key.removeprefix(LEGACY_PREFIX) for key in legacy}
    keys.update(key for key in found if _is_copied(key))
    keys.discard(COPIED_ANNOTATIONS)
    wanted = {key: read_annotation(found, key) or "" for key in sorted(keys)}
    if wanted:
        wanted[COPIED_ANNOTATIONS] = ",".join(wanted)
    return wanted


def _is_copied(key: str) -> bool:
    return key.startswith(PREFIX) or key == QUOTA_QUEUE_ENABLE


def _differing_annotations(quota: ElasticQuota, queue: Queue) -> dict[str, str | None]:
    """Return what to write (None: remove) so that the queue has what its quota says."""
    has, wanted = queue.metadata.annotations, _wanted_annotations(quota)
    listed = has.get(COPIED_ANNOTATIONS, "").split(",")
    # The list goes with the last of them. No other key is ever ours, whoever put it into the list.
    gone = {key for key in (*listed, COPIED_ANNOTATIONS) if _is_copied(key)} - wanted.keys()
    differing: dict[str, str | None] = dict.fromkeys(sorted(gone & has.keys()))
    return differing | {key: value for key, value in wanted.items() if has.get(key) != value}


def _decide_patch(quota: ElasticQuota, queue: Queue) -> PatchQueue | None:
    """What the quota says wins where it says something; the rest of the queue is its users'."""
    body: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    policy = _policy_of(quota)
    if policy and policy != queue.spec.queue_policy:
        body["spec"] = {"queuePolicy": policy}
    differing = _differing_annotations(quota, queue)
    if differing:
        metadata["annotations"] = differing
    parent = quota.metadata.labels.get(QUOTA_PARENT) or None
    if parent != queue.metadata.labels.get(QUOTA_PARENT):
        metadata["labels"] = {QUOTA_PARENT: parent}
    if not (body or metadata):
        return None
    return PatchQueue({**body, "metadata": {**metadata, "uid": queue.metadata.uid}})


@dataclass(frozen=True, kw_only=True)
class QueuesAndQuotas:
    """What the reconciler compares.

    Attributes:
        quotas: With the index `BY_NAME`.
        queues: Those of the namespace.
        are_quotas_known: Whether the cache of quotas is complete. Until then, as while their kind
            is not served, a quota that is missing from it may exist, and its queue stays.
        is_readable: False of the key of a queue that exists and cannot be read; its users are told
            elsewhere (`undecodable_objects`).
        are_elastic: Whether ElasticQuotas count; otherwise no queue is made or deleted for them.
        others: What queues are made for besides.
    """

    quotas: IndexedStore[ElasticQuota]
    queues: IndexedStore[Queue]
    are_quotas_known: Callable[[], bool]
    is_readable: Callable[[str], bool]
    are_elastic: bool = True
    others: Sequence[QueueSource] = ()


class QueueReconciler:
    """The step that makes queues follow quotas. Its keys are names of queues.

    Args:
        client: Sends; past the dispatcher, since the next look at a queue needs what came of it.
        namespace: Of the queues.
        known: The caches.
        names: What to look at.
        may_write: Whether a write that begins now ends within this replica's lead. Asked before
            each step, and a step writes at most once.
    """

    def __init__(
        self,
        client: ResourceClient,
        namespace: str,
        known: QueuesAndQuotas,
        names: WorkQueue[str],
        may_write: Callable[[], bool],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._known = known
        self._names = names
        self._may_write = may_write

    def on_quota(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        """Look at the queue of a quota that came, changed or went."""
        some = new or old
        if some is not None:
            self._names.add(some.metadata.name)

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Look at a queue that came, changed or went: one that is missing is made again."""
        some = new or old
        if some is not None:
            self._names.add(some.metadata.name)

    def step(self) -> float | None:
        """Bring one queue in step with its quota; rests while this replica may not write."""
        if not self._may_write():
            return NOT_WRITING_SECONDS
        return self._names.work(self._look_at)

    def _look_at(self, name: str) -> None:
        try:
            self._reconcile(name)
            self._names.forget(name)
        except (AlreadyExists, Conflict, NotFound, Invalid) as news:
            # Invalid is what a wrong uid answers: the caches will tell what is there now.
            log.info("the queue changed meanwhile", queue=name, error=str(news))
            self._names.add_rate_limited(name)
        except ApiFailure as failure:
            log.warning("the queue of a quota cannot be written", queue=name, error=str(failure))
            self._names.add_rate_limited(name, at_least_seconds=failure.retry_after_seconds)

    def _reconcile(self, name: str) -> None:
        known, key = self._known, f"{self._namespace}/{name}"
        queue = known.queues.get(key)
        action, is_complete = self._decide(name, queue)
        match action:
            case CreateQueue() | PatchQueue() if not known.is_readable(key):
                self._names.add_after(name, UNREADABLE_SECONDS)
            case CreateQueue(body):
                known.queues.note_written(self._client.create(QUEUES, self._namespace, body))
                log.info("queue made", queue=name)
            case PatchQueue(body):
                patched = self._client.patch(QUEUES, self._namespace, name, body)
                known.queues.note_written(patched)
            case DeleteQueue() if not is_complete:
                self._names.add_after(name, UNKNOWN_SECONDS)
            case DeleteQueue(uid):
                self._client.delete(QUEUES, self._namespace, name, uid=uid)
                log.info("queue deleted with its quota", queue=name)
            case None:
                pass

    def _decide(self, name: str, queue: Queue | None) -> tuple[QueueAction, bool]:
        """Return what to do about a queue, and whether it was known then that nothing wants it."""
        known, namespace = self._known, self._namespace
        wanting = [source for source in known.others if source.wants(name)]
        made = [each for each in known.others if queue is not None and each.has_made(queue)]
        for source in (*wanting, *made):
            is_complete = source.is_complete()  # before it is looked who is missing
            return source.decide(name, namespace, queue), is_complete
        if not known.are_elastic:
            return None, True
        is_complete = known.are_quotas_known()
        quota = oldest(known.quotas.by_index(BY_NAME, name))
        return decide_queue(name, namespace, quota, queue), is_complete
