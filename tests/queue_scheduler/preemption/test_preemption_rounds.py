"""Rounds of eviction, with facts in an order that a restart may bring."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_scheduler.decision import Decision, Dequeue, Preempt, Reason, Refused, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.preemption.blocked_classes import SEARCH_AGAIN_SECONDS
from queue_scheduler.preemption.nomination import NOMINATED_SECONDS, for_whom_mark
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Condition, Timestamp, Uid
from shared_api.testing.object_builders import elastic_quota
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    ENABLE_PREEMPTION,
    PREEMPT_RUNNING,
    RECLAIM_POLICY,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties import engine_kit
from tests.properties.engine_kit import admitted, build_queue, build_unit, changed
from tests.properties.preemption_checks import check_victims
from tests.properties.real_quotas import new_engine

MOST = {"cpu": 4}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


def add_quota(engine: Engine, name: str, parent: str = "") -> None:
    """Let the engine learn a quota."""
    engine.on_quota(
        elastic_quota(name, namespace="kq", min={}, max=MOST, parent=parent, is_parent=not parent)
    )


def test_room_is_kept_though_the_parent_of_the_quota_arrives_last() -> None:
    """Until then a quota has no limits that its units could compete for."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", AVAILABLE_QUOTA[0]: "*"}
    for queue, rank in (("a", 0), ("r", 1)):
        engine.on_queue(build_queue(queue, priority=rank, annotations=said))
    for name in ("a", "b"):
        add_quota(engine, name, "top")
    asked = Condition(
        type="Evicted",
        status="True",
        reason="Preempted",
        message=f"{for_whom_mark('ns/first')}(...)",
        last_transition_time=Timestamp("2026-11-01T00:00:00Z"),
    )
    leaving = admitted(build_unit("leaving", "a", queue="a", cpu=2), 2)
    first = build_unit("first", "a", queue="a", cpu=2, priority=9)
    engine.on_queue_unit(first)
    engine.on_queue_unit(changed(leaving, 3, conditions=(asked,)))
    engine.on_queue_unit(admitted(build_unit("stays", "b", queue="r", cpu=2), 2))
    engine.on_queue_unit(build_unit("second", "b", queue="r", cpu=4, priority=99))
    add_quota(engine, "top")
    engine.on_queue_unit(changed(leaving, 4, "Enqueued", admissions=()))

    assert tuple(engine.nominations.by_key) == ("ns/first",)
    decision = engine.decide_next("r", 0.0)
    assert isinstance(decision, Refused), "a second round begins"
    assert decision.unit == "ns/second"


def start_a_round() -> Engine:
    """Let a unit of queue q evict one, and one of queue r wait behind that round."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", AVAILABLE_QUOTA[0]: "*"}
    engine.on_queue(build_queue("q", policy="Block", annotations=said))
    engine.on_queue(build_queue("r", annotations=said))
    add_quota(engine, "top")
    for name in ("a", "b"):
        add_quota(engine, name, "top")
    low = admitted(build_unit("low", "a", queue="q", cpu=2), 2, "Running")
    engine.on_queue_unit(low)
    engine.on_queue_unit(admitted(build_unit("lower", "b", queue="r", cpu=2), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "a", queue="q", cpu=2, priority=9))
    round_ = engine.decide_next("q", 0.0)
    assert isinstance(round_, Preempt)
    assert [victim.unit for victim in round_.victims] == ["ns/low"]
    engine.on_preempted(round_)
    engine.on_queue_unit(build_unit("too-much", "a", queue="q", cpu=5, priority=99))
    engine.on_queue_unit(changed(low, 3, "Enqueued", admissions=()))
    engine.on_queue_unit(build_unit("second", "b", queue="r", cpu=3, priority=9))
    for queue, unit in (("q", "ns/too-much"), ("r", "ns/second")):
        refused = engine.decide_next(queue, 0.0)
        assert isinstance(refused, Refused), refused
        assert refused.unit == unit
    return engine


def test_no_unit_waits_forever_behind_a_round_of_a_unit_that_is_not_asked() -> None:
    """A unit that nothing helps precedes it, in a queue that looks no further than its head."""
    engine = start_a_round()
    rest = engine.decide_next("r", 1.0)
    assert isinstance(rest, Rest)
    assert rest.until == NOMINATED_SECONDS
    found = engine.decide_next("r", NOMINATED_SECONDS)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/lower"]


def test_a_round_whose_preemptor_has_gone_holds_others_up_until_it_is_written() -> None:
    """Until then the objects of its victims do not say that they leave."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", AVAILABLE_QUOTA[0]: "*"}
    add_quota(engine, "top")
    for queue, quota in (("q", "a"), ("r", "b")):
        engine.on_queue(build_queue(queue, annotations=said))
        add_quota(engine, quota, "top")
        low = build_unit(f"low-{quota}", quota, queue=queue, cpu=2)
        engine.on_queue_unit(admitted(low, 2, "Running"))
    first = build_unit("first", "a", queue="q", cpu=2, priority=9)
    engine.on_queue_unit(first)
    round_ = engine.decide_next("q", 0.0)
    assert isinstance(round_, Preempt)
    engine.on_queue_unit_gone(first)
    engine.on_queue_unit(build_unit("second", "b", queue="r", cpu=2, priority=9))
    refused = engine.decide_next("r", 0.0)
    assert isinstance(refused, Refused), refused

    engine.on_preempted(round_)
    found = engine.decide_next("r", 0.0)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/low-b"]


