"""QueueReservations in a dump: what was in force is in force again, with names or without."""

from __future__ import annotations

import pytest

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.codec import decode_dump, encode_dump
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.dump.take import take_dump
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_reservation import QueueReservation, ReservationScope
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT
from tests.reserved_world import build_reservation, build_spec, schedules_at

SECOND = int(AT.wall.timestamp())
SPEC = build_spec(
    scope=ReservationScope(quotas=("root/hunter2",)),
    time_zone="Europe/Berlin",
    rrule="FREQ=WEEKLY;BYDAY=TH,SU",
    undeclared="Wait",
    at_start="Evict",
)


def engine_without_facts() -> Engine:
    return new_engine(QuotaSettings(mode=QuotaMode.MAX))


def told() -> Engine:
    engine = engine_without_facts()
    engine.on_reservations_served(are_served=True)
    tell(engine, build_reservation("hunter2", SPEC))
    tell(engine, build_reservation("bad", SPEC))
    noted = {"owner": "hunter2"}
    bad = build_spec(rrule="FREQ=HOURLY;X=HUNTER2")
    tell(engine, build_reservation("bad", bad, annotations=noted))
    return engine


def tell(engine: Engine, reservation: QueueReservation) -> None:
    engine.on_schedules(schedules_at(reservation, SECOND))
    engine.on_reservation(reservation)


def taken(engine: Engine) -> Dump:
    return take_dump(engine.fork(), AT, EngineSettings(), "1", leader=True)


def test_an_engine_of_a_dump_has_the_same_in_force() -> None:
    engine = told()
    other = engine_without_facts()
    restore_engine(other, decode_dump(encode_dump(taken(engine)), "1"))
    assert other.reservations.are_served is True
    assert other.reservations.rules() == engine.reservations.rules()
    assert len(other.reservations.rules()) == 2
    assert other.usage.windows.concern("root/hunter2")
    assert taken(other).reservations == taken(engine).reservations
    assert taken(other).beyond_objects == taken(engine).beyond_objects


@pytest.mark.parametrize("are_served", [None, False])
def test_whether_the_kind_is_served_is_known_again(are_served: bool | None) -> None:
    engine = engine_without_facts()
    if are_served is not None:
        engine.on_reservations_served(are_served=are_served)
    other = engine_without_facts()
    restore_engine(other, taken(engine))
    assert other.reservations.are_served is are_served


def test_names_are_renamed_and_windows_stay() -> None:
    data = anonymize(taken(told()))
    assert "hunter2" not in encode_dump(data).decode().lower()
    assert "Berlin" not in encode_dump(data).decode(), "a time zone says where a company is"
    engine = engine_without_facts()
    restore_engine(engine, data)
    before = told().reservations.rules()
    rules = engine.reservations.rules()
    assert [each.windows for each in rules] == [each.windows for each in before]
    assert all(each.windows and each.grace == 300 for each in rules)
    (quota,) = data.reservations.objects[0].spec.scope.quotas
    assert engine.usage.windows.concern(quota)
    assert data.reservations.objects[0].spec.rrule == SPEC.rrule
