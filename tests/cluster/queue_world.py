"""A cluster with both programs: real etcd, API server and Job controller, kwok's nodes and pods."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.cluster.api_audit import ApiAudit
from tests.cluster.judgement import is_running
from tests.cluster.program_process import CONTROLLERS, INSIGHT, ROOT, SCHEDULER, ProgramProcess
from tests.controlplane.control_plane import ControlPlane
from tests.object_states import condition_of, is_living
from tests.waiting import PATIENCE_SECONDS, until

Json = dict[str, Any]

QUEUE_NAMESPACE: Final = "koord-queue"
ELASTIC_QUOTA_CRD: Final = ROOT / "tests" / "data" / "crds" / "elasticquotas.yaml"
UNITS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{}/queueunits"
QUEUES: Final = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{QUEUE_NAMESPACE}/queues"
QUOTAS: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas"
JOBS: Final = "/apis/batch/v1/namespaces/{}/jobs"
PODS: Final = "/api/v1/namespaces/default/pods"
QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
OWN_TIMES_SECONDS: Final = 120.0
"""For what has a timer of its own: counts that are corrected every 30 s, an operator that reports
nothing for 60 s, and the cluster's garbage collector, which learns of a new kind in 30."""
MERGE: Final = "application/merge-patch+json"


class QueueWorld:
    """Control plane, nodes, CRDs; programs on demand.

    Args:
        binaries: Folder of the control plane's programs.
        jobs: Whether Jobs are to run (Job controller, scheduler of pods, kwok, nodes).
        users: More users, for RBAC tests.
        api_server_flags: Further flags of the API server.
        crds: Whether Queues and QueueUnits are served from the start.
        kube_scheduler: Whether kube-scheduler binds the pods; without it, another has to.
        nodes: The number of nodes of 16 CPUs that there are from the start.
    """

    def __init__(
        self,
        binaries: Path,
        *,
        jobs: bool = False,
        users: dict[str, Sequence[str]] | None = None,
        api_server_flags: Sequence[str] = (),
        crds: bool = True,
        kube_scheduler: bool = True,
        nodes: int = 4,
    ) -> None:
        self._crds = crds
        self._kube_scheduler = kube_scheduler
        self._nodes = nodes
        self._stack = ExitStack()
        self._api_server_flags = api_server_flags
        self._binaries = binaries
        self._jobs = jobs
        self._users = users or {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self.audit = ApiAudit(self.folder)
            plane = ControlPlane(
                self._binaries,
                controller_manager=self._jobs,
                scheduler=self._jobs and self._kube_scheduler,
                kwok=self._jobs,
                users=self._users,
                api_server_flags=(*self.audit.prepare(), *self._api_server_flags),
            )
            self.plane = stack.enter_context(plane)
            if self._crds:
                self.plane.apply(ROOT / "crds")
            self.plane.apply(ELASTIC_QUOTA_CRD)
            self.plane.kubectl("create", "namespace", QUEUE_NAMESPACE)
            self.plane.create_nodes(self._nodes, cpu="16", memory="64Gi")
            self.api = self.plane.client_for()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start(self, module: str, *arguments: str, user: str = "admin") -> ProgramProcess:
        """Start a program and wait until it is ready; it ends with the world."""
        kubeconfig = self.plane.kubeconfig_for(user) if user != "admin" else self.plane.kubeconfig
        return self._start(module, kubeconfig, arguments)

    def _start(
        self, module: str, kubeconfig: Path | None, arguments: Sequence[str]
    ) -> ProgramProcess:
        log = self.folder / f"{module.replace('/', '.')}.log"
        process = ProgramProcess(module, kubeconfig, log, arguments)
        self._stack.callback(process.stop)
        process.start()
        process.wait_until_ready()
        return process

    def start_scheduler(self, *arguments: str, user: str = "admin") -> ProgramProcess:
        """Start koord-queue-scheduler."""
        return self.start(SCHEDULER, *arguments, user=user)

    def start_controllers(self, *arguments: str, user: str = "admin") -> ProgramProcess:
        """Start koord-queue-controllers for Jobs."""
        return self.start(CONTROLLERS, "--enabled-extensions=job", *arguments, user=user)

    def start_insight(self, *arguments: str, user: str = "") -> ProgramProcess:
        """Start koord-queue-insight, which knows no API server unless a user is named."""
        kubeconfig = self.plane.kubeconfig_for(user) if user else None
        return self._start(INSIGHT, kubeconfig, arguments)

    # --- objects ------------------------------------------------------------------------------

    def create_quota(
        self,
        name: str,
        *,
        cpu_max: int,
        cpu_min: int | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Create an ElasticQuota on cpu; min is max where it is not given."""
        minimum = cpu_max if cpu_min is None else cpu_min
        body = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {"min": {"cpu": str(minimum)}, "max": {"cpu": str(cpu_max)}},
        }
        self.api.request("POST", QUOTAS.format("default"), body)

    def resize_quota(self, name: str, cpu: int) -> None:
        """Set min and max of an ElasticQuota's cpu."""
        spec = {"min": {"cpu": str(cpu)}, "max": {"cpu": str(cpu)}}
        path = f"{QUOTAS.format('default')}/{name}"
        self.api.request("PATCH", path, {"spec": spec}, content_type=MERGE)

    def create_priority_class(self, name: str, value: int) -> None:
        """Create a PriorityClass."""
        body = {"metadata": {"name": name}, "value": value}
        self.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def create_service_account(self, name: str) -> None:
        """Create a ServiceAccount."""
        body = {"metadata": {"name": name}}
        self.api.request("POST", "/api/v1/namespaces/default/serviceaccounts", body)

    def create_queue(
        self, name: str, policy: str, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """Create a Queue by hand."""
        body = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "Queue",
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"queuePolicy": policy, **spec},
        }
        self.api.request("POST", QUEUES, body)

    def stop_queue(self, name: str, policy: str | None) -> None:
        """Set a queue's stop policy, or remove it."""
        self.patch_queue(name, {"metadata": {"annotations": {"koord-queue/stop-policy": policy}}})

    def patch_queue(self, name: str, body: Json) -> None:
        """Patch a Queue by a merge patch."""
        self.api.request("PATCH", f"{QUEUES}/{name}", body, content_type=MERGE)

    def queue(self, name: str) -> Json:
        """Return a Queue."""
        found: Json = self.api.request("GET", f"{QUEUES}/{name}")
        return found

    def queues(self) -> list[Json]:
        """Return all Queues."""
        found: list[Json] = self.api.request("GET", QUEUES)["items"]
        return found

    def has_queue(self, name: str) -> bool:
        """Return whether there is a Queue of that name."""
        return any(queue["metadata"]["name"] == name for queue in self.queues())

    def create_unit(
        self, name: str, quota: str, *, cpu: int, count: int = 1, priority: int = 0, **spec: Any
    ) -> None:
        """Create a QueueUnit by hand, as upstream's fixture does."""
        container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
        body = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QueueUnit",
            "metadata": {"name": name, "labels": {QUOTA_LABEL: quota}},
            "spec": {
                "priority": priority,
                "podSet": [
                    {
                        "name": name,
                        "count": count,
                        "template": {"spec": {"containers": [container]}},
                    }
                ],
                **spec,
            },
        }
        self.api.request("POST", UNITS.format("default"), body)

    def unit(self, name: str) -> Json:
        """Return a unit."""
        found: Json = self.api.request("GET", f"{UNITS.format('default')}/{name}")
        return found

    def units(self) -> list[Json]:
        """Return all units of the namespace."""
        found: list[Json] = self.api.request("GET", UNITS.format("default"))["items"]
        return found

    def phase(self, name: str) -> str:
        """Return a unit's phase, "" while it has none."""
        return str(self.unit(name).get("status", {}).get("phase", ""))

    def finish_unit(self, name: str) -> None:
        """Finish a unit that was made by hand, as the controllers would."""
        self._free_unit(name, "Succeed")

    def requeue_unit(self, name: str) -> None:
        """Requeue a unit that was made by hand, as the controllers would."""
        self._free_unit(name, "Enqueued")

    def _free_unit(self, name: str, phase: str) -> None:
        self.patch_unit(name, {"status": {"phase": phase, "admissions": []}})

    def patch_unit(self, name: str, body: Json) -> None:
        """Patch a unit or its status by a merge patch."""
        path = f"{UNITS.format('default')}/{name}{'/status' if 'status' in body else ''}"
        self.api.request("PATCH", path, body, content_type=MERGE)

    def set_active(self, unit: str, *, active: bool) -> None:
        """Activate a unit, or deactivate it, which evicts it."""
        self.patch_unit(unit, {"spec": {"active": active}})

    def create_job(
        self, name: str, quota: str, *, cpu: str = "1", suspend: bool = True, **more: Any
    ) -> Json:
        """Create a Job, suspended unless a test is about one that is not.

        Of one that is not, the Job controller may have created pods before it is suspended, so that
        running pods do not show that it was admitted.

        `labels`, `annotations`, `owner` (of the job), `pod_spec` (merged into the template's) and
        `run_seconds` have their own keys; `more` is merged into the job's spec.
        """
        labels = {QUOTA_LABEL: quota, **more.pop("labels", {})} if quota else more.pop("labels", {})
        annotations = more.pop("annotations", {})
        owner = more.pop("owner", None)
        pod_spec = more.pop("pod_spec", {})
        namespace = more.pop("namespace", "default")
        run_seconds = str(more.pop("run_seconds", "0.5"))
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {
                "suspend": suspend,
                "template": {
                    "metadata": {"annotations": {"koord-queue.test/run-seconds": run_seconds}},
                    "spec": {"restartPolicy": "Never", "containers": [container], **pod_spec},
                },
                **more,
            },
        }
        made: Json = self.api.request("POST", JOBS.format(namespace), body)
        return made

    def create_cron_job(self, name: str, namespace: str = "default") -> Json:
        """Create a CronJob that never starts a Job itself; return its Jobs' owner reference."""
        container = {"name": "main", "image": "none"}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"spec": {"template": template}},
        }
        path = f"/apis/batch/v1/namespaces/{namespace}/cronjobs"
        made = self.api.request("POST", path, {"metadata": {"name": name}, "spec": spec})
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": name, "controller": True}
        return {**owner, "uid": made["metadata"]["uid"]}

    def job(self, name: str) -> Json:
        """Return a Job."""
        found: Json = self.api.request("GET", f"{JOBS.format('default')}/{name}")
        return found

    def patch_job(self, name: str, body: Json) -> Json:
        """Patch a Job by a merge patch."""
        path = f"{JOBS.format('default')}/{name}"
        found: Json = self.api.request("PATCH", path, body, content_type=MERGE)
        return found

    def delete_job(self, name: str) -> None:
        """Delete a Job as kubectl does: its pods are deleted with it."""
        body = {"propagationPolicy": "Background"}
        self.api.request("DELETE", f"{JOBS.format('default')}/{name}", body)

    def unit_of(self, job: str, namespace: str = "default") -> Json:
        """Return the unit of the Job that currently has this name, {} where there is none."""
        uid = self.api.request("GET", f"{JOBS.format(namespace)}/{job}")["metadata"]["uid"]
        return self.unit_of_uid(uid, namespace)

    def unit_of_uid(self, uid: str, namespace: str = "default") -> Json:
        """Return the unit of the job of any kind with this uid; {} where there is none."""
        units = self.api.request("GET", UNITS.format(namespace))["items"]
        found = [u for u in units if u["spec"].get("consumerRef", {}).get("uid") == uid]
        assert len(found) <= 1, f"{len(found)} units are of the job with uid {uid}"
        return found[0] if found else {}

    def pods(self, job: str) -> list[Json]:
        """Return the pods of a Job."""
        path = f"{PODS}?labelSelector=job-name%3D{job}"
        found: list[Json] = self.api.request("GET", path)["items"]
        return found

    def quota_reserved(self, job: str) -> Json:
        """Return the condition QuotaReserved of a job's unit, {} while it has none."""
        return condition_of(self.unit_of(job), "QuotaReserved")

    def running_pods(self, job: str) -> list[Json]:
        """Return the running pods of a Job, without those being deleted."""
        return [pod for pod in self.pods(job) if is_running(pod)]

    def await_running(self, job: str, count: int) -> list[Json]:
        """Wait until exactly this many pods of a Job run; return them."""

        def as_wanted() -> list[Json]:
            found = self.running_pods(job)
            return found if len(found) == count else []

        return until(as_wanted)

    def living_pods(self, job: str) -> list[Json]:
        """Return the pods of a Job that have not ended, including those being deleted."""
        return [pod for pod in self.pods(job) if is_living(pod)]

    def is_suspended(self, job: str) -> bool:
        """Return whether a Job's switch is on."""
        return self.job(job)["spec"].get("suspend", False) is True

    def phase_of_job(self, job: str) -> str:
        """Return the phase of a Job's unit, "" while it has none."""
        return str(self.unit_of(job).get("status", {}).get("phase", ""))

    def patch_pod(self, name: str, body: Json) -> None:
        """Patch a pod by a merge patch."""
        self.api.request("PATCH", f"{PODS}/{name}", body, content_type=MERGE)

    def end_pod(self, name: str, phase: str = "Succeeded") -> None:
        """End a pod, as its kubelet would."""
        path = f"{PODS}/{name}/status"
        self.api.request("PATCH", path, {"status": {"phase": phase}}, content_type=MERGE)

    def event_notes(self, name: str, kind: str = "") -> dict[str, str]:
        """Return our events on objects of that name (and kind): their messages by reason."""
        events = self.api.request("GET", "/apis/events.k8s.io/v1/events")["items"]
        return {
            event["reason"]: event["note"]
            for event in events
            if event["regarding"].get("name") == name
            and kind in {"", event["regarding"].get("kind")}
            and event["reportingController"].startswith("koord-queue/")
        }


