"""One queue: classes, sleep, what is held back, depth."""

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
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.class_queue import SLACK
from queue_scheduler.queueing.queue_options import BACKFILL_DEPTH, QueueOptions, StopPolicy
from queue_scheduler.queueing.queue_policies import (
    BUILT_IN_POLICIES,
    HoldsBack,
    QueuePolicy,
    bands_of,
)
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit, SchedulingQueue
from shared_api.objects.meta import Uid
from tests.properties.engine_kit import build_info, build_queue, build_unit

NO = Refusal(reason=Reason.OVER_QUOTA_MAX)
TOO_LARGE = Refusal(reason=Reason.EXCEEDS_QUOTA)
ELSE = Refusal(reason=Reason.GUARANTEE_OF_OTHERS)
POLICIES = {policy.name: policy for policy in BUILT_IN_POLICIES}


def line_of(policy: str = "Priority") -> SchedulingQueue:
    return SchedulingQueue(build_queue("q", policy), POLICIES[policy])


def info(
    place: int, quota: str = "a", shape: str = "", *, band: int | None = None, priority: int = 0
) -> QueueUnitInfo:
    """Return a unit at that position; each shape is its own class."""
    bands, name = () if band is None else (band,), f"u{place:02}"
    unit = build_unit(name, quota, priority=priority)
    order_key = (*bands, place, "ns", name)
    return build_info(unit, quota, order_key=order_key, class_key=(quota, shape))


def next_place(queue: SchedulingQueue) -> int | None:
    queue.validate()
    key = queue.next_key()
    return key[-3] if key is not None else None


def filled(policy: str, *infos: QueueUnitInfo) -> SchedulingQueue:
    queue = line_of(policy)
    for each in infos:
        queue.add(each)
    return queue


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_the_first_in_order_comes_first_whenever_it_arrived(policy: str) -> None:
    queue = filled(policy, info(5), info(2, shape="big"), info(9), info(1, "b"))
    assert next_place(queue) == 1
    assert [key[0] for key in queue.in_order()] == [1, 2, 5, 9]
    assert [key[0] for key in queue.in_order("a")] == [2, 5, 9]
    assert list(queue.in_order("unknown")) == []
    assert sorted(queue.quotas()) == ["a", "b"]


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
    queue.refuse(info(1), NO)
    got = []
    while (place := next_place(queue)) is not None:
        got.append(place)
        queue.refuse(info(place, "b" if place == 4 else "a", "big" if place == 3 else ""), NO)
    assert got == want


