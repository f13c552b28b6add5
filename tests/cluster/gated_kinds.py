"""Jobs that are held by their pods' gates: what users create, and how they run and end.

Deployments and StatefulSets have their real controllers. That of LeaderWorkerSets is played here: a
leader for each group, and workers once it runs; deleted pods are created again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from shared_api.well_known_labels import (
    ADMISSION_GATE,
    KOORDINATOR_GANG,
    KOORDINATOR_GANG_COUNT,
    KOORDINATOR_POD_GROUP,
    KUEUE_GROUP_COUNT,
    KUEUE_POD_GROUP,
    LWS_GROUP,
    LWS_NAME,
    LWS_SIZE,
    LWS_WORKER,
    PLUGINS_POD_GROUP,
    QUOTA_NAME,
)
from tests.cluster.judgement import is_running
from tests.cluster.kind_traffic import (
    RUN_SECONDS,
    Cache,
    PlayedJob,
    Step,
    whose,
)
from tests.cluster.kind_world import HIGH, KindWorld
from tests.cluster.played_operators import Objects
from tests.cluster.played_pods import LONG, OF, STOP_SECONDS, owner_of
from tests.cluster.played_pods import RUN_SECONDS as RUNS_FOR
from tests.cluster.queue_world import PODS
from tests.controlplane.api_client import ApiError
from tests.object_states import is_living, phase_of
from tests.sample_jobs import crd
from tests.waiting import until

Json = dict[str, Any]

EXTENSIONS: Final = ("pod", "podgroup", "statefulset", "leaderworkerset")

STOPS_FOR: Final = "1"
"""Seconds that a deleted pod keeps running: its owner and its unit may be gone by then.
"""

_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
_STATEFUL_SETS: Final = "/apis/apps/v1/namespaces/default/statefulsets"
_LEADER_WORKER_SETS: Final = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets"
_KOORDINATOR: Final = "scheduling.sigs.k8s.io"
_PLUGINS: Final = "scheduling.x-k8s.io"


def crds() -> list[Json]:
    """Return the CRDs that these kinds need: LeaderWorkerSets, and PodGroups of two projects."""
    group = crd("podgroups")
    other: Json = json.loads(json.dumps(group).replace(_KOORDINATOR, _PLUGINS))
    return [crd("leaderworkersets"), group, other]


@dataclass(frozen=True, kw_only=True)
class GatedRow:
    """A kind of job that consists of gated pods.

    Args:
        key: the prefix of its jobs' names.
        objects_of: from number and quota, what the user creates, with the paths of the collections.
        pods: how many pods the job with this number has.
        units: how many units it has.
        path: of the collection of the pods' owner, "" where the user creates the pods.
        controller: plays the controller of that owner, where it has to be played.
        grows: whether every other job gets one more pod when it runs.
    """

    key: str
    objects_of: Callable[[str, int, str], list[tuple[str, Json]]]
    pods: Callable[[int], int]
    units: Callable[[int], int] = lambda _: 1
    path: str = ""
    controller: Callable[[Objects, str, Cache], None] | None = None
    grows: bool = False


# --- what users create ----------------------------------------------------------------------------


def _pod_of(job: str, quota: str, cpu: str, **labels: str) -> Json:
    """Return a pod or pod template that the queue holds."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "labels": {OF: job, QUOTA_NAME: quota, **labels},
            "annotations": {RUNS_FOR: LONG, STOP_SECONDS: STOPS_FOR},
        },
        "spec": {
            "schedulingGates": [{"name": ADMISSION_GATE}],
            "priorityClassName": HIGH,
            "containers": [container],
        },
    }


def _named(name: str, pod: Json) -> tuple[str, Json]:
    metadata = {**pod["metadata"], "name": name}
    return PODS, {"metadata": metadata, "spec": {**pod["spec"], "restartPolicy": "Never"}}


def _pod(name: str, number: int, quota: str) -> list[tuple[str, Json]]:
    return [_named(name, _pod_of(name, quota, str(1 + number % 3)))]


def _group(name: str, number: int, quota: str) -> list[tuple[str, Json]]:
    """Return pods of two sizes; successive groups use the labels of each project in turn."""
    count = _group_size(number)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    above: list[tuple[str, Json]] = []
    match number % 4:
        case 0:
            labels, annotations = {KUEUE_POD_GROUP: name}, {KUEUE_GROUP_COUNT: str(count)}
        case 1:
            annotations = {KOORDINATOR_GANG: name, KOORDINATOR_GANG_COUNT[0]: str(count)}
        case 2:
            labels, above = {KOORDINATOR_POD_GROUP[0]: name}, [_above(_KOORDINATOR, name, count)]
        case _:
            labels, above = {PLUGINS_POD_GROUP: name}, [_above(_PLUGINS, name, count)]
    pods = [_pod_of(name, quota, "2" if each else "1", **labels) for each in range(count)]
    for pod in pods:
        pod["metadata"]["annotations"].update(annotations)
    return [*above, *(_named(f"{name}-{each}", pod) for each, pod in enumerate(pods))]


