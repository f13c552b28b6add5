"""Where accounts stand while ranks grow, and lanes open and close, against a sort of all."""

from __future__ import annotations

from random import Random

import pytest

from queue_scheduler.queueing.account_ranks import AccountRanks
from queue_scheduler.queueing.fair_settings import Lane


def lane(number: int) -> Lane:
    """Return a lane of a user in a group, with one of two priorities."""
    return -(number % 2), (f"group-{number % 3}", f"user-{number // 2}")


@pytest.mark.parametrize("seed", range(20))
def test_open_lanes_are_in_order(seed: int) -> None:
    rng, ranks, is_open = Random(seed), AccountRanks(), set[Lane]()
    for step in range(300):
        each = lane(rng.randrange(12))
        if rng.random() < 0.6:
            path = each[1][: rng.randint(1, 2)]
            ranks.put({path: (ranks.rank_of(path) or 0) + rng.randrange(3)})
        elif each in is_open:
            is_open.remove(each)
            ranks.close(each)
        else:
            is_open.add(each)
            ranks.open(each)
        if rng.random() < 0.1:
            ranks = ranks.copy()
        if rng.random() < 0.1:
            ranks.keep(dict.fromkeys(is_open))
        want = sorted(is_open, key=lambda each: (ranks.standing(each), each))
        assert ranks.in_order == want, step


def test_a_copy_is_independent() -> None:
    ranks = AccountRanks()
    ranks.open(lane(0))
    twin = ranks.copy()
    twin.open(lane(1))
    twin.put({lane(0)[1]: 1})
    assert (ranks.in_order, len(ranks), ranks.rank_of(lane(0)[1])) == ([lane(0)], 1, None)


def test_what_is_not_kept_is_forgotten() -> None:
    ranks = AccountRanks()
    for number in range(4):
        ranks.open(lane(number))
        ranks.put({lane(number)[1]: number + 1})
    for number in (0, 1, 3):
        ranks.close(lane(number))
    ranks.keep({lane(2): None})
    assert len(ranks) == 1
    assert list(ranks.lanes) == [lane(2)]
    assert [ranks.rank_of(lane(number)[1]) for number in range(4)] == [None, None, 3, None]
