"""What a queue that the scheduler made for a quota has from that, and from a QuotaPolicy. Pure.

Such a queue has the label `create-by-koordqueue: "true"`. Its policy, its parent and its
`koord-queue/` annotations are kept as the quota states them: what is written on the queue instead
is put back at once. What the quota does not state is left to the users of the queue.

The queue lists the annotations that it has from its quota: they are removed when the quota loses
them. In the same way it names the policy that its `fairShare` is from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from queue_scheduler.queueing.fair_settings import fair_share_patch
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import FairShare, Queue
from shared_api.well_known_labels import (
    COPIED_ANNOTATIONS,
    CREATED_BY,
    CREATED_BY_IMPORT,
    FAIR_SHARE_FROM,
    LEGACY_PREFIX,
    PREEMPT_MIN_RUNTIME,
    PREFIX,
    QUEUE_POLICY,
    QUOTA_FULLNAME,
    QUOTA_PARENT,
    QUOTA_QUEUE_ENABLE,
    RECLAIM_MIN_RUNTIME,
    is_managed_queue,
    read_annotation,
)

_NOT_COPIED: Final = frozenset(
    (
        # What the scheduler itself writes on queues about where their settings are from.
        *(COPIED_ANNOTATIONS, FAIR_SHARE_FROM),
        # Quotas and queues inherit these down trees of their own: a copy would count twice.
        *(PREEMPT_MIN_RUNTIME, RECLAIM_MIN_RUNTIME),
    )
)
"""Annotations with the prefix that a queue does not have from its quota."""


class PolicyStatement(msgspec.Struct, frozen=True):
    """What a QuotaPolicy states for the queue of a quota.

    Attributes:
        policy: Its name.
        fair_share: How the queue orders accounts.
    """

    policy: str
    fair_share: FairShare


def is_managed(queue: Queue) -> bool:
    """Return whether the scheduler created the queue."""
    return is_managed_queue(queue.metadata.labels)


def follows_policies(queue: Queue) -> bool:
    """Return whether a queue was made for a quota, by the scheduler or by an import."""
    is_imported = queue.metadata.labels.get(CREATED_BY) == CREATED_BY_IMPORT
    return is_managed(queue) or is_imported


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
    keys -= _NOT_COPIED
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


def policy_differences(stated: PolicyStatement | None, queue: Queue) -> dict[str, Any]:
    """Return the merge patch after which a queue has what a policy states; {}: it has.

    Args:
        stated: What it states; None: nothing. Then only what the queue has from a policy goes.
        queue: A queue that the scheduler made.
    """
    named, share = queue.metadata.annotations.get(FAIR_SHARE_FROM), queue.spec.fair_share
    if stated is None:
        if named is None:
            return {}
        body: dict[str, Any] = {"metadata": {"annotations": {FAIR_SHARE_FROM: None}}}
        return body if share is None else {**body, "spec": {"fairShare": None}}
    body = {}
    if named != stated.policy:
        body["metadata"] = {"annotations": {FAIR_SHARE_FROM: stated.policy}}
    if share != stated.fair_share:
        body["spec"] = {"fairShare": fair_share_patch(share, stated.fair_share)}
    return body


def _parent_of(quota: ElasticQuota) -> str | None:
    return quota.metadata.labels.get(QUOTA_PARENT) or None


def _is_copied(key: str) -> bool:
    return key.startswith(PREFIX) or key == QUOTA_QUEUE_ENABLE


def _differing_annotations(quota: ElasticQuota, queue: Queue) -> dict[str, str | None]:
    """Return the changes (None: remove) by which the queue gets its quota's annotations."""
    has, stated = queue.metadata.annotations, stated_annotations(quota)
    listed = has.get(COPIED_ANNOTATIONS, "").split(",")
    # The list is removed with the last of them. Other keys that a user may have listed are kept.
    gone = {key for key in (*listed, COPIED_ANNOTATIONS) if _is_copied(key)}
    gone -= stated.keys() | {FAIR_SHARE_FROM}
    differing: dict[str, str | None] = dict.fromkeys(sorted(gone & has.keys()))
    return differing | {key: value for key, value in stated.items() if has.get(key) != value}
