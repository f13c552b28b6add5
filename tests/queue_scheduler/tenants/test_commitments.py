"""What running units may still use, by period, against a sum over all of them."""

from __future__ import annotations

from random import Random

from queue_scheduler.tenants.commitments import Commitments, Promise, overlap

STARTS = (0, 100, 150, 300)


def naive(promises: list[tuple[Promise, int]], first: int, now: int) -> list[int]:
    found = []
    for number in range(first, len(STARTS)):
        last = STARTS[number + 1] if number + 1 < len(STARTS) else None
        ends = [now + each.seconds if each.end is None else each.end for each, _ in promises]
        parts = (overlap(now, end, STARTS[number], last) for end in ends)
        found.append(sum(rate * part for (_, rate), part in zip(promises, parts, strict=True)))
    return found


def test_it_is_the_sum_over_all_units() -> None:
    for seed in range(200):
        rng = Random(seed)
        sums, promises, now = Commitments(STARTS), list[tuple[Promise, int]](), 0
        for _ in range(20):
            now += rng.randint(0, 30)
            sums.pass_until(now)
            if promises and rng.random() < 0.3:
                each, rate = promises.pop(rng.randrange(len(promises)))
                sums.add(each, -rate)
            else:
                end = rng.choice([None, rng.randint(0, 500)])
                promises.append((Promise(end, rng.randint(0, 300)), rng.randint(1, 9)))
                sums.add(*promises[-1])
            first = max(number for number, start in enumerate(STARTS) if start <= now)
            want = naive(promises, first, now)
            assert list(sums.copy().by_period(first, now)) == want, seed
            assert sums.copy().total(now) == sum(want), seed
