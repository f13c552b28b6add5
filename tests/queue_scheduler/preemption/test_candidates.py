"""Which units could be evicted for another of their queue, were they to start before it."""

from __future__ import annotations

import pytest

from shared_api.well_known_labels import PREEMPTIBLE
from tests.properties.engine_kit import build_unit
from tests.queue_scheduler.round_kit import PREEMPTS, TAKES_ALL, Times

LABELS = {PREEMPTIBLE: "false"}

Asks = tuple[str, int, int]
"""Quota, CPU and priority."""


def may_take(
    one: Asks,
    other: Asks,
    said: dict[str, str] = TAKES_ALL,
    reclaims: str = "Any",
    labels: dict[str, str] | None = None,
) -> bool:
    """Return whether one could evict the other; quotas a and c have a min of 2 cores."""
    times = Times()
    times.quota("top", 6)
    for name in ("a", "c"):
        times.quota(name, 6, "top", guaranteed=2, reclaims=reclaims)
    times.quota("b", 6, "top")
    times.queue("q", said)
    for name, (quota, cpu, priority) in (("one", one), ("other", other)):
        fixed = labels if name == "other" else None
        times.put(build_unit(name, quota, queue="q", cpu=cpu, priority=priority, labels=fixed))
    queue = times.engine.queues.find("q")
    found = [times.engine.record(f"ns/{name}") for name in ("one", "other")]
    infos = [record.info for record in found if record is not None]
    assert queue is not None
    assert infos[0] is not None
    assert infos[1] is not None
    return times.engine.candidates.may_take_from(queue, infos[0], infos[1])


@pytest.mark.parametrize("priority", [0, 9])
def test_an_owner_may_evict_any_borrower(priority: int) -> None:
    assert may_take(("a", 2, 0), ("b", 1, priority))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("a", 3, 0), ("b", 1, 0), id="it asks for more than its min"),
        pytest.param(("a", 2, 0), ("c", 2, 0), id="the other is within its own min"),
        pytest.param(("a", 2, 0), ("a", 3, 0), id="the other is of its own quota"),
        pytest.param(("a", 3, 9), ("b", 1, 0), id="the queue does not preempt"),
    ],
)
def test_which_units_may_not_be_evicted(one: Asks, other: Asks) -> None:
    assert not may_take(one, other)


def test_a_non_preemptible_unit_is_never_evicted() -> None:
    assert not may_take(("a", 2, 9), ("b", 1, 0), PREEMPTS, labels=LABELS)


@pytest.mark.parametrize(
    ("reclaims", "priority", "want"),
    [("LowerPriority", 0, False), ("LowerPriority", 1, True), ("Never", 1, False)],
)
def test_a_quota_says_from_which_quotas_it_reclaims(
    reclaims: str, priority: int, *, want: bool
) -> None:
    assert may_take(("a", 2, priority), ("b", 1, 0), reclaims=reclaims) is want


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        pytest.param(("b", 2, 5), ("b", 1, 0), True, id="lower priority"),
        pytest.param(("b", 2, 5), ("b", 1, 5), False, id="the same priority"),
        pytest.param(("b", 2, 5), ("c", 2, 0), False, id="lower, and within its own min"),
        pytest.param(("a", 2, 5), ("c", 2, 0), True, id="both within their min"),
    ],
)
def test_in_a_queue_that_preempts_a_lower_priority_may_be_evicted(
    one: Asks, other: Asks, *, want: bool
) -> None:
    assert may_take(one, other, PREEMPTS) is want
