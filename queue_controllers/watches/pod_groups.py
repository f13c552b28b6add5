"""The jobs of one kind that are made of pods: built from the pod cache when they are read.

Only the uids of pods that this process has deleted are kept, until the watch reports it too: a job
that was just stopped must not be found running and stopped again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from queue_controllers.job_families.gated_pods import GatedPods, PodGroup, Sizer
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.watches.pod_usage import group_index, sizer_entry, sizer_index
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.kind_watch import POLL_SECONDS
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.meta import ObjectMeta, Timestamp, Uid
from shared_api.objects.pod import Pod

Groups = list[PodGroup]
"""An alias, because inside the class "list" is its method."""

_JUST_NOW: Final = Timestamp("9999-12-31T23:59:59Z")
"""The deletion time of a pod whose deletion the watch has not reported yet."""


class Sizes(Protocol):
    """The watched objects that say how many pods jobs have."""

    def get(self, sizer: Sizer, namespace: str) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the object as it was seen last, None if it is not known."""


class PodGroupCache:
    """The cache of a kind's jobs; reads from any thread.

    Args:
        adapter: The facts of the kind.
        pods: The pods, with the indexes of the kind.
        sizes: The objects that say how many pods jobs of the kind have; None: they are read with a
            job.
    """

    def __init__(
        self, adapter: GatedPods, pods: IndexedStore[Pod], sizes: Sizes | None = None
    ) -> None:
        self._adapter = adapter
        self._pods = pods
        self._sizes = sizes
        self._index = group_index(adapter)
        self._deleted: dict[Uid, None] = {}

    def key_of(self, pod: Pod) -> str:
        """Return the key of the job that a pod is part of, "" if there is none."""
        name = self._adapter.group_of(pod)
        return f"{pod.metadata.namespace}/{name}" if name else ""

    def get(self, key: str) -> PodGroup | None:
        """Return the job with this key, None if none of its pods exists."""
        pods = self._pods.by_index(self._index, key)
        return self.gather(key, [self._as_deleted(pod) for pod in pods]) if pods else None

    def gather(self, key: str, pods: Sequence[Pod]) -> PodGroup:
        """Return the job with this key of some of its pods, of which there is at least one.

        With its size, if that is known from a watch.
        """
        namespace, _, name = key.partition("/")
        group = self._adapter.gather(name, [cast("ScheduledPod", pod) for pod in pods])
        sizer = None if self._sizes is None else self._adapter.sizer_of(group.first)
        if self._sizes is None or sizer is None:
            return group
        found = self._sizes.get(sizer, namespace)
        if found is None:
            return group
        if self._adapter.kind.has_object and found.metadata.uid != group.metadata.uid:
            return group  # it is another set of this name
        return self._adapter.with_other(group, found)

    def keys_sized_by(self, sizer: Sizer, namespace: str) -> list[str]:
        """Return the keys of the jobs whose number of pods an object says, each once."""
        if sizer.kind not in self._adapter.sizing_kinds:
            return []
        pods = self._pods.by_index(sizer_index(self._adapter), sizer_entry(sizer, namespace))
        # No set: its order differs from process to process, and jobs are reconciled in it.
        return list(dict.fromkeys(filter(None, map(self.key_of, pods))))

    def has(self, key: str) -> bool:
        """Return whether any pod of the job with this key exists."""
        return self._pods.has_index_value(self._index, key)

    def list(self) -> Groups:
        """Return all jobs of the kind."""
        found = (self.get(key) for key in self._pods.index_values(self._index))
        return [each for each in found if each is not None]

    def __len__(self) -> int:
        return len(self._pods.index_values(self._index))

    def last_of(self, key: str, pod: Pod) -> ObjectMeta:
        """Return the metadata of a job whose last pod this was."""
        return self.gather(key, [pod]).metadata

    # --- writes of this process -----------------------------------------------------------------

    def note_written(self, written: ScheduledPod) -> bool:
        """Store a pod that the API server returned."""
        return self._pods.note_written(written)

    def note_deleted(self, pod: ScheduledPod) -> None:
        """Note that this process has deleted a pod."""
        meta = pod.metadata
        self._deleted[meta.uid] = None
        # Its end may have been watched before the answer to the deletion came: then nothing else
        # forgets it. Looked up after it was noted, since `forget` follows the end in the cache.
        stored = self._pods.get(f"{meta.namespace}/{meta.name}")
        if stored is None or stored.metadata.uid != meta.uid:
            del self._deleted[meta.uid]

    def forget(self, gone: Pod) -> None:
        """Note that a pod is gone."""
        self._deleted.pop(gone.metadata.uid, None)

    def _as_deleted(self, pod: Pod) -> Pod:
        if pod.is_terminating or pod.metadata.uid not in self._deleted:
            return pod
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=_JUST_NOW)
        return msgspec.structs.replace(pod, metadata=meta)


class FollowedKind(Protocol):
    """What a server uses of the informer of its kind; a `KindWatch` is one."""

    @property
    def name(self) -> str:
        """Name of the kind, for logs and probes."""

    @property
    def informer(self) -> SharedInformer[Any] | None:
        """Return the kind's informer, None while it is not served."""

    def step(self) -> float:
        """Check whether the kind is served, when it is time; return seconds to the next check."""

    def is_served(self) -> bool:
        """Return whether the kind was served at the last check."""

    def check(self) -> tuple[bool, str]:
        """Return the result for `/readyz`."""


class PodsFollowed:
    """The `FollowedKind` of pods: they are always served, and watched once for all kinds."""

    name: Final = "Pod (v1)"

    def __init__(self, informer: SharedInformer[Pod]) -> None:
        self.informer = informer

    def step(self) -> float:
        """Do nothing; return the usual seconds between two checks of a kind."""
        return POLL_SECONDS

    def is_served(self) -> bool:
        """Return True."""
        return True

    def check(self) -> tuple[bool, str]:
        """Return the result for `/readyz`."""
        return self.informer.check_synced()
