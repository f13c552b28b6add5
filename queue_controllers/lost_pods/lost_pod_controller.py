"""Looks at the pods of lost nodes, and has those deleted whose jobs ask for it.

Keys are `namespace/name` of pods. Only those are queued whose node is lost: when that becomes
known, when such a pod changes, and again and again while it is lost, since its job may be annotated
late. So a pod is deleted in the very second at which its time is over.

When a node was deleted is written nowhere. It counts from when this process has learned of it, or
has found a pod that names a node which is not there: a restart begins that time anew.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec
import structlog

from queue_controllers.lost_pods.lost_nodes import WatchedNode, unreachable_since
from queue_controllers.lost_pods.pod_deleter import PodDeleter
from queue_controllers.lost_pods.stated_times import StatedTime, StatedTimes
from queue_controllers.reconcile.execute import NotLeadingError
from queue_controllers.reconcile.reconciler import ReconcilerObserver
from queue_controllers.watches.pod_usage import BY_NODE
from shared_api.client.errors import ApiFailure, Conflict, NotFound
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.process.clock import Clock
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import DELETE_LOST_PODS_AFTER
from shared_api.work_queue import WorkQueue

LOST_PODS: Final = "lost-pods"
"""Name in metrics."""

LOOK_AGAIN_SECONDS: Final = 10.0
"""How often the pods of a lost node are looked at: a sixth of the shortest time that jobs state."""

NOT_LEADING_SECONDS: Final = 1.0
"""How long a key rests while this process does not decide, or too little of its lease is left."""

OPENING_SECONDS: Final = 0.1
"""How often it is checked whether this process may begin."""

log = structlog.get_logger("lost_pods")


class LostPodCaches(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of pods and nodes.

    Attributes:
        pods: All pods, with the index `BY_NODE`.
        nodes: Follows the nodes.
    """

    pods: IndexedStore[Pod]
    nodes: SharedInformer[WatchedNode]


class LostPodController:
    """Deletes the pods of lost nodes whose jobs ask for it; has one worker.

    Args:
        deleter: Sends the requests.
        stated: What jobs state.
        caches: What it reads.
        queue: Keys of pods.
        clock: The time.
        may_decide: Whether this process decides: it leads, and its caches are complete.
        observer: Counts.
    """

    def __init__(
        self,
        deleter: PodDeleter,
        stated: StatedTimes,
        caches: LostPodCaches,
        *,
        queue: WorkQueue[str],
        clock: Clock,
        may_decide: Callable[[], bool],
        observer: ReconcilerObserver,
    ) -> None:
        self._deleter = deleter
        self._stated = stated
        self._pods = caches.pods
        self.nodes = caches.nodes
        self.queue = queue
        self._clock = clock
        self._may_decide = may_decide
        self._observer = observer
        self._is_open = False
        # Since when nodes are missing that pods name. Written by handlers and the worker, one key
        # at a time; what is left of a node that is there is not read, and replaced when it goes.
        self._missing: dict[str, datetime] = {}
        # The pods whose deletion the server has accepted: finalizers may keep them for long.
        self._deleted: set[Uid] = set()

    # --- handlers -----------------------------------------------------------------------------

    def on_node(self, old: WatchedNode | None, new: WatchedNode | None) -> None:
        """Handle a change of a node."""
        node = new if new is not None else old
        if node is None:
            return
        name = node.metadata.name
        if new is not None:
            self._missing.pop(name, None)
        elif self._pods.has_index_value(BY_NODE, name):
            # One that was unreachable before is lost since then.
            self._missing[name] = unreachable_since(node) or self._clock.now()
        if self._is_open and (new is None or unreachable_since(new) is not None):
            for pod in self._pods.by_index(BY_NODE, name):
                self.queue.add(pod.metadata.key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Handle a change of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._deleted.discard(old.metadata.uid)
            node = old.spec.node_name
            if node in self._missing and not self._pods.has_index_value(BY_NODE, node):
                self._missing.pop(node, None)
        if self._is_open and new is not None and self._lost_since(new) is not None:
            self.queue.add(new.metadata.key)

    # --- steps --------------------------------------------------------------------------------

    def step(self) -> float | None:
        """Look at one pod; return the seconds until the next one is due, None: until woken."""
        if not self._is_open:
            if not (self._may_decide() and self.nodes.has_synced()):
                return OPENING_SECONDS
            self._is_open = True  # before the pods are listed: a change in between is handled
            for pod in self._pods.list():
                if self._lost_since(pod) is not None:
                    self.queue.add(pod.metadata.key)
        return self.queue.work(self._look_at)

    def _look_at(self, key: str) -> None:
        try:
            rest = self._look_once(key)
        except NotLeadingError:
            rest = NOT_LEADING_SECONDS
        except (Conflict, NotFound) as news:
            log.debug("a pod has changed", pod=key, error=str(news))
            self.queue.add_rate_limited(key)
            return
        except ApiFailure as failure:
            log.warning("could not act on a lost pod", pod=key, error=str(failure))
            self._observer.on_error(LOST_PODS)
            self.queue.add_rate_limited(key, at_least_seconds=failure.retry_after_seconds)
            return
        self.queue.forget(key)
        if rest is not None:
            self.queue.add_after(key, rest)

    def _look_once(self, key: str) -> float | None:
        """Return when to look at a pod again, in seconds; None: not before it or its node changes.

        Raises:
            NotLeadingError: Another process may lead now.
            ApiFailure: The server refused, or did not answer.
        """
        if not self._may_decide():
            return NOT_LEADING_SECONDS
        pod = self._pods.get(key)
        since = None if pod is None else self._lost_since(pod)
        if pod is None or since is None or pod.metadata.uid in self._deleted:
            return None
        stated = self._stated.find(pod)
        if stated is None:
            return LOOK_AGAIN_SECONDS
        rest = self._rest(stated, since)
        if rest <= 0:
            read = self._deleter.read_loss(pod.spec.node_name, since)
            if read is None:
                return LOOK_AGAIN_SECONDS  # it is there again, and the cache will be told
            since, rest = read, self._rest(stated, read)
        if rest > 0:
            return min(rest, LOOK_AGAIN_SECONDS)
        self._deleter.delete(pod)
        self._deleted.add(pod.metadata.uid)
        self._observer.on_action(LOST_PODS, "delete", "done")
        self._deleter.report(stated.kind, stated.stated_by, self._describe(pod, stated, since))
        return None

    def _rest(self, stated: StatedTime, since: datetime) -> float:
        return stated.seconds - (self._clock.now() - since).total_seconds()

    def _lost_since(self, pod: Pod) -> datetime | None:
        """Return since when the node of a pod is lost; None: it is not, or nothing runs there."""
        name = pod.spec.node_name
        if not name or not pod.is_living:
            return None
        node = self.nodes.store.get(name)
        if node is not None:
            return unreachable_since(node)
        return self._missing.setdefault(name, self._clock.now())

    def _describe(self, pod: Pod, stated: StatedTime, since: datetime) -> str:
        name, node = pod.metadata.name, pod.spec.node_name
        state = "deleted" if self.nodes.store.get(node) is None else "unreachable"
        return (
            f"Pod {name} is deleted without its node {node}, which is {state} since "
            f"{rfc3339(since)}: {DELETE_LOST_PODS_AFTER} is {stated.seconds:g}s. It may still run "
            "there"
        )
