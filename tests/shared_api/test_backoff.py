"""Pauses between attempts."""

from __future__ import annotations

import random

import pytest

from shared_api.backoff import Backoff


@pytest.mark.parametrize(
    ("attempt", "want"),
    [(0, 10.0), (1, 20.0), (3, 80.0), (6, 640.0), (7, 900.0), (10_000, 900.0)],
)
def test_pauses_double_up_to_the_cap(attempt: int, want: float) -> None:
    assert Backoff(base_seconds=10, cap_seconds=900).seconds(attempt) == want


def test_jitter_spreads_around_the_pause_and_around_the_cap() -> None:
    backoff = Backoff(base_seconds=10, cap_seconds=20, jitter=0.1)
    for attempt, pause in ((0, 10.0), (9, 20.0)):
        got = [backoff.seconds(attempt, random.Random(seed)) for seed in range(200)]
        assert pause * 0.9 <= min(got) < pause * 0.92
        assert pause * 1.08 < max(got) <= pause * 1.1


def test_a_seed_repeats_the_pauses_and_without_one_there_is_no_jitter() -> None:
    backoff = Backoff(base_seconds=1, cap_seconds=60, jitter=0.5)
    assert backoff.seconds(3, random.Random(7)) == backoff.seconds(3, random.Random(7))
    assert backoff.seconds(3) == 8.0
