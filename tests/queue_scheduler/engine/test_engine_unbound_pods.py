"""Pods without a node: what those at the queue's gate press, and which nobody waits for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.refusal_texts import stable_message
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.objects.pod import Pod, PodCondition, PodSchedulingGate, PodStatus
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from shared_api.testing.object_builders import node
from shared_api.timestamps import parse_time
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    moment,
    refused,
    started,
)

GATE = "koord-queue/admission"


def new_engine(*quotas: str, cpu: int = 10, **settings: Any) -> Engine:
    """Return an engine in `runtime` mode with one node, and quotas without a min."""
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.RUNTIME, **settings))
    engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES)
    engine.on_node(node("n", allocatable={"cpu": str(cpu)}))
    for name in quotas:
        engine.on_quota(build_quota(name, cpu=10))
        engine.on_queue(build_queue(name))
    return engine


def gated(pod: Pod, *gates: str) -> Pod:
    """Return a pending pod with these gates, or the queue's."""
    held = tuple(PodSchedulingGate(name=name) for name in gates or (GATE,))
    return replace(
        pod,
        spec=replace(pod.spec, node_name="", scheduling_gates=held),
        status=PodStatus(phase="Pending"),
    )


def held(name: str, quota: str, cpu: int, job: str = "") -> Pod:
    """Return a pod at the queue's gate; `job` is the StatefulSet that it is of."""
    pod = gated(build_pod(name, quota=quota, cpu=cpu, uid=f"uid-{name}"))
    if not job:
        return pod
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", uid=Uid(job), controller=True)
    return replace(pod, metadata=replace(pod.metadata, owner_references=(owner,)))


def unit_of(name: str, quota: str, cpu: int, job: str = "") -> QueueUnit:
    """Return a unit; `job` is the uid of its job."""
    unit = build_unit(name, quota, cpu=cpu)
    consumer = ConsumerReference(uid=Uid(job or f"uid-{name}"), name=name)
    return replace(unit, spec=replace(unit.spec, consumer_ref=consumer))


def ask(engine: Engine, *queues: str) -> list[Any]:
    """Let the engine decide until it rests, and validate it after each decision."""
    asked = Workers(engine)
    asked.wake(queues)
    return asked.run()


def run(engine: Engine, name: str, quota: str, cpu: int) -> None:
    """Let a unit run with one pod."""
    engine.on_queue_unit(admitted(unit_of(name, quota, cpu), 2))
    engine.on_pod(build_pod(name, quota=quota, cpu=cpu, unit=f"ns/{name}"))


class TestHeldPods:
    def test_it_presses_the_jobs_of_others(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 2)
        engine.on_pod(held("big", "b", 9))
        engine.on_queue_unit(unit_of("second", "a", 6))
        assert refused(ask(engine, "a")) == [("second", "OverRuntime")]

    def test_it_is_released_beside_a_job_that_leaves_it_room(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 2)
        engine.on_pod(held("big", "b", 8))
        engine.on_queue_unit(unit_of("big", "b", 8))
        assert started(ask(engine, "b")) == ["big"]

    def test_its_own_pods_do_not_count_twice(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "b", 6)
        for pod in ("w-0", "w-1"):
            engine.on_pod(held(pod, "a", 2, job="uid-set"))
        engine.on_queue_unit(unit_of("w", "a", 4, job="uid-set"))
        assert started(ask(engine, "a")) == ["w"]

    def test_while_it_is_charged_its_pods_claim_nothing(self) -> None:
        engine = new_engine("a", "b")
        engine.on_pod(held("w", "a", 4))
        engine.on_queue_unit(unit_of("w", "a", 4))
        assert started(ask(engine, "a")) == ["w"]
        engine.on_queue_unit(unit_of("other", "b", 6))
        assert started(ask(engine, "b")) == ["other"]

    def test_beyond_the_charge_they_go_on_claiming(self) -> None:
        engine = new_engine("a", "b")
        engine.on_queue_unit(admitted(unit_of("w", "a", 4, job="uid-set"), 2))
        engine.on_pod(held("w-0", "a", 4, job="uid-set"))
        engine.on_pod(held("w-1", "a", 4, job="uid-set"))
        engine.on_queue_unit(unit_of("other", "b", 6))
        assert refused(ask(engine, "b")) == [("other", "OverRuntime")]

    def test_a_waiting_job_starts_once_it_is_deleted(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 2)
        big = held("big", "b", 9)
        engine.on_pod(big)
        engine.on_queue_unit(unit_of("second", "a", 6))
        ask(engine, "a")
        woken = engine.on_pod_gone(big)
        engine.validate()
        assert started(ask(engine, *woken)) == ["second"]

    def test_a_gated_unit_waits_and_is_woken_by_an_end(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 6)
        engine.on_pod(held("big", "b", 9))
        engine.on_queue_unit(unit_of("big", "b", 9))
        assert not started(ask(engine, "b"))
        done = build_pod("first", quota="a", cpu=6, unit="ns/first", phase="Succeeded")
        engine.on_pod(done)
        gone = replace(unit_of("first", "a", 6), status=replace(unit_of("x", "a", 1).status))
        woken = engine.on_queue_unit_gone(gone)
        assert started(ask(engine, *woken)) == ["big"]

    def test_it_uses_no_max(self) -> None:
        engine = new_engine("a")
        for number in range(2):
            engine.on_pod(held(f"big-{number}", "a", 10))
        engine.on_queue_unit(unit_of("job", "a", 10))
        assert started(ask(engine, "a")) == ["job"]

    def test_a_fork_knows_them(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 2)
        engine.on_pod(held("big", "b", 9))
        twin = engine.fork()
        twin.validate()
        twin.on_queue_unit(unit_of("second", "a", 6))
        assert refused(ask(twin, "a")) == [("second", "OverRuntime")]
        engine.on_queue_unit(unit_of("small", "a", 3))
        assert started(ask(engine, "a")) == ["small"]


