"""What a grown unit's admissions become."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.growth import grown_admissions, has_grown
from queue_scheduler.unit_demand import build_demand
from shared_api.objects.queue_unit import Admission, QueueUnit
from tests.properties.engine_kit import admitted, build_unit

UNIT = admitted(build_unit("a", "q", pods=(("main", 1, 2),)), 2, "Running")

MANAGED = {"koord-queue/managed-by": "koord-queue-controllers"}


def grown(unit: QueueUnit, count: int) -> QueueUnit:
    pod_sets = tuple(replace(each, count=count) for each in unit.spec.pod_set)
    return replace(unit, spec=replace(unit.spec, pod_set=pod_sets))


def granting(unit: QueueUnit, **changes: object) -> QueueUnit:
    admissions = tuple(replace(each, **changes) for each in unit.status.admissions)
    return replace(unit, status=replace(unit.status, admissions=admissions))


def after(unit: QueueUnit) -> tuple[Admission, ...] | None:
    return grown_admissions(unit, build_demand(unit))


def test_only_a_released_unit_that_asks_for_more_has_grown() -> None:
    assert not has_grown(UNIT)
    assert has_grown(grown(UNIT, 2))
    assert not has_grown(grown(UNIT, 0))
    for phase in ("Enqueued", "Reserved", "Succeed", "TimeoutBackoff"):
        unit = grown(UNIT, 2)
        assert not has_grown(replace(unit, status=replace(unit.status, phase=phase)))
    assert not has_grown(granted_nothing(grown(UNIT, 2))), "adopted: it is charged what it asks for"


def test_one_that_gives_its_whole_place_back_has_not_grown() -> None:
    """Else it would be granted the same again before it is freed, whoever of the two is faster."""
    assert not has_grown(granting(UNIT, replicas=0))
    managed = replace(UNIT, metadata=replace(UNIT.metadata, annotations=MANAGED))
    assert has_grown(granting(managed, replicas=0)), "its job side gives back by an eviction"


def granted_nothing(unit: QueueUnit) -> QueueUnit:
    return replace(unit, status=replace(unit.status, admissions=()))


def test_the_pods_that_came_are_added_to_what_is_recorded() -> None:
    unit = granting(grown(UNIT, 3), resources={"cpu": "5"}, running=1)
    (admission,) = after(unit) or ()
    assert (admission.replicas, admission.running) == (3, 1)
    assert admission.resources == {"cpu": "9"}, "5 as recorded, and two pods of 2"


def test_a_recorded_amount_that_can_not_be_read_is_taken_from_the_spec() -> None:
    (admission,) = after(granting(grown(UNIT, 3), resources={"cpu": "much"})) or ()
    assert admission.resources == {"cpu": "6"}


def test_a_pod_set_that_came_gets_an_admission_and_others_stay() -> None:
    unit = granting(UNIT, name="gone")
    gone, new = after(unit) or ()
    assert gone == unit.status.admissions[0]
    assert (new.name, new.replicas, new.resources) == (UNIT.spec.pod_set[0].name, 1, {"cpu": "2"})