@pytest.mark.parametrize("policy", ["Block", "FIFO"])
class TestBarriers:
    def test_a_unit_before_the_refused_one_goes_on(self, policy: str) -> None:
        queue = filled(policy, info(5))
        queue.refuse(info(5), NO)
        queue.add(info(2, shape="small"))
        queue.add(info(8, shape="small"))
        assert next_place(queue) == 2
        queue.remove(info(2, shape="small"))
        assert next_place(queue) is None

    def test_the_barrier_leaves(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"), info(3, shape="y"))
        queue.refuse(info(1), NO)
        assert next_place(queue) is None
        assert queue.remove(info(1)) is not None
        assert next_place(queue) == 2

    def test_the_barrier_moves_back_when_its_first_unit_leaves(self, policy: str) -> None:
        queue = filled(policy, info(1), info(4), info(2, shape="x"), info(5, shape="x"))
        queue.refuse(info(1), NO)
        assert queue.remove(info(1)) is None
        assert next_place(queue) == 2
        queue.remove(info(2, shape="x"))
        assert next_place(queue) is None

    def test_the_barrier_moves_forward_when_an_earlier_unit_of_it_comes(self, policy: str) -> None:
        queue = filled(policy, info(5), info(3, shape="x"))
        queue.refuse(info(5), NO)
        assert next_place(queue) == 3
        assert queue.add(info(2)) == queue.class_number(info(5)), "its class is asked again"
        assert next_place(queue) == 2
        queue.refuse(info(2), NO)
        assert next_place(queue) is None
        assert queue.add(info(4)) is None

    def test_the_barrier_wakes(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"))
        number = queue.refuse(info(1), NO)
        assert queue.wake(number)
        assert next_place(queue) == 1
        assert not queue.wake(number), "it is awake already"
        assert not queue.wake(77), "there is no such class"

    def test_the_second_barrier_holds_when_the_first_wakes(self, policy: str) -> None:
        queue = filled(policy, info(1), info(2, shape="x"), info(3, shape="y"))
        first = queue.refuse(info(1), NO)
        queue.wake(first)
        queue.refuse(info(1), NO)
        queue.remove(info(1))
        queue.refuse(info(2, shape="x"), NO)
        queue.add(info(1))
        assert next_place(queue) == 1
        queue.remove(info(1))
        assert next_place(queue) is None


def test_units_that_leave_from_the_middle_change_nothing_for_the_others() -> None:
    queue = filled("Block", info(1), info(2), info(3))
    queue.refuse(info(1), NO)
    assert queue.remove(info(2)) is None
    assert next_place(queue) is None
    assert queue.refusal_of(info(3)) == NO


def test_a_quota_whose_last_unit_leaves_offers_nothing() -> None:
    queue = filled("Priority", info(1, "a"), info(2, "b"), info(3, "c"))
    queue.remove(info(1, "a"))
    assert next_place(queue) == 2
    assert sorted(queue.quotas()) == ["b", "c"]


def test_one_unit_starts_at_a_time_where_pods_are_waited_for() -> None:
    queue = filled("Priority", info(1))
    assert next_place(queue) == 1
    queue.in_flight[Uid("other")] = None
    assert next_place(queue) is None
    assert queue.refusal_of(info(1)).reason is Reason.WAITING_FOR_PODS_RUNNING
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
    ],
)
def test_what_counts_of_an_admitted_unit_follows_the_options_of_the_queue(
    options: QueueOptions, in_flight: dict[str, int], highest: int | None
) -> None:
    queue = filled("Priority", info(1))
    queue.options = options
    counts = bool(in_flight) or highest is not None
    assert queue.count_admitted(STARTING) is counts
    assert (queue.in_flight, queue.requests.highest) == (in_flight, highest)
    queue.validate_admitted([STARTING])
    assert queue.uncount_admitted(STARTING.uid) is counts
    assert (queue.in_flight, queue.requests.highest) == ({}, None)
    queue.recount_admitted([STARTING])
    queue.validate_admitted([STARTING])


def test_an_admitted_unit_that_is_not_counted_is_found() -> None:
    queue = filled("Priority", info(1))
    queue.options = QueueOptions(waits_for_pods=True)
    with pytest.raises(AssertionError, match="in flight"):
        queue.validate_admitted([STARTING])


