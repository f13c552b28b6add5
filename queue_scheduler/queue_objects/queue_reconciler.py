"""Creates a Queue for every ElasticQuota, keeps it in step, and deletes it with the quota.

Only managed queues are deleted with their quota, and only they get what it states
(`queueing.managed_queues`). A queue that a user created is left as it is, also when a quota of its
name appears.

What a QuotaPolicy states for the queue of a quota is kept in the spec of a managed queue as well.

Queues are created for other objects as well (`QueueSource`): nodes of an ElasticQuotaTree,
`default`. If they want a queue of the same name, they have precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import structlog

from queue_scheduler.queueing.managed_queues import (
    PolicyStatement,
    differences,
    follows_policies,
    is_managed,
    is_of_node,
    oldest,
    policy_differences,
    statement,
)
from shared_api.client.errors import AlreadyExists, ApiFailure, Conflict, Invalid, NotFound
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUES
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.quota_names import is_parking
from shared_api.well_known_labels import (
    CREATED_BY_KOORD_QUEUE,
    QUOTA_FULLNAME,
    QUOTA_PARENT,
    SPECIAL_QUOTAS,
)
from shared_api.work_queue import WorkQueue

OWN_QUEUE_PRIORITY: Final = 1000
"""The priority that upstream gives the queues that it creates."""

DEFAULT_POLICY: Final = "Priority"

NOT_WRITING_SECONDS: Final = 1.0
"""The pause before the next check whether this replica may write: the renewal of a lease that was
about to expire is not reported."""

UNKNOWN_SECONDS: Final = 5.0
"""The requeue delay of a queue without quota while the cache of quotas is incomplete."""

POLICIES_UNKNOWN_SECONDS: Final = 1.0
"""The requeue delay while the cache of policies is incomplete. Nothing is taken from a queue before
it is known that no policy states it."""

UNREADABLE_SECONDS: Final = 30.0
"""The requeue delay of a queue that cannot be read: the deletion of an object that never had a
good version is not reported. Only caches are read for it."""

BY_NAME: Final = "by-name"
"""Index of the quota store: quota names are global, objects are namespaced."""

log = structlog.get_logger("queue_reconciler")


class CreateQueue(msgspec.Struct, frozen=True):
    """Create this queue."""

    body: dict[str, Any]


class PatchQueue(msgspec.Struct, frozen=True):
    """Merge this into the queue."""

    body: dict[str, Any]


class DeleteQueue(msgspec.Struct, frozen=True):
    """Delete the queue of this uid."""

    uid: Uid


QueueAction = CreateQueue | PatchQueue | DeleteQueue | None


class QueueSource(Protocol):
    """Another kind of object that queues are created for. Called by the reconciler's thread."""

    def wants(self, name: str) -> bool:
        """Return whether a queue of that name must exist."""

    def has_made(self, queue: Queue) -> bool:
        """Return whether a queue was created for this source."""

    def decide(self, name: str, namespace: str, queue: Queue | None) -> QueueAction:
        """Return what to do about a queue that this source wants or has created."""

    def quota_of(self, name: str) -> str:
        """Return the quota that the queue of that name is made for; "": none."""

    def is_complete(self) -> bool:
        """Return whether the source's caches are complete. Until then an unwanted queue stays."""


def decide_queue(
    name: str, namespace: str, quota: ElasticQuota | None, queue: Queue | None
) -> QueueAction:
    """Return what to do about the queue of a quota's name; pure."""
    if name in SPECIAL_QUOTAS:
        return None
    if quota is None or is_parking(quota):
        return None if queue is None or is_of_node(queue) else decide_deletion(queue)
    if queue is None:
        return CreateQueue(_build_queue(name, namespace, quota))
    return _decide_patch(quota, queue) if is_managed(queue) else None


def decide_deletion(queue: Queue) -> DeleteQueue | None:
    """Return the deletion of a queue that is no longer needed; None if a user created it."""
    if not is_managed(queue) or queue.metadata.deletion_timestamp:
        return None
    return DeleteQueue(queue.metadata.uid)


def _build_queue(name: str, namespace: str, quota: ElasticQuota) -> dict[str, Any]:
    policy, annotations, parent = statement(quota)
    return build_queue(
        name,
        namespace,
        labels={QUOTA_PARENT: parent} if parent else {},
        annotations=annotations,
        spec={"queuePolicy": policy or DEFAULT_POLICY, "priority": OWN_QUEUE_PRIORITY},
    )


