"""A cluster whose pods the real koord-scheduler binds, with both of our programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.charts.render import as_manifest, render
from tests.charts.values_table import GATED, values_with
from tests.cluster.program_process import (
    CONTROLLERS,
    SCHEDULER,
    ProgramFailed,
    ProgramProcess,
)
from tests.cluster.queue_world import JOBS, MERGE, PODS, QUOTA_LABEL, QUOTAS, QueueWorld
from tests.controlplane.api_client import ApiError
from tests.controlplane.binaries import require_binaries
from tests.controlplane.child_process import Guardian
from tests.controlplane.go_tools import KOORD_SCHEDULER, require_tool
from tests.koordinator.koord_scheduler import KoordScheduler, prepare
from tests.waiting import within

Json = dict[str, Any]
Amount = str | int

GATE: Final = "koord-queue/admission"
QUEUE: Final = "koord-queue/queue-name"
RUN_SECONDS: Final = "koord-queue.test/run-seconds"
SPECIAL: Final = ("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota")
NODES: Final = "/api/v1/nodes"
PRESENT_SECONDS: Final = 60.0
EXTENSIONS: Final = "--enabled-extensions=job,pod"
LONG_SECONDS: Final = 3600
PARKING_QUOTA: Final = "held-pods"
STRATEGIC: Final = "application/strategic-merge-patch+json"
TREES_GATE: Final = "MultiQuotaTree=true"
SEVERAL_TREES: Final = """\
apiVersion: scheduling.k8s.io/v1
kind: KoordQueueConfiguration
pluginConfigs: {ElasticQuotaV2: {multiQuotaTree: true}}
"""


class KoordinatorWorld:
    """The control plane, koord-scheduler, and both programs; `reset` makes it a new cluster.

    Args:
        parks: Whether the chart's admission policies are in force, with a quota for held pods.
    """

    def __init__(self, *, parks: bool = False) -> None:
        self._stack = ExitStack()
        self._has_trees = False
        self.parks = parks

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            program = require_tool(KOORD_SCHEDULER)
            cluster = QueueWorld(require_binaries(), jobs=True, kube_scheduler=False, nodes=0)
            self.cluster = stack.enter_context(cluster)
            self.api = self.cluster.api
            prepare(self.cluster.plane)
            # A kind is served a moment after its CRD is.
            assert within(PRESENT_SECONDS, self._serves_kinds), "its CRDs are not served"
            if self.parks:
                self._apply_policies()
            folder = self.cluster.folder / "koordinator"
            folder.mkdir()
            self._trees_config = folder / "several-trees.yaml"
            self._trees_config.write_text(SEVERAL_TREES)
            guardian = Guardian(folder)
            stack.callback(guardian.dismiss)
            self.koord = KoordScheduler(program, self.cluster.plane, folder, guardian)
            stack.callback(self.koord.stop)
            self.programs = {
                SCHEDULER: self._program(SCHEDULER, folder, guardian),
                CONTROLLERS: self._program(CONTROLLERS, folder, guardian, EXTENSIONS),
            }
            for each in self.programs.values():
                stack.callback(each.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _program(
        self, module: str, folder: Path, guardian: Guardian, *arguments: str
    ) -> ProgramProcess:
        return ProgramProcess(
            module,
            self.cluster.plane.kubeconfig,
            folder / f"{module}.log",
            ["--leader-elect=false", *arguments],
            group=guardian.group,
        )

    def _apply_policies(self) -> None:
        """Apply the chart's policies with a quota for held pods; return when they are in force."""
        kinds = ("MutatingAdmission", "ValidatingAdmission", "ElasticQuota")
        values = values_with("batchjob", *GATED, admissionPolicy={"parkingQuota": PARKING_QUOTA})
        made = [each for each in render(values) if each["kind"].startswith(kinds)]
        apply = ("apply", "--server-side", "--filename", "-")
        self.cluster.plane.kubectl(*apply, input=as_manifest(made))
        assert within(PRESENT_SECONDS, self._parks), "the policies are not in force"

    def _parks(self) -> bool:
        probe = pod_body("probe", "", {"cpu": 1}, gated=True)
        made = self.api.request("POST", f"{PODS}?dryRun=All", probe)
        return bool(made["metadata"]["labels"].get(QUOTA_LABEL) == PARKING_QUOTA)

    def reset(
        self, node: Mapping[str, str], quotas: Iterable[Json], *, has_trees: bool = False
    ) -> None:
        """Delete everything, and start all programs anew beside one node and these quotas.

        koord-scheduler's books depend on the order in which it learns of quotas and pods: each
        scenario begins with a new one. With `has_trees`, it and the scheduler know several trees.
        """
        for each in self.programs.values():
            each.stop()
        self.koord.stop()
        self._delete_all()
        cpu, memory = node.get("cpu", "10"), node.get("memory", "40Gi")
        others = {key: each for key, each in node.items() if key not in {"cpu", "memory"}}
        self.cluster.plane.create_nodes(1, cpu=cpu, memory=memory, extra_resources=others)
        for body in quotas:
            self.api.request("POST", QUOTAS.format("default"), body)
        self._has_trees = has_trees
        self.koord.start(TREES_GATE if has_trees else "")
        for name in self.programs:
            self._start(name)
        for each in self.programs.values():
            each.wait_until_ready()

    def restart(self, name: str) -> None:
        """Kill one of our programs, as a crash would, and start it again."""
        self.programs[name].kill()
        self._start(name)
        self.programs[name].wait_until_ready()

    def _start(self, name: str) -> None:
        knows_trees = self._has_trees and name == SCHEDULER
        self.programs[name].start(*([f"--config={self._trees_config}"] if knows_trees else []))

    def check_alive(self) -> None:
        """Check that all programs run.

        Raises:
            KoordSchedulerFailed: koord-scheduler has ended.
            ProgramFailed: One of ours has.
        """
        self.koord.check_alive()
        for module, each in self.programs.items():
            if each.exit_code() is not None:
                raise ProgramFailed(f"{module} has ended:\n{each.log()[-3000:]}")

    def _delete_all(self) -> None:
        self.api.request("DELETE", JOBS.format("default"), {"propagationPolicy": "Background"})
        self.api.request("DELETE", f"{PODS}?gracePeriodSeconds=0")
        self.api.request("DELETE", NODES)
        for name in (each["metadata"]["name"] for each in self.quotas()):
            if name not in SPECIAL:
                self.api.request("DELETE", f"{QUOTAS.format('default')}/{name}")
        for unit in self.cluster.units():
            path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
            # Whoever would take its finalizers off does not run.
            name, body = unit["metadata"]["name"], {"metadata": {"finalizers": None}}
            self._if_there("PATCH", f"{path}/{name}", body)
            self._if_there("DELETE", f"{path}/{name}")
        assert within(PRESENT_SECONDS, self._is_empty), "something is left of the last scenario"

    def _serves_kinds(self) -> bool:
        try:
            self.cluster.units()
            self.quotas()
        except ApiError as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False
        return True

    def _is_empty(self) -> bool:
        for job in self.api.request("GET", JOBS.format("default"))["items"]:
            body = {"metadata": {"finalizers": None}}
            self._if_there("PATCH", f"{JOBS.format('default')}/{job['metadata']['name']}", body)
        left = [PODS, JOBS.format("default"), NODES]
        return not any(self.api.request("GET", path)["items"] for path in left)

    def _if_there(self, method: str, path: str, body: Json | None = None) -> None:
        try:
            self.api.request(method, path, body, content_type=MERGE)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise

    # --- objects ------------------------------------------------------------------------------

    def quotas(self) -> list[Json]:
        """Return all ElasticQuotas of the namespace."""
        found: list[Json] = self.api.request("GET", QUOTAS.format("default"))["items"]
        return found

    def patch_quota(self, name: str, body: Json) -> None:
        """Patch an ElasticQuota by a merge patch."""
        path = f"{QUOTAS.format('default')}/{name}"
        self.api.request("PATCH", path, body, content_type=MERGE)

    def create_pod(
        self, name: str, quota: str, requests: Mapping[str, Amount], **more: Any
    ) -> None:
        """Create a pod that runs until it is deleted; `pod_body` says what `more` may be."""
        self.api.request("POST", PODS, pod_body(name, quota, requests, **more))

    def delete_pod(self, name: str) -> None:
        """Delete a pod, without its grace; it may be gone."""
        self._if_there("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")

    def resize_pod(self, pod: Json, cpu: str) -> None:
        """Resize a pod in place; its status says before that its node can."""
        path = f"{PODS}/{pod['metadata']['name']}"
        resources: Json = pod["spec"]["containers"][0]["resources"]
        said = {"name": "main", "resources": resources, "image": "", "imageID": ""}
        status = {"containerStatuses": [{**said, "ready": True, "restartCount": 0}]}
        self.api.request("PATCH", f"{path}/status", {"status": status}, content_type=STRATEGIC)
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        body = {"spec": {"containers": [container]}}
        self.api.request("PATCH", f"{path}/resize", body, content_type=STRATEGIC)

    def create_job(
        self, name: str, quota: str, requests: Mapping[str, Amount], **more: Any
    ) -> None:
        """Create a suspended Job whose pods ask for this; `run_seconds` is long by default."""
        container = {"name": "main", "image": "none", "resources": resources(requests)}
        more.setdefault("run_seconds", LONG_SECONDS)
        self.cluster.create_job(name, quota, pod_spec={"containers": [container]}, **more)

    def pods(self) -> list[Json]:
        """Return all pods of the namespace."""
        found: list[Json] = self.api.request("GET", PODS)["items"]
        return found

    def pods_of(self, job: str) -> list[Json]:
        """Return the pods of a Job; of a pod that is no Job's, itself."""
        return [
            each
            for each in self.pods()
            if job in (each["metadata"]["name"], each["metadata"].get("labels", {}).get("job-name"))
        ]


