"""What a queue that the scheduler made for an ElasticQuota has from that quota. Pure.

Such a queue has the label `create-by-koordqueue: "true"`. Its policy, its parent and its
`koord-queue/` annotations are kept as the quota states them: what is written on the queue instead
is put back at once. What the quota does not state is left to the users of the queue.

The queue lists the annotations that it has from its quota: they are removed when the quota loses
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    COPIED_ANNOTATIONS,
    LEGACY_PREFIX,
    PREFIX,
    QUEUE_POLICY,
    QUOTA_FULLNAME,
    QUOTA_PARENT,
    QUOTA_QUEUE_ENABLE,
    is_managed_queue,
    read_annotation,
)


def is_managed(queue: Queue) -> bool:
    """Return whether the scheduler created the queue."""
    return is_managed_queue(queue.metadata.labels)


def is_of_node(queue: Queue) -> bool:
    """Return whether the scheduler created the queue for a node of an ElasticQuotaTree."""
    return is_managed(queue) and QUOTA_FULLNAME in queue.metadata.annotations


def oldest(quotas: Iterable[ElasticQuota]) -> ElasticQuota | None:
    """Return the quota that counts among those of one name: the oldest, ties by namespace."""
    return min(
        quotas, key=lambda q: (q.metadata.creation_timestamp, q.metadata.namespace), default=None
    )


def stated_policy(quota: ElasticQuota) -> str:
    """Return the policy that a quota states for its queue; "": none."""
    return read_annotation(quota.metadata.labels, QUEUE_POLICY) or ""


def stated_annotations(quota: ElasticQuota) -> dict[str, str]:
    """Return the annotations that a queue has from its quota, and the list of them."""
    found = quota.metadata.annotations
    legacy = (key for key in found if key.startswith(LEGACY_PREFIX))
    keys = {PREFIX + key.removeprefix(LEGACY_PREFIX) for key in legacy}
    keys.update(key for key in found if _is_copied(key))
    keys.discard(COPIED_ANNOTATIONS)
    stated = {key: read_annotation(found, key) or "" for key in sorted(keys)}
    if stated:
        stated[COPIED_ANNOTATIONS] = ",".join(stated)
    return stated


def statement(quota: ElasticQuota) -> tuple[str, dict[str, str], str | None]:
    """Return all that a quota states for its queue: policy, annotations, parent."""
    return stated_policy(quota), stated_annotations(quota), _parent_of(quota)


def differences(quota: ElasticQuota, queue: Queue) -> dict[str, Any]:
    """Return the merge patch after which a queue has all that its quota states; {}: it has."""
    body: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    policy = stated_policy(quota)
    if policy and policy != queue.spec.queue_policy:
        body["spec"] = {"queuePolicy": policy}
    annotations = _differing_annotations(quota, queue)
    if annotations:
        metadata["annotations"] = annotations
    parent = _parent_of(quota)
    if parent != queue.metadata.labels.get(QUOTA_PARENT):
        metadata["labels"] = {QUOTA_PARENT: parent}
    return {**body, "metadata": metadata} if metadata else body


def _parent_of(quota: ElasticQuota) -> str | None:
    return quota.metadata.labels.get(QUOTA_PARENT) or None


def _is_copied(key: str) -> bool:
    return key.startswith(PREFIX) or key == QUOTA_QUEUE_ENABLE


def _differing_annotations(quota: ElasticQuota, queue: Queue) -> dict[str, str | None]:
    """Return the changes (None: remove) by which the queue gets its quota's annotations."""
    has, stated = queue.metadata.annotations, stated_annotations(quota)
    listed = has.get(COPIED_ANNOTATIONS, "").split(",")
    # The list is removed with the last of them. Other keys that a user may have listed are kept.
    gone = {key for key in (*listed, COPIED_ANNOTATIONS) if _is_copied(key)} - stated.keys()
    differing: dict[str, str | None] = dict.fromkeys(sorted(gone & has.keys()))
    return differing | {key: value for key, value in stated.items() if has.get(key) != value}
