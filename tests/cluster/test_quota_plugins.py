"""Trees and ResourceQuotas on a real API server, with both programs and the Job controller.

The scheduler has exactly the rights that the chart gives it for these plugins.

Ids in brackets stand for tests of upstream's (upstream/README.md). What those do with jobs of
Kubeflow is done with batch/v1 Jobs of the same pods as well, which need no played operator.
Those of [E...] are upstream's shell scripts, with its tree, and Jobs that name a queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.testing.object_builders import (
    elastic_quota_tree_body,
    namespace_body,
    queue_unit_body,
    resource_quota_body,
    tree_node,
)
from shared_api.well_known_labels import TREE_QUOTA_NAME
from tests.charts.render import as_manifest, rights
from tests.cluster.played_operators import Operator
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import JOBS, MERGE, UNITS, QueueWorld, reason_of, unit_view
from tests.cluster.served_kinds import install_crds
from tests.sample_jobs import crd
from tests.waiting import STILL_SECONDS, until

TREES: Final = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
ACCOUNT: Final = "queue-account"
CHECK_AVAILABLE: Final = "--feature-gates=ElasticQuotaTreeCheckAvailableQuota=true"
SUSPEND: Final = {"scheduling.x-k8s.io/suspend": "true"}
TRAINING_JOBS: Final = "/apis/kubeflow.org/v1/namespaces/{}/{}"
ROLES_OF: Final = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
}
"""The field of a kind's roles, and the name of their container."""

Json = dict[str, Any]


