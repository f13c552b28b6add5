"""The order of units under each policy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_policies import (
    BLOCK,
    BUILT_IN_POLICIES,
    FIFO,
    INTELLIGENT,
    PRIORITY,
    HoldsBack,
    QueuePolicy,
    bands_of,
    is_banded,
)
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import SUSPEND_CONTESTED
from shared_api.well_known_labels import JOB_CREATED_AT, MANAGED_BY, PREEMPTIBLE
from tests.properties.engine_kit import build_queue, build_unit, changed, moment

MANAGED = {MANAGED_BY: "koord-queue-controllers"}
OLD_LOW = build_unit("old-low", created=1, priority=1)
NEW_HIGH = build_unit("new-high", created=9, priority=5)
NO_PRIORITY = build_unit("none", created=5)
NEGATIVE = build_unit("negative", created=0, priority=-1)


def job_created(unit: QueueUnit, at: str) -> QueueUnit:
    """Return a unit whose status has its job's creation time; only the controllers write it."""
    return replace(unit, status=replace(unit.status, job_creation_timestamp=Timestamp(at)))


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param(PRIORITY, ["new-high", "old-low", "none", "negative"], id="Priority"),
        pytest.param(BLOCK, ["new-high", "old-low", "none", "negative"], id="Block"),
        pytest.param(
            INTELLIGENT, ["new-high", "old-low", "none", "negative"], id="Intelligent, in a band"
        ),
        pytest.param(FIFO, ["negative", "old-low", "none", "new-high"], id="FIFO: only by age"),
    ],
)
def test_order(policy: QueuePolicy, want: list[str]) -> None:
    units = [OLD_LOW, NEW_HIGH, NO_PRIORITY, NEGATIVE]
    assert [u.metadata.name for u in sorted(units, key=policy.order_key)] == want


@pytest.mark.parametrize("policy", BUILT_IN_POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            build_unit("b", namespace="a"), build_unit("a", namespace="b"), id="by namespace"
        ),
        pytest.param(build_unit("a"), build_unit("b"), id="then by name"),
        pytest.param(
            job_created(build_unit("z", created=50), moment(1)),
            build_unit("a", created=2),
            id="the job's age, not the unit's",
        ),
    ],
)
def test_ties(policy: QueuePolicy, first: QueueUnit, second: QueueUnit) -> None:
    assert policy.order_key(first) < policy.order_key(second)


@pytest.mark.parametrize("marks", [{}, MANAGED], ids=["made by hand", "says it is managed"])
def test_no_annotation_dates_a_unit_back(marks: dict[str, str]) -> None:
    unit = build_unit("z", created=50, annotations={**marks, JOB_CREATED_AT: moment(1)})
    assert FIFO.order_key(unit)[1] == moment(50)


def contested(status: str, since: str) -> Condition:
    """Return the condition that the controllers write."""
    time = Timestamp(since) if since else None
    return Condition(type=SUSPEND_CONTESTED, status=status, last_transition_time=time)


@pytest.mark.parametrize("policy", BUILT_IN_POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    ("condition", "want"),
    [
        pytest.param(contested("True", moment(9)), ["other", "late", "resumed"], id="to the end"),
        pytest.param(contested("False", moment(9)), ["resumed", "other", "late"], id="it has run"),
        pytest.param(contested("True", moment(0)), ["resumed", "other", "late"], id="never ahead"),
        pytest.param(contested("True", ""), ["resumed", "other", "late"], id="without a time"),
        pytest.param(contested("True", "soon"), ["resumed", "other", "late"], id="no time"),
    ],
)
def test_a_unit_whose_job_was_resumed_out_of_turn(
    policy: QueuePolicy, condition: Condition, want: list[str]
) -> None:
    resumed = changed(build_unit("resumed", created=1), 2, conditions=(condition,))
    units = [build_unit("other", created=2), build_unit("late", created=8), resumed]
    assert [u.metadata.name for u in sorted(units, key=policy.order_key)] == want


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("", id="empty"),
        pytest.param("0", id="no time"),
        pytest.param("2026-10-32T00:00:00Z", id="not a date"),
        pytest.param("2026-11-01T00:00:01", id="without a zone"),
        pytest.param("2026-11-01T00:00:01+02:00", id="another zone"),
        pytest.param("2026-11-01T00:00:01.5Z", id="a fraction"),
        pytest.param("2026-11-01T00:00:01Z\n", id="a trailing newline"),
        pytest.param(moment(51), id="after the unit"),
    ],
)
def test_an_impossible_creation_time_is_replaced_by_the_units_own(written: str) -> None:
    assert FIFO.order_key(job_created(build_unit("z", created=50), written))[1] == moment(50)


@pytest.mark.parametrize("policy", BUILT_IN_POLICIES, ids=lambda policy: policy.name)
def test_a_key_ends_in_namespace_and_name(policy: QueuePolicy) -> None:
    assert policy.order_key(build_unit("name", namespace="space"))[-2:] == ("space", "name")


def test_what_a_refusal_holds_back() -> None:
    got = {policy.name: policy.holds_back for policy in BUILT_IN_POLICIES}
    assert got == {
        "Priority": HoldsBack.NOBODY,
        "Block": HoldsBack.SAME_QUOTA,
        "FIFO": HoldsBack.SAME_QUOTA,
        "Intelligent": HoldsBack.SAME_QUOTA,
        "Fair": HoldsBack.NOBODY,
    }


@pytest.mark.parametrize(("priority", "want"), [(5, 0), (4, 0), (3, 1), (0, 1), (-1, 1)])
def test_the_threshold_belongs_to_the_high_units(priority: int, want: int) -> None:
    unit = build_unit("u", priority=priority)
    assert INTELLIGENT.band(unit, build_queue("q"), QueueOptions()) == want
    assert INTELLIGENT.band(unit, build_queue("q"), QueueOptions(priority_threshold=-9)) == 0


def test_a_non_preemptible_unit_comes_first_among_equals() -> None:
    firm = build_unit("z", created=9, labels={PREEMPTIBLE: "false"})
    assert INTELLIGENT.order_key(firm) < INTELLIGENT.order_key(build_unit("a", created=1))
    assert INTELLIGENT.order_key(firm) > INTELLIGENT.order_key(build_unit("a", priority=1))


def test_a_policy_without_bands_has_one() -> None:
    assert {policy.name for policy in BUILT_IN_POLICIES if is_banded(policy)} == {"Intelligent"}
    assert bands_of(FIFO) == (HoldsBack.SAME_QUOTA,)
    assert bands_of(INTELLIGENT) == (HoldsBack.SAME_QUOTA, HoldsBack.NOBODY)
