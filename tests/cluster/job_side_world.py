"""A cluster with the controllers alone: the test is the scheduler of units, and some operators.

Jobs are the real Job controller's, pods the real scheduler's and kwok's. Of TFJobs and Widgets, a
kind that is declared with two pod sets, the test makes the pods itself, where and how it likes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.cluster.kind_table import WIDGET_CRD
from tests.cluster.played_statuses import now
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import MERGE, PODS, QUOTA_LABEL, QueueWorld, pod_sets_of
from tests.cluster.served_kinds import install_crds
from tests.sample_jobs import crd
from tests.waiting import STILL_SECONDS, stays, until

Json = dict[str, Any]

LONG: Final = "600"
PARTLY: Final = "koord-queue/partial-running-timeout"
POD_SET: Final = "koord-queue/related-podset-name"
ROLE: Final = "training.kubeflow.org/replica-type"
NOW: Final = "2026-11-01T10:00:00Z"
NODE_CPU: Final = 16
OWN: Final = "koord-queue.test/own"
"""Taint of nodes that one Job each has for itself."""

TWO_SETS: Final = """
kinds:
  - apiVersion: example.com/v1
    kind: Widget
    plural: widgets
    suspend: .spec.suspend
    podSets:
      - {name: ps-1, count: .spec.first, template: .spec.template}
      - {name: ps-2, count: .spec.second, template: .spec.template}
    succeeded: {path: .status.phase, values: [Done]}
    failed: {path: .status.phase, values: [Failed]}
