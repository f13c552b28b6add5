"""Since when units are charged, as a process that has just started reads it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.charge_times import date_charges
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Timestamp
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from tests.properties.engine_kit import admitted, build_pod, build_quota, build_unit
from tests.properties.real_quotas import new_engine

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z


def unit_admitted(at: str, created: str = "2027-01-15T06:00:00Z") -> QueueUnit:
    unit = admitted(build_unit("u", "a"), 1)
    meta = replace(unit.metadata, creation_timestamp=Timestamp(created))
    status = replace(unit.status, last_allocate_time=Timestamp(at))
    return replace(unit, metadata=meta, status=status)


def engine_with(units: tuple[QueueUnit, ...] = (), pods: tuple[Pod, ...] = ()) -> Engine:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_quota(build_quota("a", cpu=9))
    for unit in units:
        engine.on_queue_unit(unit)
    for pod in pods:
        engine.on_pod(pod)
    return engine


@pytest.mark.parametrize(
    ("admitted_at", "want"),
    [
        pytest.param("2027-01-15T07:00:00Z", NOW - 3600, id="its admission"),
        pytest.param("2027-01-15T09:00:00Z", NOW, id="a time in the future"),
        pytest.param("2019-01-15T09:00:00Z", NOW - 7200, id="a time before it was created"),
        pytest.param("yesterday", NOW, id="no time"),
        pytest.param("", NOW, id="nothing"),
    ],
)
def test_an_admitted_unit_is_charged_since_its_admission(admitted_at: str, want: int) -> None:
    engine = engine_with((unit_admitted(admitted_at),))
    assert [since for _, since, _ in date_charges(engine.units, NOW)] == [want]


def test_pods_without_a_unit_are_charged_since_the_first_was_created() -> None:
    pods = tuple(build_pod(f"p{n}", unit="ns/gone", created=n) for n in (3, 2, 4))
    ((_, since, charge),) = date_charges(engine_with(pods=pods).units, NOW)
    assert (since, charge.pods) == (1_793_491_202, 3)  # 2026-11-01T00:00:02Z
