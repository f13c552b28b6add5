"""Priorities that are boosted: in the order, and where victims are chosen."""

from __future__ import annotations

import pytest

from shared_api.objects.queue_unit import Evictions
from shared_api.well_known_labels import MAX_PRIORITY, PRIORITY_BOOST
from tests.properties.engine_kit import admitted, build_unit, changed
from tests.queue_scheduler.preemption.test_protection import first
from tests.queue_scheduler.round_kit import BEGIN, PREEMPTS, Times


def boosted(text: str) -> dict[str, str]:
    return {PRIORITY_BOOST: text}


def stage(cpu: int = 1, ceiling: str = "") -> Times:
    times = Times()
    times.quota("top", cpu)
    times.queue("q", PREEMPTS | ({MAX_PRIORITY: ceiling} if ceiling else {}))
    return times


def comes(times: Times, name: str, priority: int, boost: str = "") -> None:
    said = boosted(boost) if boost else {}
    times.put(build_unit(name, "top", queue="q", priority=priority, annotations=said))


def test_boost() -> None:
    """Of equal units the boosted one starts first; then it spares itself and is spared."""
    times = stage()
    comes(times, "one", 5)
    comes(times, "two", 5, "10")
    times.ask()
    assert times.wait(0.0) == [(BEGIN, "two starts")]
    record = times.engine.record("ns/two")
    assert record is not None
    assert record.priority == 15
    assert times.units["two"].spec.priority == 5, "the object keeps its own"
    times.comes("three", "top", 1, priority=15)
    assert times.wait(100.0) == []
    times.comes("four", "top", 1, priority=16)
    assert first(times) == (110.0, "four evicts two")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1000", 1005),
        ("+1000", 1005),
        ("-1000", -995),
        ("1001", 5),
        ("-1001", 5),
        ("ten", 5),
        ("", 5),
        ("1_0", 5),
    ],
)
def test_what_is_a_boost(text: str, want: int) -> None:
    times = stage()
    times.put(build_unit("u", "top", queue="q", priority=5, annotations=boosted(text)))
    record = times.engine.record("ns/u")
    assert record is not None
    assert record.priority == want
    notes = [each for each in times.engine.take_notices() if each.key == "ns/u"]
    assert bool(notes) is (want == 5)
    for note in notes:
        assert (note.kind, note.reason) == ("QueueUnit", "IgnoredAnnotation")
        assert note.note == (
            f"annotation {PRIORITY_BOOST}: {text!r} is not a whole number from -1000 to 1000; "
            "it is ignored"
        )


def test_edit_cannot_boost_above_the_ceiling() -> None:
    times = stage(ceiling="10")
    comes(times, "u", 9, "1000")
    record = times.engine.record("ns/u")
    assert record is not None
    assert record.priority == 10
    (notice,) = times.engine.take_notices()
    assert (
        notice.note
        == "priority 1009 counts as 10, which is the koord-queue/max-priority of queue q"
    )


def test_a_boost_that_changes_moves_a_pending_unit() -> None:
    times = stage()
    times.comes("runs", "top", 1, priority=50)
    comes(times, "one", 5)
    comes(times, "two", 5)
    comes(times, "two", 5, "1")
    times.ask()
    times.wait(0.0)
    times.frees("runs")
    assert times.wait(0.0) == [(BEGIN, "two starts")]


def test_a_boosted_unit_that_has_ended_is_not_lowered() -> None:
    times = stage()
    comes(times, "u", 5, "7")
    times.put(changed(times.units["u"], 1, "Succeed"))
    record = times.engine.record("ns/u")
    assert record is not None
    assert not record.is_lowered
    assert times.engine.take_notices() == []


# --- by evictions ---------------------------------------------------------------------------------


def run_evicted(times: Times, name: str, count: int) -> None:
    """Let a unit of priority 5 run that was evicted so often before."""
    unit = admitted(build_unit(name, "top", queue="q", priority=5), 1, "Running")
    times.put(changed(unit, 1, evictions=Evictions(count=count)))


def test_the_much_evicted_are_spared() -> None:
    times = stage(2)
    times.engine.usage.boost_per_eviction = 3
    run_evicted(times, "often", 2)
    run_evicted(times, "rarely", 1)
    times.comes("high", "top", 1, priority=9)
    assert times.wait(0.0) == [(BEGIN, "high evicts rarely")], "8 is less than 9"
    times.frees("rarely")
    times.wait(0.0)
    times.comes("next", "top", 1, priority=9)
    assert times.wait(100.0) == [], "often counts as 11"


@pytest.mark.parametrize(("k", "count", "want"), [(3, 400, 1005), (0, 400, 5), (3, -4, 5)])
def test_how_much_evictions_spare(k: int, count: int, want: int) -> None:
    times = stage()
    times.engine.usage.boost_per_eviction = k
    run_evicted(times, "u", count)
    record = times.engine.record("ns/u")
    assert record is not None
    assert record.victim_priority == want
    assert record.priority == 5


def test_evictions_spare_up_to_the_ceiling() -> None:
    times = stage(ceiling="7")
    times.engine.usage.boost_per_eviction = 3
    run_evicted(times, "u", 2)
    record = times.engine.record("ns/u")
    assert record is not None
    assert record.victim_priority == 7


def test_what_evictions_spare_evicts_nobody() -> None:
    """Otherwise two units would evict each other in turn."""
    times = stage()
    times.engine.usage.boost_per_eviction = 100
    times.comes("one", "top", 1, priority=5)
    times.comes("two", "top", 1, priority=6)
    assert times.wait(0.0) == [(BEGIN, "one starts"), (BEGIN, "two evicts one")]
    times.returns("one")
    assert times.wait(1000.0) == [(BEGIN, "two starts")]
