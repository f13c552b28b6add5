"""The first account of several, while their ranks grow, against a look at all of them."""

from __future__ import annotations

from random import Random

import pytest

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing import growing_heap
from queue_scheduler.queueing.account_ranks import AccountRanks
from queue_scheduler.queueing.fair_settings import Lane
from queue_scheduler.queueing.growing_heap import LaneHeap


def lane(number: int) -> Lane:
    return 0, (f"user-{number}",)


@pytest.mark.parametrize("seed", range(40))
def test_the_first_lane_is_that_of_the_smallest_place(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heap is rebuilt often, and looked at by some seeds only for accounts that are level."""
    monkeypatch.setattr(growing_heap, "SLACK", 2)
    monkeypatch.setattr(growing_heap, "WALK", seed % 7)
    rng, heap, ranks = Random(seed), LaneHeap(), AccountRanks()
    for number in range(6):
        ranks.open(lane(number))
    keys: dict[Lane, OrderKey] = {}
    grown = dict.fromkeys(range(6), 0)
    for step in range(300):
        number = rng.randrange(6)
        if rng.random() < 0.5:
            keys[lane(number)] = (lane(number), rng.randrange(9), f"{step}")
            heap.put(lane(number), keys[lane(number)], ranks)
        elif rng.random() < 0.3:
            keys.pop(lane(number), None)
            heap.drop(lane(number))
        else:
            grown[number] += rng.randrange(3)
            ranks.put({(f"user-{number}",): grown[number]})
        first = heap.first(ranks)
        places = [ranks.place(key) for key in keys.values()]
        assert (None if first is None else first[0]) == min(places, default=None), step
        assert first is None or ranks.place(first[2]) == first[0]
        if rng.random() < 0.1:
            heap = heap.copy()