def test_a_round_holds_none_up_once_its_quota_is_elsewhere() -> None:
    engine = start_a_round()
    add_quota(engine, "elsewhere")
    add_quota(engine, "a", "elsewhere")
    found = engine.decide_next("r", 1.0)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/lower"]


class StoppedRound:
    """Unit first of queue q evicts unit low; unit other of queue r would fit beside it."""

    def __init__(self) -> None:
        self.said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", AVAILABLE_QUOTA[0]: "*"}
        self.low = admitted(build_unit("low", "a", queue="q", cpu=2), 2, "Running")
        self.first = build_unit("first", "a", queue="q", cpu=4, priority=9)
        self.stop = ""
        self.engine = self.restarted()
        round_ = self.engine.decide_next("q", 0.0)
        assert isinstance(round_, Preempt), round_
        self.engine.on_preempted(round_)
        message = f"{for_whom_mark('ns/first')}(...)"
        asked = Condition(type="Evicted", status="True", reason="Preempted", message=message)
        self.change_low(conditions=(asked,))

    def restarted(self) -> Engine:
        """Return an engine that learns all objects as they are."""
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.on_queue(build_queue("r", annotations={AVAILABLE_QUOTA[0]: "*"}))
        for name in ("top", "a", "b"):
            add_quota(self.engine, name, "" if name == "top" else "top")
        self.stop_queue(self.stop)
        for unit in (self.low, self.first):
            self.engine.on_queue_unit(unit)
        return self.engine

    def stop_queue(self, policy: str) -> None:
        """Write the stop policy of queue q."""
        self.stop = policy
        said = self.said | ({STOP_POLICY: policy} if policy else {})
        self.engine.on_queue(build_queue("q", policy="Block", annotations=said))

    def change_low(self, phase: str = "Running", **status: Any) -> None:
        """Write the unit as the job side does."""
        version = int(self.low.metadata.resource_version) + 1
        self.low = changed(self.low, version, phase, **status)
        self.engine.on_queue_unit(self.low)

    def nominated(self) -> tuple[str, ...]:
        """Return the units for which room is kept."""
        return tuple(self.engine.nominations.by_key)

    def ask_other(self) -> Decision:
        """Return the decision about unit other."""
        self.engine.on_queue_unit(build_unit("other", "b", queue="r", cpu=2))
        self.engine.validate()
        self.rest("q")
        return self.engine.decide_next("r", 1.0)

    def rest(self, queue: str) -> None:
        """Ask a queue in which no unit can start."""
        while isinstance(decision := self.engine.decide_next(queue, 1.0), Refused):
            pass
        assert isinstance(decision, Rest), decision


@pytest.fixture(params=["goes on", "restarts"])
def after(request: pytest.FixtureRequest) -> Callable[[StoppedRound], None]:
    """What the scheduler does before it is asked."""

    def act(round_: StoppedRound) -> None:
        if request.param == "restarts":
            round_.restarted()

    return act