NO_QUOTA = {
    "larger than the node": build_pod("bare", cpu=20, node=""),
    "held by a gate of others": gated(build_pod("bare", cpu=9), "example.com/hold"),
    "held by the queue's gate": gated(build_pod("bare", cpu=9)),
    "refused by a scheduler": replace(
        build_pod("bare", cpu=9, node=""),
        status=PodStatus(
            phase="Pending",
            conditions=(PodCondition(type="PodScheduled", status="False", reason="Unschedulable"),),
        ),
    ),
}


class TestPodsOfNoQuota:
    @pytest.mark.parametrize("pod", NO_QUOTA.values(), ids=NO_QUOTA)
    def test_nobody_waits_for_one_that_cannot_be_bound(self, pod: Pod) -> None:
        engine = new_engine("a")
        engine.on_pod(pod)
        engine.on_queue_unit(unit_of("job", "a", 9))
        assert started(ask(engine, "a")) == ["job"]

    def test_one_that_may_be_bound_is_waited_for(self) -> None:
        engine = new_engine("a")
        engine.on_pod(build_pod("bare", cpu=9, node=""))
        engine.on_queue_unit(unit_of("job", "a", 9))
        (answer,) = ask(engine, "a")
        assert isinstance(answer, Refused)
        woken = engine.on_pod(NO_QUOTA["refused by a scheduler"])
        assert started(ask(engine, *woken)) == ["job"]

    def test_one_that_nobody_tries_is_waited_for_a_minute(self) -> None:
        engine = new_engine("a")
        engine.on_pod(build_pod("bare", cpu=9, node="", created=100))
        engine.on_queue_unit(unit_of("job", "a", 9))
        assert not started(ask(engine, "a"))
        at = parse_time(moment(100))
        assert engine.on_time(at + timedelta(seconds=59)) == ()
        woken = engine.on_time(at + timedelta(seconds=60))
        engine.validate()
        assert started(ask(engine, *woken)) == ["job"]

    def test_a_larger_node_changes_what_can_be_bound(self) -> None:
        engine = new_engine("a")
        engine.on_pod(NO_QUOTA["larger than the node"])
        engine.on_node(node("large", allocatable={"cpu": "20"}))
        engine.on_queue_unit(unit_of("job", "a", 10))
        assert started(ask(engine, "a")) == ["job"], "30 less 20"
        engine.on_queue_unit(unit_of("more", "a", 1))
        assert not started(ask(engine, "a"))

    def test_what_is_bound_is_taken_off_the_total(self) -> None:
        engine = new_engine("a")
        engine.on_pod(build_pod("bare", cpu=9))
        engine.on_queue_unit(unit_of("job", "a", 2))
        (answer,) = ask(engine, "a")
        assert not isinstance(answer, Dequeue)


class TestMessages:
    def test_the_pods_that_press_are_named(self) -> None:
        engine = new_engine("a", "b")
        run(engine, "first", "a", 2)
        engine.on_pod(held("big", "b", 9))
        engine.on_queue_unit(unit_of("second", "a", 6))
        ask(engine, "a")
        got = refusal_of_unit(engine, "ns/second")
        assert got is not None
        assert stable_message(got) == (
            "needs more cpu than the runtime that quota a would get; "
            "pods without a node that count: ns/big"
        )

    def test_those_of_no_quota_are_named_while_they_may_be_bound(self) -> None:
        engine = new_engine("a")
        engine.on_pod(build_pod("bare", cpu=9, node=""))
        engine.on_pod(build_pod("secret", cpu=1, node="", namespace="other"))
        engine.on_queue_unit(unit_of("job", "a", 10))
        ask(engine, "a")
        got = refusal_of_unit(engine, "ns/job")
        assert got is not None
        assert got.pods == ("ns/bare", "1 of other namespaces")
        engine.on_pod_gone(build_pod("bare", cpu=9, node=""))
        ask(engine, "a")
        got = refusal_of_unit(engine, "ns/job")
        assert got is not None
        assert got.pods == ("1 of other namespaces",)

    def test_limits_of_a_quota_alone_name_no_pods(self) -> None:
        engine = new_engine("a", cpu=100)
        engine.on_pod(build_pod("bare", cpu=9, node=""))
        engine.on_queue_unit(unit_of("job", "a", 11))
        ask(engine, "a")
        got = refusal_of_unit(engine, "ns/job")
        assert got is not None
        assert (got.reason.value, got.pods) == ("ExceedsQuota", ())
