"""The quotas of a plugin from outside, behind every door; and of one that shows none."""

from __future__ import annotations

from typing import Self

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.page.known_state import KnownStates
from queue_insight.page.quota_view import show_quota
from queue_insight.page.visitors import Visitor
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Mapped, QueueDirectory
from queue_scheduler.framework.plugin_questions import plugin_with_quota
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queue_objects.quota_policy_status import QuotaPolicyStatuses
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector
from queue_scheduler.tenants.ledger import Ledger
from shared_api.debug_api.access import open_access
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.testing.object_builders import queue, queue_unit
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import USER
from tests.properties.engine_kit import build_policy
from tests.queue_insight.page.page_kit import PageWorld
from tests.served_app import served

EVERYBODY = Visitor("root", reads_all=True, may_read=lambda _: True, refusal_of=lambda _: None)


class HiddenQuotas:
    """Charges all units to the quota `lab`, and does not show it."""

    name = "HiddenQuotas"

    def map_unit(self, _unit: QueueUnit, _queues: QueueDirectory) -> Mapped:
        return Mapped("lab", "q")

    def quota_names(self, _unit: QueueUnit) -> tuple[str, ...]:
        return ("lab",)

    def quota_of_pod(self, _namespace: str, _labels: dict[str, str]) -> str:
        return ""

    def fork(self) -> Self:
        return self


class LabQuotas(HiddenQuotas):
    """Shows it."""

    name = "LabQuotas"

    def list_quotas(self) -> tuple[str, ...]:
        return ("lab",)

    def view_quota(self, name: str) -> QuotaView | None:
        if name != "lab":
            return None
        return QuotaView(name="lab", max={"cpu": 8_000}, used={"cpu": 3_000})


class LabWithoutFork:
    """Has the quotas of another plugin, and no fork."""

    name = "LabWithoutFork"
    list_quotas = LabQuotas.list_quotas
    view_quota = LabQuotas.view_quota
    quota_names = LabQuotas.quota_names
    quota_of_pod = LabQuotas.quota_of_pod


def share(plugin: HiddenQuotas | LabWithoutFork) -> SharedEngine:
    engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
    engine.on_queue(queue("q"))
    engine.on_queue_unit(queue_unit("u", requests={"cpu": 1}))
    return SharedEngine(engine, lambda _: None)


def test_quotas_of_a_plugin_from_outside_are_shown_like_ours() -> None:
    shared = share(LabQuotas())
    answers = StateAnswers(shared, lambda: True)
    page = answers.quotas()
    assert [(node.name, node.max, node.used) for node in page.items] == [
        ("lab", {"cpu": "8"}, {"cpu": "3"})
    ]
    assert page.problems == []
    assert answers.queue("q").queue.quotas == ["lab"]
    assert answers.upstream_quotas()["q"]["lab"].max == {"cpu": "8"}

    registry = CollectorRegistry()
    registry.register(StateCollector(shared, SchedulerMetrics(registry)))
    scraped = generate_latest(registry).decode()
    assert 'koord_queue_quota_max{quota="lab",resource="cpu"} 8000.0' in scraped
    assert 'dequeued_quota_usage_by_quota{quota="lab",resource="cpu"} 3000.0' in scraped

    known = KnownStates(PageWorld(shared, VirtualClock()).sources()).of_now()
    assert [node.name for node in known.trees] == ["lab"]


def test_its_quotas_are_known_by_name() -> None:
    plugins = PluginRunner([LabQuotas(), Priority()])
    assert [plugin_with_quota(plugins, name) for name in ("lab", "other")] == ["LabQuotas", ""]


def test_a_plugin_that_does_not_show_its_quotas_is_named() -> None:
    page = StateAnswers(share(HiddenQuotas()), lambda: True).quotas()
    assert page.items == []
    assert page.problems == [
        "plugin HiddenQuotas does not show its quotas (list_quotas and view_quota), or has no fork"
    ]


def test_a_plugin_without_a_fork_is_named() -> None:
    page = StateAnswers(share(LabWithoutFork()), lambda: True).quotas()
    assert page.items == []
    assert [problem.split()[1] for problem in page.problems] == ["LabWithoutFork"]


def limited_lab() -> tuple[SharedEngine, VirtualClock]:
    """Return an engine in which ann may have one unit in the quota, which has a budget."""
    clock = VirtualClock()
    plugins = PluginRunner([LabQuotas(), Priority()])
    engine = Engine(plugins, BUILT_IN_POLICIES, ledger=Ledger())
    engine.on_time(clock.now())
    budget = Budget(resource="cpu", hours=30, period="None")
    policy = build_policy("p", ["lab"], UserLimit(users=("*",), running=1))
    engine.on_quota_policy(replace(policy, spec=replace(policy.spec, budgets=(budget,))))
    engine.on_queue(queue("q"))
    for name in ("first", "second"):
        labelled = {"labels": {USER: "ann"}, "uid": name}
        engine.on_queue_unit(queue_unit(name, requests={"cpu": 1}, metadata=labelled))
    shared = SharedEngine(engine, lambda _: None)
    assert isinstance(shared.decide_next("q", 0.0, clock.now()), Dequeue)
    clock.advance(3600)
    shared.apply(Engine.on_time, clock.now())
    return shared, clock


def test_its_quotas_have_limits_budgets_and_accounts_like_ours() -> None:
    shared, clock = limited_lab()
    app = build_whole_app(
        Answers(StateAnswers(shared, lambda: True, clock.now)), open_access, (), "0"
    )
    with served(app) as client:
        (limit,) = client.get("/debug/user-limits?quota=lab").json()["items"]
        (account,) = client.get("/debug/accounts").json()["items"]
        report = client.get("/debug/report?by=quota,user").json()
        unit = "/debug/queueunits/default/second"
        explained = client.get(f"{unit}/explain?changes=true").json()
    assert (limit["name"], limit["running"], limit["maxRunning"]) == ("ann", 1, 1)
    assert (account["quota"], account["user"], account["used"]) == ("lab", "ann", {"cpu": "1"})
    assert [row["names"] for row in report["items"]] == [{"quota": "lab", "user": "ann"}]
    assert [(each["reason"], each["quota"]) for each in explained["blockers"]] == [
        ("UserLimit", "lab"),
        ("BudgetSpent", "lab"),
    ]
    assert "userLimit" in [each["kind"] for each in explained["changes"]], explained["changes"]

    read = shared.ask(lambda engine: QuotaPolicyStatuses().read(engine, "p"))
    assert read is not None
    assert (read.reason, [each.name for each in read.quotas]) == ("Ready", ["lab"])
    page = show_quota(KnownStates(PageWorld(shared, clock).sources()).of_now(), "lab", EVERYBODY)
    assert [each.name for each in page.user_limits] == ["ann"]
