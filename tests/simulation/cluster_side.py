"""What a cluster does by itself: Job controller, garbage collector, pod binding, kubelets.

The decisions about a job are those of `tests.demo.job_moves`; here they are carried out one at a
time, each after a random delay. A pod can be made to hang (it does not start while anything hangs)
and to fail.
"""

from __future__ import annotations

import contextlib
import heapq
import random
from collections.abc import Callable
from math import inf
from typing import Any, Final

from shared_api.client.errors import ApiError
from shared_api.client.resource_types import PODS
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.demo.job_moves import build_pod, plan_moves
from tests.demo.json_api import JsonApi
from tests.demo.unit_charge import controller_uid
from tests.object_states import is_living
from tests.simulation.change_feed import ChangeEvent, ChangeFeed

RUN_SECONDS: Final = "example.com/run-seconds"
"""Annotation on pod templates."""
USER_AGENT: Final = "cluster"
NODE: Final = "node-0"


class ClusterSide:
    """Runs jobs. It gets turns like any thread: one job, or one thing that is due, per turn.

    Attributes:
        hangs: whether pods do not start; pods that were due to start do so when this ends.
        start_seconds: the shortest and longest delay from a bound pod to a running one.
    """

    name = "cluster"

    def __init__(
        self, server: FakeApiServer, feed: ChangeFeed, clock: VirtualClock, rng: random.Random
    ) -> None:
        self.hangs = False
        self.start_seconds = (0.05, 2.0)
        self._server = server
        self._direct = server.direct
        self._api = JsonApi(server, user_agent=USER_AGENT)
        self._feed = feed
        self._clock = clock
        self._rng = rng
        self._changed: dict[str, None] = {}
        self._pods_of: dict[str, dict[str, None]] = {}
        """Keys of pods by the uid of their job."""
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._hung: list[Callable[[], None]] = []
        self._count = 0
        self._will_collect = False
        feed.listen(self._on_change)

    @property
    def due(self) -> float:
        """When it next has something to do."""
        if self._changed or (self._hung and not self.hangs):
            return -inf
        return self._due[0][0] if self._due else inf

    def run_once(self) -> None:
        """Do one thing."""
        if self._hung and not self.hangs:
            self._hung.pop(0)()
        elif self._due and self._due[0][0] <= self._clock.monotonic():
            heapq.heappop(self._due)[2]()
        elif self._changed:
            key = self._rng.choice(list(self._changed))
            del self._changed[key]
            self._look_at(key)

    def fail(self, key: str) -> None:
        """Let a pod fail, if it is alive."""
        self._write_phase(key, "Failed")

    # --- noticing -----------------------------------------------------------------------------

    def _on_change(self, event: ChangeEvent) -> None:
        metadata = event.body["metadata"]
        if event.is_gone or "deletionTimestamp" in metadata or "ownerReferences" in metadata:
            self._collect_soon()
        if event.plural == "jobs":
            if not event.is_gone:
                self._changed[event.key] = None
        elif event.plural == "pods":
            self._on_pod(event)

    def _on_pod(self, event: ChangeEvent) -> None:
        key, metadata = event.key, event.body["metadata"]
        owner = controller_uid(event.body)
        if owner:
            pods = self._pods_of.setdefault(owner, {})
            if event.is_gone:
                pods.pop(key, None)
            else:
                pods[key] = None
            job = next(each["name"] for each in metadata["ownerReferences"] if each["controller"])
            self._changed[f"{metadata['namespace']}/{job}"] = None
        if event.is_gone:
            return
        if event.before is None and event.body["spec"].get("nodeName"):
            self.after(self.start_seconds, lambda: self._start(key, event.uid))
        was_asked = event.before is not None and "deletionTimestamp" in event.before["metadata"]
        if "deletionTimestamp" in metadata and not was_asked:
            self.after((0.1, 6.0), lambda: self._end(key))

    def _collect_soon(self) -> None:
        if not self._will_collect:
            self._will_collect = True
            self.after((0.05, 2.0), self._collect)

    def _collect(self) -> None:
        self._will_collect = False
        self._server.collect_garbage()

    def after(self, seconds: tuple[float, float], act: Callable[[], None]) -> None:
        """Do something after a random delay between two bounds."""
        self._count += 1  # keeps the order of planning where times are equal
        at = self._clock.monotonic() + self._rng.uniform(*seconds)
        heapq.heappush(self._due, (at, self._count, act))

    # --- kubelets -----------------------------------------------------------------------------

    def _start(self, key: str, uid: str) -> None:
        if self.hangs:
            self._hung.append(lambda: self._start(key, uid))
            return
        pod = self._feed.all("pods").get(key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        if self._write_phase(key, "Running"):
            seconds = float((pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "1"))
            self.after((seconds, seconds * 1.2), lambda: self._succeed(key, uid))

    def _succeed(self, key: str, uid: str) -> None:
        pod = self._feed.all("pods").get(key)
        if pod is not None and pod["metadata"]["uid"] == uid:
            self._write_phase(key, "Succeeded")

    def _end(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        if key in self._feed.all("pods"):
            self._api.try_delete(PODS, namespace, name, grace_seconds=0)

    def _write_phase(self, key: str, phase: str) -> bool:
        pod = self._feed.all("pods").get(key)
        if pod is None or not is_living(pod) or "deletionTimestamp" in pod["metadata"]:
            return False
        namespace, _, name = key.partition("/")
        status: dict[str, Any] = {"phase": phase}
        if phase == "Running":
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._now()}
            status = {"phase": phase, "startTime": self._now(), "conditions": [ready]}
        self._direct.patch(
            "pods", name, {"status": status}, namespace=namespace, subresource="status"
        )
        return True

    # --- the Job controller -------------------------------------------------------------------

    def _look_at(self, key: str) -> None:
        job = self._feed.all("jobs").get(key)
        if job is None:
            return
        namespace, _, name = key.partition("/")
        all_pods = self._feed.all("pods")
        pods = [all_pods[each] for each in sorted(self._pods_of.get(job["metadata"]["uid"], ()))]
        moves = plan_moves(job, pods, self._now())
        # The job may have changed meanwhile; the next pass sees that.
        with contextlib.suppress(ApiError):
            for pod in moves.delete:
                self._direct.delete("pods", pod, namespace)
            for _ in range(moves.create):
                self._count += 1
                self._direct.create(build_pod(job, f"{name}-{self._count}", NODE))
            if moves.status:
                body = {"status": moves.status}
                self._direct.patch("jobs", name, body, namespace=namespace, subresource="status")

    def _now(self) -> str:
        return rfc3339(self._clock.now())
