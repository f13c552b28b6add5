"""What the admission checks of a unit that holds quota are judged by."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.admission_check_rules import Shortfall, WaitForChecks, Withdraw
from queue_scheduler.engine.check_facts import CheckFacts, read_check_facts
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.queue_unit_phases import Phase
from shared_api.well_known_labels import ADMISSION_CHECK_TIMEOUT, STOP_POLICY
from tests.properties.engine_kit import (
    build_check,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
)

UNIT = build_unit("u", "a")
OPEN = (AdmissionCheckState(name="c"),)
RESERVED = changed(UNIT, 2, "Reserved", admission_checks=OPEN)


def knowing(unit: QueueUnit, said: dict[str, str] | None = None) -> Engine:
    """Return an engine with quota and queue `a`, which lists the check `c`, and this unit."""
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=4))
    checks = (AdmissionCheckReference(name="c"),)
    engine.on_queue(build_queue("a", annotations=said, admission_checks=checks))
    engine.on_queue_unit(unit)
    return engine


def facts_of(engine: Engine) -> CheckFacts:
    facts = read_check_facts(engine, "ns/u")
    assert facts is not None
    return facts


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(RESERVED, True, id="reserved"),
        pytest.param(changed(UNIT, 2, "Reserved"), True, id="reserved, without entries"),
        pytest.param(
            changed(UNIT, 2, "Running", admission_checks=OPEN), True, id="admitted with checks"
        ),
        pytest.param(changed(UNIT, 2, "Running"), False, id="admitted without"),
        pytest.param(changed(UNIT, 2, admission_checks=OPEN), False, id="in the queue again"),
    ],
)
def test_which_units_checks_matter(unit: QueueUnit, *, want: bool) -> None:
    engine = knowing(unit)
    assert (read_check_facts(engine, "ns/u") is not None) is want
    assert read_check_facts(engine, "ns/other") is None


def test_a_late_unit_is_requeued_and_one_in_time_waits() -> None:
    engine = knowing(RESERVED)
    engine.on_admission_check(build_check("c", "False", "why"))
    facts = facts_of(engine)
    assert facts.judge(is_late=False, timeout_seconds=60.0) == WaitForChecks(("c",))
    late = facts.judge(is_late=True, timeout_seconds=60.0)
    assert getattr(late, "why", None) is Shortfall.TIMEOUT


def test_a_stopped_queue_requeues_its_unit() -> None:
    assert facts_of(knowing(RESERVED)).when_admitted is Phase.DEQUEUED
    stopped = facts_of(knowing(RESERVED, {STOP_POLICY: "Hold"}))
    assert stopped.when_admitted is None
    assert stopped.judge(is_late=True, timeout_seconds=60.0) == Withdraw()


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param({}, 600.0, id="the setting"),
        pytest.param({ADMISSION_CHECK_TIMEOUT: "90s"}, 90.0, id="its own"),
        pytest.param({ADMISSION_CHECK_TIMEOUT: "0"}, 0.0, id="forever"),
    ],
)
def test_a_queue_may_set_the_timeout_of_its_checks(said: dict[str, str], want: float) -> None:
    assert facts_of(knowing(RESERVED, said)).timeout_seconds(600.0) == want
