"""Bad input, one object at a time: its owner is told where they look, and all else goes on.

Every story ends with a good unit of a good quota that starts: nobody else noticed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from shared_api.client.errors import Invalid
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.leader_election import LeaderElector, LeaseSettings
from shared_api.lease_lock import ApiLeaseLock
from shared_api.testing.object_builders import (
    elastic_quota_body,
    namespace_body,
    pod_set,
    queue_body,
)
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, QUOTA_CRD, condition_of

pytestmark = pytest.mark.scenario

TOLD_SECONDS = 10.0
"""By then reason, condition and event are there: two seconds of patience, and one sweep."""

ABSURD = "9e999999999"


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    """A scheduler in `max` mode, and a quota `team` of 4 cpu."""
    with running_world() as world:
        world.start()
        world.add_quota()
        world.settle()
        yield world


def assert_all_else_goes_on(world: SchedulerWorld) -> None:
    """A unit of another quota starts at once."""
    world.add_quota("good", cpu=1)
    world.add_unit("good-unit", "good")
    world.settle(1.0)
    assert world.phase("good-unit") == "Dequeued"


def template(**spec: Any) -> dict[str, Any]:
    return {"name": "main", "count": 1, "template": {"spec": spec}}


def requesting(amount: Any, resource: str = "cpu") -> dict[str, Any]:
    return template(containers=[{"name": "c", "resources": {"requests": {resource: amount}}}])


# --- units ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        pytest.param(requesting("abc"), "abc", id="no quantity"),
        pytest.param(requesting(ABSURD), "exponent 999999999", id="absurd quantity"),
        pytest.param(requesting("1" * 5000), "cpu", id="five thousand digits"),
        pytest.param(requesting("-1"), "negative", id="negative request"),
        pytest.param(requesting("", "memory"), "memory", id="empty quantity"),
        pytest.param(template(overhead={"cpu": "x"}), "cpu", id="overhead"),
    ],
)
def test_a_unit_whose_demand_can_not_be_read_is_told_and_in_nobodys_way(
    world: SchedulerWorld, pods: dict[str, Any], says: str
) -> None:
    world.add_unit("bad", podSet=[pods], priority=9)
    world.add_unit("next")
    world.settle(TOLD_SECONDS)
    assert world.phase("bad") == "Enqueued"
    assert world.reason("bad") == "InvalidDemand"
    message = condition_of(world.unit("bad"), "QuotaReserved")["message"]
    assert "spec.podSet[0].template" in message
    assert says in message
    assert len(message) < 1000
    assert world.note("bad", "InvalidDemand") == message
    assert world.phase("next") == "Dequeued"
    assert_all_else_goes_on(world)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"request": {"cpu": "9e999"}}, "spec.request: cpu", id="request"),
        pytest.param({"resource": {"cpu": "9e999"}}, "spec.resource: cpu", id="resource"),
        pytest.param({}, "no demand: spec.podSet, spec.request", id="no demand at all"),
    ],
)
def test_a_total_that_can_not_be_read_names_its_field(
    world: SchedulerWorld, spec: dict[str, Any], says: str
) -> None:
    world.add_unit("bad", podSet=None, **spec)
    world.settle(TOLD_SECONDS)
    assert world.reason("bad") == "InvalidDemand"
    assert says in condition_of(world.unit("bad"), "QuotaReserved")["message"]
    assert says in world.note("bad", "InvalidDemand")
    assert_all_else_goes_on(world)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"request": {"cpu": "abc"}}, r"spec\.request\.cpu", id="no quantity"),
        pytest.param({"request": {"cpu": ABSURD}}, r"spec\.request\.cpu", id="absurd quantity"),
        pytest.param({"priority": "high"}, r"spec\.priority", id="the wrong type"),
        pytest.param(
            {"podSet": [pod_set(f"p{number}") for number in range(33)]},
            r"spec\.podSet",
            id="more than 32 pod sets",
        ),
    ],
)
def test_what_the_schema_can_refuse_is_refused_with_its_path(
    world: SchedulerWorld, spec: dict[str, Any], path: str
) -> None:
    with pytest.raises(Invalid, match=path):
        world.add_unit("bad", **spec)
    assert_all_else_goes_on(world)


@pytest.mark.parametrize(
    ("pods", "path"),
    [
        pytest.param(
            {**template(), "template": {"metadata": {"labels": {"a": 5}}, "spec": {}}},
            "$.spec.podSet[0].template.metadata.labels[...]",
            id="a label that is a number",
        ),
        pytest.param(
            {**template(), "template": {"metadata": {"labels": ["a"]}, "spec": {}}},
            "$.spec.podSet[0].template.metadata.labels",
            id="labels that are a list",
        ),
        pytest.param(template(containers={"name": "c"}), ".containers", id="containers as a map"),
        pytest.param(requesting(["1"]), ".resources.requests[...]", id="an amount that is a list"),
    ],
)
def test_a_unit_that_does_not_fit_its_type_is_told_with_the_path(
    world: SchedulerWorld, pods: dict[str, Any], path: str
) -> None:
    world.add_unit("bad", podSet=[pods])
    world.settle(TOLD_SECONDS)
    assert world.reason("bad") == "Unreadable"
    assert path in condition_of(world.unit("bad"), "QuotaReserved")["message"]
    assert path in world.note("bad", "Unreadable")
    assert_all_else_goes_on(world)
    fix = {"spec": {"podSet": [pod_set()]}}
    world.direct.patch("queueunits", "bad", fix, namespace="default")
    world.settle(1.0)
    assert world.phase("bad") == "Dequeued"


def test_unreadable_before_the_program_starts_is_told_as_well(world: SchedulerWorld) -> None:
    world.stop()
    world.add_unit("bad", podSet=[template(containers={"name": "c"})])
    world.start()
    world.settle(TOLD_SECONDS)
    assert world.reason("bad") == "Unreadable"
    assert ("bad", "Unreadable") in world.events()
    before = world.unit("bad")
    world.start()
    world.settle(TOLD_SECONDS)
    assert world.unit("bad") == before


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(template(containers=None), id="containers null"),
        pytest.param(
            {**requesting("1"), "template": {"metadata": {"labels": None}, "spec": {}}},
            id="labels null",
        ),
        pytest.param(template(), id="no containers"),
    ],
)
def test_null_as_go_writes_it_is_empty(world: SchedulerWorld, pods: dict[str, Any]) -> None:
    world.add_unit("empty", podSet=[pods])
    world.settle()
    assert world.phase("empty") == "Dequeued"


def test_a_template_of_200_kilobytes(world: SchedulerWorld) -> None:
    environment = [{"name": f"V{n}", "value": "x" * 1000} for n in range(200)]
    resources = {"requests": {"cpu": "1"}}
    big = template(containers=[{"name": "c", "env": environment, "resources": resources}])
    world.add_unit("big", podSet=[big])
    world.settle()
    assert world.phase("big") == "Dequeued"
    assert_all_else_goes_on(world)


# --- quotas -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quotas", "about", "event", "reason"),
    [
        pytest.param(
            [elastic_quota_body("x", max={"cpu": 1}, parent="y"),
             elastic_quota_body("y", max={"cpu": 1}, parent="x")],
            "x", "Cycle", "NoQuota", id="a cycle",
        ),
        pytest.param(
            [elastic_quota_body("x", max={"cpu": 1}, parent="nobody")],
            "x", "ParentMissing", "NoQuota", id="a missing parent",
        ),
        pytest.param(
            [elastic_quota_body("x", min={"cpu": 5}, max={"cpu": 1})],
            "x", "MinOverMax", "", id="min over max",
        ),
        pytest.param(
            [elastic_quota_body("top", min={"cpu": 2}, max={"cpu": 9}, is_parent=True),
             elastic_quota_body("x", min={"cpu": 3}, max={"cpu": 9}, parent="top")],
            "top", "ChildrenMinOverMin", "", id="the sum of min over the parent's",
        ),
        pytest.param(
            [elastic_quota_body("x", max={"cpu": ABSURD})],
            "x", "UnreadableAmount", "NoQuota", id="an absurd amount",
        ),
        pytest.param(
            [elastic_quota_body("x", max={"cpu": "-1"})],
            "x", "NegativeAmount", "NoQuota", id="a negative amount",
        ),
    ],
)  # fmt: skip
def test_a_quota_that_makes_no_sense_is_told_and_hurts_only_its_own(
    world: SchedulerWorld, quotas: list[dict[str, Any]], about: str, event: str, reason: str
) -> None:
    world.direct.create_all(quotas)
    world.add_unit("concerned", "x")
    world.settle(TOLD_SECONDS)
    assert (about, event) in world.events()
    if reason:
        assert world.phase("concerned") == "Enqueued"
        assert world.reason("concerned")
    else:
        assert world.phase("concerned") == "Dequeued"
    assert_all_else_goes_on(world)


def test_a_quota_of_the_wrong_type_is_told(world: SchedulerWorld) -> None:
    body = elastic_quota_body("odd")
    world.direct.create({**body, "spec": {"max": {"cpu": ["1"]}}})
    world.settle(TOLD_SECONDS)
    assert "$.spec.max[...]" in world.note("odd", "Unreadable")
    assert_all_else_goes_on(world)


def test_a_quota_that_is_repaired_admits(world: SchedulerWorld) -> None:
    world.direct.create(elastic_quota_body("x", max={"cpu": 1}, parent="late"))
    world.add_unit("waiting", "x")
    world.settle(TOLD_SECONDS)
    assert world.phase("waiting") == "Enqueued"
    world.direct.create(elastic_quota_body("late", max={"cpu": 1}, is_parent=True))
    world.settle()
    assert world.phase("waiting") == "Dequeued"


def test_two_quotas_of_one_name_the_younger_is_told(world: SchedulerWorld) -> None:
    world.direct.create(namespace_body("elsewhere"))
    world.clock.advance(60.0)
    world.add_quota("team", cpu=100, namespace="elsewhere")
    world.settle(TOLD_SECONDS)
    told = [
        event["regarding"]["namespace"]
        for event in world.direct.list("events.events.k8s.io")
        if event["reason"] == "DuplicateName"
    ]
    assert told == ["elsewhere"]
    world.add_unit("big", cpu=5)
    world.settle(TOLD_SECONDS)
    assert world.reason("big") == "OverQuotaMax"


def test_a_quota_deleted_with_units_in_it(world: SchedulerWorld) -> None:
    world.add_unit("run", cpu=4)
    world.settle()
    world.add_unit("wait")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "OverQuotaMax"
    world.direct.delete("elasticquotas", "team", "default")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "NoQuota"
    assert world.phase("run") == "Dequeued"
    assert_all_else_goes_on(world)
    world.add_quota()
    world.settle(TOLD_SECONDS)
    assert world.phase("wait") == "Enqueued"  # what runs is still charged to it
    world.finish("run")
    world.settle()
    assert world.phase("wait") == "Dequeued"


# --- queues -----------------------------------------------------------------------------------


def test_a_queue_deleted_with_units_in_it(world: SchedulerWorld) -> None:
    """One that a person made: nobody makes it again."""
    takes = {"annotations": {"koord-queue/available-quota-in-queue": "*"}}
    world.direct.create(queue_body("mine", metadata=takes))
    world.add_unit("wait", cpu=9, queue="mine")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "OverQuotaMax"
    world.direct.delete("queues", "mine", QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "NoQueue"
    assert "mine" in condition_of(world.unit("wait"), "QuotaReserved")["message"]
    assert_all_else_goes_on(world)


def test_an_unknown_policy_leaves_the_last_good_one_in_force(world: SchedulerWorld) -> None:
    patch = {"spec": {"queuePolicy": "Lottery"}}
    world.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    ready = condition_of(world.queue(), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "UnknownPolicy")
    assert "Priority stays in force" in world.note("team", "UnknownPolicy")
    world.add_unit("big", cpu=9, priority=5)
    world.add_unit("small")
    world.settle()
    assert world.phase("small") == "Dequeued"
    good = {"spec": {"queuePolicy": "Block"}}
    world.direct.patch("queues", "team", good, namespace=QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    assert condition_of(world.queue(), "Ready")["status"] == "True"


# --- the cluster ------------------------------------------------------------------------------


def test_the_api_server_is_down_at_the_start() -> None:
    with running_world() as world:
        world.add_quota()
        world.add_unit("early")
        world.server.go_down()
        world.start(settle_seconds=60.0)
        assert world.scheduler is not None
        assert not all(check()[0] for check in world.scheduler.ready_checks().values())
        world.server.come_up()
        world.settle(10.0)
        assert all(check()[0] for check in world.scheduler.ready_checks().values())
        assert world.phase("early") == "Dequeued"


def test_the_api_server_is_down_for_a_minute(world: SchedulerWorld) -> None:
    world.add_unit("first", cpu=4)
    world.settle()
    world.server.go_down()
    world.settle(60.0)
    world.add_unit("second", cpu=4)  # it comes back with news
    world.finish("first")
    world.server.come_up()
    world.settle(10.0)
    assert world.phase("second") == "Dequeued"
    assert_all_else_goes_on(world)


def test_a_unit_that_is_being_written_when_the_server_goes_down(world: SchedulerWorld) -> None:
    """It is booked once, whatever became of the write."""
    world.add_unit("a", cpu=3)
    world.add_unit("b", cpu=3)
    world.server.faults.lose_answer(times=30)
    world.settle(5.0)
    world.server.faults.clear()
    world.settle(15.0)
    phases = sorted(world.phase(name) for name in ("a", "b"))
    assert phases == ["Dequeued", "Enqueued"]


def test_the_quota_kind_is_missing_and_comes() -> None:
    with running_world(quotas=False) as world:
        world.start()
        assert world.scheduler is not None
        assert all(check()[0] for check in world.scheduler.ready_checks().values())
        world.add_unit("early")
        world.settle(TOLD_SECONDS)
        assert world.reason("early") == "NoQuota"
        world.direct.create(QUOTA_CRD)
        world.add_quota()
        world.settle(TOLD_SECONDS)
        assert world.phase("early") == "Dequeued"


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 10 * 365 * 86400.0])
def test_the_clock_jumps(world: SchedulerWorld, seconds: float) -> None:
    """Order is by the server's creation times; what is measured is measured elsewhere."""
    world.add_unit("first", cpu=4)
    world.settle()
    world.add_unit("older", cpu=4)
    world.settle(2.0)
    world.clock.jump_wall_clock(seconds)
    world.add_unit("younger", cpu=4)
    world.settle(TOLD_SECONDS)
    world.finish("first")
    world.settle(1.0)
    want = {"older": "Dequeued", "younger": "Enqueued"}
    if seconds < 0:  # the server's clock jumped too: by its own times the other one is older
        want = {"older": "Enqueued", "younger": "Dequeued"}
    assert {name: world.phase(name) for name in want} == want


def test_the_clock_jumps_and_the_leader_stays_the_leader(world: SchedulerWorld) -> None:
    """Leases are judged by what was observed, on the monotonic clock."""

    def elector(name: str) -> LeaderElector:
        rng = random.Random(name)
        flow = FlowControl(0, 1, world.clock)
        client = ResourceClient(world.server, flow=flow, clock=world.clock, rng=rng)
        lock = ApiLeaseLock(client, "default", "lease")
        return LeaderElector(
            lock,
            name,
            LeaseSettings(),
            clock=world.clock,
            rng=rng,
            on_started_leading=lambda: None,
            on_stopped_leading=lambda _: None,
        )

    first, second = elector("first"), elector("second")
    first.step()
    for jump in (7200.0, -7200.0, 86400.0, 0.0):
        world.clock.jump_wall_clock(jump)
        for _ in range(20):
            world.clock.advance(2.0)
            first.step()
            second.step()
            assert first.is_leader()
            assert not second.is_leader()