@pytest.mark.parametrize("has_left", [False, True])
def test_no_room_is_kept_for_a_unit_that_may_not_start(
    after: Callable[[StoppedRound], None], *, has_left: bool
) -> None:
    """Its queue is stopped while a victim leaves for it, or after the victim has left."""
    round_ = StoppedRound()
    assert round_.nominated() == ("ns/first",)
    if has_left:
        round_.change_low("Enqueued", admissions=())
    round_.stop_queue("Hold")
    after(round_)
    assert round_.nominated() == ()
    decision = round_.ask_other()
    assert isinstance(decision, Dequeue), decision
    assert decision.unit == "ns/other"


def test_units_kept_out_are_asked_again_when_the_queue_is_stopped() -> None:
    round_ = StoppedRound()
    decision = round_.ask_other()
    assert isinstance(decision, Refused), decision
    assert decision.refusal.reason is Reason.ROOM_FOR_PREEMPTOR
    assert isinstance(round_.engine.decide_next("r", 1.0), Rest)
    round_.stop_queue("Hold")
    assert isinstance(round_.engine.decide_next("r", 2.0), Dequeue)


def test_room_is_kept_again_if_the_queue_resumes_while_victims_leave(
    after: Callable[[StoppedRound], None],
) -> None:
    """The victims that were asked to leave for it still do."""
    round_ = StoppedRound()
    round_.stop_queue("Hold")
    round_.stop_queue("")
    after(round_)
    assert round_.nominated() == ("ns/first",)
    assert isinstance(round_.engine.decide_next("q", 0.0), Refused), "a victim is still there"
    decision = round_.ask_other()
    assert isinstance(decision, Refused), decision
    assert decision.refusal.other == "ns/first"


def test_where_pods_are_waited_for_no_unit_starts_before_the_preemptor() -> None:
    """Nor does one of another quota: otherwise it would have to be evicted next."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", AVAILABLE_QUOTA[0]: "*"}
    engine.on_queue(build_queue("q", annotations=said | {WAIT_FOR_PODS_RUNNING: "true"}))
    for name in ("a", "b"):
        engine.on_quota(elastic_quota(name, namespace="kq", min={}, max=MOST))
    engine.on_queue_unit(admitted(build_unit("low", "a", queue="q", cpu=4), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "a", queue="q", cpu=4, priority=9))
    round_ = engine.decide_next("q", 0.0)
    assert isinstance(round_, Preempt)
    engine.on_preempted(round_)
    engine.on_queue_unit(build_unit("other", "b", queue="q", cpu=1, priority=1))
    refusals = {}
    while isinstance(decision := engine.decide_next("q", 0.0), Refused):
        refusals[decision.unit] = decision.refusal
    assert isinstance(decision, Rest), decision
    assert refusals["ns/other"].reason is Reason.ROOM_FOR_PREEMPTOR
    assert refusals["ns/other"].other == "ns/first"


def test_a_unit_in_flight_and_a_borrower_leave_in_one_round_where_pods_are_waited_for() -> None:
    """Neither would do alone: its own quota's unit holds up the queue, another's has the room."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", WAIT_FOR_PODS_RUNNING: "true", AVAILABLE_QUOTA[0]: "*"}
    engine.on_queue(build_queue("q", annotations=said))
    engine.on_queue(build_queue("b"))
    add_quota(engine, "top")
    reclaims = {"annotations": {RECLAIM_POLICY: "Any"}}
    for name, least, metadata in (("a", MOST, reclaims), ("b", {}, None)):
        engine.on_quota(
            elastic_quota(
                name, namespace="kq", min=least, max=MOST, parent="top", metadata=metadata
            )
        )
    engine.on_queue_unit(admitted(build_unit("under-way", "a", queue="q", cpu=1), 2))
    engine.on_queue_unit(admitted(build_unit("borrows", "b", queue="b", cpu=3), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "a", queue="q", cpu=2, priority=9))
    found = engine.decide_next("q", 0.0)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/under-way", "ns/borrows"]
    check_victims(engine, found, NOW)


