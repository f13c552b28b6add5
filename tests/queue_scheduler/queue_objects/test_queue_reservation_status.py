"""QueueReservation.status: the next windows, and what is in force."""

from __future__ import annotations

import msgspec
import pytest

from queue_scheduler.engine.engine import Engine
from queue_scheduler.queue_objects.queue_reservation_status import (
    QueueReservationStatuses,
    ReservationFigures,
)
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_reservation import (
    MAX_SHOWN,
    QueueReservation,
    QueueReservationSpec,
    QueueReservationStatus,
    ReservationScope,
)
from tests.budget_world import at
from tests.properties.engine_kit import build_quota
from tests.properties.real_quotas import new_engine
from tests.reserved_world import build_reservation, build_spec, schedules_at

NOW = Timestamp("2026-12-03T16:00:00Z")
SECOND = at("2026-12-03T16:00")
STATUSES = QueueReservationStatuses()


def told(*reservations: QueueReservation) -> Engine:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=1))
    for each in reservations:
        engine.on_schedules(schedules_at(each, SECOND))
        engine.on_reservation(each)
    return engine


def figures(engine: Engine) -> ReservationFigures:
    found = STATUSES.read(engine, "upgrade")
    assert found is not None
    return found


def of_quotas(*names: str) -> QueueReservationSpec:
    return build_spec(scope=ReservationScope(quotas=names))


READY_TEXT = "units must have ended before each window, by the time that they declare"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param(build_spec(), "Ready", READY_TEXT, id="all"),
        pytest.param(of_quotas("a"), "Ready", READY_TEXT, id="a quota"),
        pytest.param(
            of_quotas("a", "b", "c"),
            "QuotaMissing",
            "there is no quota b, c; it counts once there is",
            id="missing quotas",
        ),
        pytest.param(
            build_spec("2020-01-01T00:00"),
            "NoWindow",
            "its last window is over, or begins in more than 400 days",
            id="over",
        ),
        pytest.param(
            build_spec(rrule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
            "NoWindow",
            "no window begins within 400 days",
            id="a day that never comes",
        ),
        pytest.param(
            build_spec(time_zone="Europe/Nowhere"),
            "UnreadableReservation",
            "timeZone: there is no time zone 'Europe/Nowhere'; the last valid spec stays in force",
            id="no such zone",
        ),
        pytest.param(
            build_spec(margin="-1m"),
            "UnreadableReservation",
            "margin: ",
            id="a negative margin",
        ),
        pytest.param(
            build_spec(undeclared="0"),
            "UnreadableReservation",
            "undeclared: must be more than 0, or Wait or Start",
            id="nothing is assumed",
        ),
        pytest.param(
            build_spec(at_start="Evict", grace="90s"),
            "Ready",
            f"{READY_TEXT}; what still runs 90 seconds before one is evicted",
            id="it evicts",
        ),
        pytest.param(
            build_spec(at_start="Stop"),
            "UnreadableReservation",
            "atStart: must be Continue or Evict",
            id="something else at the start",
        ),
        pytest.param(
            build_spec(scope=ReservationScope()),
            "UnreadableReservation",
            "scope: set either all or quotas",
            id="no scope",
        ),
    ],
)
def test_the_condition_says_whether_it_counts(
    spec: QueueReservationSpec, reason: str, message: str
) -> None:
    got = figures(told(build_reservation(spec=spec)))
    assert got.reason == reason
    assert got.message.startswith(message)


def test_the_next_windows_are_shown() -> None:
    got = figures(told(build_reservation(spec=build_spec(rrule="FREQ=DAILY"))))
    assert len(got.windows) == MAX_SHOWN
    first = got.windows[0]
    assert (first.start, first.end) == ("2026-12-03T18:00:00Z", "2026-12-03T20:00:00Z")


def test_the_last_valid_spec_is_shown() -> None:
    engine = told(build_reservation(), build_reservation(spec=build_spec("never"), generation=2))
    got = figures(engine)
    assert (got.generation, got.in_force) == (2, (build_spec(),))
    assert len(got.windows) == 1


def test_what_is_written_is_shown() -> None:
    reservation = build_reservation(spec=build_spec(rrule="FREQ=DAILY"), resource_version="7")
    engine = told(reservation)
    want = figures(engine)
    assert not STATUSES.is_shown(reservation, want)
    patch = STATUSES.build_patch(reservation, want, NOW)
    assert patch["metadata"] == {"resourceVersion": "7"}
    status = msgspec.convert(patch["status"], QueueReservationStatus)
    assert STATUSES.is_shown(msgspec.structs.replace(reservation, status=status), want)
    assert list(patch["status"]["inForce"]) == [
        {
            "scope": {"all": True},
            "start": "2026-12-03T18:00",
            "duration": "2h",
            "rrule": "FREQ=DAILY",
        }
    ]


def test_one_that_is_gone_has_none() -> None:
    engine = told(build_reservation())
    assert STATUSES.names(engine) == ["upgrade"]
    engine.on_reservation_gone("upgrade")
    assert STATUSES.names(engine) == []
    assert STATUSES.find(engine, "upgrade") is None
    assert STATUSES.read(engine, "upgrade") is None
