"""Raising what a user or a group may have: the least that suffices, in its QuotaPolicy."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.insight.change import Change
from queue_scheduler.engine.engine import Engine
from shared_api.objects.quota_policy import UserLimit
from shared_api.well_known_labels import GROUP, USER
from tests.properties.engine_kit import build_policy
from tests.queue_insight.insight.changes_kit import SmallCluster, of_kind, the

ANN = {USER: "ann", GROUP: "staff"}
BOB = {USER: "bob"}


class Limited(SmallCluster):
    """Quota `a` of 20 cores, in which users are limited."""

    def __init__(self, *limits: UserLimit, cpu: int = 20) -> None:
        super().__init__(cpu=cpu)
        self.limit("p", *limits)

    def limit(self, name: str, *limits: UserLimit, quotas: tuple[str, ...] = ("a",)) -> None:
        policy = build_policy(name, [*quotas], *limits)
        self.workers.wake(self.engine.on_quota_policy(policy))
        self.workers.run()

    def change(self, name: str) -> Change:
        return the(self.changes(name), "userLimit")


def test_the_limit_of_a_user() -> None:
    cluster = Limited(
        UserLimit(users=("bob",), running=1), UserLimit(users=("ann",), max={"cpu": 8})
    )
    cluster.run("old", cpu=6, labels=ANN)
    cluster.wait("new", cpu=3, labels=ANN)
    change = cluster.change("new")
    assert change.description == (
        "Raise the limit of user ann in quota a (QuotaPolicy p) by 1 of cpu, to 9 of cpu."
    )
    assert (change.sufficient, change.minimal, change.verified) == (True, True, True)
    (patch,) = change.patches
    assert (patch.api_version, patch.kind, patch.name) == (
        *("scheduling.x-k8s.io/v1alpha1", "QuotaPolicy"),
        "p",
    )
    at = "/spec/userLimits/1/max/cpu"
    assert patch.operations == (
        {"op": "test", "path": at, "value": 8},
        {"op": "replace", "path": at, "value": "9"},
    )
    assert "bob" not in repr(change.patches)


@pytest.mark.parametrize(
    ("limit", "whose"),
    [
        (UserLimit(users=("*",), max={"cpu": 2}), "each user without an entry"),
        (UserLimit(users=("bob", "ann"), max={"cpu": 2}), "user ann and of 1 more of its entry"),
        (UserLimit(groups=("staff",), max={"cpu": 2}), "group staff"),
        (UserLimit(groups=("*",), max={"cpu": 2}), "groups without a limit of their own"),
    ],
    ids=["all others", "two users", "a group", "all other groups"],
)
def test_whose_limit_it_is(limit: UserLimit, whose: str) -> None:
    cluster = Limited(limit)
    cluster.wait("new", cpu=3, labels=ANN)
    assert f"the limit of {whose} in quota a" in cluster.change("new").description


def test_the_number_of_running_units() -> None:
    cluster = Limited(UserLimit(users=("ann",), running=1))
    cluster.run("old", cpu=1, labels=ANN)
    cluster.wait("new", cpu=1, labels=ANN)
    change = cluster.change("new")
    assert "by 1 running units, to 2 running units" in change.description
    assert [each["value"] for each in change.patches[0].operations] == [1, 2]


def test_those_ahead_take_their_share_of_it_first() -> None:
    cluster = Limited(UserLimit(users=("ann",), max={"cpu": 4}))
    cluster.run("old", cpu=4, labels=ANN)
    cluster.wait("first", cpu=2, labels=ANN, created=1)
    cluster.wait("new", cpu=2, labels=ANN, created=2)
    change = cluster.change("new")
    assert "by 4 of cpu, to 8 of cpu" in change.description
    assert (change.minimal, change.also_starts) == (True, ("ns/first",))


def test_a_limit_and_the_quota_are_raised_together() -> None:
    cluster = Limited(UserLimit(users=("ann",), max={"cpu": 4}), cpu=4)
    cluster.run("old", cpu=3, labels=ANN)
    cluster.wait("new", cpu=2, labels=ANN)
    several = the(cluster.changes("new"), "several")
    assert several.description == (
        "Raise the max of quota a by 1 of cpu, to 5 of cpu, and the limit of user ann in quota a "
        "(QuotaPolicy p) by 1 of cpu, to 5 of cpu."
    )
    assert several.minimal
    assert [each.kind for each in several.patches] == ["ElasticQuota", "QuotaPolicy"]


def test_two_limits_of_one_policy_are_one_patch() -> None:
    cluster = Limited(
        UserLimit(users=("ann",), max={"cpu": 1, "example.com/gpu": 9}),
        UserLimit(groups=("staff",), max={"cpu": 2}),
    )
    cluster.wait("new", cpu=3, labels=ANN)
    several = the(cluster.changes("new"), "several")
    (patch,) = several.patches
    assert [each["path"] for each in patch.operations if each["op"] == "replace"] == [
        "/spec/userLimits/0/max/cpu",
        "/spec/userLimits/1/max/cpu",
    ]
    cluster.engine.on_quota_policy_gone("p")


def test_limits_that_cannot_be_read_are_not_raised() -> None:
    cluster = Limited(UserLimit(users=("ann",), max={"cpu": 1}))
    cluster.wait("new", cpu=3, labels=ANN)
    cluster.limit("p", UserLimit(users=("ann",), running=-1))
    assert of_kind(cluster.changes("new"), "userLimit") == []


def test_another_quota_of_the_policy_shows_what_else_starts() -> None:
    cluster = Limited()
    limits: dict[str, Any] = {"quotas": ("a",)}
    cluster.limit("p", UserLimit(users=("*",), max={"cpu": 2}), **limits)
    cluster.wait("of-bob", cpu=3, labels=BOB, created=1)
    cluster.wait("new", cpu=3, labels=ANN, created=2)
    assert cluster.change("new").also_starts == ("ns/of-bob",)
    assert isinstance(cluster.engine, Engine)
