"""The quota plugin: a unit's quota and queue, and the quota cache behind the framework."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.decision import Dequeue, Reason, Refusal, Refused, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Mapped,
    QueueDirectory,
    Supposed,
    Unmapped,
)
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_decision import PodStage
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.refusal_texts import full_message, queue_message, stable_message
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Condition, ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import ADOPTED
from shared_api.testing.object_builders import elastic_quota, node, queue, queue_unit
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
)
from tests.queue_scheduler.shell_kit import ShellKit

NAMESPACES = "quota.scheduling.koordinator.sh/namespaces"


class Directory:
    """The existing queues."""

    def __init__(self, *queues: Queue) -> None:
        self._queues = {each.metadata.name: each for each in queues}

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)


def new_plugin(*quotas: ElasticQuota, mode: QuotaMode = QuotaMode.MAX) -> ElasticQuotaPlugin:
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
    for quota in quotas:
        plugin.on_quota(quota)
    return plugin


def quota(name: str, cpu: int = 4, *, uid: str = "", namespace: str = "kq", **more: Any) -> Any:
    meta = {"uid": uid or f"uid-{name}", **more.pop("metadata", {})}
    amounts = {"cpu": cpu}
    return elastic_quota(name, max=amounts, min=amounts, namespace=namespace, metadata=meta, **more)


def created(at: str) -> dict[str, str]:
    return {"creationTimestamp": at}


def shared_queue(takes: str) -> Queue:
    annotations = {"koord-queue/available-quota-in-queue": takes}
    return queue("shared", metadata={"annotations": annotations})


OWN, SHARED = Directory(queue("team")), "shared"


@pytest.mark.parametrize(
    ("unit", "queues", "want"),
    [
        pytest.param(queue_unit("a", quota="team"), OWN, Mapped("team", "team"), id="its own"),
        pytest.param(
            queue_unit("a", quota="team", queue=SHARED),
            Directory(shared_queue("other, team")),
            Mapped("team", SHARED),
            id="spec.queue, listed",
        ),
        pytest.param(
            queue_unit("a", quota="team", queue=SHARED),
            Directory(shared_queue("*")),
            Mapped("team", SHARED),
            id="a queue that takes all",
        ),
        pytest.param(
            queue_unit(
                "a",
                quota="team",
                queue="x",
                metadata={"labels": {"koord-queue/queue-name": SHARED}},
            ),
            Directory(shared_queue("team")),
            Mapped("team", SHARED),
            id="the label before spec.queue",
        ),
        pytest.param(
            queue_unit("a", namespace="labs"), OWN, Mapped("team", "team"), id="by namespace"
        ),
    ],
)
def test_a_unit_has_a_quota_and_a_queue(
    unit: QueueUnit, queues: QueueDirectory, want: Mapped
) -> None:
    team = quota("team", metadata={"annotations": {NAMESPACES: '["labs"]'}})
    assert new_plugin(team).map_unit(unit, queues) == want


@pytest.mark.parametrize(
    ("unit", "queues", "reason", "waits_for"),
    [
        pytest.param(
            queue_unit("a", quota="gone"), OWN, Reason.NO_QUOTA, {"quota/gone"}, id="unknown quota"
        ),
        pytest.param(
            queue_unit("a"), OWN, Reason.NO_QUOTA, {"namespace/default"}, id="none at all"
        ),
        pytest.param(
            queue_unit("a", quota="team"),
            Directory(),
            Reason.NO_QUEUE,
            {"quota/team", "queue/team"},
            id="no queue yet",
        ),
        pytest.param(
            queue_unit("a", quota="team", queue=SHARED),
            Directory(shared_queue("other")),
            Reason.QUOTA_NOT_IN_QUEUE,
            {"quota/team", f"queue/{SHARED}"},
            id="not listed",
        ),
    ],
)
def test_a_missing_object_is_named_with_what_would_help(
    unit: QueueUnit, queues: QueueDirectory, reason: Reason, waits_for: set[str]
) -> None:
    got = new_plugin(quota("team")).map_unit(unit, queues)
    assert isinstance(got, Unmapped)
    assert got.refusal.reason is reason
    assert waits_for <= set(got.waits_for)


def test_a_created_or_deleted_quota_names_the_questions_it_may_answer() -> None:
    plugin = new_plugin()
    team = quota("team", metadata={"annotations": {NAMESPACES: '["labs"]'}})
    assert set(plugin.on_quota(team)) == {"quota/team", "namespace/labs"}
    assert plugin.on_quota(team) == ()
    moved = quota("team", metadata={"annotations": {NAMESPACES: '["shop"]'}})
    assert set(plugin.on_quota(moved)) == {"namespace/labs", "namespace/shop"}
    assert set(plugin.on_quota_gone(moved)) == {"quota/team", "namespace/shop"}


def test_an_edit_of_amounts_moves_no_unit() -> None:
    plugin = new_plugin(quota("team"))
    assert plugin.on_quota(quota("team", 9)) == ()


@pytest.mark.parametrize(
    ("quotas", "kind", "where"),
    [
        pytest.param([quota("a", parent="b"), quota("b", parent="a")], "Cycle", "kq/a", id="cycle"),
        pytest.param([quota("a", parent="nobody")], "ParentMissing", "kq/a", id="no parent"),
        pytest.param(
            [elastic_quota("a", min={"cpu": 5}, max={"cpu": 4}, namespace="kq")],
            "MinOverMax",
            "kq/a",
            id="min over max",
        ),
        pytest.param(
            [
                quota("top", 4, is_parent=True),
                quota("x", 3, parent="top"),
                quota("y", 3, parent="top"),
            ],
            "ChildrenMinOverMin",
            "kq/top",
            id="children's min over the parent's",
        ),
        pytest.param(
            [elastic_quota("a", max={"cpu": "9e999999999"}, namespace="kq")],
            "UnreadableAmount",
            "kq/a",
            id="absurd amount",
        ),
        pytest.param(
            [elastic_quota("a", max={"cpu": "-1"}, namespace="kq")],
            "NegativeAmount",
            "kq/a",
            id="negative amount",
        ),
    ],
)
def test_a_problem_of_a_quota_is_noticed_once(
    quotas: list[ElasticQuota], kind: str, where: str
) -> None:
    plugin = new_plugin(*quotas)
    reported = {(notice.reason, notice.key) for notice in plugin.take_notices()}
    assert (kind, where) in reported
    for each in quotas:
        plugin.on_quota(each)
    assert plugin.take_notices() == []


def test_a_recurring_problem_is_reported_again() -> None:
    good, bad = quota("a"), quota("a", parent="nobody")
    plugin = new_plugin(bad)
    assert len(plugin.take_notices()) == 1
    plugin.on_quota(good)
    assert plugin.take_notices() == []
    plugin.on_quota(bad)
    assert len(plugin.take_notices()) == 1


def test_units_of_a_quota_wait_until_there_is_room(kit: ShellKit) -> None:
    for name in ("a", "b"):
        kit.add_unit(name, cpu=3)
    first, second = kit.decide(), kit.decide()
    assert isinstance(first, Dequeue)
    assert isinstance(second, Refused)
    refusal = second.refusal
    assert (refusal.reason, refusal.limit, refusal.used, refusal.requested, refusal.missing) == (
        Reason.OVER_QUOTA_MAX,
        4000,
        3000,
        3000,
        2000,
    )


def test_a_refusal_names_the_namespace_where_several_quotas_have_the_name() -> None:
    plugin = new_plugin(quota("team", namespace="kq", metadata=created("2026-01-01T00:00:00Z")))
    engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
    engine.on_queue(queue("team"))
    engine.on_queue_unit(build_unit("big", "team", cpu=9))
    first = engine.decide_next("team", 0.0)
    assert isinstance(first, Refused)
    assert (first.refusal.quota, first.refusal.quota_namespace) == ("team", "")
    younger = created("2026-02-01T00:00:00Z")
    engine.on_quota(quota("team", 40, uid="x", namespace="labs", metadata=younger))
    again = engine.decide_next("team", 0.0)
    assert isinstance(again, Refused)
    assert (again.refusal.reason, again.refusal.quota_namespace) == (Reason.EXCEEDS_QUOTA, "kq")


def test_nodes_are_the_capacity_in_runtime_mode() -> None:
    plugin = new_plugin(quota("team", 100), mode=QuotaMode.RUNTIME)
    assert plugin.quotas.view("team") is not None
    plugin.on_node(node("n", allocatable={"cpu": "8"}))
    view = plugin.quotas.view("team")
    assert view is not None
    assert view.runtime["cpu"] <= 8000
    plugin.on_node_gone("n")
    gone = plugin.quotas.view("team")
    assert gone is not None
    assert gone.runtime.get("cpu", 0) <= view.runtime["cpu"]


def test_foreign_pods_follow_their_quota() -> None:
    plugin = new_plugin(mode=QuotaMode.RUNTIME)
    labels = {"quota.scheduling.koordinator.sh/name": "team"}
    pod = ForeignPod(
        name="default/p",
        namespace="default",
        labels=labels,
        request={"cpu": 500},
        stage=PodStage.BOUND,
    )
    plugin.on_foreign_pod("default/p", pod)
    plugin.on_quota(quota("team"))
    view = plugin.quotas.view("team")
    assert view is not None
    assert view.foreign == {"cpu": 500}
    plugin.on_foreign_pod("default/p", None)
    plugin.on_foreign_pod("default/p", None)
    view = plugin.quotas.view("team")
    assert view is not None
    assert view.foreign.get("cpu", 0) == 0


def test_a_fork_has_its_own_usage() -> None:
    plugin = new_plugin(quota("team"))
    twin = plugin.fork()
    twin.resize(quota("x").metadata.uid, "team", {"cpu": 4000}, non_preemptible=False, pods=1)
    view, other = plugin.quotas.view("team"), twin.quotas.view("team")
    assert view is not None
    assert other is not None
    assert (view.used.get("cpu", 0), other.used["cpu"]) == (0, 4000)
    assert twin.on_quota(quota("new")) == ("quota/new",)
    assert plugin.quotas.stated.names() == ("team",)


def test_a_fork_counts_its_own_nodes() -> None:
    plugin = new_plugin(quota("team", 100), mode=QuotaMode.RUNTIME)
    plugin.on_node(node("one", allocatable={"cpu": "8"}))
    twin = plugin.fork()
    twin.on_node(node("two", allocatable={"cpu": "8"}))
    plugin.resize(quota("x").metadata.uid, "team", {"cpu": 20_000}, non_preemptible=False, pods=1)
    twin.resize(quota("x").metadata.uid, "team", {"cpu": 20_000}, non_preemptible=False, pods=1)
    view, other = plugin.quotas.view("team"), twin.quotas.view("team")
    assert view is not None
    assert other is not None
    assert (view.runtime["cpu"], other.runtime["cpu"]) == (8000, 16_000)


# --- governed resources that pods request -----------------------------------------------------


def governs(name: str, *resources: str, parent: str = "") -> ElasticQuota:
    amounts: dict[str, str | int | float] = dict.fromkeys(resources, 8)
    more: dict[str, Any] = {"parent": parent} if parent else {}
    return elastic_quota(
        name, max=amounts, min=amounts, namespace="kq", metadata={"uid": f"uid-{name}"}, **more
    )


def engine_over(plugin: ElasticQuotaPlugin, *queues: Queue) -> Engine:
    engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
    for each in queues or (queue("team"),):
        engine.on_queue(each)
    return engine


def started(engine: Engine, name: str = "team") -> Dequeue:
    decision = engine.decide_next(name, 0.0)
    assert isinstance(decision, Dequeue)
    return decision


NONE: tuple[str, int, int] = ("main", 2, 0)


@pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.MIN])
@pytest.mark.parametrize(
    ("quotas", "unit", "want"),
    [
        pytest.param(
            [governs("team", "cpu", "memory")],
            build_unit("u", "team", pods=(NONE,)),
            ("cpu", "memory"),
            id="nothing at all",
        ),
        pytest.param(
            [governs("team", "cpu", "nvidia.com/gpu")],
            build_unit("u", "team", cpu=1),
            (),
            id="one of two: most pods ask for no device",
        ),
        pytest.param(
            [governs("team", "memory")], build_unit("u", "team", cpu=1), ("memory",), id="others"
        ),
        pytest.param(
            [governs("team", "pods")], build_unit("u", "team", pods=(NONE,)), (), id="idle key"
        ),
        pytest.param(
            [governs("team", "cpu")],
            build_unit("u", "team", pods=(("main", 0, 0),)),
            (),
            id="no pods",
        ),
    ],
)
def test_a_unit_that_takes_nothing_of_its_quota_is_reported(
    quotas: list[ElasticQuota], unit: QueueUnit, want: tuple[str, ...], mode: QuotaMode
) -> None:
    engine = engine_over(new_plugin(*quotas, mode=mode))
    engine.on_queue_unit(unit)
    assert started(engine).unrequested == want


def test_a_unit_that_is_charged_to_a_parent_takes_something() -> None:
    plugin = new_plugin(governs("top", "cpu"), governs("team", "memory", parent="top"))
    engine = engine_over(plugin)
    engine.on_queue_unit(build_unit("u", "team", cpu=1))
    assert started(engine).unrequested == ()


def requiring(*quotas: ElasticQuota) -> ElasticQuotaPlugin:
    settings = QuotaSettings(mode=QuotaMode.MAX, required_requests=frozenset({"cpu"}))
    plugin = ElasticQuotaPlugin(settings)
    for each in quotas:
        plugin.on_quota(each)
    return plugin


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_a_unit_that_lacks_a_required_request_holds_none_up(policy: str) -> None:
    engine = engine_over(requiring(governs("team", "cpu")), build_queue("team", policy))
    engine.on_queue_unit(build_unit("free", "team", pods=(NONE,), priority=9))
    engine.on_queue_unit(build_unit("pays", "team", cpu=1, created=5))
    refusal = refusal_of_unit(engine, "ns/free")
    assert refusal is not None
    assert refusal.reason is Reason.REQUESTS_MISSING
    want = "pod set main requests no cpu, which quota team asks of every pod"
    assert stable_message(refusal) == full_message(refusal) == want
    assert started(engine).unit == "ns/pays"
    assert engine.decide_next("team", 0.0) == Rest()
    assert refusal_of_unit(engine.fork(), "ns/free") == refusal
    engine.validate()


def test_a_required_request_counts_only_where_the_quota_governs_it() -> None:
    plugin = requiring(governs("team", "memory"))
    engine = engine_over(plugin)
    engine.on_queue_unit(build_unit("u", "team", pods=(NONE,)))
    assert refusal_of_unit(engine, "ns/u") == Refusal(reason=Reason.WAITING, quota="team")
    engine.on_quota(governs("team", "memory", "cpu"))
    refusal = refusal_of_unit(engine, "ns/u")
    assert refusal is not None
    assert refusal.reason is Reason.REQUESTS_MISSING
    engine.on_quota(governs("team", "memory"))
    assert started(engine).unit == "ns/u"
    engine.validate()


def test_a_running_unit_keeps_its_quota_when_a_request_becomes_required() -> None:
    unit = build_unit("u", "team", pods=(NONE,))
    engine = engine_over(requiring(governs("team", "cpu")))
    engine.on_queue_unit(admitted(unit, 7))
    assert refusal_of_unit(engine, "ns/u") is None
    engine.on_quota(governs("team", "cpu", "memory"))
    record = engine.record("ns/u")
    assert record is not None
    assert record.occupies


# --- what keeps a whole queue from working ----------------------------------------------------

TEAM = queue("team")


def test_a_queue_is_ready_when_one_of_its_quotas_is() -> None:
    plugin = new_plugin(quota("team", parent="nowhere"), quota("other"))
    assert plugin.why_not_ready(queue("other")) is None
    assert plugin.why_not_ready(shared_queue("*")) is None
    assert plugin.why_not_ready(shared_queue("team, other")) is None
    lists_another = {"annotations": {"koord-queue/available-quota": "other"}}
    assert plugin.why_not_ready(queue("team", metadata=lists_another)) is None


@pytest.mark.parametrize("its", [queue("gone"), shared_queue("gone")], ids=["own", "listed"])
def test_a_queue_without_any_quota_is_not_ready(its: Queue) -> None:
    got = new_plugin(quota("team")).why_not_ready(its)
    assert got is not None
    assert got.reason is Reason.NO_QUOTA


@pytest.mark.parametrize(
    ("quotas", "says"),
    [
        pytest.param(
            [quota("team", parent="x"), quota("x", parent="team")],
            "(team: its parents form a cycle: team -> x -> team)",
            id="cycle",
        ),
        pytest.param(
            [quota("team", parent="gone")], "(team: its parent 'gone' does not exist)", id="parent"
        ),
        pytest.param(
            [quota("team", parent="x"), elastic_quota("x", max={"cpu": "much"})],
            "(x: spec.max: ",
            id="amounts of the parent",
        ),
        pytest.param(
            [quota("team", parent="gone"), quota("team", namespace="younger", uid="2")],
            "(team: its parent 'gone' does not exist)",
            id="beside a younger one of the name",
        ),
    ],
)
def test_a_queue_of_a_broken_quota_says_what_is_wrong(quotas: list[Any], says: str) -> None:
    got = new_plugin(*quotas).why_not_ready(TEAM)
    assert got is not None
    assert got.reason is Reason.BROKEN_CHAIN
    assert says in queue_message(got)


def test_without_a_node_no_queue_is_ready_in_runtime_mode() -> None:
    plugin = new_plugin(quota("team"), mode=QuotaMode.RUNTIME)
    got = plugin.why_not_ready(TEAM)
    assert got is not None
    assert got.reason is Reason.NO_CAPACITY
    assert "no node" in queue_message(got)
    plugin.on_node(node("n"))
    assert plugin.why_not_ready(TEAM) is None
    plugin.on_node_gone("n")
    assert plugin.why_not_ready(TEAM) is not None


def test_the_expected_capacity_stands_in_for_nodes() -> None:
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.RUNTIME), {"cpu": 4000})
    plugin.on_quota(quota("team"))
    assert plugin.why_not_ready(TEAM) is None


@pytest.mark.parametrize(
    ("mode", "limits", "want"),
    [
        pytest.param(QuotaMode.MAX, (4, 40), "team", id="its own max"),
        pytest.param(QuotaMode.MAX, (40, 4), "org", id="the max of its parent"),
        pytest.param(QuotaMode.MIN, (4, 40), "team", id="its own min"),
        pytest.param(QuotaMode.RUNTIME, (4, 40), "team", id="at run time"),
        pytest.param(QuotaMode.RUNTIME, (40, 4), "org", id="of its parent, at run time"),
    ],
)
def test_a_demand_too_large_for_any_usage_says_so_and_waits_for_a_raised_limit(
    mode: QuotaMode, limits: tuple[int, int], want: str
) -> None:
    plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=mode)), Priority()])
    engine = Engine(plugins, BUILT_IN_POLICIES)
    engine.on_node(node("n", allocatable={"cpu": "100"}))

    def set_quotas(own: int, of_parent: int) -> None:
        low = {"cpu": min(own, of_parent)}
        org = elastic_quota("org", min=low, max={"cpu": of_parent}, is_parent=True)
        engine.on_quota(org)
        engine.on_quota(elastic_quota("team", min=low, max={"cpu": own}, parent="org"))

    set_quotas(*limits)
    engine.on_queue(queue("team"))
    small = build_unit("small", "team", cpu=1)
    engine.on_queue_unit(small)
    assert isinstance(engine.decide_next("team", 0.0), Dequeue)
    engine.on_queue_unit(build_unit("big", "team", cpu=9))
    refused = engine.decide_next("team", 0.0)
    assert isinstance(refused, Refused)
    assert (refused.refusal.reason, refused.refusal.quota) == (Reason.EXCEEDS_QUOTA, want)
    assert isinstance(engine.decide_next("team", 0.0), Rest)
    engine.on_queue_unit_gone(small)
    assert isinstance(engine.decide_next("team", 0.0), Rest)
    set_quotas(40, 40)
    assert isinstance(engine.decide_next("team", 0.0), Dequeue)


def test_it_answers_suppositions_about_other_bookings() -> None:
    engine = Engine(PluginRunner([new_plugin(quota("team"))]), BUILT_IN_POLICIES)
    engine.on_queue(queue("team"))
    engine.on_queue_unit(build_unit("one", "team", cpu=3))
    assert isinstance(engine.decide_next("team", 0.0), Dequeue)
    engine.on_queue_unit(build_unit("two", "team", cpu=3))
    one, two = engine.record("ns/one"), engine.record("ns/two")
    assert one is not None
    assert two is not None
    assert two.info is not None
    ask = engine.plugins.check_without
    assert ask(two.info, [one.uid]) is None
    got = ask(two.info, [one.uid], [Supposed("team", {"cpu": 2000})])
    assert got is not None
    assert (got.reason, got.used, got.missing) == (Reason.OVER_QUOTA_MAX, 2000, 1000)
    assert isinstance(engine.decide_next("team", 0.0), Refused)


# --- which namespaces may name a quota ------------------------------------------------------------

AVAILABLE = "koord-queue/available-quota-in-namespace"


def checking_plugin(*quotas: ElasticQuota) -> ElasticQuotaPlugin:
    """Return a plugin that requires quota or namespace to list the other."""
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX), checks_namespaces=True)
    for each in quotas:
        plugin.on_quota(each)
    return plugin


def namespace(name: str, listed: str = "") -> Namespace:
    annotations = {AVAILABLE: listed} if listed else {}
    return Namespace(metadata=ObjectMeta(name=name, annotations=annotations))


def apply_namespace(engine: Engine, listed: str) -> None:
    """Do as `EventHandlers.on_quota` does."""
    engine.on_quota(namespace("ns", listed))


THEIRS = queue_unit("a", quota="team", namespace="ns")


def reason_of(plugin: ElasticQuotaPlugin, unit: QueueUnit = THEIRS) -> Reason | None:
    found = plugin.map_unit(unit, OWN)
    return found.refusal.reason if isinstance(found, Unmapped) else None


def test_a_quota_that_the_namespace_may_not_name() -> None:
    plugin = checking_plugin(quota("team"))
    found = plugin.map_unit(THEIRS, OWN)
    assert isinstance(found, Unmapped)
    assert found.refusal == Refusal(reason=Reason.QUOTA_NOT_IN_NAMESPACE, quota="team", other="ns")
    assert set(found.waits_for) == {"namespace/ns", "quota/team"}
    assert reason_of(new_plugin(quota("team"))) is None, "open, as in koord-scheduler itself"
    assert reason_of(plugin, queue_unit("a", quota="team", namespace="kq")) is None, "its own"


def test_each_fact_that_changes_it_wakes_the_namespace() -> None:
    plugin = checking_plugin(quota("team"))
    twin = plugin.fork()
    lists = quota("team", metadata={"annotations": {NAMESPACES: '["ns"]'}})
    facts = [
        plugin.on_quota_source(namespace("ns", "other, team")),
        plugin.on_quota_source(namespace("ns", "other, team")),
        plugin.on_quota_source(namespace("ns", "other")),
        plugin.on_quota_source(namespace("ns", "*")),
        plugin.on_quota_source_gone(namespace("ns")),
        plugin.on_quota(lists),
        plugin.on_quota(quota("team")),
    ]
    woken = ("namespace/ns",)
    assert facts == [woken, (), woken, woken, woken, woken, woken]
    assert reason_of(twin) is Reason.QUOTA_NOT_IN_NAMESPACE
    twin.on_quota_source(namespace("ns", "team"))
    assert reason_of(twin) is None
    assert reason_of(plugin) is Reason.QUOTA_NOT_IN_NAMESPACE, "a fork is independent"


def test_a_unit_of_a_namespace_that_a_quota_lists_needs_no_name() -> None:
    lists = quota("team", metadata={"annotations": {NAMESPACES: '["ns"]'}})
    assert reason_of(checking_plugin(lists), queue_unit("a", namespace="ns")) is None


class TestAdopted:
    """A job ran unmanaged, and is now labeled with the quota of another team.

    Its unit's status says that it is adopted, which no decision has made.
    """

    PROOF = Condition(type=ADOPTED, status="True")

    def engine(self) -> Engine:
        plugin = checking_plugin()
        engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
        for name, lists in (("theirs", ""), ("ours", '["ns"]')):
            engine.on_quota(build_quota(name, cpu=4, namespaces=lists))
            engine.on_queue(build_queue(name))
        return engine

    @pytest.mark.parametrize("seen_before", ["", "Enqueued", "Running"])
    def test_only_its_pods_are_charged_where_they_say(self, seen_before: str) -> None:
        engine = self.engine()
        unit = build_unit("u", "theirs", cpu=3, job="job-u")
        if seen_before:
            engine.on_queue_unit(changed(unit, 2, seen_before))
        adopted = changed(unit, 3, "Running", conditions=(self.PROOF,))
        engine.on_queue_unit(adopted)
        uid = adopted.metadata.uid
        assert engine.usage.charge_of(uid) is None
        for name, label in (("p", ""), ("q", "theirs")):
            pod = build_pod(name, owner="job-u", quota=label)
            engine.on_pod(pod)
            engine.validate()
        charge = engine.usage.charge_of(uid)
        assert charge is not None
        assert (charge.quota, charge.pods) == ("ours", 2), "that of the first, by its namespace"
        twin = engine.fork()
        for each in (twin, engine):
            apply_namespace(each, "theirs")
            each.validate()
            charge = each.usage.charge_of(uid)
            assert charge is not None
            assert charge.quota == "theirs", "its namespace may name it now: it is charged there"

    def test_a_decided_admission_stays_charged(self) -> None:
        engine = self.engine()
        apply_namespace(engine, "theirs")
        unit = admitted(build_unit("u", "theirs", cpu=3), 2, "Running")
        engine.on_queue_unit(unit)
        apply_namespace(engine, "")
        engine.validate()
        charge = engine.usage.charge_of(unit.metadata.uid)
        assert charge is not None
        assert (charge.quota, charge.amounts) == ("theirs", {"cpu": 3000})
