"""Admission checks of the queue created for a node: upstream's suite over its tree plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared_api.testing.object_builders import elastic_quota_tree_body, queue_unit_body, tree_node
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.setup.test_quota_sources import plugins
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json
from tests.sample_jobs import crd

CHECKS = ("ad1", "ad2")
NAMES = tuple(f"qu{number}" for number in range(1, 9))


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    """Eight units of one CPU in quota1, half of them without pod sets; its queue has two checks."""
    with running_world() as found:
        found.direct.create(crd("elasticquotatrees"))
        node = tree_node("quota1", namespaces=["default"], max={"cpu": 100})
        found.direct.create(elastic_quota_tree_body(tree_node("root", node, max={"cpu": 100})))
        found.start(configuration=plugins("ElasticQuota"))
        (queue,) = (
            each["metadata"]["name"]
            for each in found.direct.list("queues")
            if each["metadata"]["annotations"]["koord-queue/quota-fullname"] == "root/quota1"
        )
        checks = {"spec": {"admissionChecks": [{"name": name} for name in CHECKS]}}
        found.direct.patch("queues", queue, checks, namespace=QUEUE_NAMESPACE)
        found.settle()
        for number, name in enumerate(NAMES):
            unit = queue_unit_body(name)
            if number < 4:
                unit["spec"] = {"request": {"cpu": 1}}
            found.direct.create(unit)
        found.settle(3.0)
        yield found


def states(world: SchedulerWorld, name: str) -> dict[str, str]:
    entries: list[Json] = world.unit(name)["status"].get("admissionChecks", [])
    return {entry["name"]: entry["state"] for entry in entries}


def answer(world: SchedulerWorld, name: str, *said: str) -> None:
    """Write the states of the checks, in their order, as their controllers would."""
    entries = [
        {
            "name": check,
            "state": state,
            "message": "",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
        }
        for check, state in zip(CHECKS, said, strict=True)
    ]
    status = {"status": {"admissionChecks": entries}}
    world.direct.patch("queueunits", name, status, namespace="default", subresource="status")
    world.settle(3.0)


def test_all_are_reserved_with_two_pending_checks(world: SchedulerWorld) -> None:
    """[K1] With pod sets or without."""
    for name in NAMES:
        assert world.phase(name) == "Reserved"
        assert states(world, name) == dict.fromkeys(CHECKS, "Pending")


@pytest.mark.parametrize(
    ("name", "said", "want"),
    [
        pytest.param("qu1", ("Ready", "Ready"), "Dequeued", id="K2"),
        pytest.param("qu2", ("Ready", "Rejected"), "TimeoutBackoff", id="K3"),
        pytest.param("qu3", ("Ready", "Retry"), "TimeoutBackoff", id="K4"),
        pytest.param("qu4", ("Pending", "Ready"), "Reserved", id="K5"),
    ],
)
def test_the_answers_of_the_checks_decide(
    world: SchedulerWorld, name: str, said: tuple[str, str], want: str
) -> None:
    answer(world, name, *said)
    assert world.phase(name) == want
