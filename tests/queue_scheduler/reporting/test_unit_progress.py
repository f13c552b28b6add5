"""Run times, open checks and missing pods, as a scrape shows them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.metrics import MAX_CHECK_NAMES
from queue_scheduler.reporting.unit_progress import UnitProgress
from shared_api.metrics import OTHER
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import AdmissionCheckState, PodState, QueueUnit
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.properties.engine_kit import build_unit, changed, running
from tests.queue_scheduler.shell_kit import ShellKit

OPEN_UNITS = "koord_queue_admission_check_open_units"
OPEN_SECONDS = "koord_queue_admission_check_open_seconds"
PODLESS = "koord_queue_units_without_pods"


class Scrape:
    """What a scrape has of the units that it is told of."""

    def __init__(self, kit: ShellKit, *checks: str) -> None:
        self.clock = VirtualClock()
        self.runs: list[tuple[str, float]] = []
        self.registry = CollectorRegistry()
        self.progress = UnitProgress(
            kit.shared, lambda *run: self.runs.append(run), self.clock, checks.__contains__
        )
        self.registry.register(self.progress)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def ago(self, seconds: float) -> Timestamp:
        return rfc3339(self.clock.now() - timedelta(seconds=seconds))


def ended(unit: QueueUnit, at: Timestamp, phase: str = "Succeed") -> QueueUnit:
    finished = Condition(type="Finished", status="True", last_transition_time=at)
    return changed(unit, 9, phase, conditions=(finished,))


def reserved(unit: QueueUnit, *checks: AdmissionCheckState) -> QueueUnit:
    return changed(unit, 2, "Reserved", admission_checks=checks)


def dequeued(unit: QueueUnit, since: Timestamp, pods: int = 0) -> QueueUnit:
    admitted = Condition(type="Admitted", status="True", last_transition_time=since)
    return changed(unit, 3, "Dequeued", conditions=(admitted,), pod_state=PodState(pending=pods))


# --- run times ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("Succeed", [("night", 90.0)], id="a job that succeeds"),
        pytest.param("Failed", [("night", 90.0)], id="a job that fails"),
        pytest.param("TimeoutBackoff", [], id="one that is evicted has not ended by itself"),
    ],
)
def test_a_run_is_counted_at_its_end_for_the_queue_it_was_in(
    kit: ShellKit, phase: str, want: list[tuple[str, float]]
) -> None:
    scrape = Scrape(kit)
    kit.add_queue("night", annotations={"koord-queue/available-quota-in-queue": "*"})
    unit = kit.add_unit("a", queue="night")
    runs = running(unit, 100, since=scrape.ago(100))
    kit.shared.apply(Engine.on_queue_unit, runs)
    scrape.progress.on_queue_unit(unit, runs)
    assert scrape.runs == []
    scrape.progress.on_queue_unit(runs, ended(runs, scrape.ago(10), phase))
    assert scrape.runs == want


def test_a_run_that_was_not_seen_is_not_counted(kit: ShellKit) -> None:
    scrape = Scrape(kit)
    unit = build_unit("a")
    end = ended(unit, scrape.ago(0))
    scrape.progress.on_queue_unit(None, end)
    scrape.progress.on_queue_unit(changed(unit, 3, "Dequeued"), end)
    before = running(build_unit("a", uid="before"), 2, since=scrape.ago(100))
    scrape.progress.on_queue_unit(before, end)
    assert scrape.runs == []


# --- open checks --------------------------------------------------------------------------------


def test_open_checks_are_shown_with_the_longest_wait(kit: ShellKit) -> None:
    scrape = Scrape(kit, "nodes", "approval")
    first, second = build_unit("a"), build_unit("b")

    def check(name: str, state: str, ago: float) -> AdmissionCheckState:
        return AdmissionCheckState(name=name, state=state, last_transition_time=scrape.ago(ago))

    waits = reserved(first, check("nodes", "Pending", 100))
    scrape.progress.on_queue_unit(None, waits)
    both = (check("nodes", "Pending", 50), check("approval", "Ready", 70))
    scrape.progress.on_queue_unit(None, reserved(second, *both))
    assert scrape.value(OPEN_UNITS, check="nodes") == 2
    assert scrape.value(OPEN_SECONDS, check="nodes") == 100
    assert scrape.value(OPEN_UNITS, check="approval") is None
    scrape.progress.on_queue_unit(waits, dequeued(waits, scrape.ago(0)))
    assert scrape.value(OPEN_SECONDS, check="nodes") == 50
    scrape.progress.on_queue_unit(second, None)
    assert scrape.value(OPEN_SECONDS, check="nodes") is None


def test_names_of_checks_that_do_not_exist_or_are_too_many_are_one(kit: ShellKit) -> None:
    names = [f"check-{number:03}" for number in range(MAX_CHECK_NAMES + 1)]
    scrape = Scrape(kit, *names)
    states = [AdmissionCheckState(name=name, state="Pending") for name in ("any", *names)]
    scrape.progress.on_queue_unit(None, reserved(build_unit("a"), *states))
    assert scrape.value(OPEN_UNITS, check=OTHER) == 3
    assert scrape.value(OPEN_UNITS, check=names[0]) == 1
    assert scrape.value(OPEN_UNITS, check=names[-1]) is None


# --- missing pods -------------------------------------------------------------------------------


def test_a_released_unit_without_pods_is_shown_until_it_has_one(kit: ShellKit) -> None:
    scrape, unit = Scrape(kit), build_unit("a")
    assert scrape.value(PODLESS) == 0
    assert scrape.value(f"{PODLESS}_seconds") == 0
    alone = dequeued(unit, scrape.ago(40))
    scrape.progress.on_queue_unit(unit, alone)
    scrape.progress.on_queue_unit(None, dequeued(build_unit("b"), scrape.ago(10)))
    assert scrape.value(PODLESS) == 2
    assert scrape.value(f"{PODLESS}_seconds") == 40
    scrape.clock.advance(5)
    assert scrape.value(f"{PODLESS}_seconds") == 45
    scrape.progress.on_queue_unit(alone, dequeued(unit, scrape.ago(40), pods=1))
    assert scrape.value(f"{PODLESS}_seconds") == 15


def test_pods_of_pod_sets_count_as_well(kit: ShellKit) -> None:
    scrape, unit = Scrape(kit), build_unit("a")
    alone = dequeued(unit, scrape.ago(40))
    granted = running(unit, 3, since=scrape.ago(1)).status.admissions
    waits = tuple(replace(each, pending=1) for each in granted)
    scrape.progress.on_queue_unit(
        None, replace(alone, status=replace(alone.status, admissions=waits))
    )
    assert waits
    assert scrape.value(PODLESS) == 0


def test_a_clock_that_is_behind_shows_no_negative_age(kit: ShellKit) -> None:
    scrape = Scrape(kit)
    scrape.progress.on_queue_unit(None, dequeued(build_unit("a"), scrape.ago(-60)))
    assert scrape.value(f"{PODLESS}_seconds") == 0
