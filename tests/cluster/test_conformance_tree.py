"""Upstream's lists about its tree plugin, on a real API server with an ElasticQuotaTree.

Ids in brackets stand for tests of upstream's (upstream/README.md). Units are made by hand; the
test alone plays the controllers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.testing.object_builders import (
    elastic_quota_tree_body,
    namespace_body,
    queue_unit_body,
    tree_node,
)
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import MERGE, UNITS, QueueWorld, quota_view, reason_of, unit_view
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of
from tests.sample_jobs import crd
from tests.waiting import until

TREES: Final = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"
TREE_LABEL: Final = "quota.scheduling.alibabacloud.com/name"
JOBS: Final = "koord-queue/max-jobs"
CHECKS: Final = ("ad1", "ad2")

Json = dict[str, Any]


def limited(cpu: int, jobs: int = 0) -> Json:
    """Return the limits of a node."""
    return {"max": {"cpu": cpu, **({JOBS: jobs} if jobs else {})}}


def the_tree() -> Json:
    """Upstream's tree, with the quota of its suite on checks, which has a tree of its own there."""
    first = tree_node(
        "child1",
        tree_node("child1_1", namespaces=["quota-1-1"], **limited(10)),
        tree_node("child1_2", namespaces=["quota-1-2"], **limited(5)),
        **limited(15),
    )
    second = tree_node(
        "child2",
        tree_node("child2_1", **limited(3, 2)),
        tree_node("child2_2", **limited(3, 1)),
        **limited(6, 2),
    )
    checked = tree_node("quota1", namespaces=["default"], **limited(100))
    return elastic_quota_tree_body(tree_node("root", first, second, checked, **limited(121)))


class TreeWorld:
    """A scheduler over one tree, and the controllers' writes to its units."""

    def __init__(self, world: QueueWorld) -> None:
        self._api = world.api
        config = world.folder / "tree.yaml"
        config.write_text(
            "apiVersion: scheduling.k8s.io/v1\n"
            "kind: KoordQueueConfiguration\n"
            "plugins: [{name: Priority}, {name: ElasticQuota}]\n"
        )
        self.scheduler: ProgramProcess = world.start_scheduler(
            "--leader-elect=false", f"--config={config}"
        )

    def add(self, name: str, leaf: str, *, count: int = 1, cpu: int = 1) -> None:
        """Create a unit of a leaf: by its namespace where one is listed, else by label."""
        namespace = {"child1_1": "quota-1-1", "child1_2": "quota-1-2"}.get(leaf, "other")
        labels = {} if namespace != "other" else {TREE_LABEL: leaf}
        body = queue_unit_body(
            name,
            namespace=namespace,
            requests={"cpu": cpu},
            count=count,
            metadata={"labels": labels},
        )
        self._api.request("POST", UNITS.format(namespace), body)

    def patch(self, path: str, name: str, body: Json) -> None:
        namespace = path.removesuffix("/status")
        suffix = path.removeprefix(namespace)
        target = f"{UNITS.format(namespace)}/{name}{suffix}"
        self._api.request("PATCH", target, body, content_type=MERGE)

    def status(self, name: str, namespace: str) -> Json:
        found = self._api.request("GET", f"{UNITS.format(namespace)}/{name}").get("status", {})
        return dict(found)

    def unit_of(self, name: str, namespace: str) -> Json:
        found: Json = self._api.request("GET", f"{UNITS.format(namespace)}/{name}")
        return found

    def has_started(self, name: str, namespace: str) -> bool:
        return self.status(name, namespace)["phase"] in {"Dequeued", "Running"}

    def uses(self, quota: str) -> tuple[str, str]:
        """Return a node's usage as (jobs, cpu), as the debug API shows it."""
        used = quota_view(self.scheduler, quota).get("used", {})
        return used.get(JOBS, "0"), used.get("cpu", "0")

    def has_in_use(self, quota: str, jobs: str, cpu: str) -> bool:
        return self.uses(quota) == (jobs, cpu)

    def refusal(self, name: str, namespace: str) -> tuple[str, str, str, str, str, str]:
        """Return why a unit waits: reason, resource, quota, requested, limit, used."""
        found = unit_view(self.scheduler, name, namespace).get("refusal") or {}
        keys = ("reason", "resource", "quota", "requested", "limit", "used")
        reason, resource, quota, requested, limit, used = (str(found.get(key)) for key in keys)
        return reason, resource, quota, requested, limit, used


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    with QueueWorld(controlplane_binaries) as world:
        install_crds(world.plane, crd("elasticquotatrees"))
        for name in ("quota-1-1", "quota-1-2", "other"):
            world.api.request("POST", "/api/v1/namespaces", namespace_body(name))
        world.api.request("POST", TREES, the_tree())
        yield world