def resources(requests: Mapping[str, Amount]) -> Json:
    """Return the `resources` of a container; devices need limits, too."""
    texts = {key: str(each) for key, each in requests.items()}
    return {"requests": texts, "limits": {key: texts[key] for key in texts if "/" in key}}


def pod_body(
    name: str,
    quota: str,
    requests: Mapping[str, Amount],
    *,
    gated: bool = False,
    labels: Mapping[str, str] | None = None,
    run_seconds: float = 0,
    **spec: Any,
) -> Json:
    """Return a pod; `quota` "" names none, `gated` is by the queue's gate; `run_seconds` end it."""
    named = {QUOTA_LABEL: quota} if quota else {}
    held = {"schedulingGates": [{"name": GATE}]} if gated else {}
    queued = {QUEUE: quota} if gated else {}
    container = {"name": "main", "image": "none", "resources": resources(requests)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {**named, **queued, **(labels or {})},
            "annotations": {RUN_SECONDS: str(run_seconds)} if run_seconds else {},
        },
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never" if run_seconds else "Always",
            **held,
            **spec,
        },
    }


def quota_body(
    name: str,
    maximum: Mapping[str, Amount],
    minimum: Mapping[str, Amount] | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """Return an ElasticQuota of the namespace `default`."""
    spec = {"max": _texts(maximum), **({"min": _texts(minimum)} if minimum else {})}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": spec,
    }


def _texts(amounts: Mapping[str, Amount]) -> dict[str, str]:
    return {key: str(each) for key, each in amounts.items()}


def is_bound(pod: Json) -> bool:
    """Return whether a pod is assigned to a node."""
    return bool(pod["spec"].get("nodeName"))