class TestBands:
    """Of policy Intelligent: band 0 is high, band 1 low."""

    def test_low_units_are_tried_when_no_high_one_waits(self) -> None:
        queue = filled("Intelligent", info(1, band=1), info(5, "b", band=0), info(7, "a", band=1))
        assert next_place(queue) == 5
        queue.refuse(info(5, "b", band=0), NO)
        assert next_place(queue) is None, "whatever their quota"
        behind = queue.refusal_of(info(1, band=1))
        assert (behind.reason, behind.other) == (Reason.BEHIND_HIGHER_BAND, "ns/u05")
        assert queue.first_eligible("a") is None
        assert queue.count_by_reason() == {Reason.BEHIND_HIGHER_BAND: 2, NO.reason: 1}
        queue.remove(info(5, "b", band=0))
        assert next_place(queue) == 1
        assert queue.first_eligible("a") == (1, 1, "ns", "u01")

    def test_high_units_hold_back_their_quota(self) -> None:
        units = (info(1, band=0), info(2, shape="x", band=0), info(3, "b", band=0))
        queue = filled("Intelligent", *units)
        queue.refuse(units[0], NO)
        assert next_place(queue) == 3
        queue.remove(units[2])
        assert next_place(queue) is None

    def test_low_units_hold_none_back(self) -> None:
        units = (info(1, band=1), info(2, shape="x", band=1))
        queue = filled("Intelligent", *units)
        queue.refuse(units[0], NO)
        assert next_place(queue) == 2
        queue.refuse(units[1], NO)
        high = info(9, shape="y", band=0)
        queue.add(high)
        assert next_place(queue) == 9, "refusals of low units block no high one"

    def test_a_class_of_both_bands_is_asked_again_for_its_high_unit(self) -> None:
        queue = filled("Intelligent", info(1, band=1))
        queue.refuse(info(1, band=1), NO)
        assert queue.add(info(9, band=0)) is not None
        assert next_place(queue) == 9

    def test_the_depth_counts_both(self) -> None:
        queue = filled("Intelligent", info(1, band=1), info(2, band=1, shape="x"))
        queue.options = QueueOptions(max_depth=1)
        queue.refuse(info(1, band=1), NO)
        assert next_place(queue) is None
        queue.options = QueueOptions(max_depth=2)
        assert next_place(queue) == 2


def test_no_unit_starts_while_the_queue_is_stopped() -> None:
    queue = filled("Priority", info(1), info(2, shape="big"))
    queue.refuse(info(2, shape="big"), NO)
    queue.options = QueueOptions(stop=StopPolicy.HOLD)
    assert next_place(queue) is None
    assert queue.first_eligible("a") is None
    for unit in (info(1), info(2, shape="big")):
        assert queue.refusal_of(unit) == Refusal(
            reason=Reason.STOPPED_QUEUE, quota="a", other="q"
        ), "whatever else it would wait for"
    assert queue.count_by_reason() == {Reason.STOPPED_QUEUE: 2}
    queue.options = QueueOptions()
    assert next_place(queue) == 1
    assert queue.first_eligible("a") == info(1).order_key


def test_only_the_first_positions_are_looked_at() -> None:
    queue = filled("Priority", info(1), info(2, shape="x"), info(3, shape="y"))
    queue.options = QueueOptions(max_depth=2)
    queue.refuse(info(1), NO)
    assert next_place(queue) == 2
    queue.refuse(info(2, shape="x"), NO)
    assert next_place(queue) is None
    got = queue.refusal_of(info(3, shape="y"))
    assert (got.reason, got.limit, got.other) == (Reason.BEYOND_MAX_DEPTH, 2, "q")
    queue.remove(info(1))
    assert next_place(queue) == 3
    queue.options = QueueOptions(max_depth=0)
    assert next_place(queue) is None


@pytest.mark.parametrize(
    ("policy", "other", "depth", "want"),
    [
        pytest.param("Priority", info(1, "a"), None, False, id="before it"),
        pytest.param("Block", info(1, "a"), None, True, id="before it, and of its quota"),
        pytest.param("Block", info(3, "a"), None, False, id="behind it"),
        pytest.param("Block", info(1, "b"), None, False, id="before it, and of another quota"),
        pytest.param("Priority", info(1, "b"), 1, True, id="only the first is looked at"),
        pytest.param("Priority", info(3, "b"), 1, False, id="behind it, beyond the depth"),
        pytest.param("Priority", info(1, "b"), 2, False, id="two are looked at"),
        pytest.param("Intelligent", info(3, "b", band=0), None, True, id="of a band before"),
        pytest.param("Intelligent", info(1, "a", band=1), None, False, id="of its band"),
        pytest.param("Intelligent", info(3, "b", band=1), None, False, id="behind it in its band"),
    ],
)
def test_a_unit_that_would_keep_another_from_its_turn_does_so_once_refused(
    policy: str, other: QueueUnitInfo, depth: int | None, *, want: bool
) -> None:
    other = replace(other, class_key=(other.quota, "other"))
    unit = info(2, "a", band=1 if policy == "Intelligent" else None)
    queue = filled(policy, unit)
    queue.options = QueueOptions(max_depth=depth)
    assert queue.would_keep_from_turn(other.order_key, other.quota, unit) is want
    queue.add(other)
    queue.refuse(other, NO)
    assert (next_place(queue) is None) is want


