"""One queue: which unit is next, what is held back, depth, copies."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.queueing.queue_options import BACKFILL_DEPTH, QueueOptions, StopPolicy
from queue_scheduler.queueing.queue_policies import (
    BUILT_IN_POLICIES,
    FAIR,
    HoldsBack,
    QueuePolicy,
    bands_of,
)
from queue_scheduler.queueing.queue_questions import count_by_reason, refusal_of
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit, SchedulingQueue
from shared_api.objects.meta import Uid
from tests.properties.engine_kit import build_queue
from tests.queue_scheduler.queueing.scheduling_queue_kit import (
    NO,
    POLICIES,
    filled,
    info,
    next_place,
)


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_the_first_in_order_comes_first_whenever_it_arrived(policy: str) -> None:
    queue = filled(policy, info(5), info(2, shape="big"), info(9), info(1, "b"))
    assert next_place(queue) == 1
    assert [key[0] for key in queue.pending.in_order()] == [1, 2, 5, 9]
    assert [key[0] for key in queue.pending.in_order("a")] == [2, 5, 9]
    assert list(queue.pending.in_order("unknown")) == []
    assert sorted(queue.pending.by_quota) == ["a", "b"]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param("Priority", [3, 4], id="Priority: only its class sleeps"),
        pytest.param("Block", [4], id="Block: its quota waits behind it"),
        pytest.param("FIFO", [4], id="FIFO: its quota waits behind it"),
    ],
)
def test_what_a_refusal_holds_back(policy: str, want: list[int]) -> None:
    queue = filled(policy, info(1), info(2), info(3, shape="big"), info(4, "b"))
    queue.pending.refuse(info(1), NO)
    got = []
    while (place := next_place(queue)) is not None:
        got.append(place)
        quota, shape = "b" if place == 4 else "a", "big" if place == 3 else ""
        queue.pending.refuse(info(place, quota, shape), NO)
    assert got == want


@pytest.mark.parametrize("policy", ["Block", "FIFO"])
class TestBarriers:
    def test_a_unit_before_the_refused_one_goes_on(self, policy: str) -> None:
        queue = filled(policy, info(5))
        queue.pending.refuse(info(5), NO)
        queue.pending.add(info(2, shape="small"))
        queue.pending.add(info(8, shape="small"))
        assert next_place(queue) == 2
        queue.pending.remove(info(2, shape="small"))
        assert next_place(queue) is None

    def test_the_barrier_leaves(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"), info(3, shape="y"))
        queue.pending.refuse(info(1), NO)
        assert next_place(queue) is None
        assert queue.pending.remove(info(1))
        assert next_place(queue) == 2

    def test_the_barrier_moves_back_when_its_first_unit_leaves(self, policy: str) -> None:
        queue = filled(policy, info(1), info(4), info(2, shape="x"), info(5, shape="x"))
        queue.pending.refuse(info(1), NO)
        assert queue.pending.remove(info(1)) == ()
        assert next_place(queue) == 2
        queue.pending.remove(info(2, shape="x"))
        assert next_place(queue) is None

    def test_the_barrier_moves_forward_when_an_earlier_unit_of_it_comes(self, policy: str) -> None:
        queue = filled(policy, info(5), info(3, shape="x"))
        queue.pending.refuse(info(5), NO)
        assert next_place(queue) == 3
        number = queue.pending.class_of(info(5)).number
        assert queue.pending.add(info(2)) == (number,), "its class is asked again"
        assert next_place(queue) == 2
        queue.pending.refuse(info(2), NO)
        assert next_place(queue) is None
        assert queue.pending.add(info(4)) == ()

    def test_the_barrier_wakes(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"))
        number = queue.pending.refuse(info(1), NO)
        assert queue.pending.wake(number)
        assert next_place(queue) == 1
        assert not queue.pending.wake(number), "it is awake already"
        assert not queue.pending.wake(77), "there is no such class"

    def test_the_second_barrier_holds_when_the_first_wakes(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"), info(3, shape="y"))
        first = queue.pending.refuse(info(1), NO)
        queue.pending.wake(first)
        queue.pending.refuse(info(1), NO)
        queue.pending.remove(info(1))
        queue.pending.refuse(info(2, shape="x"), NO)
        queue.pending.add(info(1))
        assert next_place(queue) == 1
        queue.pending.remove(info(1))
        assert next_place(queue) is None


def test_units_that_leave_from_the_middle_change_nothing_for_the_others() -> None:
    queue = filled("Block", info(1), info(2), info(3))
    queue.pending.refuse(info(1), NO)
    assert queue.pending.remove(info(2)) == ()
    assert next_place(queue) is None
    assert refusal_of(queue, info(3)) == NO


def test_a_quota_whose_last_unit_leaves_offers_nothing() -> None:
    queue = filled("Priority", info(1, "a"), info(2, "b"), info(3, "c"))
    queue.pending.remove(info(1, "a"))
    assert next_place(queue) == 2
    assert sorted(queue.pending.by_quota) == ["b", "c"]


def test_one_unit_starts_at_a_time_where_pods_are_waited_for() -> None:
    queue = filled("Priority", info(1))
    assert next_place(queue) == 1
    queue.in_flight[Uid("other")] = None
    assert next_place(queue) is None
    assert refusal_of(queue, info(1)).reason is Reason.WAITING_FOR_PODS_RUNNING
    queue.in_flight.clear()
    assert next_place(queue) == 1


STARTING = AdmittedUnit(
    uid=Uid("other"), is_in_flight=True, displaced_above=3, asks_for_nodes=True, priority=7
)


@pytest.mark.parametrize(
    ("options", "in_flight", "highest"),
    [
        pytest.param(QueueOptions(), {}, None, id="neither"),
        pytest.param(QueueOptions(waits_for_pods=True), {"other": 3}, None, id="waits for pods"),
        pytest.param(QueueOptions(is_strict=True), {}, 7, id="is strict"),
        pytest.param(QueueOptions(waits_for_pods=True, is_strict=True), {"other": 3}, 7, id="both"),
    ],
)
def test_what_counts_of_an_admitted_unit_follows_the_options_of_the_queue(
    options: QueueOptions, in_flight: dict[str, int], highest: int | None
) -> None:
    queue = filled("Priority", info(1))
    queue.set_options(options)
    counts = bool(in_flight) or highest is not None
    assert queue.count_admitted(STARTING) is counts
    assert (queue.in_flight, queue.requests.highest) == (in_flight, highest)
    queue.validate_admitted([STARTING])
    assert queue.uncount_admitted(STARTING.uid) is counts
    assert (queue.in_flight, queue.requests.highest) == ({}, None)
    queue.recount_admitted([STARTING])
    queue.validate_admitted([STARTING])


def test_numbers_and_versions_go_on_under_another_policy() -> None:
    """A waiter of before must not be taken for one of now."""
    queue = filled("Priority", info(1))
    queue.pending.remove(info(1))
    before = queue.pending
    for policy in ("Fair", "Priority"):
        number, version = queue.pending.next_number, queue.pending.reasons_version
        queue.renew(build_queue("q", policy), POLICIES[policy])
        assert queue.pending is not before
        assert queue.pending.next_number == number > 0
        assert queue.pending.reasons_version > version


def test_an_admitted_unit_that_is_not_counted_is_found() -> None:
    queue = filled("Priority", info(1))
    queue.set_options(QueueOptions(waits_for_pods=True))
    with pytest.raises(AssertionError, match="in flight"):
        queue.validate_admitted([STARTING])


class TestBands:
    """Of policy Intelligent: band 0 is high, band 1 low."""

    def test_low_units_are_tried_when_no_high_one_waits(self) -> None:
        queue = filled("Intelligent", info(1, band=1), info(5, "b", band=0), info(7, "a", band=1))
        assert next_place(queue) == 5
        queue.pending.refuse(info(5, "b", band=0), NO)
        assert next_place(queue) is None, "whatever their quota"
        behind = refusal_of(queue, info(1, band=1))
        assert (behind.reason, behind.other) == (Reason.BEHIND_HIGHER_BAND, "ns/u05")
        assert queue.first_eligible("a") is None
        assert count_by_reason(queue) == {Reason.BEHIND_HIGHER_BAND: 2, NO.reason: 1}
        queue.pending.remove(info(5, "b", band=0))
        assert next_place(queue) == 1
        assert queue.first_eligible("a") == (1, 1, "ns", "u01")

    def test_high_units_hold_back_their_quota(self) -> None:
        units = (info(1, band=0), info(2, shape="x", band=0), info(3, "b", band=0))
        queue = filled("Intelligent", *units)
        queue.pending.refuse(units[0], NO)
        assert next_place(queue) == 3
        queue.pending.remove(units[2])
        assert next_place(queue) is None

    def test_low_units_hold_none_back(self) -> None:
        units = (info(1, band=1), info(2, shape="x", band=1))
        queue = filled("Intelligent", *units)
        queue.pending.refuse(units[0], NO)
        assert next_place(queue) == 2
        queue.pending.refuse(units[1], NO)
        high = info(9, shape="y", band=0)
        queue.pending.add(high)
        assert next_place(queue) == 9, "refusals of low units block no high one"

    def test_a_class_of_both_bands_is_asked_again_for_its_high_unit(self) -> None:
        queue = filled("Intelligent", info(1, band=1))
        queue.pending.refuse(info(1, band=1), NO)
        assert queue.pending.add(info(9, band=0))
        assert next_place(queue) == 9

    def test_the_depth_counts_both(self) -> None:
        queue = filled("Intelligent", info(1, band=1), info(2, band=1, shape="x"))
        queue.set_options(QueueOptions(max_depth=1))
        queue.pending.refuse(info(1, band=1), NO)
        assert next_place(queue) is None
        queue.set_options(QueueOptions(max_depth=2))
        assert next_place(queue) == 2


def test_no_unit_starts_while_the_queue_is_stopped() -> None:
    queue = filled("Priority", info(1), info(2, shape="big"))
    queue.pending.refuse(info(2, shape="big"), NO)
    queue.set_options(QueueOptions(stop=StopPolicy.HOLD))
    assert next_place(queue) is None
    assert queue.first_eligible("a") is None
    for unit in (info(1), info(2, shape="big")):
        assert refusal_of(queue, unit) == Refusal(
            reason=Reason.STOPPED_QUEUE, quota="a", other="q"
        ), "whatever else it would wait for"
    assert count_by_reason(queue) == {Reason.STOPPED_QUEUE: 2}
    queue.set_options(QueueOptions())
    assert next_place(queue) == 1
    assert queue.first_eligible("a") == info(1).order_key


def test_only_the_first_positions_are_looked_at() -> None:
    queue = filled("Priority", info(1), info(2, shape="x"), info(3, shape="y"))
    queue.set_options(QueueOptions(max_depth=2))
    queue.pending.refuse(info(1), NO)
    assert next_place(queue) == 2
    queue.pending.refuse(info(2, shape="x"), NO)
    assert next_place(queue) is None
    got = refusal_of(queue, info(3, shape="y"))
    assert (got.reason, got.limit, got.other) == (Reason.BEYOND_MAX_DEPTH, 2, "q")
    queue.pending.remove(info(1))
    assert next_place(queue) == 3
    queue.set_options(QueueOptions(max_depth=0))
    assert next_place(queue) is None


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != FAIR.name])
def test_a_backfilling_queue_holds_none_back(policy: str) -> None:
    band = 0 if policy == "Intelligent" else None
    units = [info(n, shape=str(n), band=band) for n in range(BACKFILL_DEPTH + 2)]
    queue = filled(policy, *units)
    queue.set_options(QueueOptions(backfill=True))
    queue.pending.refuse(units[0], NO)
    assert queue.rules.is_backfilling == (policy != "Intelligent")
    assert next_place(queue) == (1 if queue.rules.is_backfilling else None)
    for unit in units[1:BACKFILL_DEPTH]:
        queue.pending.refuse(unit, NO)
    assert next_place(queue) is None
    if queue.rules.is_backfilling:
        assert refusal_of(queue, units[-1]).limit == BACKFILL_DEPTH
        queue.set_options(QueueOptions(backfill=True, max_depth=3))
        assert queue.rules.depth == 3


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_a_request_for_nodes_holds_back_lower_priorities_quota_by_quota(policy: str) -> None:
    """The order is not always that of the priorities: FIFO goes by creation."""
    low, behind, other = info(1), info(2, shape="x", priority=9), info(3, "b", priority=9)
    queue = filled(policy, low, behind, other)
    assert next_place(queue) == 1
    queue.requests.add(Uid("asks"), 5)
    assert next_place(queue) == 3
    assert next_place(queue.copy()) == 3
    assert refusal_of(queue, low).reason is Reason.WAITING_FOR_NODES_OF_OTHERS
    waits = refusal_of(queue, behind)
    assert (waits.reason, waits.other) == (Reason.BEHIND_REFUSED_UNIT, "ns/u01")
    assert refusal_of(queue, other).reason is Reason.WAITING
    queue.pending.remove(low)
    assert next_place(queue) == 2
    queue.pending.add(low)
    queue.requests.discard(Uid("asks"))
    assert next_place(queue) == 1


def test_another_policy_may_follow_with_keys_of_another_kind() -> None:
    queue = filled("Block", info(1), info(2))
    queue.pending.remove(info(1))
    queue.pending.remove(info(2))
    queue.renew(queue.rules.api_object, POLICIES["FIFO"])
    queue.pending.add(replace(info(1), order_key=("text", "ns", "u01")))
    assert queue.next_key() == ("text", "ns", "u01")


def test_a_copy_is_independent() -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    queue.pending.refuse(info(1), NO)
    queue.in_flight[Uid("u")] = None
    twin = queue.copy()
    twin.validate()
    twin.pending.wake(twin.pending.class_of(info(1)).number)
    twin.pending.remove(info(3, "b"))
    twin.uncount_admitted(Uid("u"))
    assert next_place(twin) == 1
    assert next_place(queue) is None
    assert queue.in_flight == {"u": None}
    queue.in_flight.clear()
    assert next_place(queue) == 3
    queue.pending.remove(info(2, shape="x"))
    assert [key[0] for key in twin.pending.in_order()] == [1, 2]


def test_a_copy_has_all_that_the_original_has() -> None:
    queue = filled("Block", info(1), info(2, shape="x"))
    queue.pending.refuse(info(1), NO)
    twin = queue.copy()
    assert vars(twin.pending) == vars(queue.pending)
    assert {**vars(twin), "pending": None} == {**vars(queue), "pending": None}


@pytest.mark.parametrize("act", ["ask", "refuse", "add", "remove", "wake", "admit", "release"])
@pytest.mark.parametrize("changed", ["original", "copy"])
def test_what_a_copy_shares_is_not_changed(changed: str, act: str) -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    queue.pending.refuse(info(1), NO)
    queue.pending.wake(queue.pending.class_of(info(1)).number)
    queue.pending.refuse(info(3, "b"), NO)
    queue.set_options(QueueOptions(is_strict=True))
    queue.count_admitted(asking(1, priority=0))
    # Orders know whether they were ever copied; that may be noted in what is shared.
    queue.copy().pending.add(info(0))
    twin = queue.copy()
    changing, resting = (queue, twin) if changed == "original" else (twin, queue)
    before = pickle.dumps(resting)
    acts: dict[str, Callable[[], object]] = {
        "ask": lambda: (changing.first_eligible("a"), changing.next_key()),
        "refuse": lambda: changing.pending.refuse(info(1), NO),
        "add": lambda: changing.pending.add(info(0, "c")),
        "remove": lambda: changing.pending.remove(info(2, shape="x")),
        "wake": lambda: changing.pending.wake(changing.pending.class_of(info(3, "b")).number),
        "admit": lambda: changing.count_admitted(asking(2, priority=1)),
        "release": lambda: changing.uncount_admitted(Uid("1")),
    }
    acts[act]()
    assert pickle.dumps(resting) == before


# --- against a model ----------------------------------------------------------------------------


class Model:
    """The rules, written out over a plain list."""

    def __init__(self, policy: QueuePolicy) -> None:
        self.policy = policy
        self.units: list[QueueUnitInfo] = []
        self.asleep: set[Any] = set()
        self.asking: dict[Uid, int] = {}

    def places(self) -> list[OrderKey]:
        return [key[-3:] for key in sorted(unit.order_key for unit in self.units)]

    def next_place(self, depth: int | None) -> int | None:
        refused: set[str] = set()
        held_back: set[str] = set()
        asked = max(self.asking.values(), default=0)
        bands = bands_of(self.policy)
        in_order = sorted(self.units, key=lambda u: u.order_key)
        for place, unit in enumerate(in_order):
            band = unit.order_key[0] if len(bands) > 1 else 0
            if depth is not None and place >= depth:
                return None
            if len(bands) > 1 and band != in_order[0].order_key[0]:
                return None
            if unit.class_key in self.asleep:
                refused.add(unit.quota)
            elif bands[band] is HoldsBack.NOBODY or unit.quota not in refused:
                if unit.priority < asked:
                    held_back.add(unit.quota)
                if unit.quota not in held_back:
                    return int(unit.order_key[-3])
        return None


@given(
    st.sampled_from([each for each in BUILT_IN_POLICIES if each is not FAIR]),  # it has lanes
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    *("add", "add", "remove", "refuse", "refuse", "wake", "ask", "answer"),
                    *("copy", "change sides"),
                ]
            ),
            st.integers(0, 30),
        ),
        max_size=60,
    ),
    st.one_of(st.none(), st.integers(0, 4)),
)
def test_it_follows_the_rules(
    policy: QueuePolicy, acts: list[tuple[str, int]], depth: int | None
) -> None:
    queue, model = SchedulingQueue(build_queue("q"), policy), Model(policy)
    queue.set_options(QueueOptions(max_depth=depth, is_strict=True))
    others: list[tuple[SchedulingQueue, Model]] = []
    for act, n in acts:
        if act == "copy":
            others.append((queue, model))
            queue, model = queue.copy(), deepcopy(model)
        elif act == "change sides" and others:
            others.append((queue, model))
            queue, model = others.pop(n % len(others))
        play(queue, model, act, n)
        queue.validate()
        assert next_place(queue) == model.next_place(depth)
        assert queue.pending.length == len(model.units)
        reasons = Counter(refusal_of(queue, unit).reason for unit in model.units)
        assert count_by_reason(queue) == reasons
    for queue, model in others:
        queue.validate()
        assert [key[-3:] for key in queue.pending.in_order()] == model.places()
        assert next_place(queue) == model.next_place(depth)


def test_a_depth_may_be_set_and_lifted_while_units_wait() -> None:
    queue = filled("Priority", info(3), info(1, shape="big"), info(2))
    twin = queue.copy()
    for depth, far in ((2, 1), (None, 0), (1, 2), (0, 3)):
        queue.set_options(QueueOptions(max_depth=depth))
        queue.validate()
        assert count_by_reason(queue).get(Reason.BEYOND_MAX_DEPTH, 0) == far
        assert list(queue.pending.in_order()) == list(twin.pending.in_order())
    queue.pending.remove(info(1, shape="big"))
    queue.validate()
    assert (queue.pending.length, twin.pending.length) == (2, 3)
    twin.validate()


def asking(number: int, priority: int) -> AdmittedUnit:
    """Return an admitted unit whose nodes are requested."""
    return AdmittedUnit(
        Uid(f"{number}"),
        is_in_flight=False,
        displaced_above=None,
        asks_for_nodes=True,
        priority=priority,
    )


def play(queue: SchedulingQueue, model: Model, act: str, n: int) -> None:
    band = n // 20 if len(bands_of(model.policy)) > 1 else None
    unit = info(n, f"q{n % 3}", f"shape{n % 4}", band=band, priority=n % 4)
    is_there = any(u.order_key == unit.order_key for u in model.units)
    if act == "add" and not is_there:
        same = [u.order_key for u in model.units if u.class_key == unit.class_key]
        is_woken = unit.class_key in model.asleep and unit.order_key < min(same)
        assert bool(queue.pending.add(unit)) == is_woken
        model.units.append(unit)
        if is_woken:  # a unit ahead of them is to be asked
            model.asleep.discard(unit.class_key)
    elif act == "remove" and is_there:
        left = queue.pending.remove(unit)
        model.units = [u for u in model.units if u.order_key != unit.order_key]
        is_empty = not any(u.class_key == unit.class_key for u in model.units)
        assert bool(left) == (is_empty and unit.class_key in model.asleep)
        if is_empty:
            model.asleep.discard(unit.class_key)
    elif act == "refuse" and (key := queue.next_key()) is not None:
        first = next(u for u in model.units if u.order_key == key)
        queue.pending.refuse(first, NO)
        model.asleep.add(first.class_key)
    elif act == "ask":
        model.asking[Uid(f"{n % 3}")] = n % 5
        queue.uncount_admitted(Uid(f"{n % 3}"))
        queue.count_admitted(asking(n % 3, n % 5))
    elif act == "answer":
        asked = model.asking.pop(Uid(f"{n % 3}"), None)
        assert queue.uncount_admitted(Uid(f"{n % 3}")) == (asked is not None)
    elif act == "wake" and is_there:
        number = queue.pending.class_of(unit).number
        assert bool(queue.pending.wake(number)) == (unit.class_key in model.asleep)
        model.asleep.discard(unit.class_key)


@pytest.mark.parametrize(
    ("rank", "want"), [(-5, True), (-1, False), ("early", False)], ids=["above", "below", "a text"]
)
def test_which_units_may_overtake_one_in_flight(rank: object, *, want: bool) -> None:
    unit = replace(info(1), order_key=(rank, "ns", "u01"))
    queue = filled("Priority", unit)
    queue.set_options(QueueOptions(preempts=True, waits_for_pods=True))
    queue.in_flight[Uid("other")] = 3
    assert (queue.next_key() is not None) is want
