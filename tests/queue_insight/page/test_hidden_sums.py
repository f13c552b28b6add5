"""Every route for every role: nobody is shown names or sums that it may not read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from queue_insight.insight_program.sources import Source
from queue_insight.page.login import VISITORS
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit_body, to_struct
from tests.properties.engine_kit import build_policy
from tests.queue_insight.page.page_kit import ROOT, TENANT, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

SECRET = "hush"
"""In the name of each unit of others."""

ROUTES = (
    "/page/session",
    "/page/overview",
    "/page/unqueued",
    "/page/queues/team",
    "/page/queues/team?sort=-name",
    f"/page/queues/team?filter={SECRET}",
    f"/page/queues/team?filter=name:{SECRET}",
    "/page/units/default/own",
    "/page/units/default/own/changes",
    "/page/quotas/team",
    "/page/quotas/other",
)
OF_OTHERS = (f"/page/units/b/{SECRET}", f"/page/units/b/{SECRET}/changes", "/page/units/b/none")
OF_ALL = (*ROUTES, *OF_OTHERS)


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    """Unit `own` of `default` waits behind `hush` of namespace `b`, which runs."""
    kit.add_quota("other", 9)
    add(kit, SECRET, "b", cpu=3)
    kit.dequeue()
    add(kit, f"{SECRET}-2", "b", cpu=3, priority=9)
    kit.add_unit("own", cpu=2)
    add(kit, f"{SECRET}-lost", "b", "not-there", cpu=1)
    return LoginWorld(kit)


def add(kit: ShellKit, name: str, namespace: str, quota: str = "team", **spec: Any) -> None:
    meta = {
        "uid": f"uid-{namespace}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    requests = {"cpu": spec.pop("cpu")}
    body = queue_unit_body(
        name, namespace=namespace, quota=quota, requests=requests, metadata=meta, **spec
    )
    kit.shared.apply(Engine.on_queue_unit, to_struct(QueueUnit, body))


def ask(world: LoginWorld, token: str, *paths: str) -> list[Any]:
    with browser(world, token) as client:
        return [client.get(path) for path in paths]


def test_nobody_without_a_login_is_answered(world: LoginWorld) -> None:
    for path, answer in zip(OF_ALL, ask(world, "", *OF_ALL), strict=True):
        assert answer.status_code == 401, path
        assert answer.json() == {"detail": "log in with a token of the cluster"}, path


def test_a_tenant_sees_nothing_of_others(world: LoginWorld) -> None:
    for path, answer in zip(ROUTES, ask(world, TENANT, *ROUTES), strict=True):
        assert answer.status_code == 200, (path, answer.text)
        assert SECRET not in answer.text, path


def test_a_reader_of_all_sees_all(world: LoginWorld) -> None:
    for path, answer in zip(ROUTES, ask(world, ROOT, *ROUTES), strict=True):
        assert answer.status_code == 200, (path, answer.text)
    (overview, *_, unit) = ask(world, ROOT, "/page/overview", OF_OTHERS[0])
    assert SECRET in overview.text
    assert unit.status_code == 200
    team = next(each for each in overview.json()["quotas"] if each["name"] == "team")
    assert (team["used"], team["sumsHidden"]) == ({"cpu": "3"}, False)


def test_units_of_others_are_refused_whether_they_exist_or_not(world: LoginWorld) -> None:
    answers = ask(world, TENANT, *OF_OTHERS)
    assert {(each.status_code, each.text) for each in answers} == {
        (403, '{"detail":"you may not list the units of namespace \'b\'"}')
    }


def test_a_right_that_ends_meanwhile_is_refused_as_one_that_was_missing(kit: ShellKit) -> None:
    class LosingWorld(LoginWorld):
        """Ann loses her right while an answer is computed."""

        def _at(self, moment: datetime | None) -> Source:
            self.readable["ann"].clear()
            self.clock.advance(VISITORS.allowed_seconds)
            return super()._at(moment)

    kit.add_unit("own", cpu=2)
    (answer,) = ask(LosingWorld(kit), TENANT, "/page/units/default/own")
    want = (403, '{"detail":"you may not list the units of namespace \'default\'"}')
    assert (answer.status_code, answer.text) == want


def test_the_line_counts_others_whatever_the_filter(world: LoginWorld) -> None:
    for query in ("", "?filter=own", f"?filter={SECRET}", "?offset=5", "?filter=namespace:b"):
        (answer,) = ask(world, TENANT, f"/page/queues/team{query}")
        assert answer.json()["others"] == 1, query


@pytest.mark.parametrize(("namespaces", "hidden"), [("b", True), ("bc", True), ("bcd", False)])
def test_sums_are_over_three_other_namespaces(
    world: LoginWorld, kit: ShellKit, namespaces: str, *, hidden: bool
) -> None:
    for each in namespaces:
        add(kit, f"{SECRET}-other-{each}", each, "other", cpu=1)
        kit.dequeue("other")
    overview, quota = ask(world, TENANT, "/page/overview", "/page/quotas/other")
    other = next(each for each in overview.json()["quotas"] if each["name"] == "other")
    for got in (other, quota.json()["quota"]):
        want = {} if hidden else {"cpu": str(len(namespaces))}
        assert (got["used"], got["charged"], got["sumsHidden"]) == (want, want, hidden)
        assert got["max"] == {"cpu": "9"}


def test_limits_of_users_are_shown_to_readers_of_all_their_units(
    world: LoginWorld, kit: ShellKit
) -> None:
    limit = UserLimit(users=("*",), running=5)
    kit.shared.apply(Engine.on_quota_policy, build_policy("p", ["other"], limit))
    add(kit, "mine", "default", "other", cpu=1)
    add(kit, f"{SECRET}-other", "b", "other", cpu=1)
    for _ in range(2):
        kit.dequeue("other")
    (answer,) = ask(world, TENANT, "/page/quotas/other")
    got = answer.json()
    assert [each["name"] for each in got["userLimits"]] == ["namespace:default"]
    assert got["otherUserLimits"] == 1
    assert "namespace:b" not in answer.text
    (answer,) = ask(world, ROOT, "/page/quotas/other")
    assert [each["name"] for each in answer.json()["userLimits"]] == [
        "namespace:b",
        "namespace:default",
    ]


def test_a_sum_with_a_hidden_part_is_hidden(world: LoginWorld, kit: ShellKit) -> None:
    kit.shared.apply(Engine.on_quota, elastic_quota("all", max={"cpu": 99}, is_parent=True))
    kit.add_quota("part", 9, parent="all")
    kit.add_quota("rest", 9, parent="all")
    for quota, namespaces in (("part", "b"), ("rest", "bcd")):
        for each in namespaces:
            add(kit, f"{quota}-{each}", each, quota, cpu=1)
            kit.dequeue(quota)
    (overview,) = ask(world, TENANT, "/page/overview")
    tree = next(each for each in overview.json()["quotas"] if each["name"] == "all")
    part, rest = tree["children"]
    assert [each["sumsHidden"] for each in (part, rest, tree)] == [True, False, True]
    assert (part["used"], rest["used"], tree["used"]) == ({}, {"cpu": "3"}, {})


def test_further_namespaces_are_asked_about_at_the_next_request(
    world: LoginWorld, kit: ShellKit
) -> None:
    for number in range(70):
        add(kit, f"n{number}", f"space-{number:02}", cpu=1)
        world.readable["ann"].add(f"space-{number:02}")
    first, second = ask(world, TENANT, "/page/queues/team", "/page/queues/team")
    assert first.json()["total"] < second.json()["total"] == 71


def test_a_reason_names_no_unit_of_others(world: LoginWorld, kit: ShellKit) -> None:
    strict = queue("other", policy="Block", metadata={"resourceVersion": "99"})
    kit.shared.apply(Engine.on_queue, strict)
    add(kit, "runs", "c", "other", cpu=8)
    kit.dequeue("other")
    add(kit, f"{SECRET}-first", "c", "other", cpu=5, priority=9)
    add(kit, "behind", "default", "other", cpu=1)
    kit.decide("other")
    path = "/page/units/default/behind"
    (all_seen,), (answer,) = ask(world, ROOT, path), ask(world, TENANT, path)
    assert f"c/{SECRET}-first" in str(all_seen.json()["explain"])
    assert SECRET not in answer.text
    assert "a unit of another namespace" in answer.json()["explain"]["summary"]


def test_the_age_is_that_of_the_oldest_that_is_readable(world: LoginWorld, kit: ShellKit) -> None:
    kit.clock.advance(60)
    seen = [each.json()["queues"] for each in ask(world, TENANT, "/page/overview")]
    team = next(each for each in seen[0] if each["name"] == "team")
    assert (team["pending"], team["admitted"], team["head"], team["lastRefusal"]) == (
        2,
        1,
        None,
        None,
    )
    assert 60 <= team["oldestSeconds"] < 120
