"""The admissions of a grown unit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.unit_demand import build_demand
from queue_scheduler.decision import Dequeue, Grant, Growth, Reason, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.growth import grown_admissions, has_grown
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.queue_unit import Admission, QueueUnit, ReclaimablePod
from shared_api.testing.object_builders import resource_quota
from shared_api.well_known_labels import STOP_POLICY
from tests.properties.engine_kit import admitted, build_queue, build_quota, build_unit
from tests.queue_scheduler.fault_kit import PluginError, raise_once

UNIT = admitted(build_unit("a", "q", pods=(("main", 1, 2),)), 2, "Running")

MANAGED = {"koord-queue/managed-by": "koord-queue-controllers"}


def grown(unit: QueueUnit, count: int) -> QueueUnit:
    pod_sets = tuple(replace(each, count=count) for each in unit.spec.pod_set)
    return replace(unit, spec=replace(unit.spec, pod_set=pod_sets))


def granting(unit: QueueUnit, **changes: object) -> QueueUnit:
    admissions = tuple(replace(each, **changes) for each in unit.status.admissions)
    return replace(unit, status=replace(unit.status, admissions=admissions))


def after(unit: QueueUnit) -> tuple[Admission, ...]:
    return grown_admissions(unit, build_demand(unit))


def test_only_a_released_unit_that_asks_for_more_has_grown() -> None:
    assert not has_grown(UNIT)
    assert has_grown(grown(UNIT, 2))
    assert not has_grown(grown(UNIT, 0))
    for phase in ("Enqueued", "Reserved", "Succeed", "TimeoutBackoff"):
        unit = grown(UNIT, 2)
        assert not has_grown(replace(unit, status=replace(unit.status, phase=phase)))
    assert not has_grown(granted_nothing(grown(UNIT, 2))), "adopted: it is charged its request"


def test_a_unit_that_gives_everything_back_has_not_grown() -> None:
    """Otherwise it could be granted the same again before it is released."""
    assert not has_grown(granting(UNIT, replicas=0))
    managed = replace(UNIT, metadata=replace(UNIT.metadata, annotations=MANAGED))
    assert has_grown(granting(managed, replicas=0)), "its job side gives back by an eviction"


def granted_nothing(unit: QueueUnit) -> QueueUnit:
    return replace(unit, status=replace(unit.status, admissions=()))


def test_new_pods_are_added_to_the_recorded_ones() -> None:
    unit = granting(grown(UNIT, 3), resources={"cpu": "5"}, running=1)
    (admission,) = after(unit)
    assert (admission.replicas, admission.running) == (3, 1)
    assert admission.resources == {"cpu": "9"}, "5 as recorded, and two pods of 2"


def test_a_record_of_an_older_version_is_read_by_its_current_name() -> None:
    recorded: ResourceQuantities = {"cpu": "1", "kubernetes.io/gpu-core": "60"}
    (admission,) = after(granting(grown(UNIT, 3), resources=recorded))
    assert admission.resources == {"cpu": "5", "koordinator.sh/gpu-core": "60"}


def test_an_unreadable_recorded_amount_is_taken_from_the_spec() -> None:
    (admission,) = after(granting(grown(UNIT, 3), resources={"cpu": "much"}))
    assert admission.resources == {"cpu": "6"}


def test_a_new_pod_set_gets_an_admission_and_others_stay() -> None:
    unit = granting(UNIT, name="gone")
    gone, new = after(unit)
    assert gone == unit.status.admissions[0]
    assert (new.name, new.replicas, new.resources) == (UNIT.spec.pod_set[0].name, 1, {"cpu": "2"})


# --- jobs that may run with fewer pods ------------------------------------------------------------


GRANT = Grant("main", 3, {"cpu": 3000})


class Partly:
    """A unit of eight pods that was started with some, in a quota of ten cores."""

    def __init__(self, granted: int, *others: int) -> None:
        self.engine, self.plugin = new_quota_engine()
        self.engine.on_quota(build_quota("q", cpu=10, guaranteed=10))
        self.engine.on_queue(build_queue("q", "FIFO"))
        unit = build_unit("a", "q", pods=(("main", 8, 1, 2),))
        grants = (Grant("main", granted, {"cpu": 1000 * granted}),)
        self.engine.on_queue_unit(admitted(unit, 2, "Running", grants))
        for number, cpu in enumerate(others):
            other = build_unit(f"x{number}", "q", cpu=cpu)
            self.engine.on_queue_unit(admitted(other, 2, "Running"))

    def grow(self) -> int | Reason | None:
        answer = self.engine.grow("ns/a")
        self.engine.validate()
        if isinstance(answer, Growth):
            return answer.admissions[0].replicas
        return answer.reason if answer is not None else None


def new_quota_engine() -> tuple[Engine, ElasticQuotaPlugin]:
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
    return Engine(PluginRunner([plugin]), BUILT_IN_POLICIES), plugin


@pytest.mark.parametrize(
    ("others", "want"),
    [((), 8), ((3,), 7), ((4,), 6), ((7,), Reason.OVER_QUOTA_MAX)],
    ids=["all", "as many as fit", "fewer", "none"],
)
def test_it_grows_by_as_many_pods_as_fit(others: tuple[int, ...], want: int | Reason) -> None:
    assert Partly(3, *others).grow() == want


def test_it_does_not_grow_while_a_unit_waits_in_the_queue() -> None:
    world = Partly(3, 5)
    world.engine.on_queue_unit(build_unit("waits", "q", cpu=4))
    world.engine.decide_next("q", 0.0)
    assert world.grow() is Reason.GROWS_AFTER_OTHERS
    refusal = world.engine.growths.refusal_of("ns/a")
    assert refusal is not None
    assert refusal.other == "ns/waits"
    world.engine.on_queue_unit_gone(build_unit("waits", "q", cpu=4))
    assert world.grow() == 5


def test_a_unit_that_already_gives_pods_back_needs_no_more() -> None:
    unit = admitted(build_unit("a", "q", pods=(("main", 8, 1, 2),)), 2, "Running", (GRANT,))
    assert has_grown(unit)
    back = (ReclaimablePod(name="main", count=1),)
    assert not has_grown(replace(unit, status=replace(unit.status, reclaimable_pods=back)))


def test_a_unit_that_can_never_start_is_not_waited_for() -> None:
    world = Partly(3)
    world.engine.on_queue_unit(build_unit("never", "q", cpu=40))
    world.engine.decide_next("q", 0.0)
    assert world.grow() == 8


def test_a_unit_of_other_limits_or_of_a_stopped_queue_is_not_waited_for() -> None:
    world = Partly(3)
    world.engine.on_quota(build_quota("far", cpu=1, guaranteed=1))
    world.engine.on_queue(build_queue("far", annotations={STOP_POLICY: "Hold"}, takes="q"))
    world.engine.on_queue_unit(build_unit("far", "far", cpu=1))
    world.engine.on_queue_unit(build_unit("stopped", "q", cpu=1, queue="far"))
    assert world.grow() == 8


def test_a_job_that_needs_all_pods_is_granted_its_growth_despite_waiting_units() -> None:
    world = Partly(3)
    unit = admitted(build_unit("b", "q", pods=(("main", 1, 1),)), 2, "Running")
    world.engine.on_queue_unit(grown(unit, 2))
    world.engine.on_queue_unit(build_unit("waits", "q", cpu=9))
    world.engine.decide_next("q", 0.0)
    assert isinstance(world.engine.grow("ns/b"), Growth)


def test_where_pods_are_counted_growth_is_counted_at_once() -> None:
    engine = Engine(PluginRunner([ResourceQuotaPlugin()]), BUILT_IN_POLICIES)
    quota = resource_quota("rq", namespace="ns", hard={"pods": 8})
    engine.on_quota(quota)
    engine.on_queue(build_queue("default"))
    unit = build_unit("a", pods=(("main", 7, 1, 2),))
    grants = (Grant("main", 3, {"cpu": 3000}),)
    engine.on_queue_unit(admitted(unit, 2, "Running", grants))
    growth = engine.grow("ns/a")
    assert isinstance(growth, Growth)
    engine.on_queue_unit(build_unit("b", pods=(("main", 2, 1),)))
    assert isinstance(engine.decide_next("default", 0.0), Refused), "it has seven of eight pods"
    engine.on_growth_failed(growth)
    assert isinstance(engine.decide_next("default", 0.0), Dequeue)


def test_a_growth_whose_report_raises_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Partly(3)
    raise_once(monkeypatch, world.plugin, "stirred_domains")
    with pytest.raises(PluginError):
        world.grow()
    world.engine.validate()
    assert world.grow() == 8