@pytest.fixture(scope="module")
def trees(world: QueueWorld) -> TreeWorld:
    return TreeWorld(world)


LEAVES: Final = {
    "child1_1": ("root/child1/child1_1", "quota-1-1"),
    "child1_2": ("root/child1/child1_2", "quota-1-2"),
    "child2_1": ("root/child2/child2_1", "other"),
    "child2_2": ("root/child2/child2_2", "other"),
}


def test_the_tree_scenario(world: QueueWorld, trees: TreeWorld) -> None:
    """[tree] One job of 2 cpu in each leaf; more is refused with upstream's sums.

    Upstream calls its plugin; its `Reserve` is a unit's admission, its `Unreserve` the unit's end.
    """
    for leaf, (path, namespace) in LEAVES.items():
        trees.add(f"job-{leaf.replace('_', '-')}", leaf, count=2)
        until(partial(trees.has_in_use, path, "1", "2"))
        until(partial(trees.has_started, f"job-{leaf.replace('_', '-')}", namespace))
    trees.add("cpu-4", "child1_2", cpu=4)
    over_max = ("OverQuotaMax", "cpu", "root/child1/child1_2", "4", "5", "2")
    until(lambda: trees.refusal("cpu-4", "quota-1-2") == over_max)
    trees.add("second-job", "child2_2")
    of_leaf = ("OverMaxJobs", JOBS, "root/child2/child2_2", "1", "1", "1")
    until(lambda: trees.refusal("second-job", "other") == of_leaf)
    trees.add("third-job", "child2_1")
    of_parent = ("OverMaxJobs", JOBS, "root/child2", "1", "2", "2")
    until(lambda: trees.refusal("third-job", "other") == of_parent)
    for name in ("second-job", "third-job"):
        world.api.request("DELETE", f"{UNITS.format('other')}/{name}")
    end = {"status": {"phase": "Succeed", "admissions": []}}
    trees.patch("other/status", "job-child2-1", end)
    until(lambda: trees.uses("root/child2/child2_1") == ("0", "0"))


def test_a_job_of_a_tree_changes_its_size(trees: TreeWorld) -> None:
    """[tree] 4 replicas become 2, and 0 become 2: 2 cpu of one job in use, either way.

    Upstream's test calls `Resize` with the new counts. Here the controllers write them into the
    unit; one of no pods that comes to request some is granted them like any pending unit.
    """
    quota, namespace = LEAVES["child1_1"]
    before = int(trees.uses(quota)[1])
    trees.add("shrinks", "child1_1", count=4)
    until(lambda: trees.uses(quota)[1] == str(before + 4))
    name = trees.unit_of("shrinks", namespace)["spec"]["podSet"][0]["name"]
    pods = trees.unit_of("shrinks", namespace)["spec"]["podSet"][0]
    trees.patch(namespace, "shrinks", {"spec": {"podSet": [{**pods, "count": 2}]}})
    lowered = [{"name": name, "replicas": 2, "running": 0}]
    trees.patch(f"{namespace}/status", "shrinks", {"status": {"admissions": lowered}})
    until(lambda: trees.uses(quota)[1] == str(before + 2))
    end = {"status": {"phase": "Succeed", "admissions": []}}
    trees.patch(f"{namespace}/status", "shrinks", end)
    until(lambda: trees.uses(quota)[1] == str(before))
    jobs = int(trees.uses(quota)[0])
    trees.add("comes", "child1_1", count=0)
    until(lambda: trees.has_started("comes", namespace))
    trees.patch(namespace, "comes", {"spec": {"podSet": [{**pods, "count": 2}]}})
    until(lambda: trees.uses(quota) == (str(jobs + 1), str(before + 2)))
    until(lambda: trees.status("comes", namespace)["admissions"][0]["replicas"] == 2)


