"""What the scheduler keeps is compared with the caches; what differs twice is repaired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from queue_scheduler.cache.unit_repair import is_in_place
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Notice, WriteFailure
from queue_scheduler.engine import limit_changes
from queue_scheduler.engine.audit import Kind, judge_pods, judge_units
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import ForeignPod
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, QueueUnitInfo
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.limit_use import Counted
from queue_scheduler.unit_controllers import self_audit
from queue_scheduler.unit_controllers.self_audit import DIFFERS, REST_SECONDS, SelfAudit, Stores
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import Budget, UserLimit
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_pod,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
    changed,
    wall_time,
)
from tests.properties.real_quotas import RealQuotas, new_engine

WAITS = build_unit("w", "a", cpu=2, version=10)
RUNS = admitted(build_unit("r", "a", cpu=2), 11, "Running")
POD = build_pod("p", unit="ns/r", cpu=3)
STRAY = build_pod("s", unit="ns/none")
FOREIGN = build_pod("f", quota="b")
GREW = build_unit("r", "a", pods=(("main", 4, 1),))


@pytest.fixture(autouse=True)
def _one_slice_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tests change something between two slices.
    monkeypatch.setattr(self_audit, "SLICES_PER_STEP", 1)


class AuditWorld:
    """An engine, the caches that its facts come from, and the audit of both."""

    def __init__(self, *, repairs: bool = True) -> None:
        self.clock = VirtualClock()
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.on_quota(build_quota("a", cpu=10))
        self.engine.on_quota(build_quota("b", cpu=10))
        self.engine.on_queue(build_queue("a"))
        self.shared = SharedEngine(self.engine, lambda _: None)
        self.units = IndexedStore[QueueUnit]()
        self.pods = IndexedStore[Pod]()
        self.reported: list[Notice] = []
        self.counted: list[Kind] = []
        self.is_ready = True
        self.audit = SelfAudit(
            self.shared,
            Stores(self.units, self.pods),
            lambda: self.is_ready,
            self.reported.append,
            self,
            self.clock,
            repairs=repairs,
        )
        for fact in (WAITS, RUNS, POD, STRAY, FOREIGN):
            self.learn(fact)

    def on_audit_difference(self, kind: Kind) -> None:
        self.counted.append(kind)

    def learn(self, fact: QueueUnit | Pod) -> None:
        """Put an object into its cache, and tell the engine."""
        self.cache(fact)
        if isinstance(fact, Pod):
            self.engine.on_pod(fact)
        else:
            self.engine.on_queue_unit(fact)

    def cache(self, fact: QueueUnit | Pod) -> None:
        """Put an object into its cache alone: the event is lost."""
        store: IndexedStore[Any] = self.pods if isinstance(fact, Pod) else self.units
        store.put_observed(fact, force=True)

    def drop(self, fact: QueueUnit | Pod) -> None:
        """Take an object out of its cache: the event of its deletion is lost."""
        store: IndexedStore[Any] = self.pods if isinstance(fact, Pod) else self.units
        store.remove_observed(fact.metadata.key, fact.metadata.uid, "99")

    def begin_round(self) -> None:
        """Let a round begin, and judge its first slice."""
        self.clock.advance(self_audit.ROUND_SECONDS)
        assert self.audit.step() == REST_SECONDS

    def end_round(self) -> None:
        for _ in range(100):
            if self.audit.step() > REST_SECONDS:
                return
        raise AssertionError("the round does not end")

    def round(self) -> None:
        self.begin_round()
        self.end_round()

    @property
    def quotas(self) -> Any:
        return RealQuotas(self.engine).plugin.quotas

    def info(self, key: str) -> QueueUnitInfo:
        record = self.engine.record(key)
        assert record is not None
        assert record.info is not None
        return record.info

    def state(self, key: str) -> UnitState | None:
        record = self.engine.record(key)
        return None if record is None else record.state

    def cpu(self) -> int:
        """Return how much is charged to the quota, in whole cores."""
        view = self.quotas.view("a")
        return int(view.used.get("cpu", 0)) // 1000

    def decide(self) -> Dequeue:
        decision = self.engine.decide_next("a", 0.0)
        assert isinstance(decision, Dequeue)
        return decision


# --- what is found --------------------------------------------------------------------------------


def add_unit(world: AuditWorld) -> None:
    world.cache(build_unit("new", "a", version=12))


def forget_unit_wrongly(world: AuditWorld) -> None:
    world.engine.on_queue_unit_gone(RUNS)


def drop_unit(world: AuditWorld) -> None:
    world.drop(WAITS)


def recreate_unit(world: AuditWorld) -> None:
    world.drop(WAITS)
    world.cache(build_unit("w", "a", version=20, uid="second"))


def end_unit(world: AuditWorld) -> None:
    world.cache(changed(RUNS, 12, "Succeed", admissions=()))


def overcharge(world: AuditWorld) -> None:
    world.engine.usage.charge_admitted(world.info("ns/r"), Granted(Occupancy({"cpu": 9000}, 1)))


def release_charge(world: AuditWorld) -> None:
    world.engine.usage.release(RUNS.metadata.uid)


def change_ledger(world: AuditWorld) -> None:
    world.quotas.charge(RUNS.metadata.uid, "a", Demand({"cpu": 9000}))


def charge_only_ledger(world: AuditWorld) -> None:
    world.quotas.charge(WAITS.metadata.uid, "a", Demand({"cpu": 9000}))


def add_pod(world: AuditWorld) -> None:
    world.cache(build_pod("second", unit="ns/r"))


def resize_pod(world: AuditWorld) -> None:
    world.cache(build_pod("p", unit="ns/r", cpu=5))


def end_pod(world: AuditWorld) -> None:
    world.cache(build_pod("p", unit="ns/r", phase="Succeeded"))


def drop_pod(world: AuditWorld) -> None:
    world.drop(POD)


def add_stray(world: AuditWorld) -> None:
    world.cache(build_pod("more", unit="ns/none"))


def release_stray(world: AuditWorld) -> None:
    for uid in list(world.engine.usage):
        if uid.startswith("stray:"):
            world.engine.usage.release(uid)


def add_foreign(world: AuditWorld) -> None:
    world.cache(build_pod("foreign"))


def change_foreign_ledger(world: AuditWorld) -> None:
    world.quotas.on_foreign("ns/f", "a", {"cpu": 9000}, stage=PodStage.BOUND)


def charge_foreign_ghost(world: AuditWorld) -> None:
    world.quotas.on_foreign("ns/ghost", "a", {"cpu": 9000}, stage=PodStage.BOUND)


def release_foreign(world: AuditWorld) -> None:
    RealQuotas(world.engine).plugin.on_foreign_pod("ns/f", None)


def withdraw(world: AuditWorld) -> None:
    world.engine.queues.withdraw(world.info("ns/w"))


def forget_admission(world: AuditWorld) -> None:
    record = world.engine.record("ns/r")
    assert record is not None
    world.engine.units.admitted.remove(record)


PLANTED = [
    pytest.param(add_unit, Kind.UNKNOWN_UNIT, "ns/new", 4, id="a new unit was not reported"),
    pytest.param(
        forget_unit_wrongly, Kind.UNKNOWN_UNIT, "ns/r", 4, id="a unit was forgotten, and exists"
    ),
    pytest.param(drop_unit, Kind.GONE_UNIT, "ns/w", 4, id="a unit's deletion was not reported"),
    pytest.param(
        recreate_unit, Kind.OUTDATED_UNIT, "ns/w", 4, id="nor that it was made anew by that name"
    ),
    pytest.param(end_unit, Kind.OUTDATED_UNIT, "ns/r", 4, id="a job's end was not reported"),
    pytest.param(overcharge, Kind.CHARGE, "ns/r", 4, id="too much is charged"),
    pytest.param(release_charge, Kind.CHARGE, "ns/r", 4, id="nothing is charged"),
    pytest.param(change_ledger, Kind.LEDGER, "ns/r", 4, id="a plugin has charged too much"),
    pytest.param(
        charge_only_ledger, Kind.LEDGER, "ns/w", 4, id="a plugin has charged a pending unit"
    ),
    pytest.param(add_pod, Kind.UNCOUNTED_POD, "ns/r", 5, id="a new pod was not reported"),
    pytest.param(resize_pod, Kind.UNCOUNTED_POD, "ns/r", 6, id="nor that it asks for more"),
    pytest.param(end_pod, Kind.GONE_POD, "ns/r", 3, id="nor that it has ended"),
    pytest.param(drop_pod, Kind.GONE_POD, "ns/r", 3, id="nor that it was deleted"),
    pytest.param(add_stray, Kind.UNCOUNTED_POD, "ns/more", 5, id="a stray was not reported"),
    pytest.param(release_stray, Kind.CHARGE, "ns/s", 4, id="a stray is not charged"),
    pytest.param(add_foreign, Kind.UNCOUNTED_POD, "ns/foreign", 4, id="a foreign pod was lost"),
    pytest.param(change_foreign_ledger, Kind.LEDGER, "ns/f", 4, id="a foreign pod counts more"),
    pytest.param(release_foreign, Kind.LEDGER, "ns/f", 4, id="a foreign pod does not count"),
    pytest.param(charge_foreign_ghost, Kind.LEDGER, "ns/ghost", 4, id="a pod that is not counts"),
    pytest.param(withdraw, Kind.MISPLACED_UNIT, "ns/w", 4, id="a pending unit is in no queue"),
    pytest.param(
        forget_admission, Kind.MISPLACED_UNIT, "ns/r", 4, id="an admitted unit is not among them"
    ),
]
"""What is planted, what is found on which object, and how much is charged after the repair."""


@pytest.mark.parametrize(("plant", "kind", "key", "cpu"), PLANTED)
def test_a_difference_of_two_rounds_is_reported_and_repaired(
    plant: Callable[[AuditWorld], None], kind: Kind, key: str, cpu: int
) -> None:
    world = AuditWorld()
    world.round()
    world.engine.validate()
    plant(world)
    world.round()
    assert (world.counted, world.reported) == ([], [])
    world.round()
    assert kind in world.counted
    assert (DIFFERS, key) in {(each.reason, each.key) for each in world.reported}
    world.engine.validate()
    assert world.cpu() == cpu
    count = len(world.counted)
    world.round()
    world.round()
    assert len(world.counted) == count


def test_an_event_has_both_numbers() -> None:
    world = AuditWorld()
    overcharge(world)
    world.round()
    world.round()
    (notice,) = world.reported
    assert (notice.kind, notice.uid, notice.warning) == ("QueueUnit", RUNS.metadata.uid, True)
    assert notice.note == (
        "the scheduler's state differs (charge): it has cpu 9, 1 pod of quota a; by the objects it"
        " is cpu 3, 1 pod of quota a; it was placed again"
    )


# --- what is no difference ------------------------------------------------------------------------


def late_event(world: AuditWorld) -> None:
    """The engine is told between the two looks."""
    newer = changed(WAITS, 20, "Enqueued")
    world.cache(newer)
    world.round()
    world.engine.on_queue_unit(newer)
    world.round()


def two_late_events(world: AuditWorld) -> None:
    """Each round looks while another event is in flight."""
    for version in (20, 21):
        world.cache(changed(WAITS, version, "Enqueued"))
        world.round()
        world.engine.on_queue_unit(changed(WAITS, version, "Enqueued"))


def late_deletion(world: AuditWorld) -> None:
    world.drop(WAITS)
    world.round()
    world.engine.on_queue_unit_gone(WAITS)
    world.round()


def late_pods(world: AuditWorld) -> None:
    """Each round looks while another pod is in flight."""
    for name in "xy":
        pod = build_pod(name, unit="ns/r")
        world.cache(pod)
        world.round()
        world.engine.on_pod(pod)


def write_in_flight(world: AuditWorld) -> None:
    """The decision is charged, and no object says so yet."""
    world.decide()
    world.round()
    world.round()
    assert world.state("ns/w") is UnitState.ASSUMED
    assert world.cpu() == 6


def write_answered(world: AuditWorld) -> None:
    """The engine has the answer; the watch has not delivered it, or is stalled."""
    decision = world.decide()
    world.round()
    written = admitted(WAITS, 30)
    world.units.note_written(written)
    world.engine.on_written(decision, written)
    world.round()
    world.round()
    assert world.state("ns/w") is UnitState.ADMITTED


def own_write_before_its_event(world: AuditWorld) -> None:
    """A condition was written; the engine gets it by the watch, which is stalled."""
    world.units.note_written(changed(WAITS, 30, "Enqueued"))
    world.round()
    world.round()


def write_refused(world: AuditWorld) -> None:
    """The unit stands aside, in no queue."""
    world.engine.on_write_failed(world.decide(), WriteFailure.REFUSED, why="no")
    world.round()
    world.round()
    assert world.state("ns/w") is UnitState.CONFLICT


def growth_in_flight(world: AuditWorld) -> None:
    grown = changed(GREW, 40, "Running", admissions=admitted(RUNS, 1).status.admissions)
    world.learn(grown)
    assert world.engine.grow("ns/r") is not None
    world.round()
    world.round()
    record = world.engine.record("ns/r")
    assert record is not None
    assert record.granting is not None


def decision_between_slices(world: AuditWorld) -> None:
    """Units are judged before it, and charges after it; in the next round, another one."""
    for version in (50, 51):
        world.begin_round()
        decision = world.decide()
        world.end_round()
        world.engine.on_write_failed(decision, WriteFailure.CONFLICT)
        world.learn(changed(WAITS, version, "Enqueued"))


@pytest.mark.parametrize(
    "happen",
    [
        late_event,
        two_late_events,
        late_deletion,
        late_pods,
        write_in_flight,
        write_answered,
        own_write_before_its_event,
        write_refused,
        growth_in_flight,
        decision_between_slices,
    ],
    ids=lambda happen: happen.__name__,
)
def test_a_change_on_its_way_is_no_difference(happen: Callable[[AuditWorld], None]) -> None:
    world = AuditWorld()
    happen(world)
    world.round()
    assert (world.counted, world.reported) == ([], [])
    world.engine.validate()


def test_a_difference_with_other_numbers_is_another_one() -> None:
    world = AuditWorld()
    for cpu in (7, 8, 9):
        amounts = Granted(Occupancy({"cpu": 1000 * cpu}, 1))
        world.engine.usage.charge_admitted(world.info("ns/r"), amounts)
        world.round()
    assert world.counted == []


@pytest.mark.parametrize("plant", ["release", "charge only the ledger"])
def test_a_decision_stands_while_its_charge_is_repaired(plant: str) -> None:
    world = AuditWorld()
    decision = world.decide()
    uid = WAITS.metadata.uid
    if plant == "release":
        world.engine.usage.release(uid)
    else:
        world.quotas.charge(uid, "a", Demand({"cpu": 9000}))
    world.round()
    world.round()
    assert len(world.counted) == 1
    assert (world.state("ns/w"), world.cpu()) == (UnitState.ASSUMED, 6)
    world.engine.on_written(decision, admitted(WAITS, 30))
    assert (world.state("ns/w"), world.cpu()) == (UnitState.ADMITTED, 6)
    world.engine.validate()


def test_a_growth_stands_while_its_charge_is_repaired() -> None:
    world = AuditWorld()
    growth_in_flight(world)
    charged = world.cpu()
    world.engine.usage.release(RUNS.metadata.uid)
    world.round()
    world.round()
    record = world.engine.record("ns/r")
    assert record is not None
    assert (record.granting is not None, world.counted) == (True, [Kind.CHARGE])
    assert world.cpu() == charged
    world.engine.validate()


def test_a_unit_that_was_forgotten_wrongly_gets_its_next_version() -> None:
    world = AuditWorld()
    forget_unit_wrongly(world)
    world.round()
    world.round()
    world.learn(changed(RUNS, 60, "Succeed"))
    assert world.state("ns/r") is UnitState.ENDED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            WAITS, build_unit("w", "a", cpu=2, priority=5, version=20), id="a pending unit"
        ),
        pytest.param(RUNS, changed(RUNS, 20, "Enqueued"), id="an admitted unit"),
        pytest.param(
            build_unit("h", "none"), build_unit("h", "a", version=20), id="a unit on hold"
        ),
    ],
)
def test_a_change_that_a_plugin_broke_is_made_up_for(
    before: QueueUnit, after: QueueUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unit has left its place, and has no other one."""
    world = AuditWorld()
    world.learn(before)
    with monkeypatch.context() as broken:
        broken.setattr(RealQuotas(world.engine).plugin, "map_unit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.learn(after)
    world.round()
    world.round()
    assert Kind.OUTDATED_UNIT in world.counted
    assert world.state(after.metadata.key) is UnitState.WAITING
    world.engine.validate()


# --- reports without repair, and rounds -----------------------------------------------------------


def test_without_repair_a_difference_is_reported_once_and_stays() -> None:
    world = AuditWorld(repairs=False)
    withdraw(world)
    for _ in range(4):
        world.round()
    assert world.counted == [Kind.MISPLACED_UNIT]
    (notice,) = world.reported
    assert notice.note.endswith("it is not repaired (--audit-repair=false)")
    record = world.engine.record("ns/w")
    assert record is not None
    assert not is_in_place(world.engine.units, record)


def test_a_repair_that_does_not_last_is_reported_again_after_two_rounds() -> None:
    world = AuditWorld()
    counts = []
    for _ in range(5):
        overcharge(world)
        world.round()
        counts.append(len(world.counted))
    assert counts == [0, 1, 1, 2, 2]


def test_a_charge_of_nothing_that_exists_is_released_and_logged() -> None:
    world = AuditWorld()
    world.quotas.charge("uid-ghost", "a", Demand({"cpu": 5000}))
    with capture_logs() as lines:
        world.round()
        world.round()
    assert (world.counted, world.reported, world.cpu()) == ([Kind.LEDGER], [], 4)
    assert [each["uid"] for each in lines] == ["uid-ghost"]


def limited(world: AuditWorld) -> Counted:
    """Limit everybody in quota `a`; return whose use is of what runs there."""
    limit = UserLimit(users=("*",), max={"cpu": 9})
    world.engine.on_quota_policy(build_policy("p", ["a"], limit))
    ((counted, _),) = world.engine.usage.limits.sums.in_quota("a")
    return counted


@pytest.mark.parametrize("repairs", [True, False])
def test_what_a_user_has_is_counted_once_more(*, repairs: bool) -> None:
    world = AuditWorld(repairs=repairs)
    counted = limited(world)
    sums = world.engine.usage.limits.sums
    right = sums.use_of(counted)
    world.round()
    assert world.counted == []
    assert world.engine.usage.limits.sums is sums
    uid = RUNS.metadata.uid
    sums.on_charge(uid, None, world.engine.usage.charge_of(uid))
    with capture_logs() as lines:
        world.round()
    assert world.counted == [Kind.LIMIT_USE]
    assert "it has cpu 7" in lines[0]["note"]
    assert f"user {counted.name} in quota a" in lines[0]["note"]
    is_right = world.engine.usage.limits.sums.use_of(counted) == right
    assert is_right == repairs


@pytest.mark.parametrize("repairs", [True, False])
def test_what_a_budget_is_charged_is_summed_up_once_more(*, repairs: bool) -> None:
    world = AuditWorld(repairs=repairs)
    world.engine.usage.ledger = Ledger()
    world.engine.on_time(wall_time(WALL))
    policy = build_policy("p", ["a"])
    budget = Budget(resource="cpu", hours=9, period="None")
    world.engine.on_quota_policy(replace(policy, spec=replace(policy.spec, budgets=(budget,))))
    world.round()
    assert world.counted == []
    accounts = world.engine.usage.budgets.accounts
    ((key, account),) = accounts
    rate = account.rate
    account.bend(1000, accounts.second)
    world.round()
    assert world.counted == [Kind.BUDGET_SUM]
    assert (accounts.account(key).rate == rate) is repairs


@pytest.mark.parametrize("repairs", [True, False])
def test_who_may_be_pending_is_found_out_once_more(*, repairs: bool) -> None:
    world = AuditWorld(repairs=repairs)
    limit = UserLimit(users=("*",), pending=1)
    world.engine.on_quota_policy(build_policy("p", ["a"], limit))
    seats = world.engine.usage.limits.seats
    world.round()
    assert world.counted == []
    (line,) = seats._lines.values()  # noqa: SLF001 - breaks it
    line.seated = 0
    world.round()
    assert world.counted == [Kind.PENDING_SEAT]
    assert (seats.differences() == {}) is repairs


def test_charges_may_change_while_they_are_counted_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_changes, "COUNTED", 1)
    world = AuditWorld()
    limited(world)
    world.shared.apply(Engine.check_limits, repairs=True)
    states = [world.engine.limit_rules.is_checking]
    world.engine.on_pod_gone(POD)
    world.engine.on_pod(POD)
    world.round()
    assert world.counted == []
    states.append(world.engine.limit_rules.is_checking)
    assert states == [True, False]
    world.engine.validate()