class PluginWorld:
    """A world whose scheduler can be restarted with other plugins."""

    def __init__(self, world: QueueWorld) -> None:
        self.world = world
        self._scheduler: ProgramProcess | None = None

    def use(
        self, *plugins: str, arguments: Sequence[str] = (), configs: str = "{}"
    ) -> ProgramProcess:
        """Replace the scheduler by one with these plugins."""
        if self._scheduler is not None:
            self._scheduler.stop()
        values = {"pluginConfigs": {"plugins": [{"name": name} for name in plugins]}}
        roles = as_manifest(rights("scheduler", user=ACCOUNT, values=values))
        self.world.plane.kubectl("apply", "--filename", "-", input=roles)
        config = self.world.folder / "plugins.yaml"
        listed = ", ".join(f"{{name: {name}}}" for name in ("Priority", *plugins))
        config.write_text(
            "apiVersion: scheduling.k8s.io/v1\n"
            "kind: KoordQueueConfiguration\n"
            f"plugins: [{listed}]\n"
            f"pluginConfigs: {configs}\n"
        )
        common = ("--leader-elect=false", f"--config={config}")
        self._scheduler = self.world.start_scheduler(*common, *arguments, user=ACCOUNT)
        return self._scheduler

    @property
    def scheduler(self) -> ProgramProcess:
        """The running scheduler."""
        assert self._scheduler is not None
        return self._scheduler

    def put_tree(self, root: Json) -> None:
        """Create the only tree, in place of the one before."""
        trees = self.world.api.request("GET", TREES)["items"]
        for tree in trees:
            self.world.api.request("DELETE", f"{TREES}/{tree['metadata']['name']}")
        self.world.api.request("POST", TREES, elastic_quota_tree_body(root))

    def create_namespace(self, name: str) -> None:
        self.world.api.request("POST", "/api/v1/namespaces", namespace_body(name))

    def create_job(self, name: str, namespace: str, *, pods: int, cpu: str, memory: str) -> None:
        """Create a Job that is to be queued."""
        requests = {"cpu": cpu, "memory": memory}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        self.world.create_job(
            name,
            "",
            namespace=namespace,
            annotations=SUSPEND,
            pod_spec={"containers": [container]},
            run_seconds=3,
            parallelism=pods,
            completions=pods,
        )

    def create_training_job(
        self, kind: str, name: str, namespace: str, *, cpu: str, **replicas: int
    ) -> None:
        """Create a job of Kubeflow, by roles, that is to be queued."""
        field, container = ROLES_OF[kind]
        requests = {"cpu": cpu, "memory": "1Gi"}
        containers = [{"name": container, "image": "none", "resources": {"requests": requests}}]
        template = {"spec": {"containers": containers}}
        roles = {role: {"replicas": n, "template": template} for role, n in replicas.items()}
        metadata = {"name": name, "annotations": SUSPEND}
        body = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": metadata}
        body["spec"] = {field: roles}
        path = TRAINING_JOBS.format(namespace, f"{kind.lower()}s")
        self.world.api.request("POST", f"{path}?fieldValidation=Strict", body)

    def is_suspended(self, kind: str, name: str, namespace: str) -> bool:
        """Return whether such a job is suspended by its own field."""
        path = TRAINING_JOBS.format(namespace, f"{kind.lower()}s")
        spec = self.world.api.request("GET", f"{path}/{name}")["spec"]
        return spec.get("runPolicy", {}).get("suspend") is True

    def unit(self, name: str, namespace: str) -> Json:
        """Return a unit by its name, {} while there is none."""
        units = self.world.api.request("GET", UNITS.format(namespace))["items"]
        return next((each for each in units if each["metadata"]["name"] == name), {})

    def phase_of_unit(self, name: str, namespace: str) -> str:
        return str(self.unit(name, namespace).get("status", {}).get("phase", ""))

    def create_small_tree(self, namespace: str) -> None:
        """Create a tree that gives a namespace two cores."""
        limits: dict[str, Any] = {"cpu": 2, "memory": "2Gi", "koord-queue/max-jobs": 10}
        self.create_namespace(namespace)
        child = tree_node("child-2", namespaces=[namespace], max=limits, min=limits)
        self.put_tree(tree_node("root", child, max={"cpu": 100}, min={"cpu": 100}))
        self.use("ElasticQuota", arguments=[CHECK_AVAILABLE])

    def create_shared_quota(self, namespace: str, configs: str = "{}") -> str:
        """Create a ResourceQuota of four cores in a namespace; return its path."""
        hard = resource_quota_body("quota", namespace=namespace, hard={"cpu": 4, "memory": "4Gi"})
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        self.world.api.request("POST", path, hard)
        self.use("defaultgroup", "ResourceQuota", configs=configs)
        return f"{path}/quota"

    def job(self, name: str, namespace: str) -> Json:
        found: Json = self.world.api.request("GET", f"{JOBS.format(namespace)}/{name}")
        return found

    def active(self, name: str, namespace: str) -> int:
        """Return how many pods a Job has."""
        return int(self.job(name, namespace).get("status", {}).get("active", 0))

    def phase(self, job: str, namespace: str) -> str:
        return str(self.world.unit_of(job, namespace).get("status", {}).get("phase", ""))

    def reason(self, job: str, namespace: str) -> str:
        return reason_of(self.world.unit_of(job, namespace))


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[PluginWorld]:
    with QueueWorld(controlplane_binaries, jobs=True, users={ACCOUNT: ()}) as world:
        install_crds(world.plane, *map(crd, ("elasticquotatrees", "pytorchjobs", "tfjobs")))
        kinds = "--enabled-extensions=job,pytorchjob,tfjob"
        world.start_controllers("--leader-elect=false", kinds)
        yield PluginWorld(world)


def test_a_job_larger_than_its_namespaces_node_waits_and_one_that_fits_starts(
    world: PluginWorld,
) -> None:
    """[ctl-65, ctl-66] A unit of 20 cpu, 2 at most, is Enqueued; one of 2 is Dequeued and runs."""
    namespace = "small-node"
    world.create_small_tree(namespace)
    world.create_job("pending", namespace, pods=2, cpu="10", memory="1Gi")
    until(lambda: world.reason("pending", namespace) == "ExceedsQuota")
    world.create_job("running", namespace, pods=2, cpu="1", memory="1Gi")
    until(lambda: world.phase("running", namespace) in {"Dequeued", "Running", "Succeed"})
    until(lambda: world.phase("running", namespace) == "Succeed")
    assert world.phase("pending", namespace) == "Enqueued"
    assert world.job("pending", namespace)["spec"]["suspend"] is True