class Cluster(NamedTuple):
    """A world, and the two programs in it."""

    world: QueueWorld
    scheduler: ProgramProcess
    controllers: ProgramProcess


def debug(program: ProgramProcess, path: str) -> Json:
    """Read a page of a program's debug API."""
    port = program.port_of("--debug-address")
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
        found: Json = json.loads(answer.read())
    return found


def refusal_of(scheduler: ProgramProcess, unit: str) -> Json:
    """Return why a unit was refused, {} where it was not, or not yet.

    A unit that is in its queue and has not been tried has the reason Pending.
    """
    refusal: Json = unit_view(scheduler, unit).get("refusal") or {}
    return {} if refusal.get("reason") == "Pending" else refusal


def unit_view(scheduler: ProgramProcess, unit: str, namespace: str = "default") -> Json:
    """Return the scheduler's view of a unit, {} while the scheduler does not know it."""
    return _view(scheduler, f"/debug/queueunits/{namespace}/{unit}")


def job_view(controllers: ProgramProcess, name: str) -> Json:
    """Return the controllers' view of a Job, {} while they do not know it."""
    return _view(controllers, f"/debug/jobs/default/Job/{name}")


def queue_view(scheduler: ProgramProcess, name: str) -> Json:
    """Return the scheduler's view of a queue, {} while the scheduler does not know it."""
    found: Json = _view(scheduler, f"/debug/queues/{name}").get("queue", {})
    return found


