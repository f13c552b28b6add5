"""Bad input, one object at a time: it is reported where its owner looks, and affects nothing else.

Every test ends with the start of a valid unit of a valid quota.
"""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.client.errors import Invalid
from shared_api.testing.object_builders import (
    elastic_quota_body,
    namespace_body,
    pod_set,
    queue_body,
)
from tests.follower import Follower
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import (
    TOLD_SECONDS,
    Logs,
    SchedulerWorld,
    assert_all_else_goes_on,
    running_world,
    warning_of,
    warnings_of,
)
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE

pytestmark = pytest.mark.scenario

ABSURD = "9e999999999"


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
def test_a_unit_with_an_unreadable_demand_is_reported_and_blocks_no_other(
    logs: Logs, world: SchedulerWorld, pods: dict[str, Any], says: str
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
    assert warning_of(logs, "bad", "InvalidDemand") == message
    assert world.phase("next") == "Dequeued"
    assert_all_else_goes_on(world)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"request": {"cpu": "9e999"}}, "spec.request: cpu", id="request"),
        pytest.param({"resource": {"cpu": "9e999"}}, "spec.resource: cpu", id="resource"),
        pytest.param({}, "no demand: spec.podSet, spec.request", id="no demand"),
    ],
)
def test_the_reason_for_an_unreadable_total_names_its_field(
    logs: Logs, world: SchedulerWorld, spec: dict[str, Any], says: str
) -> None:
    world.add_unit("bad", podSet=None, **spec)
    world.settle(TOLD_SECONDS)
    assert world.reason("bad") == "InvalidDemand"
    assert says in condition_of(world.unit("bad"), "QuotaReserved")["message"]
    assert says in world.note("bad", "InvalidDemand")
    assert says in warning_of(logs, "bad", "InvalidDemand")
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
def test_what_the_schema_covers_is_refused_with_its_path(
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
def test_a_unit_that_cannot_be_decoded_is_reported_with_the_path(
    logs: Logs, world: SchedulerWorld, pods: dict[str, Any], path: str
) -> None:
    world.add_unit("bad", podSet=[pods])
    world.settle(TOLD_SECONDS)
    assert world.reason("bad") == "Unreadable"
    assert path in condition_of(world.unit("bad"), "QuotaReserved")["message"]
    assert path in world.note("bad", "Unreadable")
    (warning,) = warnings_of(logs, "object cannot be read")
    assert path in warning
    assert_all_else_goes_on(world)
    fix = {"spec": {"podSet": [pod_set()]}}
    world.direct.patch("queueunits", "bad", fix, namespace="default")
    world.settle(1.0)
    assert world.phase("bad") == "Dequeued"


def test_a_unit_that_is_unreadable_before_the_start_is_reported_too(world: SchedulerWorld) -> None:
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
def test_null_for_an_empty_list_as_go_writes_it_is_empty(
    world: SchedulerWorld, pods: dict[str, Any]
) -> None:
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
            "x", "UnreadableAmount", "NoQuota", id="an unreadable amount",
        ),
        pytest.param(
            [elastic_quota_body("x", max={"cpu": "-1"})],
            "x", "NegativeAmount", "NoQuota", id="a negative amount",
        ),
    ],
)  # fmt: skip
def test_an_invalid_quota_is_reported_and_affects_only_its_own_units(
    logs: Logs,
    world: SchedulerWorld,
    quotas: list[dict[str, Any]],
    about: str,
    event: str,
    reason: str,
) -> None:
    world.direct.create_all(quotas)
    world.add_unit("concerned", "x")
    world.settle(TOLD_SECONDS)
    assert warning_of(logs, about, event) == world.note(about, event)
    if reason:
        assert world.phase("concerned") == "Enqueued"
        assert world.reason("concerned")
    else:
        assert world.phase("concerned") == "Dequeued"
    assert_all_else_goes_on(world)


def test_a_quota_of_the_wrong_type_is_reported(logs: Logs, world: SchedulerWorld) -> None:
    body = elastic_quota_body("odd")
    world.direct.create({**body, "spec": {"max": {"cpu": ["1"]}}})
    world.settle(TOLD_SECONDS)
    assert "$.spec.max[...]" in world.note("odd", "Unreadable")
    (warning,) = warnings_of(logs, "object cannot be read")
    assert "$.spec.max[...]" in warning
    assert_all_else_goes_on(world)


def test_a_quota_that_is_repaired_admits(world: SchedulerWorld) -> None:
    world.direct.create(elastic_quota_body("x", max={"cpu": 1}, parent="late"))
    world.add_unit("waiting", "x")
    world.settle(TOLD_SECONDS)
    assert world.phase("waiting") == "Enqueued"
    world.direct.create(elastic_quota_body("late", max={"cpu": 1}, is_parent=True))
    world.settle()
    assert world.phase("waiting") == "Dequeued"


def test_of_two_quotas_with_one_name_both_are_reported(logs: Logs, world: SchedulerWorld) -> None:
    world.direct.create(namespace_body("elsewhere"))
    world.clock.advance(60.0)
    world.add_quota("team", cpu=100, namespace="elsewhere")
    world.settle(TOLD_SECONDS)
    got = [
        event["regarding"]["namespace"]
        for event in world.direct.list("events.events.k8s.io")
        if event["reason"] == "DuplicateName"
    ]
    assert sorted(got) == ["default", "elsewhere"]
    warned = [line["object"] for line in logs if line.get("reason") == "DuplicateName"]
    assert sorted(warned) == ["default/team", "elsewhere/team"]
    world.add_unit("big", cpu=5)
    world.settle(TOLD_SECONDS)
    assert world.reason("big") == "ExceedsQuota"


