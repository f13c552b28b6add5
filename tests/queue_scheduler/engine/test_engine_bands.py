"""Policy Intelligent in the engine, and banded policies of other packages."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES, HoldsBack, creation_order
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import PREEMPTIBLE, PRIORITY_THRESHOLD
from tests.properties.engine_kit import (
    Workers,
    build_queue,
    build_quota,
    build_unit,
    new_engine,
    started,
)


def intelligent(threshold: int | None = None) -> Queue:
    """Return one queue that takes the units of every quota."""
    written = {} if threshold is None else {PRIORITY_THRESHOLD: str(threshold)}
    return build_queue("shared", "Intelligent", takes="*", annotations=written)


def unit(name: str, priority: int, quota: str = "none", **more: object) -> QueueUnit:
    return build_unit(name, quota, queue="shared", priority=priority, **more)  # type: ignore[arg-type] # of build_unit


def workers_of(*quotas: tuple[str, int]) -> Workers:
    engine, _ = new_engine()
    for name, cpu in quotas:
        engine.on_quota(build_quota(name, cpu=cpu))
    workers = Workers(engine)
    workers.wake(engine.on_queue(intelligent()))
    return workers


def apply(workers: Workers, *units: QueueUnit) -> list[str]:
    for each in units:
        workers.wake(workers.engine.on_queue_unit(each))
    return started(workers.run())


def line_of(engine: Engine) -> list[str]:
    return [record.unit.metadata.name for record in pending_units(engine.units, "shared")]


@pytest.mark.parametrize(
    ("priorities", "positions"),
    [
        pytest.param((5, 4, 6), (2, 3, 1), id="I1: high ones by priority"),
        pytest.param((1, 3, 2), (3, 1, 2), id="I2: low ones by priority"),
        pytest.param((3, 5, 1, 4), (3, 1, 4, 2), id="I3: high ones first, one counter"),
        pytest.param((5, 4, 3), (1, 2, 3), id="I4: the threshold itself is high"),
        # Upstream's note has 1, 2, 3, 6, 4, 5: the high ones by arrival. Its code orders them by
        # priority, as its I1 requires, and so does this.
        pytest.param((5, 4, 5, 1, 3, 2), (1, 3, 2, 6, 4, 5), id="I5: of equals the older"),
    ],
)
def test_positions(priorities: tuple[int, ...], positions: tuple[int, ...]) -> None:
    workers = workers_of(("none", 0))
    units = [unit(f"pi-{n}", p, created=n) for n, p in enumerate(priorities, start=1)]
    assert apply(workers, *units) == []
    places = {name: place for place, name in enumerate(line_of(workers.engine), start=1)}
    assert tuple(places[f"pi-{n}"] for n in range(1, len(priorities) + 1)) == positions


def test_while_a_high_unit_waits_no_low_one_starts_even_of_another_quota() -> None:
    workers = workers_of(("none", 0), ("room", 9))
    assert apply(workers, unit("high", 5), unit("low", 1, "room")) == []
    refusal = refusal_of_unit(workers.engine, "ns/low")
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.BEHIND_HIGHER_BAND, "ns/high")
    assert apply(workers, unit("other-high", 4, "room")) == ["other-high"]
    workers.wake(workers.engine.on_queue_unit_gone(unit("high", 5)))
    assert started(workers.run()) == ["low"]


def test_a_high_unit_on_hold_holds_none_back() -> None:
    workers = workers_of(("none", 0), ("room", 9))
    assert apply(workers, unit("high", 5, active=False), unit("low", 1, "room")) == ["low"]


def test_low_units_pass_each_other_and_hold_no_high_one_back() -> None:
    workers = workers_of(("room", 2))
    assert apply(workers, unit("big", 3, "room", cpu=5), unit("small", 1, "room")) == ["small"]
    assert apply(workers, unit("high", 9, "room")) == ["high"]


def test_high_units_of_a_quota_wait_for_each_other() -> None:
    workers = workers_of(("room", 2), ("more", 2))
    units = (unit("big", 9, "room", cpu=5), unit("small", 8, "room"), unit("other", 7, "more"))
    assert apply(workers, *units) == ["other"]


def test_an_edited_threshold_divides_the_queue_anew_and_wakes() -> None:
    workers = workers_of(("none", 0), ("room", 9))
    apply(workers, unit("high", 5), unit("low", 3, "room"))
    workers.wake(workers.engine.on_queue(intelligent(3)))
    assert started(workers.run()) == ["low"], "both are high, and of different quotas"
    apply(workers, unit("late", 2, "room"))
    workers.wake(workers.engine.on_queue(intelligent(6)))
    assert started(workers.run()) == ["late"], "both are low"


def test_non_preemptible_units_come_first_among_equals() -> None:
    workers = workers_of(("none", 0))
    firm = unit("firm", 5, created=9, labels={PREEMPTIBLE: "false"})
    apply(workers, unit("old", 5, created=1), firm)
    assert line_of(workers.engine) == ["firm", "old"]


class Nightly:
    """A foreign policy: units of namespace `night` when no other waits; it miscounts them."""

    name = "Nightly"
    holds_back = HoldsBack.NOBODY
    bands = (HoldsBack.NOBODY, HoldsBack.SAME_QUOTA)

    def band(self, unit: QueueUnit, _queue: Queue, _options: QueueOptions) -> int:
        return 7 if unit.metadata.namespace == "night" else -7

    def order_key(self, unit: QueueUnit) -> OrderKey:
        return creation_order(unit)


def test_policies_of_other_packages_may_have_bands() -> None:
    engine, _ = new_engine(policies=(*BUILT_IN_POLICIES, Nightly()))
    engine.on_quota(build_quota("a", cpu=1))
    workers = Workers(engine)
    workers.wake(engine.on_queue(build_queue("a", "Nightly")))
    night = build_unit("night", "a", namespace="night", created=0)
    day = build_unit("day", "a", cpu=3, created=1)
    assert apply(workers, day, night) == []
    workers.wake(engine.on_queue_unit_gone(day))
    assert started(workers.run()) == ["night"]
