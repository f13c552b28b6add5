"""Samples of several minutes as one, waits in bins, and names that are too many to keep."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from queue_insight.record.samples import (
    FIVE_MINUTES,
    HALF_HOURS,
    LEVELS,
    MAX_NAMES,
    MAX_RESOURCES,
    Sample,
    amounts_of,
    begin_of,
    bin_of,
    fold,
    names_of,
    quantile,
    sets_of,
)


def test_several_samples_are_averaged() -> None:
    first = Sample(3, 1, {"cpu": 3_000, "memory": 4}, {0: 1, 8: 2}, (("a",),), ("a",))
    second = Sample(1, 2, {"cpu": 1_000}, {8: 1}, (("a", "b"),), ("b",))
    got = fold([first, second], 4)
    sets, names = (("a",), ("a", "b")), ("a", "b")
    assert got == Sample(1.0, 0.75, {"cpu": 1_000, "memory": 1}, {0: 1, 8: 3}, sets, names)


@pytest.mark.parametrize("known", [Sample(), Sample(1, 1, {}, {}, (("a",),), ("a",))])
def test_names_that_are_unknown_of_a_minute_are_unknown_of_all(known: Sample) -> None:
    got = fold([known, Sample(namespaces=None, admitted_from=None)], 2)
    assert (got.namespaces, got.admitted_from) == (None, None)


def test_names_that_become_too_many_are_unknown() -> None:
    half = MAX_NAMES // 2 + 1
    parts = [[f"{side}{each:03}" for each in range(half)] for side in "ab"]
    samples = [Sample(namespaces=sets_of([part]), admitted_from=names_of(part)) for part in parts]
    assert all(each.namespaces and each.admitted_from for each in samples)
    got = fold(samples, 2)
    assert (got.namespaces, got.admitted_from) == (None, None)


def test_sets_are_kept_once_and_without_empty_ones() -> None:
    assert sets_of([{"b", "a"}, set(), {"a", "b"}, {"c"}]) == (("a", "b"), ("c",))


def test_amounts_have_few_resources_and_no_zeros() -> None:
    got = amounts_of({"zero": 0, **{f"r{each:02}": each + 1 for each in range(50)}})
    assert list(got) == [f"r{each:02}" for each in range(MAX_RESOURCES)]


def test_resources_that_are_looked_at_come_first() -> None:
    junk = {f"a{each}.example.com/x": 9 for each in range(50)}
    got = amounts_of({**junk, "cpu": 1, "z.example.com/gpu": 2}, {"z.example.com/gpu"})
    assert list(got)[:2] == ["z.example.com/gpu", "cpu"]


def test_a_longer_time_has_few_resources_those_that_are_used_most_of_it() -> None:
    minutes = [
        Sample(used={"cpu": 2, **{f"a{minute}-{each}": 9 for each in range(15)}})
        for minute in range(5)
    ]
    got = fold(minutes, 5)
    assert len(got.used) == MAX_RESOURCES
    assert got.used["cpu"] == 2


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_quantiles_of_waits_are_close(share: float) -> None:
    rng = random.Random(3)
    waits = sorted(rng.lognormvariate(6, 2) for _ in range(1_000))
    want = waits[int(share * len(waits)) - 1]
    got = quantile(Counter(map(bin_of, waits)), share)
    assert got == pytest.approx(want, rel=0.06)


def test_a_wait_of_nothing_and_no_wait() -> None:
    assert quantile({bin_of(0.0): 1}, 0.5) == 0.0
    assert quantile({bin_of(-5.0): 1}, 0.9) == 0.0
    assert quantile({}, 0.5) is None


def test_times_begin_at_multiples() -> None:
    assert [begin_of(3_899.9, level) for level in LEVELS] == [3_840, 3_600, 3_600]
    assert all(HALF_HOURS.seconds % each.seconds == 0 for each in (*LEVELS, FIVE_MINUTES))
