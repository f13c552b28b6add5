"""Why units of a queue are pending, and who keeps whom waiting."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_questions import (
    count_by_reason,
    queue_head,
    refusal_of,
    would_keep_from_turn,
)
from shared_api.objects.meta import Uid
from tests.queue_scheduler.queueing.scheduling_queue_kit import (
    NO,
    TOO_LARGE,
    filled,
    info,
    next_place,
)


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
    queue.set_options(QueueOptions(max_depth=depth))
    assert would_keep_from_turn(queue, other.order_key, other.quota, unit) is want
    queue.pending.add(other)
    queue.pending.refuse(other, NO)
    assert (next_place(queue) is None) is want


def test_too_many_units_ahead_keep_a_unit_from_its_turn() -> None:
    queue = filled("Priority", info(1), info(5, shape="x"))
    queue.set_options(QueueOptions(max_depth=4))
    other = info(2).order_key
    would_keep = [would_keep_from_turn(queue, other, "b", info(5), more) for more in range(3)]
    assert would_keep == [False, False, True]


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
        queue.pending.refuse(info(place, shape="large" if place == 1 else ""), refusal)
    head = queue_head(queue)
    assert (None if head is None else head[0]) == want


def test_why_a_unit_waits() -> None:
    queue = filled("Block", info(1), info(2, shape="x"), info(3, "b"))
    assert refusal_of(queue, info(2, shape="x")) == Refusal(reason=Reason.WAITING, quota="a")
    queue.pending.refuse(info(1), NO)
    assert refusal_of(queue, info(1)) == NO
    behind = refusal_of(queue, info(2, shape="x"))
    assert (behind.reason, behind.other) == (Reason.BEHIND_REFUSED_UNIT, "ns/u01")
    assert refusal_of(queue, info(3, "b")).reason is Reason.WAITING
    assert queue.pending.refused_in_order() == [(info(1).order_key, NO)]


def test_all_wait_for_the_pods_of_the_unit_in_flight() -> None:
    queue = filled("Priority", info(1), info(2), info(3, shape="big"))
    queue.pending.refuse(info(3, shape="big"), NO)
    queue.in_flight[Uid("other")] = None
    assert count_by_reason(queue) == {
        Reason.WAITING_FOR_PODS_RUNNING: 2,
        Reason.OVER_QUOTA_MAX: 1,
    }