def test_without_limits_nothing_is_counted_and_no_call_recorded() -> None:
    world = AuditWorld()
    before = world.shared.changes
    world.round()
    assert world.shared.changes == before


def test_a_foreign_pod_that_only_a_plugin_has_does_not_come_back() -> None:
    world = AuditWorld()
    ghost = ForeignPod(
        name="ns/ghost", namespace="ns", labels={}, request={"cpu": 9000}, stage=PodStage.BOUND
    )
    RealQuotas(world.engine).plugin.on_foreign_pod("ns/ghost", ghost)
    world.round()
    world.round()
    world.engine.on_quota(build_quota("c"))  # the plugin charges its foreign pods again
    world.round()
    world.round()
    assert world.counted == [Kind.LEDGER]


def test_the_age_is_that_of_the_last_full_round() -> None:
    world = AuditWorld()
    world.clock.advance(40.0)
    assert world.audit.age_seconds() == 40.0
    world.begin_round()
    assert world.audit.age_seconds() == 100.0
    world.end_round()
    assert world.audit.age_seconds() == 0.0


def test_no_round_begins_before_the_caches_are_complete() -> None:
    world = AuditWorld()
    world.is_ready = False
    drop_unit(world)
    world.clock.advance(self_audit.ROUND_SECONDS)
    assert world.audit.step() == self_audit.ROUND_SECONDS
    world.is_ready = True
    world.round()
    world.round()
    assert world.counted == [Kind.GONE_UNIT]


