"""What users have where that is limited: to whom which rows are shown."""

from __future__ import annotations

import pytest

from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.limit_views import find_limit_uses, view_user_limits
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.access import open_access
from shared_api.objects.quota_policy import UserLimit
from shared_api.well_known_labels import GROUP, USER
from tests.properties.engine_kit import build_policy
from tests.queue_insight.insight.changes_kit import SmallCluster
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

LIMITS = (
    UserLimit(users=("ann",), max={"cpu": 8}, running=3),
    UserLimit(users=("*",), running=5),
    UserLimit(groups=("staff",), max={"cpu": 9, "memory": "1Gi"}),
)


@pytest.fixture
def engine() -> Engine:
    """Return an engine in which ann runs in two namespaces, and bob in one."""
    cluster = SmallCluster(cpu=100)
    cluster.engine.on_quota_policy(build_policy("p", ["a"], *LIMITS))
    for name, namespace, user in (("x", "red", "ann"), ("y", "blue", "ann"), ("z", "red", "bob")):
        labels = {USER: user, **({GROUP: "staff"} if name == "x" else {})}
        cluster.run(name, cpu=2, namespace=namespace, labels=labels)
    return cluster.engine


def rows(engine: Engine, *readable: str, offset: int = 0, limit: int = 9) -> list[tuple[str, ...]]:
    page = view_user_limits(
        find_limit_uses(engine), frozenset(readable), offset, limit, leader=True
    )
    shown = [(each.name, str(each.running), *each.used.values()) for each in page.items]
    return [*shown, (f"{page.others} more",)]


def test_rows_are_shown_to_whoever_may_read_all_that_is_in_them(engine: Engine) -> None:
    assert rows(engine, "red", "blue") == [
        ("ann", "2", "4"),
        ("bob", "1"),
        ("staff", "1", "2", "0"),
        ("0 more",),
    ]
    assert rows(engine, "red") == [("bob", "1"), ("staff", "1", "2", "0"), ("1 more",)]
    assert rows(engine, "blue") == [("3 more",)]


def test_a_row_says_what_is_limited_and_where(engine: Engine) -> None:
    page = view_user_limits(find_limit_uses(engine), frozenset({"red", "blue"}), 2, 1, leader=False)
    (staff,) = page.items
    assert (page.total, page.leader) == (3, False)
    assert (staff.quota, staff.is_group, staff.policy, staff.entry) == ("a", True, "p", 2)
    assert (staff.max, staff.max_running) == ({"cpu": "9", "memory": "1Gi"}, None)


def test_only_one_quota_is_asked_for(engine: Engine) -> None:
    assert find_limit_uses(engine, "b") == []
    assert find_limit_uses(engine, "a") == find_limit_uses(engine)


def test_nothing_is_looked_through_without_limits() -> None:
    assert find_limit_uses(SmallCluster().engine) == []


def test_the_route(kit: ShellKit) -> None:
    state = StateAnswers(kit.shared, lambda: True, kit.clock.now)
    kit.engine.on_quota_policy(build_policy("p", ["team"], UserLimit(users=("*",), running=4)))
    kit.add_unit("a", cpu=2)
    kit.shared.decide_next("team", 0.0, kit.clock.now())
    with served(build_app(state, open_access, (), "0.0.0")) as client:
        page = client.get("/debug/user-limits?quota=team").json()
        assert client.get("/debug/user-limits?quota=other").json()["items"] == []
        too_long = client.get(f"/debug/user-limits?quota={'x' * 1025}")
    (row,) = page["items"]
    assert (row["name"], row["maxRunning"], row["running"]) == ("namespace:default", 4, 1)
    assert too_long.status_code == 422


def test_the_api_server_is_asked_without_the_turn(kit: ShellKit) -> None:
    state = StateAnswers(kit.shared, lambda: True, kit.clock.now)
    kit.engine.on_quota_policy(build_policy("p", ["team"], UserLimit(users=("*",), running=4)))
    kit.add_unit("a", cpu=2)
    kit.shared.decide_next("team", 0.0, kit.clock.now())
    asked: list[str] = []

    def may_read(namespace: str) -> bool:
        assert not state.turn.locked(), "other requests would wait"
        asked.append(namespace)
        return False

    page = state.user_limits(may_read, "", 0, 10)
    assert (page.items, page.others, asked) == ([], 1, ["default"])
