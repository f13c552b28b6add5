"""Why a pod has no node, by its scheduler, and the little of it that is kept. Pure.

A scheduler that cannot place a pod says so in the pod's condition `PodScheduled=False`. Two of its
reasons need different people: koord-scheduler refuses a pod whose quota has no capacity, which the
users of the quota can change, and every scheduler refuses a pod that fits no node. Both come in one
sentence of text, so they are distinguished by its words. Fifty thousand pods are cached, and of
each that has no node one word and a short part of that sentence are kept. A refusal by a quota
keeps its quota and the resources that it lacks, and of the amounts what there is room for.
"""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Final

import msgspec

from shared_api.objects.meta import NO_TIME, Timestamp
from shared_api.objects.pod import Pod, PodCondition, PodStatus
from shared_api.well_known_labels import RELEASED_AT, read_annotation

MAX_MESSAGE_CHARS: Final = 120
"""How much is kept of a scheduler's message: 50,000 pods are cached."""

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
# The whole of such a message, up to what preemption adds behind it. `quotaNameTopo` has the names
# from the quota that is exceeded down to the pod's own.
# Source: koordinator v1.8.0, pkg/scheduler/plugins/elasticquota/{plugin,plugin_helper}.go.
_REFUSAL: Final = re.compile(
    r"(?P<what>[^,:]{1,60}), quotaName(?:Topo)?: (?P<quota>\[[^\]]*\]|[^,]*),"
    r" (?P<amounts>.*?), exceedDimensions: \[(?P<lacking>[^\]]+)\]"
)
_CUT: Final = "..."
_OF_NODES: Final = ("nodes are available", "no nodes available")


class NoNodeReason(StrEnum):
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
    why: NoNodeReason
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
        refusal = _read(pod, status.conditions)
        if refusal is not None:
            return KeptPodStatus(phase="Pending", unschedulable=refusal)
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


def classify(text: str) -> tuple[NoNodeReason, str]:
    """Return why a pod has no node, by the words of its scheduler, and the part that says so."""
    lower = text.lower()
    for words in _OF_QUOTAS:
        at = lower.find(words)
        if at >= 0:
            return NoNodeReason.QUOTA, _cut_refusal(_tidy(text[at:]))
    is_of_nodes = any(words in lower for words in _OF_NODES)
    return (NoNodeReason.NODES if is_of_nodes else NoNodeReason.OTHER), _cut(_tidy(text))


def _tidy(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].upper() + text[1:]


def _cut(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    return text if len(text) <= limit else text[: max(limit - len(_CUT), 0)] + _CUT


def _cut_refusal(text: str) -> str:
    """Return a refusal by a quota within the limit: first the quota and the resources it lacks.

    Then as many of the amounts of these resources as there is room for.
    """
    match = _REFUSAL.match(text)
    if match is None or len(text) <= MAX_MESSAGE_CHARS:
        return _cut(text)
    what, quota, lacking = match["what"], match["quota"], match["lacking"]
    label = "quotaNameTopo" if quota.startswith("[") else "quotaName"
    shortened = f"{what}, {label}: {quota}, exceedDimensions: [{lacking}]"
    if len(shortened) > MAX_MESSAGE_CHARS:
        return _shortest_refusal(what, quota, lacking)
    for each in match["amounts"].split(", "):
        more = f"{shortened}, {_amounts_of(each, lacking.split())}"
        if len(more) > MAX_MESSAGE_CHARS:
            break
        shortened = more
    return shortened


def _shortest_refusal(what: str, quota: str, lacking: str) -> str:
    """Return a refusal without labels; of names that are too long, each keeps its beginning."""
    room = MAX_MESSAGE_CHARS - len(f"{what}, : []")
    of_lacking = max(room - len(quota), room // 2)
    lacking = _cut(lacking, of_lacking)
    return f"{what}, {_cut(quota, room - len(lacking))}: [{lacking}]"


def _amounts_of(field: str, lacking: list[str]) -> str:
    """Return `used: cpu:3,memory:4` with the amounts of what is lacking alone."""
    label, _, amounts = field.partition(": ")
    pairs = [pair.rpartition(":") for pair in amounts.split(",")]
    kept = [(key, amount) for key, _, amount in pairs if key in lacking]
    if len(lacking) == 1 and kept:
        return f"{label}: {kept[0][1]}"
    return f"{label}: {','.join(f'{key}:{amount}' for key, amount in kept) or '<empty>'}"