def build_queue(
    name: str,
    namespace: str,
    *,
    spec: dict[str, Any],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the body of a managed queue, ready to be created."""
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


def _decide_patch(quota: ElasticQuota, queue: Queue) -> PatchQueue | None:
    """Return the patch for what the quota states; the rest of the queue is left to its users."""
    body = differences(quota, queue)
    if not body:
        return None
    return PatchQueue({**body, "metadata": {**body.get("metadata", {}), "uid": queue.metadata.uid}})


def state_for_queue(
    action: QueueAction, queue: Queue | None, stated: PolicyStatement | None
) -> QueueAction:
    """Return an action after which a queue made for a quota has what a policy states; pure."""
    match action:
        case CreateQueue(body):
            return CreateQueue(merged_bodies(body, policy_differences(stated, Queue())))
        case DeleteQueue():
            return action
        case _:
            if queue is None or not follows_policies(queue):
                return action
            body = policy_differences(stated, queue)
            if not body:
                return action
            before = {} if action is None else action.body
            uid = {"metadata": {"uid": queue.metadata.uid}}
            return PatchQueue(merged_bodies(before, body, uid))


def merged_bodies(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """Return one body or patch of several; of two values of a field the last counts."""
    found: dict[str, Any] = {}
    for body in bodies:
        for key, value in body.items():
            before = found.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                value = merged_bodies(before, value)  # noqa: PLW2901 - both parts of the field
            found[key] = value
    return found


@dataclass(frozen=True, kw_only=True)
class QueuesAndQuotas:
    """What the reconciler compares.

    Attributes:
        quotas: With the index `BY_NAME`.
        queues: Those of the namespace.
        are_quotas_known: Whether the cache of quotas is complete. Until then, as while their kind
            is not served, a quota that is missing from it may exist, and its queue stays.
        is_readable: False of the key of a queue that exists and cannot be read, which
            `undecodable_objects` reports.
        are_elastic: Whether ElasticQuotas count; otherwise no queue is created or deleted for them.
        others: What queues are created for in addition.
        are_policies_known: Whether all QuotaPolicies are known.
        stated_for: Returns what a policy states for the queue of a quota.
    """

    quotas: IndexedStore[ElasticQuota]
    queues: IndexedStore[Queue]
    are_quotas_known: Callable[[], bool]
    is_readable: Callable[[str], bool]
    are_elastic: bool = True
    others: Sequence[QueueSource] = ()
    are_policies_known: Callable[[], bool] = lambda: True
    stated_for: Callable[[str], PolicyStatement | None] = lambda _: None


class QueueReconciler:
    """The step that makes queues follow quotas. Its keys are names of queues.

    Args:
        client: Sends the writes, without the dispatcher, since the next step needs their outcome.
        namespace: The namespace of the queues.
        known: The caches.
        names: Names of the queues to reconcile.
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
        """Reconcile the queue of a quota that was added, changed or deleted."""
        some = new or old
        if some is not None:
            self._names.add(some.metadata.name)

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Reconcile a queue that was added, changed or deleted: a missing one is created again."""
        some = new or old
        if some is not None:
            self._names.add(some.metadata.name)

    def on_quota_policy(self, old: QuotaPolicy | None, new: QuotaPolicy | None) -> None:
        """Reconcile the queues of the quotas that a changed policy names, or named.

        Call it after the engine knows the policy.
        """
        # No set: its order, in which queues are written, differs from process to process.
        quotas = dict.fromkeys(quota for some in (old, new) if some for quota in some.spec.quotas)
        for quota in quotas:
            # An ElasticQuota; the path of a node is no queue's name, and a name of no queue is
            # no harm.
            self._names.add(quota)
        for queue in self._known.queues.list():
            if queue.metadata.annotations.get(QUOTA_FULLNAME) in quotas:
                self._names.add(queue.metadata.name)

    def reconcile_all(self) -> None:
        """Reconcile all queues: whether policies are served has changed."""
        for queue in self._known.queues.list():
            self._names.add(queue.metadata.name)

    def step(self) -> float | None:
        """Reconcile one queue; return how many seconds to rest, None: until woken."""
        if not self._may_write():
            return NOT_WRITING_SECONDS
        return self._names.work(self._reconcile_or_retry)

    def _reconcile_or_retry(self, name: str) -> None:
        try:
            self._reconcile(name)
            self._names.forget(name)
        except (AlreadyExists, Conflict, NotFound, Invalid) as news:
            # A wrong uid is answered with Invalid: the caches will show what exists now.
            log.info("the queue changed meanwhile", queue=name, error=str(news))
            self._names.add_rate_limited(name)
        except ApiFailure as failure:
            log.warning("the queue of a quota cannot be written", queue=name, error=str(failure))
            self._names.add_rate_limited(name, at_least_seconds=failure.retry_after_seconds)

    def _reconcile(self, name: str) -> None:
        known, key = self._known, f"{self._namespace}/{name}"
        if not known.are_policies_known():
            self._names.add_after(name, POLICIES_UNKNOWN_SECONDS)
            return
        queue = known.queues.get(key)
        action, is_complete, quota = self._decide(name, queue)
        if quota or is_complete:
            stated = known.stated_for(quota) if quota else None
            action = state_for_queue(action, queue, stated)
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

    def _decide(self, name: str, queue: Queue | None) -> tuple[QueueAction, bool, str]:
        """Return what to do about a queue, before policies, and what that follows from.

        Returns:
            The action, whether the cache that it follows from was complete, and the quota that the
            queue is made for ("": none).
        """
        known, namespace = self._known, self._namespace
        wanting = [source for source in known.others if source.wants(name)]
        made = [each for each in known.others if queue is not None and each.has_made(queue)]
        for source in (*wanting, *made):
            is_complete = source.is_complete()  # read before what is missing
            return source.decide(name, namespace, queue), is_complete, source.quota_of(name)
        if not known.are_elastic or name in SPECIAL_QUOTAS:
            return None, True, ""
        is_complete = known.are_quotas_known()
        quota = oldest(known.quotas.by_index(BY_NAME, name))
        action = decide_queue(name, namespace, quota, queue)
        return action, is_complete, "" if quota is None else name
