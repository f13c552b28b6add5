"""Facts are states: in any order, twice, late, of new objects under old names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.known_units import count_admitted, count_pending, pending_units
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Reason, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.queue_unit_info import unit_key
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp
from shared_api.objects.node import Node
from shared_api.objects.queue import AdmissionCheckReference, QueueStatus
from shared_api.objects.queue_unit import Placement, QueueUnit, QueueUnitStatus
from shared_api.objects.quota_policy import UserLimit
from shared_api.queue_unit_phases import SUSPEND_CONTESTED
from shared_api.well_known_labels import MAX_DEPTH, PREEMPTIBLE, QUOTA_NAME
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_check,
    build_pod,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
    changed,
    moment,
    new_engine,
    started,
)
from tests.properties.naive_quota import NaiveQuota

UNIT = build_unit("u", "a", cpu=2, version=10)
OF_B: dict[str, str] = {QUOTA_NAME: "b"}
TWO_QUOTAS = (*(build_quota(each, cpu=4) for each in "ab"), *map(build_queue, "ab"))


def engine_of(*facts: Any) -> tuple[Engine, NaiveQuota]:
    engine, plugin = new_engine()
    for fact in facts:
        apply(engine, fact)
        engine.validate()
    return engine, plugin


def apply(engine: Engine, fact: Any) -> tuple[str, ...]:
    got: dict[str, Callable[[Any], tuple[str, ...]]] = {
        "Queue": engine.on_queue,
        "ElasticQuota": engine.on_quota,
        "QueueUnit": engine.on_queue_unit,
        "Pod": engine.on_pod,
    }
    return got[type(fact).__name__](fact)


def kinds(facts: tuple[Any, ...]) -> str:
    return ", ".join(type(fact).__name__ for fact in facts)


def state(engine: Engine, key: str = "ns/u") -> UnitState | None:
    engine.validate()
    record = engine.record(key)
    return record.state if record is not None else None


def reason(engine: Engine, key: str = "ns/u") -> Reason | None:
    refusal = refusal_of_unit(engine, key)
    return refusal.reason if refusal is not None else None


# --- any order ----------------------------------------------------------------------------------

LABELLED = (build_quota("a", cpu=4), build_queue("a"), UNIT)
BY_NAMESPACE = (
    build_quota("a", cpu=4, namespaces='["ns"]'),
    build_queue("shared", takes="a"),
    build_unit("u", queue="shared", cpu=2),
)


@pytest.mark.parametrize("facts", [*permutations(LABELLED)], ids=kinds)
def test_the_last_fact_that_a_unit_waited_for_wakes_its_queue(facts: tuple[Any, ...]) -> None:
    engine, _ = engine_of(*facts[:-1])
    assert apply(engine, facts[-1]) == ("a",)
    assert state(engine) is UnitState.WAITING


@pytest.mark.parametrize("facts", [*permutations(BY_NAMESPACE)], ids=kinds)
def test_a_quota_of_the_namespace_wakes_it_too(facts: tuple[Any, ...]) -> None:
    engine, _ = engine_of(*facts[:-1])
    assert apply(engine, facts[-1]) == ("shared",)


@pytest.mark.parametrize("facts", [*permutations(BY_NAMESPACE)], ids=kinds)
def test_a_running_unit_is_charged_to_the_same_quota_in_any_order(facts: tuple[Any, ...]) -> None:
    booked = [admitted(f, 2, "Running") if f is BY_NAMESPACE[2] else f for f in facts]
    engine, plugin = engine_of(*booked)
    assert plugin.used("a") == {"cpu": 2000}
    assert count_admitted(engine.units, "shared") == 1


@pytest.mark.parametrize("phase", ["Running", "Enqueued", "TimeoutBackoff", "Succeed", "Failed"])
def test_pods_before_units_and_units_before_pods(phase: str) -> None:
    pod, unit = build_pod("p", unit="ns/u", quota="a", cpu=3), changed(UNIT, 11, phase)
    for facts in permutations((build_quota("a", cpu=9), build_queue("a"), unit, pod)):
        _, plugin = engine_of(*facts)
        assert plugin.used("a") == {"cpu": 3000}
        assert plugin.foreign == {}


def test_strays_find_their_quota_when_it_arrives() -> None:
    pod = build_pod("p", unit="ns/u", namespace="ns", quota="")
    engine, plugin = engine_of(pod)
    assert plugin.used("a") == {}
    engine.on_quota(build_quota("a", namespaces='["ns"]'))
    assert plugin.used("a") == {"cpu": 1000}


def test_strays_stay_charged_as_before_their_units_were_deleted() -> None:
    """Two units of one name, one after the other and of two quotas, leave pods behind."""
    quotas = [build_quota(name, cpu=9) for name in "ab"]
    pods = [build_pod(f"of-{quota}", unit="ns/u", quota=quota) for quota in "ab"]
    for facts in permutations((*quotas, *pods)):
        engine, plugin = engine_of(*facts)
        assert (plugin.used("a"), plugin.used("b")) == ({"cpu": 1000}, {"cpu": 1000})
        engine.on_pod(build_pod("of-a", unit="ns/u", quota="b"))
        assert (plugin.used("a"), plugin.used("b")) == ({}, {"cpu": 2000})


# --- twice, late, under an old name -------------------------------------------------------------


@pytest.mark.parametrize(
    "fact",
    [*LABELLED, build_pod("p", unit="ns/u"), build_pod("f")],
    ids=lambda fact: fact.metadata.uid,
)
def test_a_repeated_fact_changes_and_wakes_nothing(fact: Any) -> None:
    engine, plugin = engine_of(*LABELLED, fact)
    before = plugin.booked(), list(engine.units.records.values())
    assert apply(engine, fact) == ()
    assert (plugin.booked(), list(engine.units.records.values())) == before


def test_older_versions_are_ignored() -> None:
    engine, _ = engine_of(*LABELLED)
    assert engine.on_queue_unit(changed(UNIT, 9, "Running")) == ()
    assert engine.on_queue_unit(changed(UNIT, 10, "Running")) == ()
    assert state(engine) is UnitState.WAITING
    older_object = build_unit("u", "a", uid="never seen", version=3)
    assert engine.on_queue_unit(older_object) == ()
    record = engine.record("ns/u")
    assert record is not None
    assert record.uid == UNIT.metadata.uid


def test_the_older_version_counts_in_a_replaced_history() -> None:
    booked = admitted(UNIT, 20)
    engine, plugin = engine_of(build_quota("a"), build_queue("a"), booked)
    assert engine.on_queue_unit(UNIT) == ()
    assert plugin.used("a") == {"cpu": 2000}
    assert engine.on_queue_unit(UNIT, is_rewound=True) == ("a",)
    assert plugin.used("a") == {}
    record = engine.record("ns/u")
    assert record is not None
    assert (record.state, record.version) == (UnitState.WAITING, 10)
    engine.validate()


def test_a_unit_deleted_since_counts_in_a_replaced_history() -> None:
    engine, _ = engine_of(build_quota("a"), build_queue("a"), UNIT)
    engine.on_queue_unit_gone(UNIT)
    engine.on_queue_unit(UNIT)
    assert engine.record("ns/u") is None
    engine.on_queue_unit(UNIT, is_rewound=True)
    assert engine.record("ns/u") is not None
    engine.on_queue_unit(changed(UNIT, 11))
    assert engine.units.records["ns/u"].version == 11


def test_versions_that_are_not_numbers_are_taken_in_order_of_arrival() -> None:
    engine, _ = engine_of(*LABELLED)
    odd = replace(UNIT.metadata, resource_version="x1")
    engine.on_queue_unit(replace(changed(UNIT, 0, "Running"), metadata=odd))
    assert state(engine) is UnitState.ADMITTED
    engine.on_queue_unit(replace(changed(UNIT, 0, "Succeed"), metadata=odd))
    assert state(engine) is UnitState.ENDED


def test_a_recreated_unit_is_another() -> None:
    engine, plugin = engine_of(*LABELLED[:2], admitted(UNIT, 11, "Running"))
    again = build_unit("u", "a", uid="other", version=12)
    assert engine.on_queue_unit(again) == ("a",)
    assert (state(engine), plugin.used("a")) == (UnitState.WAITING, {})
    assert engine.on_queue_unit_gone(UNIT) == ()
    assert engine.on_queue_unit(changed(UNIT, 99, "Running")) == ()
    assert state(engine) is UnitState.WAITING
    engine.on_queue_unit_gone(again)
    assert state(engine) is None
    assert engine.on_queue_unit_gone(again) == ()


def test_unknown_objects_can_be_deleted() -> None:
    engine, _ = engine_of()
    assert engine.on_queue_gone("q") == ()
    assert engine.on_queue_unit_gone(UNIT) == ()
    assert engine.on_quota_gone(build_quota("a")) == ()
    assert engine.on_pod_gone(build_pod("p")) == ()


# --- queues -------------------------------------------------------------------------------------


def test_a_queue_is_deleted_and_recreated() -> None:
    engine, _ = engine_of(*LABELLED)
    assert engine.on_queue_gone("a") == ()
    assert (state(engine), reason(engine)) == (UnitState.ON_HOLD, Reason.NO_QUEUE)
    assert engine.on_queue(build_queue("a", "FIFO")) == ("a",)
    assert state(engine) is UnitState.WAITING


def test_an_inactive_check_holds_as_a_missing_quota_does() -> None:
    want = Reason.ADMISSION_CHECK_INACTIVE
    engine, _ = engine_of(*LABELLED)
    engine.on_admission_check(build_check("c", "False"))
    engine.on_queue(build_queue("a", admission_checks=(AdmissionCheckReference(name="c"),)))
    assert (state(engine), reason(engine)) == (UnitState.ON_HOLD, want)
    assert count_pending(engine.units, "a") == 1
    engine.on_quota_gone(LABELLED[0])
    assert reason(engine) is Reason.NO_QUOTA
    engine.on_quota(LABELLED[0])
    assert reason(engine) is want
    assert engine.on_queue(LABELLED[1]) == ("a",)
    assert state(engine) is UnitState.WAITING


def test_a_policy_may_change_while_units_wait_and_sleep() -> None:
    engine, _ = engine_of(build_quota("a", cpu=2), build_queue("a", "Block"))
    engine.on_queue_unit(build_unit("big", "a", cpu=3, created=1, version=1))
    engine.on_queue_unit(build_unit("high", "a", created=3, priority=1, version=2))
    engine.on_queue_unit(build_unit("low", "a", created=2, version=3))
    workers = Workers(engine)
    workers.wake(["a"])
    assert started(workers.run()) == ["high"]
    workers.wake(engine.on_queue(build_queue("a", "Priority")))
    assert started(workers.run()) == ["low"]
    assert [r.key for r in pending_units(engine.units, "a")] == ["ns/big"]


def test_a_unit_evicted_after_a_change_of_policy_is_ordered_by_the_new_one() -> None:
    running = admitted(build_unit("old", "a", created=1, version=5), 6, "Running")
    engine, _ = engine_of(*LABELLED[:2], running)
    engine.on_queue(build_queue("a", "FIFO"))
    engine.on_queue_unit(build_unit("new", "a", created=2, priority=9, version=7))
    engine.on_queue_unit(changed(running, 8, "Enqueued", admissions=()))
    assert [record.key for record in pending_units(engine.units, "a")] == ["ns/old", "ns/new"]


@pytest.mark.parametrize(
    ("edited", "want"),
    [
        pytest.param("2", [], id="edited, not enough"),
        pytest.param("3", ["third"], id="edited"),
        pytest.param(None, ["third"], id="removed"),
        pytest.param("-1", ["third"], id="no limit"),
        pytest.param("two", [], id="nonsense"),
    ],
)
def test_an_edit_of_the_depth_counts_at_once(edited: str | None, want: list[str]) -> None:
    engine, _ = engine_of(build_quota("a", cpu=2), build_queue("a", annotations={MAX_DEPTH: "1"}))
    workers = Workers(engine)
    for number, (name, cpu) in enumerate([("first", 9), ("second", 8), ("third", 1)]):
        workers.wake(engine.on_queue_unit(build_unit(name, "a", cpu=cpu, created=number)))
    assert started(workers.run()) == []
    written = {} if edited is None else {MAX_DEPTH: edited}
    workers.wake(engine.on_queue(build_queue("a", annotations=written)))
    assert started(workers.run()) == want


class TestUnknownPolicy:
    def test_the_last_valid_one_stays(self) -> None:
        engine, _ = engine_of(build_queue("a", "FIFO"), build_queue("a", "Lottery"))
        queue = engine.queues.find("a")
        assert queue is not None
        assert queue.rules.policy.name == "FIFO"

    def test_after_a_restart_the_one_in_the_status_stays(self) -> None:
        for got, want in (("Block", "Block"), ("", "Priority"), ("Gone", "Priority")):
            known = QueueStatus(policy_in_force=got)
            engine, _ = engine_of(replace(build_queue("a", "Lottery"), status=known))
            queue = engine.queues.find("a")
            assert queue is not None
            assert queue.rules.policy.name == want

    def test_the_status_is_not_read_while_it_is_known(self) -> None:
        lies = QueueStatus(policy_in_force="Block")
        edited = replace(build_queue("a", "Lottery"), status=lies)
        engine, _ = engine_of(build_queue("a", "FIFO"), edited)
        queue = engine.queues.find("a")
        assert queue is not None
        assert queue.rules.policy.name == "FIFO"

    def test_it_is_reported_once(self) -> None:
        engine, _ = engine_of(build_queue("a", "Lottery"), build_queue("a", "Lottery", priority=1))
        notices = engine.take_notices()
        assert [(n.kind, n.reason) for n in notices] == [("Queue", "UnknownPolicy")]
        assert "Priority stays in force" in notices[0].note
        assert engine.take_notices() == []


def test_the_list_of_quotas_that_a_queue_takes_may_change() -> None:
    unit = build_unit("u", "a", queue="shared")
    engine, _ = engine_of(build_quota("a"), build_queue("shared", takes="b"), unit)
    assert reason(engine) is Reason.QUOTA_NOT_IN_QUEUE
    assert engine.on_queue(build_queue("shared", takes="a,b")) == ("shared",)
    engine.on_queue(build_queue("shared", takes="b"))
    assert reason(engine) is Reason.QUOTA_NOT_IN_QUEUE


# --- quotas -------------------------------------------------------------------------------------


def test_a_quota_is_deleted_and_recreated() -> None:
    running = admitted(build_unit("r", "a"), 2, "Running")
    engine, plugin = engine_of(*LABELLED, running)
    engine.on_quota_gone(LABELLED[0])
    assert (state(engine), reason(engine)) == (UnitState.ON_HOLD, Reason.NO_QUOTA)
    assert plugin.used("a") == {"cpu": 1000}, "running units stay charged under its name"
    assert engine.on_quota(LABELLED[0]) == ("a",)
    assert count_admitted(engine.units, "a") == 1


def test_a_quota_that_moves_under_another_parent_shares_turns_there() -> None:
    engine, _ = engine_of(*LABELLED, build_quota("b", cpu=1, parent="top"), build_queue("b"))
    engine.on_queue_unit(build_unit("w", "b", version=11))
    engine.on_quota(build_quota("top", cpu=9))
    engine.validate()
    engine.on_quota(build_quota("a", cpu=4, parent="top"))
    engine.validate()
    assert engine.decide_next("b", 0.0).wake == ("a",)


# --- units --------------------------------------------------------------------------------------


def test_pods_of_a_relabeled_unit_are_charged_where_their_own_labels_say() -> None:
    facts = [x for name in ("a", "b") for x in (build_quota(name, cpu=4), build_queue(name))]
    pod = build_pod("p", unit="ns/u", quota="a")
    engine, plugin = engine_of(*facts, UNIT, pod)
    assert plugin.used("a") == {"cpu": 1000}
    moved = build_unit("u", "b", cpu=2, version=11)
    engine.on_queue_unit(moved)
    assert (plugin.used("a"), plugin.used("b")) == ({"cpu": 1000}, {})
    engine.on_queue_unit(admitted(moved, 12, "Running"))
    assert (plugin.used("a"), plugin.used("b")) == ({"cpu": 1000}, {"cpu": 2000})
    _, its_plugin = engine_of(*facts, pod, admitted(moved, 12, "Running"))
    assert (its_plugin.used("a"), its_plugin.used("b")) == ({"cpu": 1000}, {"cpu": 2000})


def test_a_unit_is_not_admitted_for_pods_that_run_out_of_turn() -> None:
    """A user who resumes a waiting job would otherwise have it admitted, above the quota."""
    unit = build_unit("u", "a", cpu=2, job="job-1")
    pods = [build_pod(name, unit="ns/u", quota="a", owner="job-1") for name in ("p", "q")]
    engine, plugin = engine_of(build_quota("a", cpu=1), build_queue("a"), unit, *pods)
    assert plugin.used("a") == {"cpu": 2000}
    decision = engine.decide_next("a", 0.0)
    assert isinstance(decision, Refused), decision
    assert state(engine) is UnitState.WAITING


def test_pods_of_its_job_stay_where_their_labels_say_when_it_is_relabeled() -> None:
    facts = [x for name in ("a", "b") for x in (build_quota(name, cpu=4), build_queue(name))]
    pod = build_pod("p", unit="ns/u", quota="a", owner="job-1")
    engine, plugin = engine_of(*facts, build_unit("u", "a", job="job-1"), pod)
    engine.on_queue_unit(build_unit("u", "b", cpu=2, version=11, job="job-1"))
    assert (plugin.used("a"), plugin.used("b")) == ({"cpu": 1000}, {})


def test_an_adopted_unit_is_charged_at_once_even_above_the_quota() -> None:
    unit = admitted(build_unit("u", "a", cpu=9), 2, "Running")
    engine, plugin = engine_of(*LABELLED[:2], unit)
    assert (state(engine), plugin.used("a")) == (UnitState.ADMITTED, {"cpu": 9000})


def test_a_unit_that_only_claims_to_be_adopted_waits_in_the_queue() -> None:
    unit = build_unit("u", "a", cpu=9, annotations={"koord-queue/adopted": "true"})
    engine, plugin = engine_of(*LABELLED[:2], unit)
    assert (state(engine), plugin.used("a")) == (UnitState.WAITING, {})


def test_until_an_adoption_is_proved_its_pods_are_charged_and_nothing_starts_on_top() -> None:
    unit = build_unit("u", "a", cpu=2, job="job-1", created=5)
    pod = build_pod("p", cpu=2, owner="job-1", created=1)
    rival = build_unit("rival", "a", cpu=3, created=6)
    engine, plugin = engine_of(build_quota("a", cpu=4), build_queue("a"), pod, unit, rival)
    assert (state(engine), plugin.used("a")) == (UnitState.WAITING, {"cpu": 2000})
    engine.on_queue_unit(admitted(unit, 12, "Running"))
    workers = Workers(engine)
    workers.wake(["a"])
    assert started(workers.run()) == []
    assert plugin.used("a") == {"cpu": 2000}, "charged once"


def placed(unit: QueueUnit, version: int, quota: str, **labels: str) -> QueueUnit:
    """Return a unit admitted in a quota, with its labels of now."""
    placement = Placement(quota=quota, queue=unit.spec.queue, labels={QUOTA_NAME: quota})
    unit = admitted(unit, version, "Running")
    meta = replace(unit.metadata, labels={**unit.metadata.labels, **labels})
    return replace(unit, metadata=meta, status=replace(unit.status, placement=placement))


def test_a_booking_stays_in_the_quota_of_its_admission_despite_later_labels() -> None:
    unit = placed(build_unit("u", "a", cpu=1), 11, "a")
    engine, plugin = engine_of(*TWO_QUOTAS, unit)
    engine.on_queue_unit(placed(build_unit("u", "a", cpu=1), 12, "a", **{QUOTA_NAME: "b"}))
    assert (plugin.used("a"), plugin.used("b")) == ({"cpu": 1000}, {})
    protected = placed(build_unit("u", "a", cpu=1), 13, "a", **{PREEMPTIBLE: "false"})
    engine.on_queue_unit(protected)
    record = engine.record("ns/u")
    assert record is not None
    assert record.info is not None
    assert not record.info.non_preemptible
    restarted, quotas = engine_of(*TWO_QUOTAS, protected)
    assert (quotas.used("a"), quotas.used("b")) == ({"cpu": 1000}, {})
    back = changed(replace(protected, status=QueueUnitStatus()), 14)
    for each in (engine, restarted):
        each.on_queue_unit(replace(back, metadata=replace(back.metadata, labels=OF_B)))
        assert state(each) is UnitState.WAITING
    assert plugin.used("a") == quotas.used("a") == {}


@pytest.mark.parametrize("cpu", [None, "-1", "many"])
def test_an_invalid_unit_is_in_no_units_way(cpu: str | None) -> None:
    bad = build_unit("bad", "a", cpu=cpu, version=1)
    engine, _ = engine_of(build_quota("a", cpu=4), build_queue("a", "Block"), bad)
    engine.on_queue_unit(changed(bad, 2, message="x"))
    engine.on_queue(build_queue("a", "FIFO"))
    assert reason(engine, "ns/bad") is Reason.INVALID_DEMAND
    engine.on_queue_unit(build_unit("u", "a", created=5, version=3))
    workers = Workers(engine)
    workers.wake(["a"])
    assert started(workers.run()) == ["u"]
    engine.on_queue_unit(build_unit("bad", "a", version=4))
    assert state(engine, "ns/bad") is UnitState.WAITING


def test_a_broken_unit_that_runs_is_counted_by_its_pods() -> None:
    bad = changed(build_unit("u", "a", cpu="many"), 2, "Running")
    _, plugin = engine_of(*LABELLED[:2], bad, build_pod("p", unit="ns/u"))
    assert plugin.used("a") == {"cpu": 1000}


def test_an_edit_that_only_users_read_does_not_cost_a_unit_its_position() -> None:
    engine, _ = engine_of(*LABELLED)
    before = engine.record("ns/u")
    assert engine.on_queue_unit(changed(UNIT, 11, message="waits")) == ()
    after = engine.record("ns/u")
    assert before is not None
    assert after is not None
    assert (before.unit.status.message, after.unit.status.message) == ("", "waits")


# --- pods and nodes -----------------------------------------------------------------------------


def test_pods_of_a_deleted_unit_stay_charged_until_the_last_is_gone() -> None:
    pods = [build_pod(f"p{n}", unit="ns/u", quota="a") for n in range(2)]
    engine, plugin = engine_of(*LABELLED[:2], admitted(UNIT, 11, "Running"), *pods)
    engine.on_queue_unit_gone(UNIT)
    assert plugin.used("a") == {"cpu": 2000}
    engine.on_pod_gone(pods[0])
    assert plugin.used("a") == {"cpu": 1000}
    engine.on_pod(replace(pods[1], status=replace(pods[1].status, phase="Succeeded")))
    assert plugin.booked() == {}
    engine.validate()


def test_a_pod_with_an_unreadable_request_is_reported_once() -> None:
    engine, _ = engine_of(build_pod("p", cpu="many"), build_pod("p", cpu="many"))
    assert [(n.kind, n.reason) for n in engine.take_notices()] == [("Pod", "InvalidRequests")]


def test_of_notices_that_nobody_takes_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that does not lead takes none, and a user causes one by each edit of a pod."""
    monkeypatch.setattr("queue_scheduler.engine.engine.MAX_NOTICES", 3)
    engine, _ = engine_of(*(build_pod(f"p{n}", cpu="many") for n in range(5)))
    assert [notice.key for notice in engine.take_notices()] == ["ns/p2", "ns/p3", "ns/p4"]
    assert engine.take_notices() == []


