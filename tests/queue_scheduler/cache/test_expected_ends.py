"""When a booking ends, by its declared run time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.expected_ends import ExpectedEnds
from queue_scheduler.framework.queue_unit_info import NO_DEMAND, QueueUnitInfo, remaining_seconds
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import build_info, build_unit, declaring, moment

NOON = int(datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp())
AT_NOON = moment(12 * 3600)


def unit(seconds: int | None, *, ready: str | None = None, **status: Any) -> QueueUnit:
    found = declaring(build_unit("u", "a"), seconds)
    if ready is not None:
        condition = Condition(
            type="PodsReady", status="True", last_transition_time=Timestamp(ready)
        )
        status["conditions"] = (condition,)
    return replace(found, status=replace(found.status, **status))


def info(of: QueueUnit, quota: str = "a") -> QueueUnitInfo:
    return build_info(of, quota, demand=NO_DEMAND)


@pytest.mark.parametrize(("past", "want"), [(None, 100), (0, 100), (30, 70), (100, 0), (999, 0)])
def test_the_time_of_earlier_runs_is_subtracted(past: int | None, want: int) -> None:
    assert remaining_seconds(unit(100, accumulated_past_execution_time_seconds=past)) == want
    assert remaining_seconds(unit(None, accumulated_past_execution_time_seconds=past)) is None


@pytest.mark.parametrize(
    ("ready", "want"),
    [
        pytest.param(AT_NOON, NOON + 100, id="from when its pods ran"),
        pytest.param(None, NOON + 600, id="from now, while they do not"),
        pytest.param("", NOON + 600, id="from now, where the start is not known"),
        pytest.param("noon", NOON + 600, id="from now, where that cannot be read"),
    ],
)
def test_the_clock_of_a_run(ready: str | None, want: int) -> None:
    ends = ExpectedEnds()
    ends.note(info(unit(100, ready=ready)))
    [(_, end)] = ends
    assert end.at(NOON + 500) == want


def test_pods_that_were_ready_once_do_not_count() -> None:
    over = Condition(type="PodsReady", status="False", last_transition_time=AT_NOON)
    ends = ExpectedEnds()
    ends.note(info(unit(100, conditions=(over,))))
    [(_, end)] = ends
    assert end.since is None


def test_a_changed_end_is_reported() -> None:
    ends = ExpectedEnds()
    assert not ends.note(info(unit(None)))
    assert ends.note(info(unit(100)))
    assert not ends.note(info(unit(100)))
    assert ends.note(info(unit(100, ready=AT_NOON)))
    assert ends.note(info(unit(50, ready=AT_NOON)))
    assert ends.note(info(unit(50, ready=AT_NOON), quota="b"))
    twin = ends.copy()
    assert ends.note(info(unit(None)))
    assert list(ends) == []
    assert not ends.note(info(unit(None)))
    [(uid, end)] = twin
    assert end.quota == "b"
    twin.drop(uid)
    twin.drop(uid)
    assert list(twin) == []
