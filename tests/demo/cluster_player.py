"""Plays the Job controller, the binding of pods, and the kubelets on the fake API server.

One `step` reads changes, does what is due, and returns. It calls the server in process, without the
HTTP that the two programs and the observer use, so its writes are not counted as theirs. Nodes are
objects of any size; a pod that fits no node is not created until one has room.

    job resumed --> pods made, bound --(START_SECONDS)--> Running --(their annotation)--> Succeeded
    job suspended --> pods deleted --(STOP_SECONDS)--> gone
"""

from __future__ import annotations

import contextlib
import heapq
import json
import random
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from shared_api.client.errors import (
    AlreadyExists,
    ApiError,
    ConnectionLost,
    NotFound,
    StreamIdle,
)
from shared_api.client.resource_types import JOBS, NODES, PODS
from shared_api.client.transport import ResponseStream
from shared_api.process.clock import Clock
from shared_api.quantity import amount
from shared_api.timestamps import rfc3339
from tests.demo.job_moves import build_pod, choose_node, plan_moves
from tests.demo.json_api import Json, JsonApi, Kind
from tests.demo.load_plan import RUN_SECONDS
from tests.demo.unit_charge import requests_of
from tests.object_states import is_living

START_SECONDS: Final = 0.05
"""Seconds from a bound pod to a running one."""
STOP_SECONDS: Final = 0.3
"""Seconds from a pod's deletion until its containers are gone."""
REST_SECONDS: Final = 0.02
"""Seconds between two steps; too short for a person to notice."""
DEFAULT_RUN_SECONDS: Final = 1.0
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated pod names, as in Kubernetes."""

Key = tuple[str, str]
"""Namespace and name."""


class _Learn(Protocol):
    def __call__(self, body: Json, *, is_gone: bool) -> None: ...


class ClusterPlayer:
    """Runs jobs on a server without controllers. `step` is for one thread."""

    def __init__(self, api: JsonApi, *, clock: Clock, rng: random.Random) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        self._jobs: dict[Key, Json] = {}
        self._pods: dict[Key, Json] = {}
        self._pods_of: dict[str, set[Key]] = {}
        """Pods by the uid of the job."""
        self._changed: dict[Key, None] = {}
        """Jobs to process, in order."""
        self._crowded_out: dict[Key, None] = {}
        """Jobs with pods that fit no node; processed again when a pod is gone."""
        self._room: dict[str, dict[str, int]] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._due_count = 0
        self._streams: dict[str, ResponseStream] = {}
        self._versions: dict[str, str] = {}
        """The last seen version of each kind."""

    def step(self) -> float:
        """Read changes, act on them, and return the seconds to rest."""
        self._follow(NODES, self._learn_node)
        self._follow(JOBS, self._learn_job)
        self._follow(PODS, self._learn_pod)
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, act = heapq.heappop(self._due)
            # Another client has deleted it, or made a change that no longer allows this.
            with contextlib.suppress(ApiError):
                act()
        changed, self._changed = self._changed, {}
        for key in changed:
            self._look_at(key)
        return REST_SECONDS

    # ------------------------------------------------------------------------------ changes

    def _follow(self, kind: Kind, learn: _Learn) -> None:
        """Process all changes since the last time."""
        if kind.plural not in self._versions:
            items, self._versions[kind.plural] = self._api.list_with_version(kind)
            for item in items:
                learn(item, is_gone=False)
        if kind.plural not in self._streams:
            self._streams[kind.plural] = self._api.watch(kind, self._versions[kind.plural])
        stream = self._streams[kind.plural]
        try:
            while (line := stream.read_line(0.0)) is not None:
                event = json.loads(line)
                self._versions[kind.plural] = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    learn(event["object"], is_gone=event["type"] == "DELETED")
        except StreamIdle:
            return
        except ConnectionLost:
            stream.close()
        del self._streams[kind.plural]  # it ended; the next step continues from its version

    def _learn_node(self, body: Json, *, is_gone: bool) -> None:
        name = body["metadata"]["name"]
        self._room.pop(name, None)
        if is_gone:
            return
        sizes = body.get("status", {}).get("allocatable") or {}
        self._room[name] = {resource: amount(resource, size) for resource, size in sizes.items()}
        for pod in self._pods.values():
            if pod["spec"].get("nodeName") == name and is_living(pod):
                self._take_room(pod, -1)

    def _learn_job(self, body: Json, *, is_gone: bool) -> None:
        key = _key(body)
        if is_gone:
            self._jobs.pop(key, None)
            self._crowded_out.pop(key, None)
            return
        self._jobs[key] = body
        self._changed[key] = None

    def _learn_pod(self, body: Json, *, is_gone: bool) -> None:
        key, owner = _key(body), _controller(body)
        old = self._pods.pop(key, None)
        if old is not None and is_living(old):
            self._take_room(old, +1)
        if not is_gone:
            self._pods[key] = body
            if is_living(body):
                self._take_room(body, -1)
            if old is None or old["metadata"]["uid"] != body["metadata"]["uid"]:
                self._start_soon(body)
            self._stop_soon(body, old)
        if owner:
            pods = self._pods_of.setdefault(owner["uid"], set())
            (pods.discard if is_gone else pods.add)(key)
            self._changed[key[0], owner["name"]] = None
        if is_gone or not is_living(body):
            self._changed.update(self._crowded_out)
            self._crowded_out.clear()

    def _take_room(self, pod: Json, sign: int) -> None:
        room = self._room.get(pod["spec"].get("nodeName", ""))
        if room is not None:
            for resource, needed in requests_of(pod).items():
                room[resource] = room.get(resource, 0) + sign * needed

    # ------------------------------------------------------------------------- the kubelets

    def _start_soon(self, pod: Json) -> None:
        if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") == "Pending":
            self._after(START_SECONDS, lambda: self._run_pod(pod))

    def _stop_soon(self, pod: Json, old: Json | None) -> None:
        was_asked = old is not None and old["metadata"].get("deletionTimestamp")
        if pod["metadata"].get("deletionTimestamp") and not was_asked:
            namespace, name = _key(pod)
            self._after(
                STOP_SECONDS,
                lambda: _ignore(self._api.try_delete(PODS, namespace, name, grace_seconds=0)),
            )

    def _run_pod(self, pod: Json) -> None:
        now = rfc3339(self._clock.now())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "startTime": now, "conditions": [ready]}
        if self._write_status(pod, status):
            annotations = pod["metadata"].get("annotations") or {}
            seconds = float(annotations.get(RUN_SECONDS, DEFAULT_RUN_SECONDS))
            self._after(seconds, lambda: self._end_pod(pod))

    def _end_pod(self, pod: Json) -> None:
        now = rfc3339(self._clock.now())
        ended = {"type": "Ready", "status": "False", "lastTransitionTime": now}
        self._write_status(pod, {"phase": "Succeeded", "conditions": [ended]})

    def _write_status(self, pod: Json, status: Json) -> bool:
        """Write the status if the pod still exists and is not being deleted."""
        key = _key(pod)
        known = self._pods.get(key)
        if known is None or known["metadata"]["uid"] != pod["metadata"]["uid"]:
            return False
        if not is_living(known) or known["metadata"].get("deletionTimestamp"):
            return False
        self._api.patch(PODS, *key, {"status": status}, subresource="status")
        return True

    # -------------------------------------------------------------------- the Job controller

    def _look_at(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None or job["spec"].get("managedBy", _OURS) != _OURS:
            return
        pods = self._pods_of_job(job)
        moves = plan_moves(job, pods, rfc3339(self._clock.now()))
        try:
            for name in moves.delete:
                self._api.try_delete(PODS, key[0], name)
            self._make_pods(job, moves.create)
            if moves.status:
                body = {"status": moves.status}
                job = self._api.patch(JOBS, *key, body, subresource="status")
                self._learn_job(job, is_gone=False)
        except (NotFound, AlreadyExists):
            return  # gone meanwhile; the watch will report it

    def _pods_of_job(self, job: Json) -> list[Json]:
        keys: Iterable[Key] = self._pods_of.get(job["metadata"]["uid"], ())
        return [self._pods[key] for key in sorted(keys)]

    def _make_pods(self, job: Json, count: int) -> None:
        for _ in range(count):
            node = choose_node(self._room, requests_of(job["spec"]["template"]))
            if node is None:
                self._crowded_out[_key(job)] = None
                return
            suffix = "".join(self._rng.choices(_SUFFIX_LETTERS, k=5))
            pod = build_pod(job, f"{job['metadata']['name']}-{suffix}", node)
            # Processed at once: the pod and its requests must count in this step.
            self._learn_pod(self._api.create(PODS, pod), is_gone=False)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        self._due_count += 1  # breaks ties by the order of planning
        heapq.heappush(self._due, (self._clock.monotonic() + seconds, self._due_count, act))


_OURS: Final = "kubernetes.io/job-controller"


def _key(body: Json) -> Key:
    return body["metadata"]["namespace"], body["metadata"]["name"]


def _controller(pod: Json) -> Json | None:
    owners: list[Json] = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _ignore(_: object) -> None:
    """Ignore the result of a call."""
