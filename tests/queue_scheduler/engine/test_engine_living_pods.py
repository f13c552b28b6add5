"""Living pods that differ from what was granted: resized, ending, moved by a label."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Decision, Dequeue, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit, ReclaimablePod
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import PREEMPTIBLE, QUOTA_NAME
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    condition,
    moment,
)
from tests.properties.real_quotas import RealQuotas, new_engine

EACH_MODE = pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.MIN, QuotaMode.RUNTIME])
RUNS = admitted(build_unit("u", "a", pods=(("main", 2, 1),), job="job-1"), 2, "Running")
ONE, TWO = (
    build_pod(name, unit="ns/u", owner="job-1", quota="a", created=1) for name in ("p1", "p2")
)


def engine_of(
    *facts: QueueUnit | Pod, mode: QuotaMode = QuotaMode.RUNTIME, cpu: int = 4
) -> tuple[Engine, RealQuotas]:
    """Return an engine with the quotas a and b of `cpu` each, guaranteed, and these objects."""
    engine = new_engine(QuotaSettings(mode=mode))
    allocatable = NodeStatus(allocatable={"cpu": 2 * cpu})
    engine.on_node(Node(metadata=ObjectMeta(name="node"), status=allocatable))
    for name in ("a", "b"):
        engine.on_quota(build_quota(name, cpu=cpu, guaranteed=cpu))
        engine.on_queue(build_queue(name))
    for fact in facts:
        apply(engine, fact)
    return engine, RealQuotas(engine)


def apply(engine: Engine, *facts: QueueUnit | Pod) -> None:
    for fact in facts:
        if isinstance(fact, Pod):
            engine.on_pod(fact)
        else:
            engine.on_queue_unit(fact)
        engine.validate()


def resized(pod: Pod, cpu: int) -> Pod:
    spec = build_pod("p", cpu=cpu).spec
    return replace(pod, spec=spec)


def ending(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=moment(9)))


def labeled(pod: Pod, key: str, value: str) -> Pod:
    labels = {**pod.metadata.labels, key: value}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def ask(engine: Engine, cpu: int, quota: str = "a") -> Decision:
    """Let another unit wait, and ask for its decision."""
    apply(engine, build_unit("other", quota, cpu=cpu, created=9))
    return engine.decide_next(quota, 0.0)


def used(quotas: RealQuotas, name: str) -> Amounts:
    view = quotas.plugin.quotas.view(name)
    assert view is not None
    return {key: amount for key, amount in view.used.items() if amount}


@EACH_MODE
def test_a_place_is_kept_beside_a_pod_that_was_resized(mode: QuotaMode) -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO, mode=mode)
    apply(engine, resized(ONE, 2))
    engine.on_pod_gone(TWO)
    assert used(quotas, "a") == {"cpu": 3000}, "the larger pod, and the replacement of the other"
    assert isinstance(ask(engine, 2), Refused)
    apply(engine, build_pod("p3", unit="ns/u", owner="job-1", quota="a", created=3))
    assert used(quotas, "a") == {"cpu": 3000}


@EACH_MODE
def test_a_pod_that_was_resized_down_keeps_its_template(mode: QuotaMode) -> None:
    big = admitted(build_unit("u", "a", pods=(("main", 1, 4),), job="job-1"), 2, "Running")
    engine, quotas = engine_of(big, resized(ONE, 1), mode=mode)
    assert used(quotas, "a") == {"cpu": 4000}
    assert isinstance(ask(engine, 1), Refused)


@EACH_MODE
def test_a_pod_that_ends_is_charged_beside_its_replacement(mode: QuotaMode) -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO, mode=mode)
    apply(engine, ending(ONE))
    assert used(quotas, "a") == {"cpu": 3000}, "its replacement may come at any time"
    apply(engine, build_pod("p3", unit="ns/u", owner="job-1", quota="a", created=3))
    assert used(quotas, "a") == {"cpu": 3000}
    assert isinstance(ask(engine, 2), Refused)
    engine.on_pod_gone(ONE)
    assert isinstance(engine.decide_next("a", 1.0), Dequeue)


def test_a_finished_pod_keeps_its_place_until_the_job_gives_it_back() -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO)
    apply(engine, replace(TWO, status=replace(TWO.status, phase="Succeeded")))
    assert used(quotas, "a") == {"cpu": 2000}
    given_back = build_reclaimed(RUNS, 1)
    apply(engine, given_back)
    assert used(quotas, "a") == {"cpu": 1000}
    apply(engine, resized(ONE, 3))
    assert used(quotas, "a") == {"cpu": 3000}


def build_reclaimed(unit: QueueUnit, count: int) -> QueueUnit:
    return changed(unit, 3, reclaimable_pods=(ReclaimablePod("main", count),))


def test_a_unit_that_is_being_evicted_makes_no_pods() -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO)
    apply(engine, changed(RUNS, 3, conditions=(condition("Evicted", "True"),)))
    apply(engine, ending(ONE), ending(TWO))
    assert used(quotas, "a") == {"cpu": 2000}


def test_growth_is_granted_only_where_what_lives_fits_with_it() -> None:
    engine, _ = engine_of(RUNS, resized(ONE, 3), TWO)
    more = build_unit("u", "a", pods=(("main", 3, 1),), job="job-1").spec
    apply(engine, replace(changed(RUNS, 3), spec=more))
    refusal = engine.growths.refusal_of("ns/u")
    assert refusal is not None, "3 + 1 live, and one more of 1 in a quota of 4"


@EACH_MODE
def test_a_pod_with_another_label_is_charged_there_and_its_place_is_kept(mode: QuotaMode) -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO, mode=mode)
    apply(engine, labeled(ONE, QUOTA_NAME, "b"))
    assert (used(quotas, "a"), used(quotas, "b")) == ({"cpu": 2000}, {"cpu": 1000})
    assert isinstance(ask(engine, 4, "b"), Refused)
    apply(engine, ONE)
    assert (used(quotas, "a"), used(quotas, "b")) == ({"cpu": 2000}, {})
    assert isinstance(engine.decide_next("b", 1.0), Dequeue)


@pytest.mark.parametrize("unit", ["ns/u", ""], ids=["marked", "by its controller alone"])
def test_a_label_that_changes_after_the_unit_is_gone_moves_the_pod(unit: str) -> None:
    pod = build_pod("p", unit=unit, owner="job-1", quota="a", created=1)
    engine, quotas = engine_of(RUNS, pod)
    engine.on_queue_unit_gone(RUNS)
    assert used(quotas, "a") == {"cpu": 1000}
    apply(engine, labeled(pod, QUOTA_NAME, "b"))
    assert (used(quotas, "a"), used(quotas, "b")) == ({}, {"cpu": 1000})
    apply(engine, pod)
    assert (used(quotas, "a"), used(quotas, "b")) == ({"cpu": 1000}, {})


def test_a_living_pod_may_not_be_preempted_by_its_own_label() -> None:
    engine, quotas = engine_of(RUNS, ONE, TWO)
    apply(engine, labeled(ONE, PREEMPTIBLE, "false"))
    view = quotas.plugin.quotas.view("a")
    assert view is not None
    node = quotas.plugin.quotas.trees.nodes["a"]
    assert (used(quotas, "a"), dict(node.np_used)) == ({"cpu": 2000}, {"cpu": 1000})
    firm = build_unit("other", "a", cpu=4, labels={PREEMPTIBLE: "false"}, created=9)
    apply(engine, firm)
    apply(engine, ONE)
    node = quotas.plugin.quotas.trees.nodes["a"]
    assert node.np_used["cpu"] == 0
    charge = engine.usage.charge_of(RUNS.metadata.uid)
    assert charge is not None
    assert charge.firm == {}


def test_a_fork_counts_the_same_pods() -> None:
    engine, _ = engine_of(RUNS, labeled(ONE, QUOTA_NAME, "b"), ending(TWO))
    twin = engine.fork()
    twin.on_pod_gone(TWO)
    twin.validate()
    engine.validate()
    assert [pod for pod, _ in engine.living_pods.pods_of(RUNS.metadata.uid)] == [
        "ns/p2",
        "ns/p1",
    ]
