"""QuotaPolicies beside the running scheduler: what a real API server keeps of their status."""

from __future__ import annotations

from functools import partial

import pytest

from tests.cluster.queue_world import MERGE, QUEUE_NAMESPACE, QueueWorld
from tests.controlplane.api_client import ApiError
from tests.object_states import condition_of
from tests.waiting import until

POLICIES = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{QUEUE_NAMESPACE}/quotapolicies"
FOUR = {"users": ["ann"], "running": 4}
TOO_LARGE = {"users": ["ann"], "max": {"cpu": "1e300"}}


def create(world: QueueWorld, name: str, *quotas: str) -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": name},
        "spec": {"quotas": list(quotas), "userLimits": [FOUR]},
    }
    world.api.request("POST", POLICIES, body)


def ready(world: QueueWorld, name: str) -> tuple[str, int]:
    """Return the reason of the condition, and the generation that it is about."""
    condition = condition_of(world.api.request("GET", f"{POLICIES}/{name}"), "Ready")
    return condition.get("reason", ""), condition.get("observedGeneration", 0)


def test_a_policy_follows_its_quota_and_its_edits(world: QueueWorld) -> None:
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


def test_the_younger_of_two_policies_is_in_conflict(world: QueueWorld) -> None:
    world.create_quota("both", cpu_max=1)
    create(world, "a-first", "both")
    create(world, "b-second", "both", "unknown")
    until(lambda: ready(world, "b-second") == ("Conflict", 1))
    assert ready(world, "a-first")[0] in {"", "Ready"}
    world.api.request("DELETE", f"{POLICIES}/a-first")
    until(lambda: ready(world, "b-second") == ("QuotaMissing", 1))
