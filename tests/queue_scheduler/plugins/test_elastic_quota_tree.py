"""ElasticQuota (trees): a unit's node and queue, its limits, and what is remembered."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from queue_scheduler.decision import Dequeue, Reason, Refusal
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.refusal_texts import full_message, stable_message
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.namespace import Namespace
from shared_api.testing.object_builders import elastic_quota_tree, tree_node
from tests.properties.engine_kit import build_queue, build_unit
from tests.queue_scheduler.quota_source_kit import (
    FULLNAME,
    TREE_LABEL,
    SourceEngine,
    cpus,
    info,
    tree,
    tree_plugin,
    tree_world,
)
from tests.queue_scheduler.quota_source_kit import MAX_JOBS as JOBS

PREEMPTIBLE_JOBS = "koord-queue/max-preempible-jobs"
LENDLIMIT = "alibabacloud.com/lendlimit"
REQUIRED = frozenset({"cpu"})
NON_PREEMPTIBLE = {"quota.scheduling.koordinator.sh/preemptible": "false"}


# --- which node, which queue --------------------------------------------------------------------

PLAIN = tree(
    tree_node("a", tree_node("x"), tree_node("y", namespaces=["ns-y"])),
    tree_node("b", tree_node("x"), tree_node("z", namespaces=["*"])),
)
QUEUES = ("root-a-y", "root-b-z", "root-a", "shared")
KOORDINATOR = "quota.scheduling.koordinator.sh/name"
QUEUE_NAME = "koord-queue/queue-name"


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param({"node": "y"}, ("root/a/y", "root-a-y"), id="a name"),
        pytest.param({"node": "a"}, ("root/a", "root-a"), id="a node that is no leaf"),
        pytest.param({"labels": {KOORDINATOR: "y"}}, ("root/a/y", "root-a-y"), id="other label"),
        pytest.param(
            {"node": "y", "labels": {KOORDINATOR: "z"}}, ("root/a/y", "root-a-y"), id="both"
        ),
        pytest.param({"namespace": "ns-y"}, ("root/a/y", "root-a-y"), id="its namespace"),
        pytest.param({"namespace": "any"}, ("root/b/z", "root-b-z"), id="any namespace"),
        pytest.param({"node": "y", "queue": "y"}, ("root/a/y", "root-a-y"), id="as controllers do"),
    ],
)
def test_a_unit_waits_in_the_queue_of_its_node(unit: dict[str, Any], want: tuple[str, str]) -> None:
    room = tree_world(PLAIN, *QUEUES)
    room.add("u", **unit)
    assert room.place("u") == want


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({"koord-queue/available-quota-in-queue": "z, y"}, None),
        ({"kube-queue/available-quota": "root/a/y"}, None),
        ({"koord-queue/available-quota": "*"}, None),
        ({FULLNAME: "root/a/y"}, None),
        ({FULLNAME: "root/a"}, Reason.QUOTA_NOT_IN_QUEUE),
        ({}, Reason.QUOTA_NOT_IN_QUEUE),
    ],
)
def test_a_named_queue_has_to_take_the_quota(
    annotations: dict[str, str], want: Reason | None
) -> None:
    room = tree_world(PLAIN)
    room.add("u", "y", annotations={QUEUE_NAME: "mine"})
    assert room.reason("u") is Reason.NO_QUEUE
    room.engine.on_queue(build_queue("mine", annotations=annotations))
    if want is None:
        assert room.place("u") == ("root/a/y", "mine")
    else:
        assert room.reason("u") is want


def test_an_ambiguous_name_is_refused_with_both_nodes() -> None:
    room = tree_world(PLAIN, *QUEUES)
    room.add("u", "x")
    refusal = room.refusal("u")
    assert refusal.reason is Reason.AMBIGUOUS_QUOTA
    assert "root/a/x and root/b/x" in stable_message(refusal)
    room.add_queues("root-a-x")
    room.apply(tree(tree_node("a", tree_node("x"))))
    assert room.place("u") == ("root/a/x", "root-a-x")


def test_a_unit_waits_for_the_tree_and_for_its_node() -> None:
    room = SourceEngine(tree_plugin())
    room.add_queues("root-a-y")
    room.add("named", "y")
    room.add("spaced", namespace="ns-y")
    assert "y does not exist" in stable_message(room.refusal("named"))
    assert "namespace ns-y has none" in stable_message(room.refusal("spaced"))
    room.apply(PLAIN)
    assert room.start("root-a-y") == ["named", "spaced"]


@pytest.mark.parametrize("listed", ["y", "root/a/y", "*"])
def test_with_the_gate_a_namespace_must_list_what_its_units_name(listed: str) -> None:
    room = tree_world(PLAIN, *QUEUES, checks_available=True)
    room.add("u", "y")
    assert room.reason("u") is Reason.QUOTA_NOT_IN_NAMESPACE
    room.apply(namespace("ns", {"koord-queue/available-quota-in-namespace": listed}))
    assert room.place("u") == ("root/a/y", "root-a-y")
    room.apply_gone(namespace("ns"))
    assert room.reason("u") is Reason.QUOTA_NOT_IN_NAMESPACE


def namespace(name: str, annotations: dict[str, str] | None = None) -> Namespace:
    made = Namespace()
    meta = type(made.metadata)(name=name, annotations=annotations or {})
    return Namespace(metadata=meta)


HELD = {"koord-queue/stop-policy": "Hold", FULLNAME: "root/a/b"}
ONE = tree(tree_node("a", tree_node("b", **cpus(10)), **cpus(10)), **cpus(10))
BESIDE = tree(
    tree_node("a", tree_node("b", **cpus(10)), **cpus(10)), tree_node("a-b", **cpus(5)), **cpus(10)
)
"""`root/a-b` gets the name that the queue of `root/a/b` has, and is the first by path."""


def test_a_stopped_node_stays_stopped_when_another_gets_the_name_of_its_queue() -> None:
    room = tree_world(ONE, "root-a")
    room.engine.on_queue(build_queue("root-a-b", annotations=HELD))
    room.add("held", "b")
    assert room.start("root-a-b") == []
    room.apply(BESIDE)
    room.add("beside", "a-b")
    other = room.refusal("beside").other
    assert room.place("held") == ("root/a/b", "root-a-b")
    assert other != "root-a-b"
    room.engine.on_queue(build_queue(other, annotations={FULLNAME: "root/a-b"}))
    assert room.start("root-a-b", other) == ["beside"]
    room.write("beside")
    again = room.restarted(tree_plugin())
    again.apply(BESIDE)
    assert again.place("held") == ("root/a/b", "root-a-b")
    assert again.start("root-a-b", other) == []


def test_units_follow_the_annotations_of_queues() -> None:
    room = tree_world(BESIDE)
    room.add("held", "b")
    room.add("beside", "a-b")
    assert room.refusal("beside").other == "root-a-b", "with no queue the first by path has it"
    moved = room.refusal("held").other
    room.engine.on_queue(build_queue("root-a-b", annotations=HELD))
    room.engine.validate()
    assert room.place("held") == ("root/a/b", "root-a-b")
    other = room.refusal("beside").other
    assert other not in {"root-a-b", moved}
    room.engine.on_queue_gone("root-a-b")
    room.engine.validate()
    assert (room.refusal("beside").other, room.refusal("held").other) == ("root-a-b", moved)


# --- limits -------------------------------------------------------------------------------------


def test_jobs_wait_for_jobs_and_are_woken_by_their_end() -> None:
    room = tree_world(tree(tree_node("a", **cpus(9, jobs=1))), "root-a")
    for name in ("first", "second"):
        room.add(name, "a")
    assert room.start("root-a") == ["first"]
    refusal = room.refusal("second")
    assert refusal.reason is Reason.OVER_MAX_JOBS
    assert full_message(refusal) == (
        "is one job more than quota root/a may have (koord-queue/max-jobs): "
        "missing 1 (limit 1, used 1, requested 1)"
    )
    room.finish("first")
    assert room.start("root-a") == ["second"]


def test_the_tree_limits_preemptible_jobs() -> None:
    limited = tree(tree_node("a"), tree_node("b"), labels={PREEMPTIBLE_JOBS: "1"})
    room = tree_world(limited, "root-a", "root-b")
    room.add("one", "a")
    assert room.start("root-a") == ["one"]
    room.add("two", "b")
    room.add("firm", "b", labels=NON_PREEMPTIBLE)
    assert room.start("root-b") == ["firm"]
    assert (room.reason("two"), room.refusal("two").quota) == (Reason.OVER_MAX_JOBS, "root")


def test_huge_limits_are_exact() -> None:
    limit = 2**40
    room = tree_world(tree(tree_node("a", max={"memory": limit})))
    plugin = next(iter(room.engine.plugins))
    assert isinstance(plugin, ElasticQuotaTreePlugin)

    def ask(memory: int) -> Refusal | None:
        unit = info("root/a", 0)
        sized = UnitDemand((), {"memory": memory})
        return plugin.check(type(unit)(**{**fields(unit), "demand": sized}))

    assert ask(limit) is None
    refusal = ask(limit + 1)
    assert refusal is not None
    assert (refusal.reason, refusal.limit) == (Reason.EXCEEDS_QUOTA, limit)


def fields(unit: QueueUnitInfo) -> dict[str, Any]:
    return {name: getattr(unit, name) for name in unit.__struct_fields__}


def test_the_oversell_rate_multiplies_every_limit() -> None:
    room = tree_world(tree(tree_node("a", **cpus(2, jobs=2))), "root-a", rate=Fraction(3, 2))
    for name in "abcd":
        room.add(name, "a")
    assert room.start("root-a") == ["a", "b", "c"]


def test_amounts_that_are_not_lent_stay_for_their_owner() -> None:
    keeps = tree_node(
        "a", attributes={LENDLIMIT: '{"cpu": 4}'}, **cpus(10, minimum=6)
    )  # 2 of 6 are never lent
    room = tree_world(tree(keeps, tree_node("b", **cpus(10)), **cpus(10)), "root-a", "root-b")
    room.add("big", "b", cpu=9)
    assert room.start("root-b") == []
    refusal = room.refusal("big")
    assert (refusal.reason, refusal.quota) == (Reason.OVER_PARENT_MAX, "root")
    assert (refusal.limit, refusal.used, refusal.requested) == (10_000, 2000, 9000)
    room.add("fits", "b", cpu=8)
    room.add("owner", "a", cpu=2)
    assert room.start("root-a", "root-b") == ["owner", "fits"]


@pytest.mark.parametrize("checks_hungry", [False, True])
def test_a_borrower_gives_way_to_hungry_quotas_where_that_is_checked(
    checks_hungry: bool,
) -> None:
    of = tree(tree_node("owner", **cpus(8, minimum=4)), tree_node("other", **cpus(8)), **cpus(8))
    room = tree_world(of, "root-owner", "root-other", checks_hungry=checks_hungry)
    for name in ("one", "two", "three", "four"):
        room.add(name, "other", cpu=2)
    assert len(room.start("root-other")) == 4
    room.add("hungry", "owner", cpu=4)
    room.add("more", "other", cpu=2)
    both = ("root-owner", "root-other")
    assert room.start(*both) == []
    room.finish("one")
    if not checks_hungry:
        assert room.start(*both) == ["more"]
        return
    room.add("late", "other", cpu=1)
    assert room.start(*both) == []
    assert room.reason("late") is Reason.GUARANTEE_OF_OTHERS
    assert room.refusal("late").other == "root/owner"
    room.finish("two")
    assert room.start(*both) == ["hungry"]


def test_nothing_is_kept_for_a_unit_that_waits_for_a_job_to_end() -> None:
    of = tree(
        tree_node("owner", **cpus(8, minimum=4, jobs=1)), tree_node("other", **cpus(8)), **cpus(8)
    )
    room = tree_world(of, "root-owner", "root-other", checks_hungry=True)
    room.add("first", "owner", cpu=1)
    room.start("root-owner")
    room.add("second", "owner", cpu=2)
    room.add("borrower", "other", cpu=7)
    assert room.start("root-owner", "root-other") == ["borrower"]


@pytest.mark.parametrize(
    ("policy", "want", "reason"),
    [
        pytest.param("Block", [], Reason.BEHIND_REFUSED_UNIT, id="E1: Block holds it back"),
        pytest.param("Priority", ["pi-2"], None, id="E2: Priority lets it pass"),
    ],
)
def test_a_unit_behind_one_that_never_fits(
    policy: str, want: list[str], reason: Reason | None
) -> None:
    child = tree_node("child-1", max={"cpu": 1, "memory": "1Gi", JOBS: 1})
    room = tree_world(tree(child, max={"cpu": 999_900}))
    takes = {"koord-queue/available-quota": "child-1"}
    room.engine.on_queue(build_queue("test-queue", policy, annotations=takes))
    named = {"annotations": {QUEUE_NAME: "test-queue"}}
    room.add("pi-1", "child-1", pods=(("main", 2, 1),), priority=3, **named)
    room.add("pi-2", "child-1", pods=(("main", 1, 1),), priority=0, **named)
    assert room.start("test-queue") == want
    assert room.reason("pi-1") is Reason.EXCEEDS_QUOTA
    if reason is not None:
        assert room.reason("pi-2") is reason


def test_a_job_without_requests_is_charged_no_resource() -> None:
    room = tree_world(tree(tree_node("a", **cpus(4, jobs=2))), "root-a")
    room.add("free", "a", pods=(("main", 1, 0),))
    decision = room.engine.decide_next("root-a", 0.0)
    assert isinstance(decision, Dequeue)
    assert decision.unrequested == ("cpu",)


def test_a_required_request_holds_a_unit_where_its_node_governs_it() -> None:
    room = tree_world(tree(tree_node("a", **cpus(4))), "root-a", required_requests=REQUIRED)
    room.add("free", "a", pods=(("main", 1, 0),))
    room.add("pays", "a", cpu=1)
    assert room.reason("free") is Reason.REQUESTS_MISSING
    twin = room.engine.fork()
    twin.on_queue_unit(build_unit("new", labels={TREE_LABEL: "a"}, pods=(("main", 1, 0),)))
    assert refusal_of_unit(twin, "ns/new") == room.refusal("free")
    assert room.start("root-a") == ["pays"]
    room.apply(tree(tree_node("a", max={"memory": 4})))
    assert room.start("root-a") == ["free"]


# --- what is remembered -------------------------------------------------------------------------


def test_bookings_stay_under_the_path_while_the_tree_is_deleted() -> None:
    of = tree(tree_node("a", **cpus(4)))
    room = tree_world(of, "root-a")
    room.add("u", "a", cpu=3)
    room.start("root-a")
    room.write("u")
    room.apply_gone(of)
    assert room.charged("u") == "root/a"
    room.add("late", "a", cpu=2)
    assert room.reason("late") is Reason.NO_QUOTA
    room.apply(of)
    assert room.start("root-a") == []
    assert room.refusal("late").used == 3000


def test_a_restart_without_the_tree_finds_the_bookings_when_it_arrives() -> None:
    of = tree(tree_node("a", **cpus(4)))
    room = tree_world(of, "root-a")
    room.add("u", "a", cpu=3)
    room.start("root-a")
    room.write("u")
    again = room.restarted(tree_plugin())
    again.apply(of)
    assert again.charged("u") == "root/a"


def test_units_follow_a_moved_node() -> None:
    room = tree_world(tree(tree_node("a", tree_node("x", **cpus(4))), tree_node("b")), "root-a-x")
    room.add("runs", "x", cpu=3)
    room.start("root-a-x")
    room.write("runs")
    room.add("waits", "x", cpu=3)
    room.start("root-a-x")
    room.add_queues("root-b-x")
    moved = tree(tree_node("a"), tree_node("b", tree_node("x", **cpus(4))))
    room.apply(moved)
    assert room.charged("runs") == "root/b/x"
    assert room.place("waits") == ("root/b/x", "root-b-x")
    again = room.restarted(tree_plugin())
    again.apply(moved)
    assert again.charged("runs") == room.charged("runs"), "a restart gives the same"
    assert room.start("root-b-x") == []
    room.finish("runs")
    assert room.start("root-b-x") == ["waits"]


def test_of_two_trees_the_older_counts_and_the_other_is_reported() -> None:
    def at(time: str, name: str) -> ElasticQuotaTree:
        meta = {"creationTimestamp": time, "uid": name}
        return elastic_quota_tree(tree_node("r", tree_node(name)), name=name, metadata=meta)

    room = SourceEngine(tree_plugin())
    room.apply(at("2026-11-02T00:00:00Z", "younger"))
    assert room.engine.take_notices() == []
    older = at("2026-11-01T00:00:00Z", "older")
    room.apply(older)
    (notice,) = room.engine.take_notices()
    assert (notice.kind, notice.key, notice.reason) == (
        "ElasticQuotaTree",
        "kube-system/younger",
        "SecondTree",
    )
    assert room.engine.take_notices() == []
    room.add("u", "older")
    assert room.reason("u") is Reason.NO_QUEUE
    room.apply_gone(older)
    assert room.reason("u") is Reason.NO_QUOTA


def test_a_problem_of_a_node_is_reported_once_and_holds_its_units() -> None:
    broken = tree(tree_node("a", max={"cpu": "lots"}), tree_node("b"))
    room = tree_world(broken, "root-a", "root-b")
    (notice,) = room.engine.take_notices()
    assert (notice.uid, notice.reason) == ("tree-1", "UnreadableAmount")
    assert notice.note.startswith("root/a: max: cpu: ")
    assert room.engine.take_notices() == []
    room.add("held", "a")
    room.add("free", "b")
    assert room.start("root-a", "root-b") == ["free"]
    assert room.reason("held") is Reason.BROKEN_CHAIN
    room.apply(tree(tree_node("a"), tree_node("b")))
    assert room.start("root-a") == ["held"]


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({FULLNAME: "root/b"}, None),
        ({FULLNAME: "root/a"}, Reason.BROKEN_CHAIN),
        ({FULLNAME: "root/gone"}, Reason.NO_QUOTA),
        ({"koord-queue/available-quota": "a, b"}, None),
        ({}, Reason.NO_QUOTA),
    ],
)
def test_whether_a_queue_can_work(annotations: dict[str, str], want: Reason | None) -> None:
    plugin = tree_plugin()
    plugin.on_quota_source(tree(tree_node("a", max={"cpu": -1}), tree_node("b")))
    refusal = plugin.why_not_ready(build_queue("q", annotations=annotations))
    assert (refusal.reason if refusal is not None else None) is want


def test_a_fork_decides_the_same_and_changes_nothing() -> None:
    room = tree_world(tree(tree_node("a", **cpus(4))), "root-a")
    for name in "ab":
        room.add(name, "a", cpu=3)
    twin = room.engine.fork()
    assert twin.plugins.without_fork == ()
    twin.on_queue_unit(build_unit("new", labels={"x": "y"}))
    first = twin.decide_next("root-a", 0.0)
    assert room.engine.decide_next("root-a", 0.0) == first
    plugin = next(iter(room.engine.plugins))
    assert isinstance(plugin, ElasticQuotaTreePlugin)
    plugin.fork().on_quota_source_gone(PLAIN)
    assert [view.name for view in view_all_quotas(PluginRunner([plugin]))] == ["root", "root/a"]
