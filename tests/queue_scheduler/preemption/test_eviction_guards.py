"""How long a unit waits, and how many may be evicted in an hour, before one is evicted for it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_insight.insight.explain import explain
from queue_scheduler.decision import Reason
from queue_scheduler.refusal_texts import full_message, stable_message
from shared_api.objects.meta import Condition, Timestamp
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import EVICTION_DELAY, EVICTIONS_PER_HOUR
from tests.properties.engine_kit import WALL, build_unit, changed, wall_time
from tests.queue_scheduler.preemption.test_protection import at, first
from tests.queue_scheduler.round_kit import BEGIN, PREEMPTS, Times


def running(count: int, **said: str) -> Times:
    """Let units `u0`, `u1` and so on run in a queue that preempts; each has one core."""
    times = Times()
    times.quota("top", count)
    times.queue("q", PREEMPTS | said)
    for number in range(count):
        times.comes(f"u{number}", "top", 1, priority=1)
    times.wait(0.0)
    return times


def comes_now(times: Times, name: str, cpu: int = 1) -> None:
    """Create a unit at this second, and ask."""
    unit = build_unit(name, "top", queue="q", cpu=cpu, priority=9)
    created = Timestamp(rfc3339(wall_time(WALL + int(times.workers.now))))
    times.put(replace(unit, metadata=replace(unit.metadata, creation_timestamp=created)))
    times.ask()


def last_blocker(times: Times, name: str) -> tuple[Reason, str]:
    """Return the last reason why a unit waits, and its text with numbers."""
    explanation = explain(times.engine.fork(), f"ns/{name}", wall_time(WALL))
    assert explanation is not None
    refusal = explanation.blockers[-1]
    return refusal.reason, full_message(refusal)


# --- a delay --------------------------------------------------------------------------------------


def test_eviction_delay() -> None:
    """`high` comes at second 10 of a queue with a delay of 300 s, and evicts `u0` at second 310."""
    times = running(1, **{EVICTION_DELAY: "5m"})
    comes_now(times, "high")
    reason, text = last_blocker(times, "high")
    assert reason is Reason.EVICTION_DELAY
    assert text == (
        f"may evict others when it has waited for the {EVICTION_DELAY} of queue q: "
        f"from {at(310)} on"
    )
    assert first(times) == (310.0, "high evicts u0")


def test_a_delay_delays_no_start() -> None:
    times = running(1, **{EVICTION_DELAY: "5m"})
    comes_now(times, "high")
    times.wait(100.0)
    times.frees("u0")
    assert times.wait(0.0) == [(110.0, "high starts")]


def test_after_an_eviction_a_unit_waits_anew() -> None:
    """`back` was created long ago, and is in the queue again since second 100."""
    times = running(1, **{EVICTION_DELAY: "60"})
    times.wait(90.0)
    again = Condition(
        type="Evicted", status="False", reason="Requeued", last_transition_time=Timestamp(at(100))
    )
    times.put(changed(build_unit("back", "top", queue="q", priority=9), 1, conditions=(again,)))
    times.ask()
    assert first(times) == (160.0, "back evicts u0")


def test_a_unit_that_lost_its_quota_waits_anew() -> None:
    times = running(1, **{EVICTION_DELAY: "60"})
    times.wait(90.0)
    lost = Condition(type="QuotaReserved", status="False", last_transition_time=Timestamp(at(100)))
    unit = build_unit("back", "top", queue="q", priority=9)
    times.put(changed(unit, 1, conditions=(lost,), last_allocate_time=Timestamp(at(20))))
    times.ask()
    assert first(times) == (160.0, "back evicts u0")


def test_a_reported_reason_is_no_end_of_an_admission() -> None:
    """The condition of a unit that never had quota is written two seconds after it came."""
    times = running(1, **{EVICTION_DELAY: "60"})
    comes_now(times, "high")
    told = Condition(type="QuotaReserved", status="False", last_transition_time=Timestamp(at(12)))
    times.put(changed(times.units["high"], 1, conditions=(told,)))
    assert first(times) == (70.0, "high evicts u0")


@pytest.mark.parametrize(("text", "want"), [("", 100.0), ("30s", 100.0), ("2m", 130.0)])
def test_another_delay_wakes(text: str, want: float) -> None:
    times = running(1, **{EVICTION_DELAY: "1h"})
    comes_now(times, "high")
    assert times.wait(90.0) == []
    times.queue("q", PREEMPTS | {EVICTION_DELAY: text})
    times.ask()
    assert first(times) == (want, "high evicts u0")


def test_an_unreadable_delay_leaves_the_last_one_in_force() -> None:
    times = running(1, **{EVICTION_DELAY: "5m"})
    times.queue("q", PREEMPTS | {EVICTION_DELAY: "-5m"})
    comes_now(times, "high")
    assert first(times) == (310.0, "high evicts u0")
    (notice,) = [each for each in times.engine.take_notices() if "'-5m'" in each.note]
    assert (notice.kind, notice.reason) == ("Queue", "UnreadableAnnotation")


# --- a rate ---------------------------------------------------------------------------------------


def evict_next(times: Times, name: str, cpu: int = 1) -> tuple[float, str]:
    """Let a unit come that evicts others, and start in their room; return when, and which."""
    comes_now(times, name, cpu)
    (found,) = times.wait(0.0)
    for victim in found[1].partition(" evicts ")[2].split(" and "):
        times.frees(victim)
    assert times.wait(0.0) == [(times.workers.now, f"{name} starts")]
    return found


def test_eviction_rate() -> None:
    """Two in an hour: two at second 10, and one more half an hour later."""
    times = running(4, **{EVICTIONS_PER_HOUR: "2"})
    assert evict_next(times, "h1") == (BEGIN, "h1 evicts u3")
    assert evict_next(times, "h2") == (BEGIN, "h2 evicts u2")
    comes_now(times, "h3")
    reason, text = last_blocker(times, "h3")
    assert reason is Reason.EVICTION_RATE
    assert text == (
        f"may evict others when the {EVICTIONS_PER_HOUR} of queue q allow it again: "
        f"from {at(1810)} on: missing 1 (limit 2, used 2, requested 1)"
    )
    assert times.wait(1799.0) == []
    assert times.wait(1.0) == [(1810.0, "h3 evicts u1")]


def test_a_round_takes_a_token_for_each_victim() -> None:
    times = running(4, **{EVICTIONS_PER_HOUR: "3"})
    assert evict_next(times, "h1", 2) == (BEGIN, "h1 evicts u3 and u2")
    comes_now(times, "h2", 2)
    assert times.wait(1199.0) == []
    assert times.wait(1.0) == [(1210.0, "h2 evicts u1 and u0")]


def test_a_round_that_needs_more_than_the_bucket_holds_begins_when_it_is_full() -> None:
    """It is delayed, not kept from its guarantee for good; the next makes up for it."""
    times = running(4, **{EVICTIONS_PER_HOUR: "1"})
    assert evict_next(times, "h1", 3) == (BEGIN, "h1 evicts u3 and u2 and u1")
    comes_now(times, "h2")
    assert times.wait(3 * 3600.0 - 1) == []
    assert times.wait(1.0) == [(10810.0, "h2 evicts u0")]


@pytest.mark.parametrize("queue_first", [True, False])
def test_after_a_start_the_rate_is_read_from_the_units(*, queue_first: bool) -> None:
    before = running(4, **{EVICTIONS_PER_HOUR: "2"})
    evict_next(before, "h1")
    before.wait(30.0)
    evict_next(before, "h2")
    times = Times()
    times.workers.now = 100.0
    times.quota("top", 4)
    said = PREEMPTS | {EVICTIONS_PER_HOUR: "2"}
    times.queue("q", said if queue_first else PREEMPTS)
    for unit in reversed(before.units.values()):
        times.put(unit)
    times.queue("q", said)
    comes_now(times, "h3")
    assert times.wait(1709.0) == []
    assert times.wait(1.0) == [(1810.0, "h3 evicts u1")]


def test_a_condition_without_a_count_is_an_eviction() -> None:
    """Another version of the program has asked for it."""
    times = running(2, **{EVICTIONS_PER_HOUR: "1"})
    message = "made to leave for ns/x (priority 9, queue q, quota top), which lacks 1 of cpu"
    asked = Condition(
        type="Evicted",
        status="True",
        reason="Preempted",
        message=message,
        last_transition_time=Timestamp(at(10)),
    )
    times.put(changed(times.units["u1"], 1, conditions=(asked,)))
    times.frees("u1")
    times.put(build_unit("x", "top", queue="q", priority=9))
    times.ask()
    assert times.wait(0.0) == [(BEGIN, "x starts")]
    comes_now(times, "h2")
    assert times.wait(3599.0) == []
    assert times.wait(1.0) == [(3610.0, "h2 evicts u0")]


def test_evictions_that_are_not_written_take_no_token() -> None:
    times = running(1, **{EVICTIONS_PER_HOUR: "1"})
    times.writes = False
    comes_now(times, "high")
    times.wait(50.0)
    times.writes = True
    assert first(times) == (70.0, "high evicts u0"), "it rests for a minute"


def test_a_rate_for_all_queues_counts_with_that_of_each() -> None:
    times = Times()
    times.engine.queue_state.limit_evictions(2)
    times.quota("top", 4)
    for name in ("p", "q"):
        times.queue(name, PREEMPTS | ({EVICTIONS_PER_HOUR: "1"} if name == "q" else {}))
        for number in range(2):
            times.comes(f"{name}{number}", "top", 1, priority=1, queue=name)
    times.wait(0.0)
    assert evict_next(times, "h1") == (BEGIN, "h1 evicts q1")
    times.comes("p2", "top", 1, queue="p")
    assert times.wait(0.0) == [(BEGIN, "p2 evicts p1")]
    times.frees("p1")
    times.wait(0.0)
    times.comes("p3", "top", 1, queue="p")
    refusal = explain(times.engine.fork(), "ns/p3", wall_time(WALL))
    assert refusal is not None
    assert stable_message(refusal.blockers[-1]) == (
        "may evict others when the scheduler's setting evictionsPerHour allows it again: "
        f"from {at(1810)} on"
    )
    assert times.wait(1799.0) == []
    assert times.wait(1.0) == [(1810.0, "p3 evicts p0")]


def test_a_higher_rate_wakes() -> None:
    times = running(3, **{EVICTIONS_PER_HOUR: "1"})
    evict_next(times, "h1")
    comes_now(times, "h2")
    assert times.wait(20.0) == []
    times.queue("q", PREEMPTS | {EVICTIONS_PER_HOUR: "2"})
    times.ask()
    assert times.wait(0.0) == [(30.0, "h2 evicts u1")]


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "100001"])
def test_an_unreadable_rate_leaves_the_last_one_in_force(text: str) -> None:
    times = running(3, **{EVICTIONS_PER_HOUR: "1"})
    times.queue("q", PREEMPTS | {EVICTIONS_PER_HOUR: text})
    evict_next(times, "h1")
    comes_now(times, "h2")
    assert times.wait(3599.0) == []
    assert times.wait(1.0) == [(3610.0, "h2 evicts u1")]
    (notice,) = [each for each in times.engine.take_notices() if repr(text) in each.note]
    assert notice.note.endswith(
        "is not a whole number from 1 to 100000; what was in force stays: 1"
    )
