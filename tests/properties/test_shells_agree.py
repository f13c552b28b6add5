"""No two writers of a unit's status want opposite things of the same object.

Each shell decides by the object, on a thread of its own, so each state of the object must have one
meaning. Asked of objects in every state: which shell takes an admission back, which grants more of
it, and which lets it go on.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import AddEntries, GoOn, judge_checks
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge
from queue_scheduler.engine.drained_queues import find_to_ask
from queue_scheduler.engine.growth import has_grown
from queue_scheduler.engine.unmanaged_units import (
    is_concerned,
    is_leaving,
    is_running,
    requires_write,
)
from shared_api.objects.queue_unit import (
    Admission,
    AdmissionCheckState,
    PodSet,
    QueueUnit,
    ReclaimState,
)
from shared_api.queue_unit_phases import Phase, is_being_evicted, occupies_quota, phase_of
from shared_api.well_known_labels import MANAGED_BY
from tests.properties.engine_kit import build_queue, build_unit, changed, condition
from tests.queue_scheduler.quota_source_kit import info

pytestmark = pytest.mark.properties

COUNTS = st.sampled_from([0, 0, 1, 3])
GRANTS = st.builds(
    lambda name, replicas, running, asked: Admission(
        name=name, replicas=replicas, running=running, reclaim_state=asked
    ),
    st.sampled_from(["main", "other"]),
    COUNTS,
    COUNTS,
    st.sampled_from([*[None] * 5, ReclaimState(replicas=1)]),
)
ENTRIES = st.builds(
    lambda state: AdmissionCheckState(name="nodes", state=state),
    st.sampled_from(["Pending", "Ready", "Retry", "Rejected"]),
)
MARKS: list[dict[str, str]] = [{}, {MANAGED_BY: "controllers"}, {"koord-queue/adopted": "true"}]
ASKED = [(), (), (), (condition("Evicted", "True"),), (condition("Evicted", "False"),)]
PHASES = [*Phase, *[Phase.RESERVED] * 8, *[Phase.DEQUEUED] * 4, *[Phase.RUNNING] * 4]
"""Rare phases are repeated, or they would never coincide."""


@st.composite
def units(draw: st.DrawFn) -> QueueUnit:
    """Return a unit in any state that the schema allows."""
    more: dict[str, Any] = {
        "annotations": draw(st.sampled_from(MARKS)),
        "active": draw(st.sampled_from([None, None, True, False])),
        "deleted": draw(st.sampled_from([*[False] * 5, True])),
    }
    unit = build_unit("u", "a", **more)
    pods = (PodSet(name="main", count=draw(COUNTS)),) if draw(st.booleans()) else ()
    unit = replace(unit, spec=replace(unit.spec, pod_set=pods))
    return changed(
        unit,
        2,
        draw(st.sampled_from(PHASES)).value,
        conditions=draw(st.sampled_from(ASKED)),
        admissions=tuple(draw(st.lists(GRANTS, max_size=2, unique_by=lambda each: each.name))),
        admission_checks=tuple(draw(st.lists(ENTRIES, max_size=1))),
    )


def goes_on(unit: QueueUnit) -> bool:
    """Return whether its checks let a reserved unit go on, or ask it for more."""
    verdict = judge_checks(unit, build_queue("a"), {}, is_late=False, timeout_seconds=60.0)
    return occupies_quota(unit) and isinstance(verdict, GoOn | AddEntries)


@settings(max_examples=1000)
@given(units())
def test_a_leaving_unit_is_neither_granted_more_nor_let_go_on(unit: QueueUnit) -> None:
    is_unwanted = unit.spec.active is False or unit.metadata.deletion_timestamp is not None
    leaves = occupies_quota(unit) and (is_leaving(unit) or is_unwanted)
    assert not (leaves and has_grown(unit))
    assert not (leaves and goes_on(unit))


@given(units())
def test_units_go_on_from_reserved_and_grow_or_run_in_other_phases(unit: QueueUnit) -> None:
    assert not goes_on(unit) or phase_of(unit) is Phase.RESERVED
    assert not (has_grown(unit) or is_running(unit)) or phase_of(unit) is not Phase.RESERVED
    assert not is_leaving(unit) or requires_write(unit)


@given(units())
def test_only_one_program_handles_the_job(unit: QueueUnit) -> None:
    """The scheduler does not act in a job's stead where the controllers do."""
    is_theirs = MANAGED_BY in unit.metadata.annotations
    assert not (is_theirs and is_concerned(unit))


@given(units())
def test_a_drain_asks_a_unit_that_holds_quota_and_is_not_asked_yet(unit: QueueUnit) -> None:
    state = judge(unit)
    known = state if isinstance(state, UnitState) else UnitState.ON_HOLD
    record = CachedUnit(unit=unit, version=2, state=known, info=info("a", 1))
    is_asked = list(find_to_ask([record], frozenset({"q"}))) == [record]
    assert is_asked is (occupies_quota(unit) and not is_being_evicted(unit))
