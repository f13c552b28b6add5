"""Pods that the queue's gate holds: what their jobs claim of the quotas that they name.

koord-scheduler counts a pod with a gate as requested: it presses other quotas before it may run. So
the quotas must know of it, although it uses nothing. The unit of its job is charged for it when it
is admitted, and until its gate is gone; what its pods ask for beyond that goes on claiming. A pod
that no unit stands for claims all it asks for.

Held pods are grouped by job (`shared_api.held_jobs`) and by the quota that their labels name. Each
group is told to the plugins as one foreign pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from queue_scheduler.cache.unit_demand import bounded
from shared_api.held_jobs import uid_of_held_job
from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, add
from shared_api.well_known_labels import ADMISSION_GATE, read_quota_name

HELD: Final = "held:"
"""Prefix of the keys under which groups are told; the job's uid and the quota's name follow."""


class HeldPod(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a held pod.

    Attributes:
        uid: Its uid.
        job: The uid of its job.
        namespace: Its namespace.
        labels: Its labels.
        request: What it asks for, in base units.
    """

    uid: Uid
    job: Uid
    namespace: str
    labels: dict[str, str]
    request: Amounts

    @property
    def group(self) -> str:
        """The key of its group."""
        return f"{HELD}{self.job}:{self.namespace}:{read_quota_name(self.labels)}"


def job_of_group(group: str) -> Uid:
    """Return the job of a group of held pods, by the group's key."""
    # No namespace or label has a colon; a uid may, since users write owner references.
    return Uid(group.removeprefix(HELD).rsplit(":", 2)[0])


class HeldPods:
    """The held pods by job, and which jobs' claims may have changed."""

    def __init__(self) -> None:
        self._pods: dict[str, HeldPod] = {}
        self._of_job: dict[Uid, dict[str, None]] = {}
        self._changed: dict[Uid, None] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    @property
    def has_changed(self) -> bool:
        """Whether there is something to take."""
        return bool(self._changed)

    def find(self, key: str) -> HeldPod | None:
        """Return the held pod under `namespace/name`, or None."""
        return self._pods.get(key)

    def on_pod(self, pod: Pod) -> None:
        """Take a new or changed pod; one that is not held any more is forgotten."""
        held = read_held(pod)
        key = pod.metadata.key
        known = self._pods.get(key)
        if held == known:
            return
        if held is not None:
            self.put(key, held)
        elif known is not None and known.uid == pod.metadata.uid:
            self._forget(key, known)

    def on_pod_gone(self, pod: Pod) -> None:
        """Forget a deleted pod; another one under its name stays."""
        known = self._pods.get(pod.metadata.key)
        if known is not None and known.uid == pod.metadata.uid:
            self._forget(pod.metadata.key, known)

    def note_job(self, job: Uid) -> None:
        """Note that the unit of a job, or its charge, has changed."""
        if job in self._of_job:
            self._changed[job] = None

    def note_all(self) -> None:
        """Note that quotas have changed, and with them where pods are charged."""
        self._changed |= dict.fromkeys(self._of_job)

    def take_changed(self) -> list[Uid]:
        """Return, once, the jobs whose claims may have changed."""
        changed = list(self._changed)
        self._changed.clear()
        return changed

    def groups_of(self, job: Uid) -> dict[str, tuple[str, HeldPod, Amounts]]:
        """Return the groups of a job by key: the first pod, by key, and what all ask for."""
        found: dict[str, tuple[str, HeldPod, Amounts]] = {}
        for key in sorted(self._of_job.get(job, ())):
            pod = self._pods[key]
            first, some, amounts = found.get(pod.group, (key, pod, {}))
            found[pod.group] = first, some, add(amounts, pod.request)
        return found

    def pods_of(self, job: Uid) -> list[str]:
        """Return the keys of the held pods of a job."""
        return sorted(self._of_job.get(job, ()))

    def put(self, key: str, pod: HeldPod) -> None:
        """Take a held pod under `namespace/name`."""
        known = self._pods.get(key)
        if known is not None:
            self._forget(key, known)
        self._pods[key] = pod
        self._of_job.setdefault(pod.job, {})[key] = None
        self._changed[pod.job] = None

    def forget(self, key: str) -> None:
        """Forget what is held under `namespace/name`, or let a group be told again by its key."""
        known = self._pods.get(key)
        if known is not None:
            self._forget(key, known)
        elif key.startswith(HELD):
            self.note_job(job_of_group(key))

    def fork(self) -> HeldPods:
        """Return an independent copy."""
        twin = HeldPods()
        twin._pods = dict(self._pods)
        twin._of_job = {job: dict(keys) for job, keys in self._of_job.items()}
        twin._changed = dict(self._changed)
        return twin

    def _forget(self, key: str, pod: HeldPod) -> None:
        del self._pods[key]
        keys = self._of_job[pod.job]
        del keys[key]
        if not keys:
            del self._of_job[pod.job]
        self._changed[pod.job] = None


def read_held(pod: Pod) -> HeldPod | None:
    """Return what is kept of a pod if the queue's gate holds it; None if it does not, or no more.

    Requests that cannot be read count as none: its job says so.
    """
    if not pod.is_living or pod.is_bound or not pod.has_gate(ADMISSION_GATE):
        return None
    try:
        request = bounded(pod_requests(pod.spec))
    except QuantityError:
        request = {}
    return HeldPod(
        uid=pod.metadata.uid,
        job=uid_of_held_job(pod),
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        request={key: amount for key, amount in request.items() if amount},
    )
