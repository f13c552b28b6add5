"""Snapshots of the engine as the debug API shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.hiding import OF_OTHERS, hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.refusal_texts import stable_message
from shared_api.client.resource_types import ELASTIC_QUOTAS
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.submitters import NAMES_NOT_PROVED
from shared_api.testing.object_builders import (
    consumer_ref,
    elastic_quota,
    job_body,
    pod_set,
    queue,
    queue_unit,
)
from shared_api.well_known_labels import BACKFILL, MAX_DEPTH, STOP_POLICY
from tests.properties.engine_kit import build_pod, build_policy, wall_time
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Line, ShellKit
from tests.queue_scheduler.tenants.test_quota_use import HALF_LIFE, Teams, build_teams

NOW = wall_time(1_800_000_000)


@pytest.fixture
def busy(kit: ShellKit) -> ShellKit:
    """One unit admitted, one refused, one not asked yet, one on hold."""
    job = job_body("train")
    job["metadata"]["uid"] = "job-1"
    kit.add_unit("run", cpu=3, priority=9)
    kit.dequeue()
    kit.add_unit("big", cpu=2, priority=5, consumerRef=consumer_ref(job))
    kit.decide()
    kit.add_unit("small", priority=1)
    kit.add_unit("off", active=False)
    return kit


@pytest.fixture
def api(kit: ShellKit) -> StateAnswers:
    return StateAnswers(kit.shared, lambda: True, lambda: NOW)


@pytest.mark.usefixtures("busy")
def test_a_queue_with_counts_head_and_last_refusal(api: StateAnswers) -> None:
    page = api.queues()
    (queue,) = page.items
    assert (page.leader, page.total) == (True, 1)
    assert (queue.name, queue.policy, queue.quotas) == ("team", "Priority", ["team"])
    assert (queue.pending, queue.admitted) == (3, 1)
    assert queue.head is not None
    assert queue.head.name == "big"
    assert queue.last_refusal is not None
    assert queue.last_refusal.reason == "OverQuotaMax"


@pytest.mark.usefixtures("busy")
def test_a_refusal_has_its_numbers_and_its_message(api: StateAnswers) -> None:
    unit = api.queue_unit("default", "big")
    assert unit.refusal == views.RefusalView(
        reason="OverQuotaMax",
        message="needs more cpu than the max of quota team leaves: "
        "missing 1 (limit 4, used 3, requested 2)",
        quota="team",
        resource="cpu",
        limit="4",
        used="3",
        requested="2",
        missing="1",
    )
    assert unit.job == views.ConsumerView(api_version="batch/v1", kind="Job", name="train")
    assert (unit.phase, unit.scheduler_state, unit.priority) == ("Enqueued", "waiting", 5)
    assert (unit.demand, unit.charged) == ({"cpu": "2"}, {})


@pytest.mark.parametrize(
    ("reason", "other", "want"),
    [
        pytest.param(Reason.USER_LIMIT, "user idp/ann", "user idp/ann", id="a user"),
        pytest.param(Reason.BEHIND_ACCOUNT, "red/first", "", id="a unit of others"),
        pytest.param(Reason.BEHIND_QUEUE, "red/first", "", id="a unit of another queue"),
    ],
)
def test_a_user_whose_name_has_slashes_is_no_unit(reason: Reason, other: str, want: str) -> None:
    view = views.view_refusal(Refusal(reason=reason, quota="team", resource="cpu", other=other))
    asked: list[str] = []

    def may_read(namespace: str) -> bool:
        asked.append(namespace)
        return False

    shown = hide(view, may_read)
    assert (shown.other, other in shown.message) == (want, bool(want))
    assert asked == ([] if want else ["red"])


@pytest.mark.parametrize("reason", [Reason.BEHIND_ACCOUNT, Reason.BEHIND_QUEUE])
def test_of_a_hidden_unit_ahead_the_sentence_ends_with_whose_it_is(reason: Reason) -> None:
    refusal = Refusal(reason=reason, other="red/first", detail="used 2 times")
    view = views.view_refusal(refusal)
    assert view.message.endswith(": used 2 times (red/first is first)")
    hidden = hide(view, lambda _: False).message
    assert hidden == f"{stable_message(refusal)}: {OF_OTHERS}"


@pytest.mark.parametrize(
    ("half_life", "want"),
    [
        pytest.param(None, [None, None], id="turns do not go by use"),
        pytest.param(HALF_LIFE, [1.6, 0.4], id="turns go by use"),
    ],
)
def test_how_many_times_its_share_the_quota_of_a_queue_has_used(
    half_life: int | None, want: list[float | None]
) -> None:
    teams = Teams(*build_teams(), cpu=5, half_life=half_life)
    teams.ask("a", 4)
    teams.ask("b", 1)
    teams.run()
    shared = SharedEngine(teams.engine, lambda _: None)
    api = StateAnswers(shared, lambda: True, lambda: NOW)
    assert [api.queue(name).queue.share_used for name in ("a", "b")] == want
    teams.end()
    assert [each.share_used for each in api.queues().items] == [None, None]


def test_a_unit_without_a_quota_shows_its_request(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_unit("lost", quota="gone", cpu=2)
    unit = api.queue_unit("default", "lost")
    assert (unit.quota, unit.demand, unit.refusal is not None) == ("", {"cpu": "2"}, True)


def test_an_unreadable_demand_is_shown_as_none(kit: ShellKit, api: StateAnswers) -> None:
    kit.shared.apply(Engine.on_queue_unit, queue_unit("odd", requests={"cpu": "much"}))
    assert api.queue_unit("default", "odd").demand == {}


def test_pods_granted_given_back_and_held_add_up(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_unit("waits", podSet=[pod_set("main", 7, {"cpu": "1"})])
    waits = api.queue_unit("default", "waits")
    assert waits.pod_sets == [
        views.PodSetView(name="main", asked=7, granted=0, given_back=0, held=0)
    ]
    status = {
        "phase": "Running",
        "admissions": [{"name": "main", "replicas": 7, "running": 3}],
        "reclaimablePods": [{"name": "main", "count": 4}],
    }
    kit.direct.patch(
        "queueunits", "waits", {"status": status}, namespace="default", subresource="status"
    )
    kit.learn("waits")
    runs = api.queue_unit("default", "waits")
    assert runs.pod_sets == [
        views.PodSetView(name="main", asked=7, granted=7, given_back=4, held=3)
    ]
    assert runs.charged == {"cpu": "3"}


def test_what_pods_of_a_unit_are_charged_elsewhere(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_quota("other", cpu=4)
    kit.add_unit("runs", podSet=[pod_set("main", 2, {"cpu": "1"})])
    status = {"phase": "Running", "admissions": [{"name": "main", "replicas": 2, "running": 2}]}
    patch: Any = {"namespace": "default", "subresource": "status"}
    kit.direct.patch("queueunits", "runs", {"status": status}, **patch)
    kit.learn("runs")
    assert api.queue_unit("default", "runs").charged_elsewhere == {}
    later = 11 * 3600
    for name, quota in (("p", "team"), ("q", "other")):
        pod = build_pod(
            name, unit="default/runs", namespace="default", quota=quota, created=later, cpu=2
        )
        kit.shared.apply(Engine.on_pod, pod)
    runs = api.queue_unit("default", "runs")
    assert runs.charged == {"cpu": "3"}, "a larger pod, and the place of the one that is elsewhere"
    assert runs.charged_elsewhere == {"other": {"cpu": "2"}}


def test_what_a_unit_that_has_ended_was_granted_is_not_known(
    kit: ShellKit, api: StateAnswers
) -> None:
    """Its admissions are emptied when it ends."""
    kit.add_unit("done", podSet=[pod_set("main", 7, {"cpu": "1"})])
    kit.direct.patch(
        "queueunits",
        "done",
        {"status": {"phase": "Succeed"}},
        namespace="default",
        subresource="status",
    )
    kit.learn("done")
    assert api.queue_unit("default", "done").pod_sets == [
        views.PodSetView(name="main", asked=7, granted=None, given_back=None, held=0)
    ]


def test_a_units_reason_is_computed_anew_and_a_lists_reason_has_its_time(
    kit: ShellKit, api: StateAnswers
) -> None:
    """Not every change wakes a refused unit: only one that may let it start."""
    kit.shared.apply(Engine.on_quota, elastic_quota("org", max={"cpu": 5}, is_parent=True))
    kit.shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}, parent="org"))
    kit.shared.apply(Engine.on_quota, elastic_quota("next", max={"cpu": 9}, parent="org"))
    kit.shared.apply(Engine.on_queue, queue("next"))
    kit.add_unit("theirs", quota="next", cpu=3)
    kit.add_unit("ours", cpu=2)
    kit.shared.decide_next("next", 0.0, NOW)
    kit.shared.decide_next("team", 0.0, NOW)
    kit.add_unit("big", cpu=3)
    kit.shared.decide_next("team", 0.0, NOW)
    got = api.queue_unit("default", "big").refusal
    assert got is not None
    assert (got.reason, got.used, got.as_of) == ("OverQuotaMax", "2", "")
    listed = api.queue("team", 0, 1)
    for shown in (listed.units[0].refusal, listed.queue.last_refusal):
        assert shown is not None
        assert (shown.reason, shown.as_of) == ("OverQuotaMax", "2027-01-15T08:00:00Z")


def test_an_outdated_refusal_is_not_shown(kit: ShellKit, api: StateAnswers) -> None:
    run = kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    queue = kit.engine.queues.find("team")
    assert queue is not None
    kit.shared.apply(Engine.on_queue_unit_gone, run)
    record = kit.engine.record("default/big")
    assert record is not None
    assert record.info is not None
    stale = Refusal(reason=Reason.OVER_PARENT_MAX, quota="org", resource="cpu", limit=16, used=16)
    queue.pending.refuse(record.info, stale, 1)
    shown = api.queue_unit("default", "big").refusal
    assert shown is not None
    assert (shown.reason, shown.as_of) == ("Pending", "")


def test_a_reserved_unit_shows_the_answers_of_its_checks(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_unit("u")
    entry = {"state": "Pending", "message": "", "lastTransitionTime": "2026-11-01T09:00:00Z"}
    entries = [{**entry, "name": "nodes"}, {**entry, "name": "budget", "state": "Ready"}]
    status = {"status": {"phase": "Reserved", "admissionChecks": entries}}
    kit.direct.patch("queueunits", "u", status, namespace="default", subresource="status")
    kit.learn("u")
    unit = api.queue_unit("default", "u")
    assert (unit.phase, unit.checks) == ("Reserved", {"nodes": "Pending", "budget": "Ready"})


@pytest.mark.parametrize(
    ("name", "position", "state"),
    [("big", 1, "waiting"), ("small", 2, "waiting"), ("run", 0, "assumed"), ("off", 0, "held")],
)
@pytest.mark.usefixtures("busy")
def test_positions_count_from_one_and_only_in_the_queue(
    api: StateAnswers, name: str, position: int, state: str
) -> None:
    unit = api.queue_unit("default", name)
    assert (unit.position, unit.scheduler_state) == (position, state)


@pytest.mark.usefixtures("busy")
def test_a_page_of_a_queue(api: StateAnswers) -> None:
    def page(offset: int, limit: int) -> list[tuple[str, int]]:
        return [(unit.name, unit.position) for unit in api.queue("team", offset, limit).units]

    assert page(0, 2) == [("big", 1), ("small", 2)]
    assert page(1, 1) == [("small", 2)]
    assert page(0, 1) == [("big", 1)]
    assert page(5, 10) == []


def test_a_backfilling_queue_shows_which_unit_is_ahead_and_until_when(
    kit: ShellKit, api: StateAnswers
) -> None:
    patch = {"metadata": {"annotations": {BACKFILL: "true"}}}
    kit.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")
    kit.add_unit("run", cpu=3, maximumExecutionTimeSeconds=100)
    kit.dequeue()
    kit.add_unit("head", cpu=4)
    kit.add_unit("small", maximumExecutionTimeSeconds=101)
    for _ in range(2):
        kit.shared.decide_next("team", 0.0, NOW)
    head, small = api.queue_unit("default", "head"), api.queue_unit("default", "small")
    assert (head.promised_start, head.promise_is_overdue) == ("2027-01-15T08:01:40Z", False)
    assert (head.backfill_behind, small.promised_start) == ("", "")
    assert small.backfill_behind == "default/head"
    assert small.refusal is not None
    assert small.refusal.message.endswith("does not fit yet: default/head")
    assert api.queue("team", 0, 1).queue.backfill


def test_a_stopped_queue_says_so(kit: ShellKit, api: StateAnswers) -> None:
    annotations = {STOP_POLICY: "Hold", MAX_DEPTH: "x"}
    patch = {"metadata": {"annotations": annotations}}
    kit.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")
    kit.add_unit("waits")
    queue = api.queue("team", 0, 1).queue
    assert (queue.stop_policy, len(queue.problems)) == ("Hold", 1)
    assert queue.last_refusal is not None
    assert queue.last_refusal.reason == "StoppedQueue"


def test_what_is_wrong_with_policies_is_told_with_the_quotas(kit: ShellKit) -> None:
    def told() -> list[str]:
        return views.view_quotas(kit.shared.fork(), leader=False).problems

    too_many = build_policy("p", ["team"], UserLimit(users=("ann",), running=-1))
    kit.shared.apply(Engine.on_quota_policies_served, are_served=True)
    assert told() == []
    kit.shared.apply(Engine.on_quota_policy, too_many)
    (problem,) = told()
    assert problem.startswith("QuotaPolicy p: userLimits[0].running: must not be negative")
    budget = Budget(resource="cpu", hours=1, period="None")
    policy = build_policy("p", ["team"])
    policy = replace(policy, spec=replace(policy.spec, budgets=(budget,)))
    kit.shared.apply(Engine.on_quota_policy, policy)
    assert [each.partition(",")[0] for each in told()] == [
        "QuotaPolicy p: its budgets do not count"
    ]
    kit.shared.apply(Engine.on_quota_policies_served, are_served=False)
    assert told() == [views.POLICIES_NOT_SERVED]


@pytest.mark.parametrize("are_proved", [False, True])
def test_limits_by_names_that_nothing_proves_are_a_problem(kit: ShellKit, are_proved: bool) -> None:
    kit.shared.apply(Engine.on_quota_policies_served, are_served=True)
    limit = build_policy("p", ["team"], UserLimit(users=("ann",), running=1))
    kit.shared.apply(Engine.on_quota_policy, limit)
    engine = kit.shared.fork()
    engine.usage.are_names_proved = are_proved
    assert views.policy_problems(engine) == ([] if are_proved else [NAMES_NOT_PROVED])


def test_quotas_are_listed_under_their_parents(busy: ShellKit) -> None:
    busy.add_quota("child", 2, parent="team")
    busy.add_quota("lost", 2, parent="nobody")
    page = views.view_quotas(busy.shared.fork(), leader=False)
    tree = {node.name: [child.name for child in node.children] for node in page.items}
    assert tree == {"lost": [], "team": ["child"]}
    team = page.items[1]
    assert (team.max, team.used, team.usable) == ({"cpu": "4"}, {"cpu": "3"}, True)
    assert any("nobody" in problem for problem in page.items[0].problems)
    assert not page.items[0].usable


def test_a_cycle_is_shown_and_ends(kit: ShellKit) -> None:
    kit.add_quota("a", 1, parent="b")
    kit.add_quota("b", 1, parent="a")
    page = views.view_quotas(kit.shared.fork(), leader=True)
    shown: list[str] = []

    def walk(nodes: list[views.QuotaNodeView]) -> None:
        for node in nodes:
            shown.append(node.name)
            walk(node.children)

    walk(page.items)
    assert sorted(shown) == ["a", "b", "team"]


def test_a_chain_of_many_quotas_is_shown_in_pieces(kit: ShellKit) -> None:
    names = [f"deep-{number}" for number in range(1000)]
    for parent, name in zip(["", *names], names, strict=False):
        kit.add_quota(name, 1, parent=parent)
    page = views.view_quotas(kit.shared.fork(), leader=True)
    shown, level, levels = list[str](), page.items, 0
    while level:
        shown += [node.name for node in level]
        level, levels = [child for node in level for child in node.children], levels + 1
    assert sorted(shown) == sorted([*names, "team"])
    assert levels == views.MAX_NESTED
    assert msgspec.json.decode(page.model_dump_json())["items"]


@pytest.mark.usefixtures("busy")
def test_upstreams_paths_have_content(api: StateAnswers) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}
    big = {"namespace": "default", "name": "big", "job": job, "priority": 5, "position": 1}
    (page,) = api.waiting_pages(0, 1).values()
    shown = views.encode_upstream_queue("team", page.units)
    assert msgspec.json.decode(b"{" + shown + b"}") == {"team": [big]}
    cpu = views.QuotaUse(min={"cpu": "4"}, max={"cpu": "4"}, used={"cpu": "3"})
    assert api.upstream_quotas() == {"team": {"team": cpu}}


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("readable", "head", "message"),
    [
        pytest.param({"default", "labs"}, "big", ": labs/b", id="all"),
        pytest.param({"default"}, "big", f": {OF_OTHERS}", id="not the refusal's other"),
        pytest.param({"labs"}, None, ": labs/b", id="not the head's"),
    ],
)
def test_a_queue_names_no_units_of_others(
    api: StateAnswers, readable: set[str], head: str | None, message: str
) -> None:
    queue = api.queue("team").queue
    assert queue.last_refusal is not None
    refusal = views.view_refusal(Refusal(reason=Reason.BEHIND_REFUSED_UNIT, other="labs/b"))
    named = queue.model_copy(update={"last_refusal": refusal})
    shown = hide(named, readable.__contains__)
    assert (shown.head and shown.head.name) == head
    assert shown.last_refusal is not None
    assert shown.last_refusal.message.endswith(message)


def test_a_deleted_quota_leaves_its_queues_without_it(busy: ShellKit, api: StateAnswers) -> None:
    gone = busy.client.get(ELASTIC_QUOTAS, "default", "team")
    busy.shared.apply(Engine.on_quota_gone, gone)
    assert api.upstream_quotas() == {"team": {}}


@pytest.mark.parametrize(
    ("name", "listed", "want", "uses"),
    [
        pytest.param("other", None, ["other"], ["other"], id="idle, named like a quota"),
        pytest.param("mixed", None, [], [], id="idle, named like none"),
        pytest.param("mixed", "team, other,", ["other", "team"], ["other", "team"], id="listed"),
        pytest.param("mixed", "other,lost", ["lost", "other"], ["other"], id="listed and missing"),
        pytest.param("mixed", "*", ["*"], ["other", "team"], id="all"),
        pytest.param("other", "team", ["other", "team"], ["other", "team"], id="both"),
    ],
)
def test_a_queue_shows_the_quotas_that_it_takes(
    kit: ShellKit,
    api: StateAnswers,
    name: str,
    listed: str | None,
    want: list[str],
    uses: list[str],
) -> None:
    kit.shared.apply(Engine.on_quota, elastic_quota("other", max={"cpu": 2}))
    annotations = {} if listed is None else {"koord-queue/available-quota-in-queue": listed}
    kit.add_queue(name, metadata={"annotations": annotations})
    assert api.queue(name).queue.quotas == want
    assert {queue.name: queue.quotas for queue in api.queues().items}[name] == want
    assert list(api.upstream_quotas()[name]) == uses


def test_a_queue_shows_the_quotas_of_its_units(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_quota("other", 2)
    kit.add_queue("mixed", metadata={"annotations": {"koord-queue/available-quota": "*"}})
    kit.add_unit("a", queue="mixed")
    assert api.queue("mixed").queue.quotas == ["*", "team"]
    kit.dequeue("mixed")
    kit.add_unit("b", "other", queue="mixed")
    assert api.queue("mixed").queue.quotas == ["*", "other", "team"]


def test_an_admitted_unit_keeps_the_quota_in_its_queue(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_queue("mixed", metadata={"annotations": {"koord-queue/available-quota": "team"}})
    kit.add_unit("a", queue="mixed")
    kit.dequeue("mixed")
    kit.shared.apply(Engine.on_queue, queue("mixed"))
    assert api.queue("mixed").queue.quotas == ["team"]
    assert list(api.upstream_quotas()["mixed"]) == ["team"]


@pytest.fixture
def held(kit: ShellKit) -> ShellKit:
    """Units that cannot stand in queue `team`, one that does, and one that is booked."""
    kit.add_unit("run", cpu=2)
    kit.dequeue()
    kit.add_unit("waits")
    kit.add_unit("bad", podSet=None)
    kit.add_unit("stranger", "other", queue="team")
    kit.add_quota("other", 1)
    kit.add_unit("off", active=False)
    return kit


@pytest.mark.usefixtures("held")
def test_units_on_hold_are_listed_behind_the_queue(api: StateAnswers) -> None:
    units = api.queue("team").units
    shown = [(unit.name, unit.position, unit.refusal and unit.refusal.reason) for unit in units]
    assert shown == [
        ("waits", 1, "Pending"),
        ("bad", 0, "InvalidDemand"),
        ("off", 0, "Inactive"),
        ("stranger", 0, "QuotaNotInQueue"),
    ]
    assert all(unit.refusal is not None and unit.refusal.message for unit in units)


@pytest.mark.usefixtures("held")
def test_pages_continue_from_the_queue_into_the_units_on_hold(api: StateAnswers) -> None:
    def page(offset: int, limit: int) -> list[str]:
        return [unit.name for unit in api.queue("team", offset, limit).units]

    assert page(0, 1) == ["waits"]
    assert page(0, 2) == ["waits", "bad"]
    assert page(1, 1) == ["bad"]
    assert page(2, 10) == ["off", "stranger"]
    assert page(4, 10) == []


def test_the_last_refusal_is_of_a_unit_on_hold_if_none_in_the_queue_has_one(
    kit: ShellKit, api: StateAnswers
) -> None:
    def reasons() -> set[str]:
        queues = (api.queue("team").queue, *api.queues().items)
        return {queue.last_refusal.reason if queue.last_refusal else "" for queue in queues}

    kit.add_unit("a-stranger", "other", queue="team")
    kit.shared.apply(Engine.on_quota, elastic_quota("other", max={"cpu": 2}))
    assert [unit.refusal and unit.refusal.reason for unit in api.queue("team").units] == [
        "QuotaNotInQueue"
    ]
    assert reasons() == {""}
    kit.add_unit("bad", podSet=None)
    assert reasons() == {"InvalidDemand"}
    kit.add_unit("big", cpu=9)
    assert reasons() == {"InvalidDemand"}
    kit.decide()
    assert reasons() == {"ExceedsQuota"}


def test_an_admitted_unit_that_its_queue_does_not_take_is_not_held(
    kit: ShellKit, api: StateAnswers
) -> None:
    kit.add_queue("mixed")
    kit.add_unit("a", queue="mixed")
    runs = {"status": {"phase": "Running"}}
    kit.direct.patch("queueunits", "a", runs, namespace="default", subresource="status")
    kit.learn("a")
    detail = api.queue("mixed")
    assert (detail.queue.admitted, detail.units, detail.queue.last_refusal) == (1, [], None)


def test_a_waiting_unit_shows_which_units_it_would_evict(kit: ShellKit, api: StateAnswers) -> None:
    queue = Line(kit)
    for name, priority in (("low", 1), ("middle", 5)):
        kit.add_unit(name, cpu=2, priority=priority)
        queue.cycle.carry_out(kit.dequeue())
        kit.send()
    kit.add_unit("high", cpu=2, priority=9)
    kit.decide()
    off = api.queue_unit("default", "high").would_preempt
    low = views.VictimView(namespace="default", name="low", priority=1, lost_seconds=0)
    assert off == views.WouldPreemptView(enabled=False, reason="Preempted", victims=[low])
    assert api.queue_unit("default", "low").would_preempt is None
    on = {"metadata": {"annotations": {"koord-queue/enable-queueunit-preemption": "true"}}}
    kit.direct.patch("queues", "team", on, namespace="koord-queue")
    kit.learn_queue("team")
    assert api.queue_unit("default", "high").would_preempt == off.model_copy(
        update={"enabled": True}
    )
    assert kit.engine.nominations.by_key == {}


class TestWithoutOthers:
    """What is shown of units in namespaces that a caller may not read."""

    def view(self, api: StateAnswers, kit: ShellKit, **changes: Any) -> views.UnitView:
        kit.add_unit("mine", cpu=1)
        return api.queue_unit("default", "mine").model_copy(update=changes)

    def test_victims_are_counted(self, kit: ShellKit, api: StateAnswers) -> None:
        places = [("default", 5), ("labs", 7), ("secret", 30), ("secret", 12)]
        victims = [
            views.VictimView(namespace=where, name="v", priority=1, lost_seconds=lost)
            for where, lost in places
        ]
        would = views.WouldPreemptView(enabled=True, reason="Preempted", victims=victims)
        seen = hide(self.view(api, kit, would_preempt=would), lambda where: where == "labs")
        assert seen.would_preempt is not None
        assert [each.namespace for each in seen.would_preempt.victims] == ["default", "labs"]
        assert (seen.would_preempt.others, seen.would_preempt.others_lost_seconds) == (2, None)

    @pytest.mark.parametrize(
        ("hidden", "want"), [((), 0), (("a",), None), (("a", "b"), None), (("a", "b", "c"), 15)]
    )
    def test_lost_time_is_summed_up_over_three_namespaces_at_least(
        self, kit: ShellKit, api: StateAnswers, hidden: tuple[str, ...], want: int | None
    ) -> None:
        victims = [
            views.VictimView(namespace=where, name="v", priority=1, lost_seconds=5)
            for where in ("labs", *hidden)
        ]
        would = views.WouldPreemptView(enabled=True, reason="Preempted", victims=victims)
        seen = hide(self.view(api, kit, would_preempt=would), lambda where: where == "labs")
        assert seen.would_preempt is not None
        assert (seen.would_preempt.others, seen.would_preempt.others_lost_seconds) == (
            len(hidden),
            want,
        )

    @pytest.mark.parametrize(
        ("reason", "other", "is_named"),
        [
            (Reason.WOULD_DELAY_HEAD, "secret/b", False),
            (Reason.ROOM_FOR_PREEMPTOR, "secret/b", False),
            (Reason.HURTS_OTHERS, "team", True),
        ],
    )
    def test_the_unit_ahead(
        self, kit: ShellKit, api: StateAnswers, reason: Reason, other: str, *, is_named: bool
    ) -> None:
        refusal = Refusal(reason=reason, other=other, resource="cpu", limit=3000, used=2500)
        view = self.view(api, kit, refusal=views.view_refusal(refusal), backfill_behind=other)
        seen = hide(view, lambda _: False)
        assert (other in seen.model_dump_json()) is is_named
        assert seen.refusal is not None
        anonymous = views.view_refusal(msgspec.structs.replace(refusal, other=OF_OTHERS))
        assert (seen.refusal.message == anonymous.message) is not is_named
        assert hide(view, lambda _: True) is view