def test_too_many_units_ahead_keep_a_unit_from_its_turn() -> None:
    queue = filled("Priority", info(1), info(5, shape="x"))
    queue.options = QueueOptions(max_depth=4)
    would_keep = [
        queue.would_keep_from_turn(info(2).order_key, "b", info(5), besides) for besides in range(3)
    ]
    assert would_keep == [False, False, True]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_backfilling_queue_holds_none_back(policy: str) -> None:
    band = 0 if policy == "Intelligent" else None
    units = [info(n, shape=str(n), band=band) for n in range(BACKFILL_DEPTH + 2)]
    queue = filled(policy, *units)
    queue.options = QueueOptions(backfill=True)
    queue.refuse(units[0], NO)
    assert queue.is_backfilling == (policy != "Intelligent")
    assert next_place(queue) == (1 if queue.is_backfilling else None)
    for unit in units[1:BACKFILL_DEPTH]:
        queue.refuse(unit, NO)
    assert next_place(queue) is None
    if queue.is_backfilling:
        assert queue.refusal_of(units[-1]).limit == BACKFILL_DEPTH
        queue.options = QueueOptions(backfill=True, max_depth=3)
        assert queue.depth == 3


@pytest.mark.parametrize(
    ("policy", "refused", "want"),
    [
        pytest.param("Priority", {}, 1, id="the first"),
        pytest.param("Priority", {1: NO}, 1, id="one that does not fit yet"),
        pytest.param("Priority", {1: TOO_LARGE}, 2, id="behind one that never fits"),
        pytest.param("Priority", {1: TOO_LARGE, 2: TOO_LARGE}, None, id="none that may ever fit"),
        pytest.param("Block", {1: TOO_LARGE}, 1, id="one that never fits, and holds others up"),
    ],
)
def test_the_head_is_the_unit_that_may_start_or_holds_up_others(
    policy: str, refused: dict[int, Refusal], want: int | None
) -> None:
    queue = filled(policy, info(1, shape="large"), info(2))
    for place, refusal in refused.items():
        queue.refuse(info(place, shape="large" if place == 1 else ""), refusal)
    head = queue.head()
    assert (None if head is None else head[0]) == want


def test_why_a_unit_waits() -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    assert queue.refusal_of(info(2, shape="x")) == Refusal(reason=Reason.WAITING, quota="a")
    queue.refuse(info(1), NO)
    assert queue.refusal_of(info(1)) == NO
    behind = queue.refusal_of(info(2, shape="x"))
    assert (behind.reason, behind.other) == (Reason.BEHIND_REFUSED_UNIT, "ns/u01")
    assert queue.refusal_of(info(3, "b")).reason is Reason.WAITING
    assert list(queue.last_refusals()) == [(info(1).order_key, NO)]


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_a_request_for_nodes_holds_back_lower_priorities_quota_by_quota(policy: str) -> None:
    """The order is not always that of the priorities: FIFO goes by creation."""
    low, behind, other = info(1), info(2, shape="x", priority=9), info(3, "b", priority=9)
    queue = filled(policy, low, behind, other)
    assert next_place(queue) == 1
    queue.requests.add(Uid("asks"), 5)
    assert next_place(queue) == 3
    assert next_place(queue.copy()) == 3
    assert queue.refusal_of(low).reason is Reason.WAITING_FOR_NODES_OF_OTHERS
    waits = queue.refusal_of(behind)
    assert (waits.reason, waits.other) == (Reason.BEHIND_REFUSED_UNIT, "ns/u01")
    assert queue.refusal_of(other).reason is Reason.WAITING
    queue.remove(low)
    assert next_place(queue) == 2
    queue.add(low)
    queue.requests.discard(Uid("asks"))
    assert next_place(queue) == 1