"""


class JobSideWorld(QueueWorld):
    """A cluster whose units nobody admits but the tests."""

    _controllers: ProgramProcess | None = None
    _free_nodes: list[str]

    def create_own_nodes(self) -> None:
        """Create nodes that one Job each gets for itself."""
        self._free_nodes = self.plane.create_nodes(12, cpu=str(NODE_CPU), name_prefix="own")
        body = {"spec": {"taints": [{"key": OWN, "effect": "NoSchedule"}]}}
        for name in self._free_nodes:
            self.api.request("PATCH", f"/api/v1/nodes/{name}", body, content_type=MERGE)

    def stop_controllers(self) -> None:
        """End them."""
        assert self._controllers is not None
        assert self._controllers.stop() == 0

    def run_controllers(self, *flags: str) -> None:
        """Start them, with further flags."""
        config = self.folder / "controllers.yaml"
        config.write_text(TWO_SETS)
        kinds = "--enabled-extensions=job,tfjob,podgroup"
        self._controllers = self.start_controllers(
            kinds, f"--config={config}", "--leader-elect=false", *flags
        )

    def has_unit(self, name: str) -> bool:
        """Return whether there is a unit of that name."""
        return any(unit["metadata"]["name"] == name for unit in self.units())

    def admit(self, name: str, replicas: Mapping[str, int], **more: Mapping[str, Json]) -> None:
        """Do what the scheduler does; `more`: further fields of the admissions, by pod set."""
        until(partial(self.has_unit, name))
        admissions = [
            {"name": each, "replicas": count, "running": 0}
            | {field: said[each] for field, said in more.items() if each in said}
            for each, count in replicas.items()
        ]
        self.patch_unit(name, {"status": {"phase": "Dequeued", "admissions": admissions}})

    def ask_back(self, name: str, *more: Json) -> None:
        """Ask for a unit's place back, as the scheduler does; `more`: conditions beside that."""
        asked = {
            "type": "Evicted",
            "status": "True",
            "reason": "Preempted",
            "message": "for urgent",
        }
        conditions = [*more, {**asked, "lastTransitionTime": NOW}]
        self.patch_unit(name, {"status": {"conditions": conditions}})

    def admissions(self, name: str) -> dict[str, Json]:
        """Return the admissions of a unit by pod set, less the names."""
        said = self.unit(name)["status"].get("admissions", [])
        return {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in said}

    def counts(self, name: str) -> list[tuple[str, int]]:
        """Return the pod sets of a unit: names and counts."""
        return pod_sets_of(self.unit(name))

    def create_partial_job(self, name: str, pods: int, running: int, **more: Any) -> None:
        """Create a Job of so many pods, of which so many have room: a node of its own."""
        place = {
            "nodeSelector": {"kubernetes.io/hostname": self._free_nodes.pop()},
            "tolerations": [{"key": OWN, "operator": "Exists"}],
        }
        sizes: Json = {"parallelism": pods, "completions": 2 * pods}
        cpu = str(NODE_CPU // running)
        self.create_job(name, "any", cpu=cpu, run_seconds=LONG, pod_spec=place, **sizes, **more)

    def bind(self, pod: str) -> None:
        """Put a pod on a node, as a scheduler does."""
        binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": "node-0"}}
        self.api.request("POST", f"{PODS}/{pod}/binding", binding)


def stays_since(since: float, what: Callable[[], bool], seconds: float = STILL_SECONDS) -> None:
    """Watch something that has to be so until that long after `since` (monotonic), and is then."""
    stays(what, since + seconds - time.monotonic())
    assert what()


def template(requests: Mapping[str, str], **spec: Any) -> Json:
    """Return a pod template."""
    limits = {key: value for key, value in requests.items() if "/" in key}
    resources = {"requests": dict(requests), "limits": limits}
    container = {"name": "tensorflow", "image": "none", "resources": resources}
    return {"spec": {"containers": [container], **spec}}


class PlayedJob:
    """A job whose operator the test plays.

    Args:
        world: where it is.
        name: its own.
        api: path of its kind below /apis, without a namespace.
        kind: that it is.
        suffix: of its unit's name.
    """

    def __init__(self, world: JobSideWorld, name: str, api: str, kind: str, suffix: str) -> None:
        self.world, self.name, self.unit = world, name, f"{name}-{suffix}"
        self.api_version, _, plural = api.rpartition("/")
        self._kind, self._made = kind, 0
        self._path = f"/apis/{self.api_version}/namespaces/default/{plural}"

    def create(self, spec: Json, annotations: Mapping[str, str] | None = None) -> None:
        """Create it in the quota of the tests."""
        meta = {"name": self.name, "labels": {QUOTA_LABEL: "any"}, "annotations": annotations or {}}
        body = {"apiVersion": self.api_version, "kind": self._kind, "metadata": meta, "spec": spec}
        self.world.api.request("POST", f"{self._path}?fieldValidation=Strict", body)

    def body(self) -> Json:
        """Return it."""
        found: Json = self.world.api.request("GET", f"{self._path}/{self.name}")
        return found

    def patch(self, body: Json) -> None:
        """Merge into it."""
        self.world.api.request("PATCH", f"{self._path}/{self.name}", body, content_type=MERGE)

    def say(self, condition_type: str) -> None:
        """Say where it stands, in a condition."""
        said = {"type": condition_type, "status": "True", "reason": "x", "message": "x"}
        status = {"conditions": [{**said, "lastTransitionTime": now()}], "replicaStatuses": {}}
        path = f"{self._path}/{self.name}/status"
        self.world.api.request("PATCH", path, {"status": status}, content_type=MERGE)

    def start(
        self,
        count: int = 1,
        *,
        requests: Mapping[str, str] | None = None,
        on_node: bool = True,
        is_held: bool = False,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Make pods; they run at once, or wait for a node forever. Return their names.

        `is_held`: no scheduler is to look at them.
        """
        owner: Json = {"apiVersion": self.api_version, "kind": self._kind, "name": self.name}
        owner |= {"uid": self.body()["metadata"]["uid"], "controller": True}
        place: Json = {"nodeName": "node-0"} if on_node else {"nodeSelector": {"is": "nowhere"}}
        if is_held:
            place = {"schedulerName": "nobody"}
        names = []
        for _ in range(count):
            names.append(f"{self.name}-{self._made}")
            self._made += 1
            meta = {"name": names[-1], "labels": labels or {}, "annotations": annotations or {}}
            body = template(requests or {}, **place, terminationGracePeriodSeconds=0)
            body["metadata"] = {**meta, "ownerReferences": [owner]}
            self.world.api.request("POST", PODS, body)
        return names

    def bind_without_running(self, pod: str) -> None:
        """Put a pod on a node on which it does not come to run.

        kwok leaves a pod alone that says that it is ready.
        """
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        self.world.api.request("PATCH", f"{PODS}/{pod}/status", ready, content_type=MERGE)
        self.world.bind(pod)

    def stop(self) -> None:
        """Delete its pods, and say that it is suspended."""
        pods = self.world.api.request("GET", PODS)["items"]
        uid = self.body()["metadata"]["uid"]
        for pod in pods:
            if uid in [each["uid"] for each in pod["metadata"].get("ownerReferences", [])]:
                self.world.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}")
        self.say("Suspended")


def widget(world: JobSideWorld, name: str) -> PlayedJob:
    """Return a job of the declared kind."""
    return PlayedJob(world, name, "example.com/v1/widgets", "Widget", "widget-qu")


class TfJob(PlayedJob):
    """A TFJob with parameter servers and workers: its pod sets are `ps` and `worker`."""

    def __init__(self, world: JobSideWorld, name: str) -> None:
        super().__init__(world, name, "kubeflow.org/v1/tfjobs", "TFJob", "tf-qu")

    def submit(
        self,
        sets: Mapping[str, int],
        requests: Mapping[str, Mapping[str, str]] | None = None,
        *,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create it suspended; `sets`: how many of each role; `spec`: of its pods."""
        roles = {
            role: {
                "replicas": count,
                "template": template((requests or {}).get(role, {"cpu": "1"}), **spec),
            }
            for role, count in sets.items()
        }
        self.create({"runPolicy": {"suspend": True}, "tfReplicaSpecs": roles}, annotations)

    def scale(self, **counts: int | None) -> None:
        """Set how many pods roles have; None takes the role away."""
        roles = {each: None if n is None else {"replicas": n} for each, n in counts.items()}
        self.patch({"spec": {"tfReplicaSpecs": roles}})

    def admit(self, replicas: Mapping[str, int], **more: Mapping[str, Json]) -> None:
        """Admit it, and wait until it is resumed."""
        self.world.admit(self.unit, replicas, **more)
        until(lambda: not self.body()["spec"]["runPolicy"]["suspend"])

    def run(self, running: Mapping[str, int], pending: Mapping[str, int] | None = None) -> None:
        """Start pods of its sets, some of which run, and say so; wait until its unit does."""
        for name, count in running.items():
            self.start(count, labels={ROLE: name})
        for name, count in (pending or {}).items():
            self.start(count, labels={ROLE: name}, on_node=False)
        self.say("Running")
        until(lambda: self.world.phase(self.unit) == "Running")


@contextmanager
def job_side_world(binaries: Path) -> Iterator[JobSideWorld]:
    """Run a cluster with controllers of Jobs, TFJobs, Widgets and groups of pods."""
    with JobSideWorld(binaries, jobs=True) as world:
        world.create_own_nodes()
        install_crds(world.plane, crd("tfjobs"), WIDGET_CRD)
        world.run_controllers()
        yield world