def test_ctl_65_ctl_66_the_same_with_pytorch_jobs(world: PluginWorld) -> None:
    """[ctl-65, ctl-66] With a master and a worker; the Dequeued one is resumed."""
    namespace = "koord-queue-e2e-test"
    world.create_small_tree(namespace)
    both = {"Master": 1, "Worker": 1}
    world.create_training_job("PyTorchJob", "pytorch-e2e-test", namespace, cpu="10", **both)
    unit = partial(world.unit, "pytorch-e2e-test-py-qu", namespace)
    until(lambda: reason_of(unit()) == "ExceedsQuota")
    world.create_training_job("PyTorchJob", "running", namespace, cpu="1", **both)
    until(lambda: world.phase_of_unit("running-py-qu", namespace) == "Dequeued")
    until(lambda: not world.is_suspended("PyTorchJob", "running", namespace))
    until(lambda: world.is_suspended("PyTorchJob", "pytorch-e2e-test", namespace))
    assert unit()["status"]["phase"] == "Enqueued"


def test_ctl_67_nodes_with_dots_get_queues_and_a_unit_by_hand_starts(world: PluginWorld) -> None:
    """[ctl-67] Each leaf has a queue of such a name; a unit whose job does not exist starts."""
    b1 = tree_node("root.b.1", max={"cpu": 140}, min={"cpu": 6})
    b2 = tree_node(
        "root.b.2",
        namespaces=["namespaceb2"],
        max={"cpu": 4, "memory": "20Gi"},
        min={"cpu": 2, "memory": "10Gi"},
    )
    root_a = tree_node("root.a", namespaces=["namespacea"], max={"cpu": 20}, min={"cpu": 12})
    world.create_namespace("namespaceb2")
    world.put_tree(tree_node("root", root_a, tree_node("root.b", b1, b2)))
    world.use("ElasticQuota")
    leaves = {"root-root.a", "root-root.b-root.b.1", "root-root.b-root.b.2"}
    until(lambda: queues(world).keys() == {*leaves, "root", "root-root.b"})
    linked = queues(world)["root-root.b-root.b.2"]["metadata"]["annotations"]
    assert linked["koord-queue/quota-fullname"] == "root/root.b/root.b.2"
    assert linked["koord-queue/parent-quota-fullname"] == "root/root.b"
    unit = queue_unit_body(
        "unit1",
        namespace="namespaceb2",
        requests={"cpu": 1, "memory": "100Mi"},
        consumerRef={"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "job1"},
    )
    world.world.api.request("POST", UNITS.format("namespaceb2"), unit)
    path = f"{UNITS.format('namespaceb2')}/unit1"
    until(lambda: world.world.api.request("GET", path)["status"]["phase"] == "Dequeued")


def test_a_job_that_names_the_node_of_others_waits_until_its_namespace_lists_it(
    world: PluginWorld,
) -> None:
    """With checks of namespaces; a job that names the node that lists its namespace starts."""
    amounts: dict[str, Any] = {"max": {"cpu": 9}, "min": {"cpu": 9}}
    for name in ("node-own", "node-strange"):
        world.create_namespace(name)
    leaf = tree_node("leaf", namespaces=["node-own"], **amounts)
    world.put_tree(tree_node("root", leaf, tree_node("idle", **amounts), **amounts))
    world.use("ElasticQuota", arguments=["--quota-namespaces=listed"])
    for job, namespace in (("strange", "node-strange"), ("own", "node-own")):
        labels = {TREE_QUOTA_NAME: "leaf"}
        world.world.create_job(job, "", namespace=namespace, labels=labels)
    until(lambda: world.reason("strange", "node-strange") == "QuotaNotInNamespace")
    until(lambda: world.phase("own", "node-own") == "Succeed")
    note = until(lambda: world.world.event_notes("strange", "Job").get("QuotaNotInNamespace"))
    assert "It cannot start: quota root/leaf is not available in namespace node-strange" in str(
        note
    )
    assert world.phase("strange", "node-strange") == "Enqueued"
    assert world.job("strange", "node-strange")["spec"]["suspend"] is True
    listed = {"koord-queue/available-quota-in-namespace": "root/leaf"}
    body = {"metadata": {"annotations": listed}}
    path = "/api/v1/namespaces/node-strange"
    world.world.api.request("PATCH", path, body, content_type=MERGE)
    until(lambda: world.phase("strange", "node-strange") == "Succeed")


def test_two_jobs_of_a_namespace_run_one_after_the_other(world: PluginWorld) -> None:
    """[ctl-68] Of 4 cpu, two jobs of 3 pods with a cpu each run in turn; both succeed."""
    namespace = "shared-quota"
    world.create_namespace(namespace)
    world.create_shared_quota(namespace)
    names = ("job1", "job2")
    for name in names:
        world.create_job(name, namespace, pods=3, cpu="1", memory="1Gi")
    until(lambda: {world.active(name, namespace) for name in names} == {0, 3})
    first, second = sorted(names, key=lambda name: -world.active(name, namespace))
    is_over = False
    while not is_over:
        has_begun = world.active(second, namespace) > 0
        # Checked afterwards: a job that has ended then may have run until just before.
        is_over = world.phase(first, namespace) == "Succeed"
        assert is_over or not has_begun
        time.sleep(0.1)
    until(lambda: {world.phase(name, namespace) for name in names} == {"Succeed"})


def test_a_job_that_lacks_what_every_pod_must_request_waits(world: PluginWorld) -> None:
    namespace = "required-requests"
    world.create_namespace(namespace)
    required = "{ResourceQuota: {requiredRequests: [cpu]}}"
    quota = world.create_shared_quota(namespace, configs=required)
    world.create_job("lacks", namespace, pods=1, cpu="0", memory="1Gi")
    until(lambda: world.reason("lacks", namespace) == "RequestsMissing")
    world.create_job("has", namespace, pods=1, cpu="1", memory="1Gi")
    until(lambda: world.phase("has", namespace) == "Succeed")
    assert world.phase("lacks", namespace) == "Enqueued"
    governed = {"spec": {"hard": {"cpu": None}}}
    world.world.api.request("PATCH", quota, governed, content_type=MERGE)
    until(lambda: world.phase("lacks", namespace) == "Succeed")


def test_ctl_68_two_tf_jobs_run_one_after_the_other(world: PluginWorld) -> None:
    """[ctl-68] A parameter server and two workers each; their operator is played."""
    namespace, kind, names = "default", "TFJob", {"job1", "job2"}
    quota = world.create_shared_quota(namespace)
    api = world.world.api
    path = TRAINING_JOBS.format(namespace, "tfjobs")
    operator = Operator(api, "tfjob", path, has_status_path=True)
    for name in sorted(names):
        world.create_training_job(kind, name, namespace, cpu="1", PS=1, Worker=2)
    waiting = partial(world.is_suspended, kind, namespace=namespace)

    def phases() -> dict[str, str]:
        return {world.phase_of_unit(f"{name}-tf-qu", namespace): name for name in names}

    until(lambda: phases().keys() == {"Dequeued", "Enqueued"})
    first, second = phases()["Dequeued"], phases()["Enqueued"]
    until(lambda: not waiting(first))
    operator.start(first, 3)
    until(lambda: world.phase_of_unit(f"{first}-tf-qu", namespace) == "Running")
    time.sleep(STILL_SECONDS)
    assert waiting(second)
    assert world.phase_of_unit(f"{second}-tf-qu", namespace) == "Enqueued"
    operator.end(first, succeeded=True)
    until(lambda: world.phase_of_unit(f"{first}-tf-qu", namespace) == "Succeed")
    until(lambda: not waiting(second))
    operator.start(second, 3)
    operator.end(second, succeeded=True)
    until(lambda: world.phase_of_unit(f"{second}-tf-qu", namespace) == "Succeed")
    api.request("DELETE", quota)


# --- upstream's shell scripts -------------------------------------------------------------------


class ShellScript:
    """The cluster of upstream's scripts: a tree, a queue by hand, and Jobs that name both.

    Args:
        world: the cluster; its scheduler is restarted.
        name: of the namespace, and of the queue.
        leaf: the node that the Jobs name, and that the queue accepts.
        policy: of the queue.
        annotations: more annotations of the queue.
    """

    def __init__(
        self, world: PluginWorld, name: str, leaf: str, policy: str, **annotations: str
    ) -> None:
        small: dict[str, Any] = {"cpu": 1, "memory": "1Gi", "koord-queue/max-jobs": 1}
        roomy: dict[str, Any] = {"cpu": 100, "memory": "100Gi", "koord-queue/max-jobs": 100}
        leaves = (tree_node("child-1", max=small), tree_node("child-2", max=roomy))
        self._world = world
        self._name = name
        self._leaf = leaf
        world.create_namespace(name)
        world.put_tree(tree_node("root", *leaves, max={"cpu": 999900}, min={"cpu": 999900}))
        takes = {f"koord-queue/{key}": value for key, value in annotations.items()}
        world.world.create_queue(name, policy, {"koord-queue/available-quota": leaf, **takes})
        world.use("ElasticQuota")

    def create(self, job: str, priority: int, *, pods: int = 1, **more: Any) -> None:
        """Create a suspended Job of pods of one cpu; it runs until the test is over."""
        said = {
            "koord-queue/queue-name": self._name,
            "scheduling.x-k8s.io/priority": str(priority),
        }
        self._world.world.create_job(
            job,
            "",
            namespace=self._name,
            labels={"quota.scheduling.alibabacloud.com/name": self._leaf},
            annotations=said,
            run_seconds=600,
            parallelism=pods,
            completions=pods,
            **more,
        )

    def waits_for(self, job: str, reason: str) -> None:
        """Wait until a Job's unit has this reason to wait."""
        until(lambda: self._world.reason(job, self._name) == reason)

    def phase(self, job: str) -> str:
        return self._world.phase(job, self._name)

    def is_suspended(self, job: str) -> bool:
        return self._world.job(job, self._name)["spec"]["suspend"] is True

    def queue_of(self, job: str) -> str:
        """Return the queue that a Job's unit is in, by the scheduler's view."""
        unit = self._world.world.unit_of(job, self._name)["metadata"]["name"]
        return str(unit_view(self._world.scheduler, unit, self._name).get("queue"))


def test_block_in_a_tree_holds_back_a_job_behind_one_that_never_fits(world: PluginWorld) -> None:
    """[E1] pi-1 requests twice what its node has; pi-2, behind it, stays suspended."""
    script = ShellScript(world, "e1", "child-1", "Block")
    script.create("pi-1", 3, pods=2)
    script.waits_for("pi-1", "ExceedsQuota")
    script.create("pi-2", 0)
    script.waits_for("pi-2", "BehindRefusedUnit")
    assert [script.queue_of(job) for job in ("pi-1", "pi-2")] == ["e1", "e1"]
    time.sleep(STILL_SECONDS)
    assert (script.phase("pi-2"), script.is_suspended("pi-2")) == ("Enqueued", True)


def test_priority_in_a_tree_lets_a_smaller_job_pass(world: PluginWorld) -> None:
    """[E2] The same load: pi-2 runs; it is the only job that its node may have."""
    script = ShellScript(world, "e2", "child-1", "Priority")
    script.create("pi-1", 3, pods=2)
    script.create("pi-2", 0)
    until(lambda: world.active("pi-2", "e2") == 1)
    assert (script.phase("pi-1"), script.is_suspended("pi-1")) == ("Enqueued", True)
    script.create("pi-3", 0, cpu="0")
    script.waits_for("pi-3", "OverMaxJobs")


def test_in_a_tree_with_waiting_for_pods_the_higher_job_goes_next(
    world: PluginWorld,
) -> None:
    """[E3] More room; Block, one at a time: pi-3, the latest, overtakes pi-2 behind pi-1."""
    waits = {"wait-for-pods-running": "true"}
    script = ShellScript(world, "e3", "child-2", "Block", **waits)
    script.create("pi-1", 0, pods=2, pod_spec={"nodeSelector": {"e3": "pi-1"}})
    until(lambda: script.phase("pi-1") == "Dequeued")
    script.create("pi-2", 0, pods=2)
    script.waits_for("pi-2", "WaitingForPodsRunning")
    script.create("pi-3", 9, pods=2, pod_spec={"nodeSelector": {"e3": "pi-3"}})
    script.waits_for("pi-3", "WaitingForPodsRunning")
    world.world.plane.kubectl("label", "node", "--all", "e3=pi-1")
    until(lambda: script.phase("pi-3") == "Dequeued")
    assert (script.phase("pi-2"), script.is_suspended("pi-2")) == ("Enqueued", True)


def queues(world: PluginWorld) -> dict[str, Json]:
    """Return all queues by name."""
    items: list[Json] = world.world.queues()
    return {each["metadata"]["name"]: each for each in items}
