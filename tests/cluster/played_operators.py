"""Operators of all kinds of jobs, played on a real API server: what they make, and what they say.

Pods are scheduled by the real scheduler and run by kwok; Jobs that operators make have the real
Job controller; the garbage collector deletes objects without an owner. A call does what an operator
does in one step of a job's life, and returns when that can be seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from tests.cluster.judgement import is_running
from tests.cluster.played_pods import (
    OF,
    Made,
    driver_of,
    executors_of,
    job_set_of_train_job,
    objects_of_wrapper,
    pods_of_job_set,
    pods_of_mpi_job,
    pods_of_ray_child,
    pods_of_ray_cluster,
    pods_of_roles,
    pods_of_widget,
    pods_of_workflow,
    ray_cluster_of,
    submitter_of,
)
from tests.cluster.played_statuses import (
    Stage,
    cluster_name,
    status_of_job_set,
    status_of_ray_cluster,
    status_of_ray_job,
    status_of_ray_service,
    status_of_roles,
    status_of_spark,
    status_of_train_job,
    status_of_widget,
    status_of_workflow,
    status_of_wrapper,
)
from tests.cluster.queue_world import MERGE, PODS
from tests.controlplane.api_client import ApiClient, ApiError
from tests.object_states import is_living
from tests.waiting import until

Json = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"

_COLLECTIONS: Final = {
    "pods": PODS,
    "jobs": "/apis/batch/v1/namespaces/default/jobs",
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "rayclusters": "/apis/ray.io/v1/namespaces/default/rayclusters",
}


class Objects:
    """The objects of a namespace, for whoever makes, finds and ends them."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api

    def find(self, collection: str, name: str) -> list[Json]:
        """Return what was made of a job."""
        path = f"{_COLLECTIONS[collection]}?labelSelector={OF.replace('/', '%2F')}%3D{name}"
        found: list[Json] = self.api.request("GET", path)["items"]
        return found

    def get(self, path: str) -> Json | None:
        """Return an object, None where it is not there."""
        return self.api.find(path)

    def create(self, collection: str, body: Json) -> Json:
        """Create an object, once its name is free."""

        def try_it() -> Json | None:
            try:
                made: Json = self.api.request("POST", _COLLECTIONS[collection], body)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                return None
            return made

        made = until(try_it)
        assert made is not None
        return made

    def merge(self, path: str, body: Json) -> Json:
        """Merge into an object."""
        found: Json = self.api.request("PATCH", path, body, content_type=MERGE)
        return found

    def delete(self, path: str) -> None:
        """Delete an object as kubectl does: what it owns follows."""
        try:
            self.api.request("DELETE", path, {"propagationPolicy": "Background"})
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    def living_pods(self, name: str) -> list[Json]:
        """Return the pods of a job that have not ended, deleted ones included."""
        return [pod for pod in self.find("pods", name) if is_living(pod)]

    def running_pods(self, name: str) -> list[Json]:
        """Return the pods of a job that run, and that were not deleted."""
        return [pod for pod in self.find("pods", name) if is_running(pod)]


class Maker:
    """What an operator makes objects of a job with: at first only those that stay, suspended."""

    def __init__(self, objects: Objects, job: str, *, runs: bool) -> None:
        self._objects = objects
        self._job = job  # its path
        self.runs = runs

    def announce(self, status: Json) -> None:
        """Write into the job's status what is about to be made of it."""
        if self.runs:
            self._objects.merge(f"{self._job}/status", {"status": status})

    def put(self, made: Made) -> Json:
        """Make an object, or let the one that has stayed go on; return it."""
        if not made.stays:
            return self._objects.create(made.path, made.body) if self.runs else made.body
        path = f"{_COLLECTIONS[made.path]}/{made.body['metadata']['name']}"
        there = self._objects.get(path)
        if there is None:
            there = self._objects.create(made.path, made.body)
        spec: Json = dict(made.body["spec"]) if made.path == "jobsets" else {}
        if made.path == "jobs" and self.runs:
            spec["template"] = {"metadata": made.body["spec"]["template"]["metadata"]}
        spec["suspend"] = not self.runs
        return self._objects.merge(path, {"spec": spec})

    def put_all(self, made: list[Made]) -> None:
        """Make objects that need nothing of each other."""
        for each in made:
            self.put(each)