def test_foreign_pods_and_nodes_reach_the_plugins() -> None:
    engine, plugin = engine_of(build_pod("p"))
    assert list(plugin.foreign) == ["ns/p"]
    engine.on_pod_gone(build_pod("p"))
    assert plugin.foreign == {}
    engine.on_node(Node(metadata=ObjectMeta(name="n")))
    engine.on_node_gone("n")
    assert plugin.calls == ["node n", "node gone n"]


def test_a_unit_is_moved_to_the_end_of_its_queue_on_request() -> None:
    """By its status alone: all other changes of the status leave it where it is."""
    units = [build_unit(name, "a", created=n, version=10 + n) for n, name in enumerate("uvw")]
    engine, _ = engine_of(build_quota("a", cpu=1), build_queue("a"), *units)
    got = Condition(type="QuotaReserved", status="False", reason="OverMax")
    engine.on_queue_unit(changed(units[0], 20, conditions=(got,)))
    assert line_of(engine) == ["ns/u", "ns/v", "ns/w"]
    contested = Condition(
        type=SUSPEND_CONTESTED, status="True", last_transition_time=Timestamp(moment(50))
    )
    for _ in range(2):
        engine.on_queue_unit(changed(units[0], 21, conditions=(got, contested)))
        engine.validate()
        assert line_of(engine) == ["ns/v", "ns/w", "ns/u"]
    twin = engine.fork()
    assert line_of(twin) == ["ns/v", "ns/w", "ns/u"]


