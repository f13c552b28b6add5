"""Why a pod has no node, by its scheduler, and the little of it that is kept. Pure.

A scheduler that cannot place a pod says so in the pod's condition `PodScheduled=False`. Two of its
reasons need different people: koord-scheduler refuses a pod whose quota has no capacity, which the
users of the quota can change, and every scheduler refuses a pod that fits no node. Both come in one
sentence of text, so they are distinguished by its words. Fifty thousand pods are cached, and of
each that has no node one word and the beginning of that sentence are kept.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Final

import msgspec

from shared_api.objects.meta import NO_TIME, Timestamp
from shared_api.objects.pod import Pod, PodCondition, PodStatus
from shared_api.well_known_labels import RELEASED_AT, read_annotation

MAX_MESSAGE_CHARS: Final = 120
"""How much is kept of a scheduler's message: it begins with what is missing, and 50,000 pods are
cached."""

UNSCHEDULABLE_SECONDS: Final = 60.0
"""How long a pod may have no node before that is reported on its job. With koord-scheduler the
first pod of many a job is refused for a moment, since the scheduler has not counted that very
pod yet; and an autoscaler brings a node within minutes."""

GATED: Final = "SchedulingGated"
"""Reason of the condition while a gate holds the pod: no scheduler has tried it."""

# koord-scheduler's plugin ElasticQuota: "Insufficient quotas, quotaName: ...", "Insufficient
# non-preemptible quotas, ...", before 1.4 "Scheduling refused due to insufficient quotas, ...",
# and "quota not enough, Insufficient quotas, ..." of versions in between. kube-scheduler puts
# "0/3 nodes are available: " before what a plugin says of all nodes at once.
_OF_QUOTAS: Final = (
    "insufficient quotas",
    "insufficient non-preemptible quotas",
    "quota not enough",
)
_OF_NODES: Final = ("nodes are available", "no nodes available")


class NoNode(StrEnum):
    """Why a pod has no node."""

    QUOTA = "quota"
    """Its quota has no capacity for it."""
    NODES = "nodes"
    """It fits no node."""
    OTHER = "other"
    """Something else: another pod of its gang, a plugin, an error of the scheduler."""


class Unschedulable(msgspec.Struct, frozen=True, order=True):
    """A pod that has no node; ordered by time."""

    since: Timestamp
    why: NoNode
    message: str
    """The scheduler's words, at most `MAX_MESSAGE_CHARS`."""


class WordedCondition(PodCondition, frozen=True):
    """A condition of a pod in the words of its writer."""

    message: str = ""
    last_transition_time: Timestamp | None = None


class ReadPodStatus(PodStatus, frozen=True):
    """`status` of a pod as it comes from the server."""

    conditions: tuple[WordedCondition, ...] = ()


class KeptPodStatus(PodStatus, frozen=True):
    """`status` of a pod as it is cached."""

    unschedulable: Unschedulable | None = None


class ReadPod(Pod, frozen=True):
    """A pod as it comes from the server."""

    status: ReadPodStatus = ReadPodStatus()


def unschedulable_of(pod: Pod) -> Unschedulable | None:
    """Return why a cached pod has no node; None if it has one, or no scheduler has tried it."""
    return pod.status.unschedulable if isinstance(pod.status, KeptPodStatus) else None


def kept_status(pod: Pod) -> PodStatus:
    """Return the status of a pod as it is cached; equal ones are mostly one object."""
    status = pod.status
    if status.phase == "Pending" and isinstance(status, ReadPodStatus):
        found = _read(pod, status.conditions)
        if found is not None:
            return KeptPodStatus(phase="Pending", unschedulable=found)
    if isinstance(status, KeptPodStatus) and status.unschedulable is not None:
        return status
    return _STATUSES.get(status.phase) or KeptPodStatus(phase=status.phase)


_STATUSES: Final = {
    phase: KeptPodStatus(phase=phase)
    for phase in ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")
}


def _read(pod: Pod, conditions: tuple[WordedCondition, ...]) -> Unschedulable | None:
    for each in conditions:
        if each.type == "PodScheduled":
            if each.status != "False" or each.reason == GATED:
                return None
            # While a gate held the pod the condition was False as well, and its time is kept: what
            # counts begins with the release.
            released_at = read_annotation(pod.metadata.annotations, RELEASED_AT) or ""
            since = max(each.last_transition_time or NO_TIME, Timestamp(released_at))
            why, message = classify(each.message or each.reason)
            return Unschedulable(since, why, sys.intern(message))
    return None


def classify(text: str) -> tuple[NoNode, str]:
    """Return why a pod has no node, by the words of its scheduler, and the part that says so."""
    lower = text.lower()
    for words in _OF_QUOTAS:
        at = lower.find(words)
        if at >= 0:
            return NoNode.QUOTA, _cut(text[at:])
    is_of_nodes = any(words in lower for words in _OF_NODES)
    return (NoNode.NODES if is_of_nodes else NoNode.OTHER), _cut(text)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    text = text[:1].upper() + text[1:]
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 3] + "..."