def _make_of_train_job(maker: Maker, body: Json) -> None:
    job_set = maker.put(Made("jobsets", job_set_of_train_job(body), stays=True))
    maker.put_all(pods_of_job_set(job_set))


def _make_of_ray_job(maker: Maker, body: Json) -> None:
    # As KubeRay does: the name stands in the status before there is a cluster of that name. A
    # cluster that its owner does not name for ten seconds is queued by itself.
    maker.announce({"jobDeploymentStatus": "Initializing", "rayClusterName": cluster_name(body)})
    cluster = maker.put(Made("rayclusters", ray_cluster_of(body, body["spec"]["rayClusterSpec"])))
    maker.put_all(pods_of_ray_child(body, cluster))
    maker.put(submitter_of(body))


def _make_of_ray_service(maker: Maker, body: Json) -> None:
    maker.announce({"pendingServiceStatus": {"rayClusterName": cluster_name(body)}})  # as above
    cluster = maker.put(Made("rayclusters", ray_cluster_of(body, body["spec"]["rayClusterConfig"])))
    maker.put_all(pods_of_ray_child(body, cluster))


def _make_of_spark(maker: Maker, body: Json) -> None:
    maker.put_all(executors_of(body, maker.put(driver_of(body))))


def _makes(pods_of: Callable[[Json], list[Made]]) -> Callable[[Maker, Json], None]:
    return lambda maker, body: maker.put_all(pods_of(body))


@dataclass(frozen=True, kw_only=True)
class Part:
    """How the operator of a kind behaves.

    Args:
        make: makes what a job runs with.
        say: gives the status of a job at a stage; None where nobody plays.
        between: collections of what stands between job and pods.
        keeps: whether that stays, suspended, while the job is held.
        stops_pods: whether it stops pods when the job is suspended.
        says_late: whether it says so only when they are gone.
    """

    make: Callable[[Maker, Json], None]
    say: Callable[[Json, Stage], Json] | None
    between: tuple[str, ...] = ()
    keeps: bool = False
    stops_pods: bool = True
    says_late: bool = False


_ROLES: Final = Part(make=_makes(pods_of_roles), say=status_of_roles)

PARTS: Final = {
    # The Job controller is there itself.
    "job": Part(make=_makes(lambda _: []), say=None),
    "tfjob": _ROLES,
    "pytorchjob": _ROLES,
    "xgboostjob": _ROLES,
    "paddlejob": _ROLES,
    "jaxjob": _ROLES,
    "mpijobv1": _ROLES,
    "mpijob": Part(
        make=_makes(pods_of_mpi_job), say=status_of_roles, between=("jobs",), keeps=True
    ),
    "jobset": Part(
        make=_makes(pods_of_job_set), say=status_of_job_set, between=("jobs",), keeps=True
    ),
    "trainjob": Part(
        make=_make_of_train_job,
        say=status_of_train_job,
        between=("jobsets", "jobs"),
        keeps=True,
    ),
    "rayjob": Part(make=_make_of_ray_job, say=status_of_ray_job, between=("rayclusters", "jobs")),
    "raycluster": Part(make=_makes(pods_of_ray_cluster), say=status_of_ray_cluster, says_late=True),
    "rayservice": Part(
        make=_make_of_ray_service,
        say=status_of_ray_service,
        between=("rayclusters",),
        says_late=True,
    ),
    "sparkapp": Part(make=_make_of_spark, say=status_of_spark),
    "workflow": Part(make=_makes(pods_of_workflow), say=status_of_workflow, stops_pods=False),
    "appwrapper": Part(
        make=_makes(objects_of_wrapper), say=status_of_wrapper, between=("jobs",), says_late=True
    ),
    "widget": Part(make=_makes(pods_of_widget), say=status_of_widget),
}