def test_reasons_have_a_version_that_changes_only_with_them() -> None:
    queue = filled("Priority", info(1))
    versions = [queue.reasons_version]
    for refusal in (NO, NO, ELSE, NO):
        number = queue.refuse(info(1), refusal)
        versions.append(queue.reasons_version)
        queue.wake(number)
    assert versions == [0, 1, 1, 2, 3]


def test_numbers_of_classes_are_never_reused() -> None:
    queue = filled("Priority", info(1))
    first = queue.class_number(info(1))
    queue.refuse(info(1), NO)
    assert queue.wake(first)
    assert queue.remove(info(1)) == first
    assert not queue.wake(first)
    queue.add(info(1))
    assert queue.class_number(info(1)) != first
    assert not queue.wake(first)
    queue.refuse(info(1), NO)
    assert queue.wake_all() == [queue.class_number(info(1))]


def test_equal_classes_share_their_values() -> None:
    queue = filled("Priority", info(1))
    key, demand = ("a", ""), UnitDemand((), {})
    assert queue.share(key, demand)[1] is not demand
    other = UnitDemand((), {"cpu": 1})
    assert queue.share(key, other) == (key, other)
    assert queue.share(("new", ""), demand)[1] is demand


def test_another_policy_may_follow_with_keys_of_another_kind() -> None:
    queue = filled("Block", info(1), info(2))
    queue.remove(info(1))
    queue.remove(info(2))
    queue.renew(queue.api_object, POLICIES["FIFO"])
    queue.add(replace(info(1), order_key=("text", "ns", "u01")))
    assert queue.next_key() == ("text", "ns", "u01")


@pytest.mark.parametrize("quotas", [1, 2])
def test_stale_entries_do_not_pile_up(quotas: int) -> None:
    queue = filled("Priority", *(info(n, f"q{n}") for n in range(quotas)))
    for n in range(1000):
        queue.add(info(50 + n % 7, "q0", "restless"))
        queue.next_key()
        queue.remove(info(50 + n % 7, "q0", "restless"))
    queue.validate()
    of_quota = queue._by_quota["q0"]  # noqa: SLF001 - no answer shows how much is kept
    kept = [len(queue._offers), len(of_quota._awake)]  # noqa: SLF001 - the same
    assert max(kept) <= 2 * (quotas + 2) + SLACK


def test_a_copy_is_independent() -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    queue.refuse(info(1), NO)
    queue.in_flight[Uid("u")] = None
    twin = queue.copy()
    twin.validate()
    twin.wake(twin.class_number(info(1)))
    twin.remove(info(3, "b"))
    twin.uncount_admitted(Uid("u"))
    assert next_place(twin) == 1
    assert next_place(queue) is None
    assert queue.in_flight == {"u": None}
    queue.in_flight.clear()
    assert next_place(queue) == 3
    queue.remove(info(2, shape="x"))
    assert [key[0] for key in twin.in_order()] == [1, 2]


def test_a_copy_has_all_that_the_original_has() -> None:
    queue = filled("Block", info(1), info(2, shape="x"))
    queue.refuse(info(1), NO)
    assert vars(queue.copy()) == vars(queue)