def test_a_unit_that_searched_in_vain_looks_again_when_too_little_was_released() -> None:
    """Two of four were released: not enough to start, but enough with what it may evict."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine.on_queue(build_queue("q", annotations=said))
    engine.on_quota(elastic_quota("q", namespace="kq", min={}, max=MOST))
    peer = admitted(build_unit("peer", "q", cpu=2, priority=9), 2, "Running")
    engine.on_queue_unit(peer)
    engine.on_queue_unit(admitted(build_unit("low", "q", cpu=1), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "q", cpu=4, priority=9))
    assert isinstance(engine.decide_next("q", 0.0), Refused)
    rest = engine.decide_next("q", 0.0)
    assert isinstance(rest, Rest)
    assert rest.until == SEARCH_AGAIN_SECONDS

    engine.on_queue_unit(changed(peer, 3, "Succeed", admissions=()))
    assert isinstance(engine.decide_next("q", 1.0), Rest), "it looks again at once"
    found = engine.decide_next("q", SEARCH_AGAIN_SECONDS)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/low"]


def test_a_unit_that_searched_in_vain_does_not_look_again_while_nothing_is_released() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_queue(build_queue("q", annotations={ENABLE_PREEMPTION: "true"}))
    engine.on_quota(elastic_quota("q", namespace="kq", min={}, max=MOST))
    engine.on_queue_unit(admitted(build_unit("peer", "q", cpu=2, priority=9), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "q", cpu=4, priority=9))
    assert isinstance(engine.decide_next("q", 0.0), Refused)
    rest = engine.decide_next("q", SEARCH_AGAIN_SECONDS)
    assert isinstance(rest, Rest)
    assert rest.until == 2 * SEARCH_AGAIN_SECONDS


def test_a_failed_victim_is_not_chosen_again_while_one_leaves_for_another_unit() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    said = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    engine.on_queue(build_queue("q", annotations=said))
    engine.on_quota(elastic_quota("q", namespace="kq", min={}, max=MOST))
    one = admitted(build_unit("one", "q", cpu=2), 2, "Running")
    engine.on_queue_unit(one)
    engine.on_queue_unit(admitted(build_unit("two", "q", cpu=2), 2, "Running"))
    engine.on_queue_unit(build_unit("first", "q", cpu=4, priority=9))
    round_ = engine.decide_next("q", 0.0)
    assert isinstance(round_, Preempt)
    engine.on_preempted(round_, failed=round_.victims)
    by_hand = Condition(
        type="Evicted",
        status="True",
        reason="Preempted",
        message="by hand",
        last_transition_time=Timestamp("2026-11-01T00:00:00Z"),
    )
    engine.on_queue_unit(changed(one, 3, conditions=(by_hand,)))
    assert isinstance(engine.decide_next("q", 1.0), Refused)

    engine.on_queue_unit(changed(one, 4, "Enqueued", admissions=()))
    again = engine.decide_next("q", 2.0)
    assert isinstance(again, Preempt), again
    assert [victim.unit for victim in again.victims] == ["ns/two"]


def test_an_owner_evicts_the_large_unit_where_a_cheaper_one_leaves_too_little() -> None:
    """Two may be taken of b: with the small one gone, the large one would be within b's min."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    reclaims = {"annotations": {RECLAIM_POLICY: "Any"}}
    add_quota(engine, "top")
    for name, metadata in (("a", reclaims), ("b", None)):
        engine.on_queue(build_queue(name))
        engine.on_quota(
            elastic_quota(
                name, namespace="kq", min={"cpu": 2}, max=MOST, parent="top", metadata=metadata
            )
        )
    for name, cpu, priority in (("small", 1, 0), ("large", 2, 1), ("stays", 1, 2)):
        unit = build_unit(name, "b", queue="b", cpu=cpu, priority=priority)
        engine.on_queue_unit(admitted(unit, 2, "Running"))
    engine.on_queue_unit(build_unit("owner", "a", queue="a", cpu=2))
    found = engine.decide_next("a", 0.0)
    assert isinstance(found, Preempt), found
    assert [victim.unit for victim in found.victims] == ["ns/large"]
    check_victims(engine, found, NOW)


def test_rests_of_rounds_are_taken_over_and_looked_at() -> None:
    engine, _ = engine_kit.new_engine()
    engine.rounds.resume({}, ("ns/had",), {Uid("u"): 5.0})
    assert engine.rounds.rests == {"u": 5.0}
    assert list(engine.nominations.spent) == ["ns/had"]
    assert not engine.rounds.is_idle
