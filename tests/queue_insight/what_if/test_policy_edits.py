"""Edits of QuotaPolicies: made, changed and deleted in a fork, and refused where they are wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit, EditError
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaSettings
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.queue import FairShare
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.object_builders import elastic_quota, queue
from tests.properties.engine_kit import build_policy, new_engine

FOUR = {"users": ["ann"], "running": 4}
TOO_LARGE = {"users": ["ann"], "max": {"cpu": "1e300"}}
WALL = datetime(2026, 11, 2, tzinfo=UTC)


def told() -> Engine:
    engine, _ = new_engine()
    engine.on_quota_policy(build_policy("p", ["a"], UserLimit(users=("ann",), running=2)))
    return engine


def edited(*edits: Edit) -> Engine:
    engine = told()
    apply_edits(engine, edits, WALL)
    return engine


def policy(patch: Any, name: str = "p", **more: Any) -> Edit:
    return Edit(kind="QuotaPolicy", name=name, patch=patch, **more)


def running(engine: Engine, quota: str) -> int | None:
    rule = engine.policies.limits_of(quota).for_user("ann")
    return None if rule is None else rule.running


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(policy({"spec": {"userLimits": [FOUR]}}), (4, None), id="changed"),
        pytest.param(policy({"spec": {"quotas": ["b"]}}), (None, 2), id="of another quota"),
        pytest.param(policy(None), (None, None), id="deleted"),
        pytest.param(
            policy({"spec": {"quotas": ["a", "b"], "userLimits": [FOUR]}}, "new"),
            (2, 4),
            id="a new one is the younger",
        ),
        pytest.param(
            policy({"spec": {"userLimits": []}}, namespace="koord-queue"),
            (None, None),
            id="emptied",
        ),
    ],
)
def test_an_edit_counts_at_once(edit: Edit, want: tuple[int | None, int | None]) -> None:
    engine = edited(edit)
    assert (running(engine, "a"), running(engine, "b")) == want


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(policy(None, "x"), "name: there is no QuotaPolicy 'x'", id="unknown"),
        pytest.param(
            policy({}, namespace="ns"), "namespace: quota policies are in 'koord-queue'", id="other"
        ),
        pytest.param(policy({}, "x"), "patch.spec.quotas: is required", id="no quota"),
        pytest.param(
            policy({"spec": {"quotas": []}}),
            "patch.spec.quotas: must have at least 1 entries",
            id="empty quotas",
        ),
        pytest.param(
            policy({"spec": {"userLimits": [{"users": ["ann"], "running": -1}]}}),
            "patch.spec.userLimits[0].running: must be at least 0",
            id="what the schema refuses",
        ),
        pytest.param(
            policy({"spec": {"userLimits": [{"users": ["ann"]}]}}),
            "patch.spec: userLimits[0]: set at least one of",
            id="what a CEL rule refuses",
        ),
        pytest.param(
            policy({"spec": {"userLimits": [TOO_LARGE]}}),
            "patch.spec: userLimits[0].max.cpu: '1e300' is larger",
            id="what the scheduler refuses",
        ),
        pytest.param(
            policy(
                {
                    "spec": {
                        "budgets": [
                            {"resource": "cpu", "hours": 1, "period": "Day", "timeZone": "Mars"}
                        ]
                    }
                }
            ),
            "patch.spec: budgets[0].timeZone: there is no time zone 'Mars'",
            id="a time zone",
        ),
        pytest.param(
            policy({}, api_version="v1"), "apiVersion: must be 'scheduling.x-k8s.io", id="version"
        ),
    ],
)
def test_a_wrong_edit_is_refused(edit: Edit, want: str) -> None:
    with pytest.raises(EditError) as caught:
        edited(edit)
    assert f"edits[0].{want}" in str(caught.value)


def test_a_field_that_is_not_read_is_named() -> None:
    (applied,) = apply_edits(told(), [policy({"spec": {"queues": {}}})], WALL)
    assert applied.unread == ("patch.spec.queues",)


def test_an_edited_budget_counts_at_once() -> None:
    engine = told()
    engine.usage.ledger = Ledger()
    engine.on_time(WALL)
    budget = {"resource": "cpu", "hours": 1, "period": "Month", "timeZone": "Asia/Tokyo"}
    apply_edits(engine, [policy({"spec": {"budgets": [budget]}})], WALL)
    assert {key.quota for key, _ in engine.usage.budgets.accounts} == {"a"}
    apply_edits(engine, [policy({"spec": {"budgets": []}})], WALL)
    assert list(engine.usage.budgets.accounts) == []


# --- JSON patches ---------------------------------------------------------------------------------


def operations(*found: Any, name: str = "p") -> Edit:
    return Edit(kind="QuotaPolicy", name=name, operations=found)


RUNNING = "/spec/userLimits/0/running"


def test_a_json_patch_changes_one_entry_and_leaves_the_others() -> None:
    spec = {
        "userLimits": [{"users": ["ann"], "max": {"nvidia.com/gpu": 4}}, {**FOUR, "users": ["*"]}]
    }
    test = {"op": "test", "path": "/spec/userLimits/0/max/nvidia.com~1gpu", "value": 4}
    engine = edited(policy({"spec": spec}), operations(test, {**test, "op": "replace", "value": 8}))
    stated = engine.policies.find("p")
    assert stated is not None
    ann, others = stated.api_object.spec.user_limits
    assert (ann.max, ann.users, others.running) == ({"nvidia.com/gpu": 8}, ("ann",), 4)


def test_a_field_can_be_added_and_removed() -> None:
    add = {"op": "add", "path": "/spec/userLimits/0/pending", "value": 7}
    engine = edited(operations(add, {"op": "remove", "path": RUNNING}))
    rule = engine.policies.limits_of("a").for_user("ann")
    assert (rule is None or rule.pending, running(engine, "a")) == (7, None)


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(
            operations({"op": "test", "path": RUNNING, "value": 9}),
            "operations[0].value: the test fails: there is another value",
            id="the list was edited meanwhile",
        ),
        pytest.param(
            operations({"op": "replace", "path": RUNNING, "value": -1}),
            "patch.spec.userLimits[0].running: must be at least 0",
            id="what the schema refuses",
        ),
        pytest.param(
            operations({"op": "remove", "path": "/spec/userLimits/1"}),
            "operations[0].path: there is no '1'",
            id="no such entry",
        ),
        pytest.param(
            operations({"op": "add", "path": "/spec/userLimits/2", "value": {}}),
            "operations[0].path: nothing can be added at '2'",
            id="beyond the list",
        ),
        pytest.param(
            operations({"op": "move", "path": RUNNING}),
            "operations[0].op: must be one of test, add, replace, remove",
            id="another operation",
        ),
        pytest.param(
            operations({"op": "replace", "path": "spec", "value": 1}),
            "operations[0].path: must be a path",
            id="no path",
        ),
        pytest.param(
            operations({"op": "add", "path": RUNNING}),
            "operations[0].value: is required",
            id="none",
        ),
        pytest.param(
            operations({"op": "replace", "path": "/metadata/name", "value": "q"}),
            "operations: change only what is below /spec",
            id="the name",
        ),
        pytest.param(
            operations({"op": "replace", "path": "/spec", "value": 1}),
            "operations: the spec must be an object",
            id="no spec",
        ),
        pytest.param(
            operations({"op": "add", "path": "/spec/x", "value": 1}, name="x"),
            "name: there is no QuotaPolicy 'x'",
            id="unknown",
        ),
        pytest.param(
            Edit(kind="Queue", name="q", operations=({"op": "add"},)),
            "operations: is for a QuotaPolicy",
            id="of another kind",
        ),
        pytest.param(
            policy({}, operations=({"op": "add"},)),
            "patch: cannot stand beside operations",
            id="two patches",
        ),
    ],
)
def test_a_wrong_json_patch_is_refused(edit: Edit, want: str) -> None:
    with pytest.raises(EditError) as caught:
        edited(edit)
    assert f"edits[0].{want}" in str(caught.value)


# --- its queues -----------------------------------------------------------------------------------

WEEK = {"levels": ["namespace"], "halfLife": "168h"}
SHARE = FairShare(levels=("namespace",), half_life="168h")


def share(engine: Engine, name: str = "team") -> FairShare | None:
    found = engine.queues.queue(name)
    assert found is not None
    return found.spec.fair_share


def with_queues(*edits: Edit, managed: bool = True, **spec: Any) -> Engine:
    """Return a fork in which a quota has its queue, after edits."""
    plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings()), Priority()])
    engine = Engine(plugins, BUILT_IN_POLICIES)
    engine.on_quota(elastic_quota("team", max={"cpu": 1}))
    labels = {"create-by-koordqueue": "true"} if managed else {}
    engine.on_queue(queue("team", metadata={"labels": labels}, **spec))
    apply_edits(engine, edits, WALL)
    return engine


STATED = policy({"spec": {"quotas": ["team"], "queue": {"fairShare": WEEK}}})


def test_a_policy_takes_its_queue_along() -> None:
    assert share(with_queues(STATED)) == SHARE
    assert share(with_queues(STATED, policy({"spec": {"queue": None}}))) is None
    assert share(with_queues(STATED, policy({"spec": {"quotas": ["other"]}}))) is None
    assert share(with_queues(STATED, policy(None))) is None


def test_a_queue_that_users_made_is_left_as_it_is() -> None:
    assert share(with_queues(STATED, managed=False)) is None


def test_a_later_edit_of_the_queue_stays_unless_the_policy_changes_what_it_states() -> None:
    by_hand = Edit(kind="Queue", name="team", patch={"spec": {"fairShare": {"halfLife": "1h"}}})
    limits = policy({"spec": {"userLimits": [FOUR]}})
    found = share(with_queues(STATED, by_hand, limits))
    assert found is not None
    assert found.half_life == "1h"