def line_of(engine: Engine) -> list[str]:
    queue = engine.queues.find("a")
    assert queue is not None
    return [unit_key(key) for key in queue.pending.in_order()]


# --- policies -----------------------------------------------------------------------------------


def test_policies_and_quotas_may_arrive_in_any_order() -> None:
    limit = UserLimit(users=("ann",), running=1)
    facts: list[Callable[[Engine], object]] = [
        lambda engine: engine.on_quota(build_quota("a")),
        lambda engine: engine.on_quota_policy(build_policy("p", ["a", "b"], limit, second=1)),
        lambda engine: engine.on_quota_policy(build_policy("q", ["b"], second=0)),
        lambda engine: engine.on_quota_policies_served(are_served=True),
    ]
    got = []
    for order in permutations(facts):
        engine, _ = new_engine()
        for fact in order:
            fact(engine)
            fact(engine)
        got.append([engine.policies.limits_of(quota).rules for quota in "ab"])
    assert got == [got[0]] * len(got)
    assert [len(rules) for rules in got[0]] == [1, 0]


def test_a_fork_has_policies_of_its_own() -> None:
    engine, _ = new_engine()
    engine.on_quota_policy(build_policy("p", ["a"], UserLimit(users=("ann",), running=1)))
    twin = engine.fork()
    twin.on_quota_policy_gone("p")
    assert (bool(engine.policies.limits_of("a")), bool(twin.policies.limits_of("a"))) == (
        True,
        False,
    )


def test_a_limit_that_cannot_be_read_is_a_notice() -> None:
    engine, _ = new_engine()
    engine.on_quota_policy(build_policy("p", ["a"], UserLimit(users=("ann",), running=-1)))
    assert [each.reason for each in engine.take_notices()] == ["UnreadableLimit"]
    assert engine.take_notices() == []
