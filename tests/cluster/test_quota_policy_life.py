"""QuotaPolicies beside the running scheduler: what a real API server keeps of their status."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.charts.render import as_manifest, of_kind, render
from tests.cluster.queue_world import MERGE, QUEUE_NAMESPACE, QueueWorld
from tests.cluster.rbac_objects import binding
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import KubectlFailed
from tests.object_states import condition_of
from tests.waiting import until

POLICIES = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{QUEUE_NAMESPACE}/quotapolicies"
FOUR = {"users": ["ann"], "running": 4}
TOO_LARGE = {"users": ["ann"], "max": {"cpu": "1e300"}}


def create(world: QueueWorld, name: str, *quotas: str, **spec: Any) -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": name},
        "spec": {"quotas": list(quotas), "userLimits": [FOUR], **spec},
    }
    world.api.request("POST", POLICIES, body)


def ready(world: QueueWorld, name: str) -> tuple[str, int]:
    """Return the reason of the condition, and the generation that it is about."""
    condition = condition_of(world.api.request("GET", f"{POLICIES}/{name}"), "Ready")
    return condition.get("reason", ""), condition.get("observedGeneration", 0)


def test_policy_objects_follow_their_quota_and_their_edits(world: QueueWorld) -> None:
    create(world, "p", "limited")
    until(lambda: ready(world, "p") == ("QuotaMissing", 1))
    world.create_quota("limited", cpu_max=1)
    until(lambda: ready(world, "p") == ("Ready", 1))
    patch = partial(world.api.request, "PATCH", f"{POLICIES}/p", content_type=MERGE)
    patch({"spec": {"userLimits": [TOO_LARGE]}})
    until(lambda: ready(world, "p") == ("UnreadableLimit", 2))
    found = world.api.request("GET", f"{POLICIES}/p")
    assert found["status"]["userLimitsInForce"] == [FOUR]
    with pytest.raises(ApiError, match="set at least one of"):
        patch({"spec": {"userLimits": [{"users": ["ann"]}]}})


def test_policy_objects_of_one_quota_are_in_conflict(world: QueueWorld) -> None:
    world.create_quota("both", cpu_max=1)
    create(world, "a-first", "both")
    create(world, "b-second", "both", "unknown")
    until(lambda: ready(world, "b-second") == ("Conflict", 1))
    assert ready(world, "a-first")[0] in {"", "Ready"}
    world.api.request("DELETE", f"{POLICIES}/a-first")
    until(lambda: ready(world, "b-second") == ("QuotaMissing", 1))


def share_of(world: QueueWorld, queue: str) -> Any:
    return world.queue(queue)["spec"].get("fairShare")


SHARE = {"levels": ["namespace"], "halfLife": "24h", "resourceWeights": {"cpu": 1}}


def test_policy_objects_state_the_queues_of_their_quotas(world: QueueWorld) -> None:
    """What is edited by hand is put back; what no policy states any more is taken away."""
    world.create_quota("stated", cpu_max=1)
    until(lambda: world.has_queue("stated"))
    create(world, "fair", "stated", queue={"fairShare": SHARE})
    until(lambda: share_of(world, "stated") == SHARE)
    annotations = world.queue("stated")["metadata"]["annotations"]
    assert annotations["koord-queue/fair-share-from"] == "fair"
    edits = ({"halfLife": "1h"}, {"levels": None}, {"resourceWeights": {"memory": 2}})
    for edit in ({"fairShare": each} for each in edits):
        world.patch_queue("stated", {"spec": edit})
        until(lambda: share_of(world, "stated") == SHARE)
    world.patch_queue("stated", {"spec": {"fairShare": None}})
    until(lambda: share_of(world, "stated") == SHARE)
    world.patch_queue("stated", {"spec": {"priority": 7}})
    world.api.request("DELETE", f"{POLICIES}/fair")
    until(lambda: share_of(world, "stated") is None)
    left = world.queue("stated")
    assert left["spec"]["priority"] == 7, "what no policy states is left to the queue's users"
    assert "koord-queue/fair-share-from" not in left["metadata"].get("annotations", {})


def test_policy_objects_of_another_namespace_count_for_nothing(world: QueueWorld) -> None:
    world.create_quota("elsewhere", cpu_max=1)
    until(lambda: world.has_queue("elsewhere"))
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": "a"},
        "spec": {"quotas": ["elsewhere"], "queue": {"fairShare": SHARE}},
    }
    world.api.request("POST", POLICIES.replace(QUEUE_NAMESPACE, "default"), body)
    # A policy that does count, made later: once it is followed, the other one was seen.
    create(world, "b", "elsewhere", queue={"fairShare": {"halfLife": "2h"}})
    until(lambda: share_of(world, "elsewhere") == {"halfLife": "2h"})
    until(lambda: ready(world, "b")[0] == "Ready")


def may(world: QueueWorld, verb: str, kind: str) -> bool:
    """Return whether ed may, who has `edit` in the namespace of the queues."""
    try:
        world.plane.kubectl(
            "auth", "can-i", verb, kind, "--as=ed", f"--namespace={QUEUE_NAMESPACE}"
        )
    except KubectlFailed:
        return False
    return True


def test_policy_objects_are_for_administrators(world: QueueWorld) -> None:
    """Whoever has `edit` where they count may edit the queues there, and read policies."""
    create(world, "rules", "busy")
    roles = of_kind(render(), "ClusterRole").values()
    objects = [*roles, binding("edit", "ed", QUEUE_NAMESPACE)]
    world.plane.kubectl("apply", "--filename", "-", input=as_manifest(objects))
    until(lambda: may(world, "patch", "queues") and may(world, "get", "quotapolicies"))
    kubectl = partial(world.plane.kubectl, "--as=ed", f"--namespace={QUEUE_NAMESPACE}")
    assert "rules" in kubectl("get", "quotapolicies")
    patch = ("patch", "quotapolicies", "rules", "--type=merge", "--patch")
    mine = {"kind": "QuotaPolicy", "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
    body = as_manifest([mine | {"metadata": {"name": "mine"}, "spec": {"quotas": ["busy"]}}])
    for write, sent in (
        ((*patch, '{"spec": {"userLimits": []}}'), ""),
        ((*patch, '{"status": {"userLimitsInForce": []}}', "--subresource=status"), ""),
        (("delete", "quotapolicies", "rules"), ""),
        (("create", "--filename", "-"), body),
    ):
        with pytest.raises(KubectlFailed, match="Forbidden"):
            kubectl(*write, input=sent)