def test_few_units_are_judged_in_one_hold_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_audit, "KEYS_PER_SLICE", 2)
    world = AuditWorld()
    for number in range(5):
        world.learn(build_unit(f"more-{number}", "a", version=12))
    world.begin_round()
    slices = 1
    while world.audit.step() == REST_SECONDS:
        slices += 1
    units, pods, strays = 4, 2, 1
    assert slices == units + pods + strays


def test_a_step_judges_several_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_audit, "SLICES_PER_STEP", 3)
    monkeypatch.setattr(self_audit, "KEYS_PER_SLICE", 1)
    world = AuditWorld()
    for number in range(4):
        world.learn(build_unit(f"more-{number}", "a", version=12))
    judged: list[int] = []
    ask = world.shared.ask

    def count(question: Callable[..., Any], *args: Any) -> Any:
        if question in {judge_units, judge_pods}:
            judged.append(len(args[0]))
        return ask(question, *args)

    monkeypatch.setattr(world.shared, "ask", count)
    world.begin_round()
    assert judged == [1, 1, 1]
    world.end_round()
    units, pods = 6, 3
    assert judged == [1] * (units + pods)


def test_of_very_many_differences_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_audit, "MAX_DIFFERENCES", 3)
    world = AuditWorld(repairs=False)
    for number in range(9):
        world.cache(build_unit(f"more-{number}", "a", version=12))
    for _ in range(3):
        world.round()
    assert world.counted == [Kind.UNKNOWN_UNIT] * 3
