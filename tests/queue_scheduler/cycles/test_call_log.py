"""Calls wait in order until they are taken; a log that nobody takes stops."""

from __future__ import annotations

import pytest

from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.engine.engine import Engine
from shared_api.testing.virtual_clock import EPOCH
from tests.properties.engine_kit import build_unit


def noted(log: CallLog, *names: str) -> None:
    for name in names:
        log.append(Engine.on_node_gone, (name,), {})


def taken(log: CallLog) -> list[tuple[int, str]]:
    return [(call.number, call.args[0]) for call in log.take()]


def test_calls_are_only_counted_before_it_is_started() -> None:
    log = CallLog(lambda: EPOCH)
    noted(log, "a", "b")
    assert (taken(log), log.last, log.is_on) == ([], 2, False)
    log.start()
    noted(log, "c", "d")
    assert taken(log) == [(3, "c"), (4, "d")]
    assert taken(log) == []


def test_calls_have_the_time_and_all_arguments() -> None:
    log = CallLog(lambda: EPOCH)
    log.start()
    log.append(Engine.on_admission_checks_served, (), {"are_served": True})
    (call,) = log.take()
    assert (call.name, call.wall) == ("on_admission_checks_served", EPOCH.timestamp())
    assert (call.args, call.kwargs) == ((), {"are_served": True})


def test_a_log_that_nobody_takes_stops_and_says_so() -> None:
    log = CallLog(lambda: EPOCH, most=3)
    log.start()
    noted(log, "a", "b", "c")
    assert (len(log), log.is_on, log.overruns) == (3, True, 0)
    noted(log, "d")
    assert (len(log), log.is_on, log.overruns, log.last) == (0, False, 1, 4)
    assert taken(log) == []
    log.start()
    noted(log, "e")
    assert taken(log) == [(5, "e")]


def reported(log: CallLog, *lengths: int) -> None:
    for length in lengths:
        unit = build_unit("u", "a", annotations={"note": "x" * length})
        log.append(Engine.on_queue_unit, (unit,), {})


def test_a_log_whose_calls_keep_much_stops_as_well() -> None:
    log = CallLog(lambda: EPOCH, most_bytes=10_000)
    log.start()
    reported(log, 4000, 4000)
    assert (log.is_on, log.overruns) == (True, 0)
    reported(log, 4000)
    assert (len(log), log.is_on, log.overruns) == (0, False, 1)
    log.start()
    for _ in range(5):  # what was taken, and what was lost, keeps nothing
        reported(log, 4000, 4000)
        noted(log, "a")
        assert len(log.take()) == 3
    assert (log.is_on, log.overruns) == (True, 1)


def test_many_short_annotations_and_labels_are_counted() -> None:
    log = CallLog(lambda: EPOCH, most_bytes=10_000)
    log.start()
    pairs = {f"{number}": "" for number in range(30)}
    log.append(Engine.on_queue_unit, (build_unit("u", "a", annotations=pairs),), {})
    assert log.is_on
    log.append(Engine.on_queue_unit, (build_unit("u", "a", labels=pairs),), {})
    assert not log.is_on


def test_no_more_are_taken_than_asked_for() -> None:
    log = CallLog(lambda: EPOCH)
    log.start()
    noted(log, "a", "b", "c")
    assert [call.number for call in log.take(2)] == [1, 2]
    assert [call.number for call in log.take(2)] == [3]


def test_what_cannot_be_recorded_is_an_error() -> None:
    log = CallLog(lambda: EPOCH)
    log.start()
    log.append(Engine.fork, (), {})
    with pytest.raises(AssertionError, match="fork"):
        log.take()
