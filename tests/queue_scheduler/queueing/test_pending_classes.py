"""The classes of a queue: numbers, shared values, and what is kept of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import AccountKey, QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.class_queue import SLACK
from queue_scheduler.queueing.queue_questions import refusal_of
from shared_api.submitters import Submitter
from tests.queue_scheduler.queueing.scheduling_queue_kit import (
    ELSE,
    NO,
    filled,
    info,
    next_place,
)

ASIDE = Refusal(reason=Reason.USER_LIMIT)


def test_reasons_have_a_version_that_changes_only_with_them() -> None:
    queue = filled("Priority", info(1))
    versions = [queue.pending.reasons_version]
    for refusal in (NO, NO, ELSE, NO):
        number = queue.pending.refuse(info(1), refusal)
        versions.append(queue.pending.reasons_version)
        queue.pending.wake(number)
    assert versions == [0, 1, 1, 2, 3]


def test_a_class_that_is_asleep_waits_no_more_when_its_last_unit_leaves() -> None:
    queue = filled("Priority", info(1), info(2))
    number = queue.pending.refuse(info(1), NO)
    assert queue.pending.remove(info(2)) == ()
    assert queue.pending.remove(info(1)) == (number,)


def test_numbers_of_classes_are_never_reused() -> None:
    queue = filled("Priority", info(1))
    first = queue.pending.class_of(info(1)).number
    queue.pending.refuse(info(1), NO)
    assert queue.pending.wake(first)
    assert queue.pending.remove(info(1)) == (), "it was awake"
    assert not queue.pending.wake(first)
    queue.pending.add(info(1))
    assert queue.pending.class_of(info(1)).number != first
    assert not queue.pending.wake(first)
    queue.pending.refuse(info(1), NO)
    assert [*queue.pending.numbered] == [queue.pending.class_of(info(1)).number]


def test_equal_classes_share_their_values() -> None:
    queue = filled("Priority", info(1))
    key, demand = ("a", ""), UnitDemand((), {})
    assert queue.pending.share(key, demand)[1] is not demand
    other = UnitDemand((), {"cpu": 1})
    assert queue.pending.share(key, other) == (key, other)
    assert queue.pending.share(("new", ""), demand)[1] is demand


@pytest.mark.parametrize("quotas", [1, 2])
def test_stale_entries_do_not_pile_up(quotas: int) -> None:
    queue = filled("Priority", *(info(n, f"q{n}") for n in range(quotas)))
    for n in range(1000):
        queue.pending.add(info(50 + n % 7, "q0", "restless"))
        queue.next_key()
        queue.pending.remove(info(50 + n % 7, "q0", "restless"))
    queue.validate()
    of_quota = queue.pending.by_quota["q0"]
    kept = [len(queue.pending.offers), len(of_quota._awake)]  # noqa: SLF001 - no answer shows it
    assert max(kept) <= 2 * (quotas + 2) + SLACK


def of(user: str, place: int) -> QueueUnitInfo:
    """Return a unit of an account; all have one shape."""
    unit = info(place)
    key = AccountKey(unit.class_key, user, "")
    return replace(unit, class_key=key, submitter=Submitter(user, ""))


class TestGroups:
    """Classes that differ by account alone sleep and wake as one."""

    def test_what_a_filter_says_of_one_class_it_says_of_all(self) -> None:
        queue = filled("Priority", of("ann", 1), of("bob", 2), of("eve", 3))
        number = queue.pending.refuse(of("ann", 1), NO, is_for_all=True)
        assert next_place(queue) is None
        assert refusal_of(queue, of("eve", 3)) == NO
        queue.pending.add(of("new", 4))
        assert next_place(queue) is None
        assert queue.pending.head_of(number) == of("ann", 1).order_key
        assert queue.pending.wake(number) == (number,)
        assert next_place(queue) == 1

    def test_a_class_that_stands_aside_holds_back_nobody_and_joins_later(self) -> None:
        queue = filled("Block", of("ann", 1), of("bob", 2))
        own = queue.pending.refuse(of("ann", 1), ASIDE)
        assert next_place(queue) == 2
        number = queue.pending.refuse(of("bob", 2), NO, is_for_all=True)
        assert queue.pending.wake(own) == (own, number), "it comes before the class that was asked"
        assert next_place(queue) == 1

    def test_one_that_comes_later_joins_those_that_are_asleep(self) -> None:
        queue = filled("Block", of("ann", 1), of("bob", 2))
        own = queue.pending.refuse(of("bob", 2), ASIDE)
        queue.pending.refuse(of("ann", 1), NO, is_for_all=True)
        assert queue.pending.wake(own) == (own,)
        assert refusal_of(queue, of("bob", 2)) == NO
        assert next_place(queue) is None

    def test_it_is_asked_anew_when_another_account_comes_first(self) -> None:
        queue = filled("Priority", of("ann", 1), of("ann", 2), of("bob", 3), of("ann", 4))
        number = queue.pending.refuse(of("ann", 1), NO, is_for_all=True)
        assert queue.pending.remove(of("ann", 1)) == (), "the same account is first"
        assert queue.pending.remove(of("ann", 2)) == (number,)
        assert next_place(queue) == 3

    def test_a_unit_before_it_is_asked(self) -> None:
        queue = filled("Priority", of("ann", 2), of("bob", 3))
        number = queue.pending.refuse(of("ann", 2), NO, is_for_all=True)
        assert queue.pending.add(of("bob", 4)) == ()
        assert queue.pending.add(of("eve", 1)) == (number,)
        assert next_place(queue) == 1

    def test_the_last_class_takes_it_along(self) -> None:
        queue = filled("Priority", of("ann", 1))
        number = queue.pending.refuse(of("ann", 1), NO, is_for_all=True)
        assert queue.pending.remove(of("ann", 1)) == (number,)
        assert not queue.pending.groups
        queue.validate()

    def test_a_copy_has_its_own(self) -> None:
        queue = filled("Priority", of("ann", 1), of("bob", 2))
        number = queue.pending.refuse(of("ann", 1), NO, is_for_all=True)
        twin = queue.copy()
        twin.pending.wake(number)
        assert (next_place(queue), next_place(twin)) == (None, 1)

    def test_units_that_stand_aside_are_in_no_depth_and_no_band(self) -> None:
        queue = filled("Intelligent", replace(of("ann", 1), order_key=(0, 1, "ns", "u01")))
        queue.pending.add(replace(of("bob", 2), order_key=(1, 2, "ns", "u02")))
        assert next_place(queue) == 1
        own = queue.pending.refuse(replace(of("ann", 1), order_key=(0, 1, "ns", "u01")), ASIDE)
        assert next_place(queue) == 2, "no band is before its own"
        assert queue.pending.count_before((1, 2, "ns", "u02"), tried=True) == 0
        assert queue.pending.at(0, tried=True) == (1, 2, "ns", "u02")
        queue.pending.wake(own)
        assert next_place(queue) == 1