def test_checks_of_a_tree(world: QueueWorld, trees: TreeWorld) -> None:
    """[K1 to K5] Eight units of quota1, whose queue is found by its path, and two checks."""
    (queue,) = until(lambda: queues_of(world, "root/quota1"))
    asks = {"spec": {"admissionChecks": [{"name": name} for name in CHECKS]}}
    world.patch_queue(queue, asks)
    until(lambda: ready_reason(world, queue).startswith("AdmissionCheck"))
    for number in range(1, 9):
        body = queue_unit_body(f"qu{number}")
        if number <= 4:
            body["spec"] = {"request": {"cpu": "1"}}
        world.api.request("POST", UNITS.format("default"), body)
    for number in range(1, 9):
        until(partial(is_reserved, world, f"qu{number}"))
        assert states(world, f"qu{number}") == dict.fromkeys(CHECKS, "Pending")
    # First the one without an effect: the effects of the others come after it.
    said = {
        "qu4": ("Pending", "Ready"),
        "qu1": ("Ready", "Ready"),
        "qu2": ("Ready", "Rejected"),
        "qu3": ("Ready", "Retry"),
    }
    for name, answers in said.items():
        entries = [
            {**entry, "state": state}
            for entry, state in zip(
                world.unit(name)["status"]["admissionChecks"], answers, strict=True
            )
        ]
        body = {"status": {"admissionChecks": entries}}
        trees.patch("default/status", name, body)
    until(lambda: world.phase("qu1") == "Dequeued")
    until(lambda: world.phase("qu2") == "TimeoutBackoff")
    until(lambda: world.phase("qu3") == "TimeoutBackoff")
    assert world.phase("qu4") == "Reserved"


def test_a_tree_that_is_deleted_and_created_again(world: QueueWorld, trees: TreeWorld) -> None:
    """[tree] Without it there is no quota; when it is created again, units start."""
    world.api.request("DELETE", f"{TREES}/elasticquotatree")
    trees.add("early", "child1_1")
    until(lambda: reason_of(trees.unit_of("early", "quota-1-1")) == "NoQuota")
    world.api.request("POST", TREES, the_tree())
    until(lambda: trees.has_started("early", "quota-1-1"))


def queues_of(world: QueueWorld, path: str) -> list[str]:
    """Return the names of the queues of a node."""
    items = world.queues()
    marked = ((q["metadata"]["name"], q["metadata"].get("annotations", {})) for q in items)
    return [name for name, marks in marked if marks.get("koord-queue/quota-fullname") == path]


def ready_reason(world: QueueWorld, queue: str) -> str:
    """Return the reason of a queue's condition Ready."""
    found = world.queue(queue)
    return str(condition_of(found, "Ready").get("reason", ""))


def is_reserved(world: QueueWorld, unit: str) -> bool:
    return world.phase(unit) == "Reserved"


def states(world: QueueWorld, unit: str) -> dict[str, str]:
    """Return the states of a unit's checks."""
    entries = world.unit(unit)["status"].get("admissionChecks", [])
    return {entry["name"]: entry["state"] for entry in entries}
