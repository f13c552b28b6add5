"""Problems of queues, quotas and plugins stand in the views that are about these, as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.testing.object_builders import elastic_quota, queue
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_policy
from tests.queue_insight.page.page_kit import Browser, PageWorld, browser
from tests.queue_insight.page.rendering_kit import Element, draw, elements
from tests.queue_scheduler.framework.test_extension_points_quotas import HiddenQuotas
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit

HOSTILE = "<img src=x>"


@pytest.fixture
def client(kit: ShellKit) -> Iterator[Browser]:
    """The page of a queue and a quota, each with an annotation that cannot be read."""
    meta = {"annotations": {"koord-queue/max-depth": HOSTILE}, "resourceVersion": "99"}
    kit.shared.apply(Engine.on_queue, queue("team", policy="Priority", metadata=meta))
    policy = {"koord-queue/reclaim-policy": HOSTILE}
    kit.add_quota("org", 4, metadata={"annotations": policy})
    with browser(PageWorld(kit.shared, kit.clock)) as found:
        yield found


def problems(drawn: Element) -> list[Element]:
    return [each for each in elements(drawn) if "problem" in each["class"].split()]


@pytest.mark.parametrize(
    ("view", "name", "path"),
    [
        pytest.param("queue/Queue", "team", "/page/queues/team", id="of a queue"),
        pytest.param("quota/Quota", "org", "/page/quotas/org", id="of a quota"),
    ],
)
def test_problems_of_an_object_are_in_its_view(
    client: Browser, tmp_path: Path, view: str, name: str, path: str
) -> None:
    drawn = draw(client, tmp_path, view, path, name=name)
    (problem,) = problems(drawn)
    assert (problem["tag"], HOSTILE in problem["text"]) == ("p", True)
    assert all(each["tag"] != "img" for each in elements(drawn))


def test_problems_of_all_are_in_the_overview(client: Browser, tmp_path: Path) -> None:
    found = problems(draw(client, tmp_path, "overview/Overview", "/page/overview"))
    heads = [f"{kind} {name}" for kind, name in (("ElasticQuota", "org"), ("Queue", "team"))]
    for head in heads:
        (problem,) = (each for each in found if head in each["text"])
        assert HOSTILE in problem["text"]


def test_a_plugin_that_does_not_show_its_quotas_is_in_the_overview(tmp_path: Path) -> None:
    engine = Engine(PluginRunner([HiddenQuotas(), Priority()]), BUILT_IN_POLICIES)
    world = PageWorld(SharedEngine(engine, lambda _: None), VirtualClock())
    with browser(world) as client:
        drawn = draw(client, tmp_path, "overview/Overview", "/page/overview")
    (problem,) = problems(drawn)
    assert problem["class"] == "problem warning"
    assert "Plugin HiddenQuotas does not show its quotas" in problem["text"]


def test_a_cluster_without_policies_is_in_the_overview(tmp_path: Path) -> None:
    engine = Engine(PluginRunner([Priority()]), BUILT_IN_POLICIES)
    engine.on_quota_policies_served(are_served=False)
    world = PageWorld(SharedEngine(engine, lambda _: None), VirtualClock())
    with browser(world) as client:
        drawn = draw(client, tmp_path, "overview/Overview", "/page/overview")
    (problem,) = problems(drawn)
    assert problem["class"] == "problem warning"
    assert "The cluster does not serve QuotaPolicies" in problem["text"]
    assert "Install the CRD" in problem["text"]


def test_limits_by_names_that_nothing_proves_are_in_the_overview(tmp_path: Path) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.shared.apply(Engine.on_quota_policies_served, are_served=True)
    limit = build_policy("p", ["team"], UserLimit(users=("ann",), running=1))
    kit.shared.apply(Engine.on_quota_policy, limit)
    with browser(PageWorld(kit.shared, kit.clock)) as client:
        drawn = draw(client, tmp_path, "overview/Overview", "/page/overview")
    (problem,) = problems(drawn)
    assert "Names of users are not proved" in problem["text"]
    assert "Set admissionPolicy.users" in problem["text"]


def test_shares_of_users_are_in_the_view_of_their_queue(tmp_path: Path) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    fair = {"spec": {"queuePolicy": "Fair"}}
    kit.direct.patch("queues", "team", fair, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")
    kit.add_unit("a", cpu=3)
    kit.dequeue()
    with browser(PageWorld(kit.shared, kit.clock)) as client:
        drawn = draw(client, tmp_path, "queue/Queue", "/page/queues/team", name="team")
    texts = [each["text"] for each in elements(drawn)]
    for text in ("Use of fair shares", "namespace:default", "1.00"):
        assert any(text in each for each in texts), texts


def test_limits_of_users_are_in_the_view_of_their_quota(tmp_path: Path) -> None:
    kit = ShellKit()
    kit.add_quota("team", 4)
    limit = UserLimit(users=("*",), max={"cpu": 4}, running=2)
    kit.shared.apply(Engine.on_quota_policy, build_policy("p", ["team"], limit))
    kit.add_unit("a", cpu=3)
    kit.dequeue()
    with browser(PageWorld(kit.shared, kit.clock)) as client:
        drawn = draw(client, tmp_path, "quota/Quota", "/page/quotas/team", name="team")
    cells = [each["text"] for each in elements(drawn) if "user-limits" not in each["class"]]
    assert any("3 of 4 cpu, 1 of 2 running units" in each for each in cells)
    assert any("namespace:default" in each for each in cells)


def test_budgets_are_in_the_view_of_their_quota(tmp_path: Path) -> None:
    kit = ShellKit()
    engine = kit.shared.fork()
    engine.usage.ledger = Ledger()
    engine.on_time(kit.clock.now())
    engine.on_quota(elastic_quota("team", max={"cpu": 4}))
    policy = build_policy("p", ["team"])
    hours = Budget(resource="cpu", hours=5, period="Rolling 30d")
    none = Budget(amount=0, price={"cpu": "1"}, period="None")
    engine.on_quota_policy(replace(policy, spec=replace(policy.spec, budgets=(hours, none))))
    world = PageWorld(SharedEngine(engine, lambda _: None), kit.clock)
    while world.forecasts.age_seconds() is None:
        world.forecasts.step()
    with browser(world) as client:
        drawn = draw(client, tmp_path, "quota/Quota", "/page/quotas/team", name="team")
    sections = (each for each in elements(drawn) if each["tag"] == "section")
    (section,) = (each for each in sections if "5 hours of cpu in any 30 days" in each["text"])
    assert "5: 0 spent, 0 committed to what runs" in section["text"]
    assert "Not within the next 7d." in section["text"]
    assert "Nothing has been left since" in section["text"]
    assert "QuotaPolicy p, budgets 1 (Hold)" in section["text"]
