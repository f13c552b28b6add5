"""The classes of a queue: numbers, shared values, and what is kept of them."""

from __future__ import annotations

import pytest

from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.queueing.class_queue import SLACK
from tests.queue_scheduler.queueing.scheduling_queue_kit import (
    ELSE,
    NO,
    filled,
    info,
)


def test_reasons_have_a_version_that_changes_only_with_them() -> None:
    queue = filled("Priority", info(1))
    versions = [queue.pending.reasons_version]
    for refusal in (NO, NO, ELSE, NO):
        number = queue.pending.refuse(info(1), refusal)
        versions.append(queue.pending.reasons_version)
        queue.pending.wake(number)
    assert versions == [0, 1, 1, 2, 3]


def test_numbers_of_classes_are_never_reused() -> None:
    queue = filled("Priority", info(1))
    first = queue.pending.class_of(info(1)).number
    queue.pending.refuse(info(1), NO)
    assert queue.pending.wake(first)
    assert queue.pending.remove(info(1)) == (first,)
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
