"""The cache of a kind: without it, with it, and with an object that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shared_api.crds import QUOTA_POLICY
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE

READY_CHECK = "quotapolicies-synced"


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world(policies=False) as found:
        yield found


def serve(world: SchedulerWorld, **schema_of_limits: Any) -> None:
    """Install the CRD, with this schema of the spec's `userLimits` if there is one."""
    crd = QUOTA_POLICY.body()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    spec["userLimits"] = schema_of_limits or spec["userLimits"]
    world.direct.create(crd)


def check(world: SchedulerWorld) -> tuple[bool, str]:
    assert world.scheduler is not None
    return world.scheduler.ready_checks()[READY_CHECK]()


def test_the_program_is_ready_without_the_kind(world: SchedulerWorld) -> None:
    world.start()
    ok, detail = check(world)
    assert ok
    assert detail == "QuotaPolicy (scheduling.x-k8s.io) is not served, waiting for its CRD"


def test_the_program_is_ready_once_the_policies_are_cached(world: SchedulerWorld) -> None:
    serve(world)
    world.start()
    assert check(world)[0]


def test_a_policy_that_cannot_be_decoded_has_a_condition_and_an_event(
    world: SchedulerWorld,
) -> None:
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    serve(world, **open_schema)
    spec = {"quotas": ["team"], "userLimits": {"users": "ann"}}
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": "p", "namespace": QUEUE_NAMESPACE},
        "spec": spec,
    }
    world.direct.create(body)
    world.add_quota()
    world.add_unit("u")
    world.start(settle_seconds=5.0)
    found = world.direct.get("quotapolicies", "p", QUEUE_NAMESPACE)
    assert condition_of(found, "Ready")["reason"] == "Unreadable"
    assert ("p", "Unreadable") in world.events()
    assert world.phase("u") == "Dequeued"