@pytest.mark.parametrize("act", ["ask", "refuse", "add", "remove", "wake", "admit", "release"])
@pytest.mark.parametrize("changed", ["original", "copy"])
def test_what_a_copy_shares_is_not_changed(changed: str, act: str) -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    queue.refuse(info(1), NO)
    queue.wake(queue.class_number(info(1)))
    queue.refuse(info(3, "b"), NO)
    queue.options = QueueOptions(is_strict=True)
    queue.count_admitted(asking(1, priority=0))
    # Orders know whether they were ever copied; that may be noted in what is shared.
    queue.copy().add(info(0))
    twin = queue.copy()
    changing, resting = (queue, twin) if changed == "original" else (twin, queue)
    before = pickle.dumps(resting)
    acts: dict[str, Callable[[], object]] = {
        "ask": lambda: (changing.first_of("a"), changing.next_key()),
        "refuse": lambda: changing.refuse(info(1), NO),
        "add": lambda: changing.add(info(0, "c")),
        "remove": lambda: changing.remove(info(2, shape="x")),
        "wake": lambda: changing.wake(changing.class_number(info(3, "b"))),
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
    st.sampled_from(BUILT_IN_POLICIES),
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
    queue.options = QueueOptions(max_depth=depth, is_strict=True)
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
        assert queue.length == len(model.units)
        reasons = Counter(queue.refusal_of(unit).reason for unit in model.units)
        assert queue.count_by_reason() == reasons
    for queue, model in others:
        queue.validate()
        assert [key[-3:] for key in queue.in_order()] == model.places()
        assert next_place(queue) == model.next_place(depth)


def test_a_depth_may_be_set_and_lifted_while_units_wait() -> None:
    queue = filled("Priority", info(3), info(1, shape="big"), info(2))
    twin = queue.copy()
    for depth, far in ((2, 1), (None, 0), (1, 2), (0, 3)):
        queue.options = QueueOptions(max_depth=depth)
        queue.validate()
        assert queue.count_by_reason().get(Reason.BEYOND_MAX_DEPTH, 0) == far
        assert list(queue.in_order()) == list(twin.in_order())
    queue.remove(info(1, shape="big"))
    queue.validate()
    assert (queue.length, twin.length) == (2, 3)
    twin.validate()


def test_all_wait_for_the_pods_of_the_unit_in_flight() -> None:
    queue = filled("Priority", info(1), info(2), info(3, shape="big"))
    queue.refuse(info(3, shape="big"), NO)
    queue.in_flight[Uid("other")] = None
    assert queue.count_by_reason() == {
        Reason.WAITING_FOR_PODS_RUNNING: 2,
        Reason.OVER_QUOTA_MAX: 1,
    }


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
        assert (queue.add(unit) is not None) == is_woken
        model.units.append(unit)
        if is_woken:  # a unit ahead of them is to be asked
            model.asleep.discard(unit.class_key)
    elif act == "remove" and is_there:
        emptied = queue.remove(unit)
        model.units = [u for u in model.units if u.order_key != unit.order_key]
        assert (emptied is None) == any(u.class_key == unit.class_key for u in model.units)
        if emptied is not None:
            model.asleep.discard(unit.class_key)
    elif act == "refuse" and (key := queue.next_key()) is not None:
        first = next(u for u in model.units if u.order_key == key)
        queue.refuse(first, NO)
        model.asleep.add(first.class_key)
    elif act == "ask":
        model.asking[Uid(f"{n % 3}")] = n % 5
        queue.uncount_admitted(Uid(f"{n % 3}"))
        queue.count_admitted(asking(n % 3, n % 5))
    elif act == "answer":
        asked = model.asking.pop(Uid(f"{n % 3}"), None)
        assert queue.uncount_admitted(Uid(f"{n % 3}")) == (asked is not None)
    elif act == "wake" and is_there:
        assert queue.wake(queue.class_number(unit)) == (unit.class_key in model.asleep)
        model.asleep.discard(unit.class_key)


@pytest.mark.parametrize(
    ("rank", "want"), [(-5, True), (-1, False), ("early", False)], ids=["above", "below", "a text"]
)
def test_which_units_may_overtake_one_in_flight(rank: object, *, want: bool) -> None:
    unit = replace(info(1), order_key=(rank, "ns", "u01"))
    queue = filled("Priority", unit)
    queue.options = QueueOptions(preempts=True, waits_for_pods=True)
    queue.in_flight[Uid("other")] = 3
    assert (queue.next_key() is not None) is want