def test_a_unit_of_a_quota_that_does_not_exist(logs: Logs, world: SchedulerWorld) -> None:
    world.add_unit("lost", "nowhere")
    world.settle(TOLD_SECONDS)
    assert world.reason("lost") == "NoQuota"
    assert "nowhere" in world.note("lost", "NoQuota")
    assert warning_of(logs, "lost", "NoQuota") == world.note("lost", "NoQuota")
    assert_all_else_goes_on(world)


def test_objects_in_any_order_before_the_start_are_not_reported(logs: Logs) -> None:
    """The queue is created as soon as this process leads."""
    with running_world() as world:
        world.add_unit("ahead", "late", cpu=3)
        world.add_unit("early", "late", cpu=2)
        world.add_quota("late")
        replica = Follower()
        world.start(leadership=replica, settle_seconds=TOLD_SECONDS)
        replica.leads = True
        world.settle(TOLD_SECONDS)
        assert world.reason("early") == "OverQuotaMax"
        assert world.events() == set()
        assert [line for line in logs if line["log_level"] != "info"] == []


def test_a_quota_deleted_with_units_in_it(logs: Logs, world: SchedulerWorld) -> None:
    world.add_unit("run", cpu=4)
    world.settle()
    world.add_unit("wait")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "OverQuotaMax"
    world.direct.delete("elasticquotas", "team", "default")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "NoQuota"
    assert "team" in world.note("wait", "NoQuota")
    assert warning_of(logs, "wait", "NoQuota") == world.note("wait", "NoQuota")
    assert world.phase("run") == "Dequeued"
    assert_all_else_goes_on(world)
    world.add_quota()
    world.settle(TOLD_SECONDS)
    assert world.phase("wait") == "Enqueued"  # running units are still charged to it
    world.finish("run")
    world.settle()
    assert world.phase("wait") == "Dequeued"


# --- queues -----------------------------------------------------------------------------------


def test_a_queue_deleted_with_units_in_it(logs: Logs, world: SchedulerWorld) -> None:
    """A queue that a person created is not created again."""
    takes = {"annotations": {"koord-queue/available-quota-in-queue": "*"}}
    world.direct.create(queue_body("mine", metadata=takes))
    world.add_unit("wait", cpu=9, queue="mine")
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "ExceedsQuota"
    world.direct.delete("queues", "mine", QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    assert world.reason("wait") == "NoQueue"
    message = condition_of(world.unit("wait"), "QuotaReserved")["message"]
    assert "mine" in message
    assert world.note("wait", "NoQueue") == message
    assert warning_of(logs, "wait", "NoQueue") == message
    assert_all_else_goes_on(world)


def test_a_unit_that_names_a_queue_alone_waits_for_that_queue_first(world: SchedulerWorld) -> None:
    world.add_unit("lost", quota="", queue="nowhere")
    world.settle(TOLD_SECONDS)
    assert world.reason("lost") == "NoQueue"
    message = condition_of(world.unit("lost"), "QuotaReserved")["message"]
    assert message == (
        f"queue nowhere does not exist in namespace {QUEUE_NAMESPACE}, or cannot be read"
    )
    assert {reason for name, reason in world.events() if name == "lost"} == {"NoQueue"}
    world.direct.create(queue_body("nowhere"))
    world.settle(TOLD_SECONDS)
    assert world.reason("lost") == "NoQuota"
    world.direct.delete("queues", "nowhere", QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    assert world.reason("lost") == "NoQueue"
    named = {"annotations": {"quota.scheduling.koordinator.sh/namespaces": '["default"]'}}
    world.add_quota("later", metadata=named)
    takes = {"annotations": {"koord-queue/available-quota-in-queue": "*"}}
    world.direct.create(queue_body("nowhere", metadata=takes))
    world.settle(TOLD_SECONDS)
    assert world.phase("lost") == "Dequeued"


def test_a_unit_in_a_queue_that_does_not_accept_its_quota(
    logs: Logs, world: SchedulerWorld
) -> None:
    world.direct.create(queue_body("mine"))
    world.add_unit("astray", queue="mine")
    world.add_unit("lost", queue="nowhere")
    world.settle(TOLD_SECONDS)
    for name, reason in (("astray", "QuotaNotInQueue"), ("lost", "NoQueue")):
        assert world.reason(name) == reason
        assert warning_of(logs, name, reason) == world.note(name, reason)
    assert_all_else_goes_on(world)


def test_with_an_unknown_policy_the_last_valid_one_stays_in_force(
    logs: Logs, world: SchedulerWorld
) -> None:
    patch = {"spec": {"queuePolicy": "Lottery"}}
    world.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    ready = condition_of(world.queue(), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "UnknownPolicy")
    assert "Priority stays in force" in world.note("team", "UnknownPolicy")
    assert "Priority stays in force" in warning_of(logs, "team", "UnknownPolicy")
    world.add_unit("big", cpu=9, priority=5)
    world.add_unit("small")
    world.settle()
    assert world.phase("small") == "Dequeued"
    good = {"spec": {"queuePolicy": "Block"}}
    world.direct.patch("queues", "team", good, namespace=QUEUE_NAMESPACE)
    world.settle(TOLD_SECONDS)
    assert condition_of(world.queue(), "Ready")["status"] == "True"
