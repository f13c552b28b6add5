"""Which job a pod is of that the queue's gate holds, by its uid. Pure.

The controllers make one unit per job, and put the job's uid into its consumer reference. A pod that
is queued by itself is its own job, and the pods of a StatefulSet are of the set. A group of pods
has no object of its own: its name gives the uid, so that all processes know it.
"""

from __future__ import annotations

import functools
import hashlib
from itertools import pairwise
from typing import Final

from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import read_group_mark
from shared_api.well_known_labels import LWS_GROUP, LWS_NAME

POD_GROUP: Final = "podgroup"
LEADER_WORKER_SET: Final = "leaderworkerset"
"""Keys of the kinds whose jobs have no object of their own."""

MAX_REMEMBERED: Final = 1024
"""Uids of jobs that are kept: each is asked for at every reconcile, and for every pod."""

_UID_PARTS: Final = (0, 8, 12, 16, 20, 32)
"""Where a uid has its dashes."""


def uid_of_name(kind: str, namespace: str, name: str) -> Uid:
    """Return the uid of a job without an object: the same in every process.

    Args:
        kind: Key of the kind of job.
        namespace: Its namespace.
        name: Its name.
    """
    return _uid_of_text(f"{kind}:{namespace}/{name}")


def uid_of_held_job(pod: Pod) -> Uid:
    """Return the uid of the job that a held pod is of, if the queue manages it."""
    meta = pod.metadata
    set_name, index = meta.labels.get(LWS_NAME), meta.labels.get(LWS_GROUP)
    if set_name and index:
        return uid_of_name(LEADER_WORKER_SET, meta.namespace, f"{set_name}-{index}")
    mark = read_group_mark(pod)
    if mark is not None:
        return uid_of_name(POD_GROUP, meta.namespace, mark.name)
    owner = meta.controller_owner
    if owner is not None and owner.kind == "StatefulSet":
        return owner.uid
    return meta.uid


@functools.lru_cache(maxsize=MAX_REMEMBERED)
def _uid_of_text(text: str) -> Uid:
    digits = hashlib.sha256(text.encode()).hexdigest()
    return Uid("-".join(digits[start:end] for start, end in pairwise(_UID_PARTS)))