def _above(group: str, name: str, count: int) -> tuple[str, Json]:
    """Return the PodGroup of an API group, with the path of its collection."""
    version = f"{group}/v1alpha1"
    body = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}}
    path = f"/apis/{version}/namespaces/default/podgroups"
    return path, {**body, "spec": {"minMember": count}}


def _group_size(number: int) -> int:
    return 2 + number // 2 % 2


def _set(name: str, number: int, quota: str) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": _replicas(number),
            "selector": {"matchLabels": {OF: name}},
            "template": _pod_of(name, quota, "2"),
        },
    }


def _replicas(number: int) -> int:
    """Return how many parts of the job are released separately.

    A job with only some of them waits for the others and is charged meanwhile: together, jobs with
    two parts and jobs that grow must not take so much that none of them can continue.
    """
    return 1 + number // 2 % 2


def _deployment(name: str, number: int, quota: str) -> list[tuple[str, Json]]:
    return [(_DEPLOYMENTS, _set(name, number, quota))]


def _stateful_set(name: str, number: int, quota: str) -> list[tuple[str, Json]]:
    body = _set(name, number, quota)
    body["spec"]["serviceName"] = name
    return [(_STATEFUL_SETS, body)]


_LWS_SIZE: Final = 3


def _leader_worker_set(name: str, number: int, quota: str) -> list[tuple[str, Json]]:
    templates = {
        "size": _LWS_SIZE,
        "leaderTemplate": _pod_of(name, quota, "1"),
        "workerTemplate": _pod_of(name, quota, "1"),
    }
    spec = {"replicas": _replicas(number), "leaderWorkerTemplate": templates}
    version = "leaderworkerset.x-k8s.io/v1"
    body = {"apiVersion": version, "kind": "LeaderWorkerSet", "metadata": {"name": name}}
    return [(_LEADER_WORKER_SETS, {**body, "spec": spec})]


# --- the controller of LeaderWorkerSets -----------------------------------------------------------


def _play_leader_worker_set(objects: Objects, name: str, cache: Cache) -> None:
    """Create the missing pods of a set: leaders, and workers whose leader runs."""
    body: Json = objects.api.request("GET", f"{_LEADER_WORKER_SETS}/{name}")
    for group in range(body["spec"]["replicas"]):
        leader = cache.pods.get(f"{name}-{group}")
        has_started = leader is not None and is_running(leader)
        wanted = [_of_group(body, group, each) for each in range(_LWS_SIZE if has_started else 1)]
        for pod in wanted:
            if pod["metadata"]["name"] not in cache.pods:
                _make_missing(objects, pod)


def _of_group(body: Json, group: int, worker: int) -> Json:
    """Return a pod as the controller creates it."""
    templates, name = body["spec"]["leaderWorkerTemplate"], body["metadata"]["name"]
    pod = templates["workerTemplate" if worker else "leaderTemplate"]
    meta = pod["metadata"]
    marks = {LWS_NAME: name, LWS_GROUP: str(group), LWS_WORKER: str(worker)}
    return {
        "metadata": {
            "name": f"{name}-{group}-{worker}" if worker else f"{name}-{group}",
            "labels": {**meta["labels"], **marks},
            "annotations": {**meta["annotations"], LWS_SIZE: str(_LWS_SIZE)},
            "ownerReferences": [owner_of(body)],
        },
        "spec": pod["spec"],
    }


def _make_missing(objects: Objects, pod: Json) -> None:
    """Create a pod, unless it exists and has not been seen yet."""
    try:
        objects.api.request("POST", PODS, pod)
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise


# --- a life ---------------------------------------------------------------------------------------