def _view(program: ProgramProcess, path: str) -> Json:
    try:
        return debug(program, path)
    except HTTPError as error:
        error.close()
        if error.code != HTTPStatus.NOT_FOUND:
            raise
        return {}


def quota_view(scheduler: ProgramProcess, name: str) -> Json:
    """Return the scheduler's view of a quota, {} while the scheduler does not know it."""
    level = debug(scheduler, "/debug/quotas")["items"]
    while level:
        for node in level:
            if node["name"] == name:
                found: Json = node
                return found
        level = [child for node in level for child in node["children"]]
    return {}


def label_pods(world: QueueWorld, namespace: str, job: str, quota: str) -> list[str]:
    """Label the pods of a Job with a quota that its template does not name; return their paths."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    found = world.api.request("GET", f"{path}?labelSelector=job-name%3D{job}")["items"]
    paths = [f"{path}/{each['metadata']['name']}" for each in found]
    body = {"metadata": {"labels": {QUOTA_LABEL: quota}}}
    for each in paths:
        world.api.request("PATCH", each, body, content_type=MERGE)
    return paths


def reason_of(unit: Json) -> str:
    """Return the reason of a unit's condition QuotaReserved, "" while it has none."""
    return str(condition_of(unit, "QuotaReserved").get("reason", ""))


def let_the_second_of_the_release_pass() -> None:
    """Wait until a suspension of a Job can be told from one before its release.

    Conditions have whole seconds. One of the second of the release proves nothing, unless our
    controllers have reconciled the job in between, while its condition said that it was resumed.
    """
    time.sleep(1.1)


def pod_sets_of(unit: Json) -> list[tuple[str, int]]:
    """Return the pod sets of a unit: names and counts."""
    return [(each["name"], each["count"]) for each in unit["spec"]["podSet"]]


def running_of(unit: Json) -> dict[str, int]:
    """Return how many pods of each set run, by the unit's status."""
    admitted = unit["status"].get("admissions", [])
    return {each["name"]: each.get("running", 0) for each in admitted}