class Operator:
    """The operator of one kind.

    Args:
        api: where.
        key: of the kind's extension.
        path: of the kind's objects in the namespace.
        has_status_path: whether the status is written on a path of its own.
    """

    def __init__(self, api: ApiClient, key: str, path: str, *, has_status_path: bool) -> None:
        self.objects = Objects(api)
        self._part = PARTS[key]
        self._path = path
        self._status_path = "/status" if has_status_path else ""

    def hold(self, name: str) -> None:
        """See a job that is suspended, for the first time or after a change."""
        self._make(name, runs=False)
        self._say(name, Stage.HELD)

    def start(self, name: str, pods: int) -> None:
        """Make the pods of a job that is not suspended; they run when this returns."""
        self.make(name)
        until(lambda: len(self.objects.running_pods(name)) == pods)
        self.say_running(name)

    def make(self, name: str) -> None:
        """Make what a job runs with."""
        self._make(name, runs=True)

    def say_running(self, name: str) -> None:
        """Say that a job runs."""
        self._say(name, Stage.RUNNING)

    def stop(self, name: str) -> None:
        """Take the pods of a job that was suspended while it ran; they are gone afterwards."""
        if not self._part.stops_pods:
            self.end_pods(name)
        if self._part.stops_pods and self._part.say is not None:
            self._stop_pods(name)
        if not self._part.says_late:
            self._say(name, Stage.SUSPENDED)
        until(lambda: not self.objects.living_pods(name))
        if self._part.says_late:
            self._say(name, Stage.SUSPENDED)

    def end(self, name: str, *, succeeded: bool) -> None:
        """Let a job end."""
        self.end_pods(name, "Succeeded" if succeeded else "Failed")
        self._say(name, Stage.SUCCEEDED if succeeded else Stage.FAILED)

    def end_pods(self, name: str, phase: str = "Succeeded") -> None:
        """End all pods of a job, as their kubelet would; their controller may be faster."""
        for pod in self.objects.living_pods(name):
            path = f"{_COLLECTIONS['pods']}/{pod['metadata']['name']}"
            try:
                self.objects.merge(f"{path}/status", {"status": {"phase": phase}})
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise

    def collect(self, name: str) -> None:
        """Delete all that was made of a job."""
        for collection in (*self._part.between, "pods"):
            for each in self.objects.find(collection, name):
                self.objects.delete(f"{_COLLECTIONS[collection]}/{each['metadata']['name']}")

    def _make(self, name: str, *, runs: bool) -> None:
        maker = Maker(self.objects, f"{self._path}/{name}", runs=runs)
        self._part.make(maker, self._body(name))

    def _stop_pods(self, name: str) -> None:
        uid = self._body(name)["metadata"]["uid"]
        for collection in self._part.between:
            for each in self.objects.find(collection, name):
                path = f"{_COLLECTIONS[collection]}/{each['metadata']['name']}"
                if self._part.keeps:
                    self.objects.merge(path, {"spec": {"suspend": True}})
                else:
                    self.objects.delete(path)
        for pod in self.objects.find("pods", name):
            if pod["metadata"]["ownerReferences"][0]["uid"] == uid:
                self.objects.delete(f"{_COLLECTIONS['pods']}/{pod['metadata']['name']}")

    def _say(self, name: str, stage: Stage) -> None:
        if self._part.say is None:
            return
        body = self._body(name)
        patch = [{"op": "add", "path": "/status", "value": self._part.say(body, stage)}]
        path = f"{self._path}/{name}{self._status_path}"
        self.objects.api.request("PATCH", path, patch, content_type=JSON_PATCH)

    def _body(self, name: str) -> Json:
        body: Json = self.objects.api.request("GET", f"{self._path}/{name}")
        return body