class GatedJob:
    """A job that consists of gated pods; the first of each kind is evicted once.

    Args:
        row: its kind.
        place: the cluster to create it in.
        number: of the job, among those of its kind.
        quota: the quota that its pods name.
    """

    def __init__(self, row: GatedRow, place: KindWorld, number: int, quota: str) -> None:
        self.key, self.quota = row.key, quota
        self.name = f"{row.key}-{number}"
        self.step = Step.CREATED
        self.wanted_releases = row.pods(number)
        self.most_units = row.units(number) + (number == 0)
        self._row, self._number = row, number
        self._world, self._objects = place.world, Objects(place.world.api)
        self._wanted_pods = row.pods(number)
        self._to_evict = number == 0
        self._to_grow = row.grows and number % 2 == 1
        self._runs_since = 0.0
        self._evicted: Json = {}

    def create(self) -> None:
        """Create what its user creates."""
        for path, body in self._row.objects_of(self.name, self._number, self.quota):
            self._objects.api.request("POST", f"{path}?fieldValidation=Strict", body)
        self.step = Step.MADE

    def look(self, cache: Cache) -> None:
        """Take the next step of its user and of a controller that is played."""
        if self._row.controller is not None:
            self._row.controller(self._objects, self.name, cache)
        match self.step:
            case Step.MADE if self._runs_whole(cache):
                self.step, self._runs_since = Step.RUNS, time.monotonic()
            case Step.RUNS if self._to_grow:
                self._grow()
            case Step.RUNS if not self._to_evict:
                self._end(cache)
            case Step.RUNS if time.monotonic() - self._runs_since >= RUN_SECONDS:
                self._evict()
            case Step.STOPS:
                self._let_in_again()
            case _:
                pass

    def await_end(self) -> None:
        """Wait until its unit reports the end, where such a job ends by itself."""
        if not self._row.path:
            until(lambda: [phase_of(unit) for unit in self._units()] == ["Succeed"])

    def _runs_whole(self, cache: Cache) -> bool:
        running, let_go = cache.running_pods[self.name], cache.let_go[self.name]
        return running == self._wanted_pods and let_go >= self.wanted_releases

    def _units(self) -> list[Json]:
        units = self._world.units()
        return [unit for unit in units if whose(unit, (self.name,)) == self.name]

    def _grow(self) -> None:
        """Scale it up by one pod."""
        self._to_grow = False
        self._wanted_pods += 1
        self.wanted_releases += 1
        more = {"spec": {"replicas": self._wanted_pods}}
        self._objects.merge(f"{self._row.path}/{self.name}", more)
        self.step = Step.MADE

    def _evict(self) -> None:
        """Request the eviction of one of its units."""
        self._to_evict = False
        self._evicted = min(self._units(), key=lambda unit: str(unit["metadata"]["name"]))
        self.wanted_releases += sum(each["count"] for each in self._evicted["spec"]["podSet"])
        self._world.set_active(self._evicted["metadata"]["name"], active=False)
        self.step = Step.STOPS

    def _let_in_again(self) -> None:
        """Requeue it once it is stopped.

        Its unit is deleted with its last pod, unless a controller creates others before that.
        """
        uid = self._evicted["metadata"]["uid"]
        unit = next((each for each in self._units() if each["metadata"]["uid"] == uid), None)
        if unit is None:
            if not self._row.path:
                self._make_pods_again()
            self.step = Step.MADE
        elif self._row.path and phase_of(unit) == "Enqueued":
            self._world.set_active(unit["metadata"]["name"], active=True)
            self.step = Step.MADE

    def _make_pods_again(self) -> None:
        """Create the pods once more, with other names.

        kwok deletes a stopped pod by its name, whatever its uid is by then, and sometimes twice.
        """
        for path, body in self._row.objects_of(self.name, self._number, self.quota):
            if path == PODS:
                body["metadata"]["name"] += "-again"
                self._objects.create("pods", body)

    def _end(self, cache: Cache) -> None:
        """Let it end; a job that never ends is deleted by its user."""
        if self._row.path:
            self._objects.delete(f"{self._row.path}/{self.name}")
        for pod in cache.pods_of(self.name):
            path = f"{PODS}/{pod['metadata']['name']}"
            if not self._row.path and is_living(pod):
                self._objects.merge(f"{path}/status", {"status": {"phase": "Succeeded"}})
            elif self._row.controller is not None:
                self._objects.delete(path)  # the garbage collector learns of a new kind late
        self.step = Step.OVER


ROWS: Final = (
    GatedRow(key="pod", objects_of=_pod, pods=lambda _: 1),
    GatedRow(key="podgroup", objects_of=_group, pods=_group_size),
    GatedRow(
        key="statefulset", objects_of=_stateful_set, pods=_replicas, path=_STATEFUL_SETS, grows=True
    ),
    GatedRow(
        key="deployment",
        objects_of=_deployment,
        pods=_replicas,
        units=_replicas,
        path=_DEPLOYMENTS,
    ),
    GatedRow(
        key="leaderworkerset",
        objects_of=_leader_worker_set,
        pods=lambda number: _LWS_SIZE * _replicas(number),
        units=_replicas,
        path=_LEADER_WORKER_SETS,
        controller=_play_leader_worker_set,
    ),
)


def gated(row: GatedRow) -> Callable[[KindWorld, int, str], PlayedJob]:
    """Return a factory of jobs of a kind that is held by gates."""
    return lambda place, number, quota: GatedJob(row, place, number, quota)
