"""The life of decisions: asked, booked, refused, woken."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, Grant, Reason, Refusal, Refused, Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import DEFAULT_REQUIREMENT, QueueUnit
from shared_api.well_known_labels import MAX_DEPTH, PREEMPTIBLE, WAIT_FOR_PODS_RUNNING
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
    refused,
    started,
)
from tests.properties.naive_quota import NaiveQuota


class Cluster:
    """An engine with workers, and shorthand for facts."""

    def __init__(self, engine: Engine, plugin: NaiveQuota) -> None:
        self.engine = engine
        self.plugin = plugin
        self.workers = Workers(engine)

    def quota(self, name: str, cpu: int | None = None, **rest: str) -> None:
        self.workers.wake(self.engine.on_quota(build_quota(name, cpu=cpu, **rest)))  # type: ignore[arg-type] # parent, namespaces

    def queue(self, name: str, policy: str = "", **rest: object) -> None:
        self.workers.wake(self.engine.on_queue(build_queue(name, policy, **rest)))  # type: ignore[arg-type] # a builder's words
        self.workers.wake([name])

    def unit(self, *units: QueueUnit) -> tuple[str, ...]:
        woken: tuple[str, ...] = ()
        for unit in units:
            woken = self.engine.on_queue_unit(unit)
            self.workers.wake(woken)
        return woken

    def run(self) -> list[str]:
        """Return the names of the units that start now."""
        return started(self.workers.run())


@pytest.fixture
def cluster() -> Cluster:
    """Return quota a of 4 cores with its queue."""
    found = Cluster(*new_engine())
    found.quota("a", 4)
    found.queue("a")
    return found


# --- one decision -------------------------------------------------------------------------------


def test_a_unit_that_fits_is_booked_at_once(cluster: Cluster) -> None:
    cluster.unit(build_unit("u", "a", cpu=3, version=7))
    decision = cluster.engine.decide_next("a", 0.0)
    assert decision == Dequeue(
        unit="ns/u",
        uid=Uid("uid-u"),
        resource_version="7",
        queue="a",
        quota="a",
        grants=(Grant(DEFAULT_REQUIREMENT, 1, {"cpu": 3000}),),
    )
    assert cluster.plugin.used("a") == {"cpu": 3000}
    record = cluster.engine.record("ns/u")
    assert record is not None
    assert record.state is UnitState.ASSUMED
    assert cluster.engine.decide_next("a", 0.0) == Rest()


def test_a_unit_that_does_not_fit_is_refused_with_the_numbers(cluster: Cluster) -> None:
    cluster.unit(build_unit("u", "a", cpu=5))
    decision = cluster.engine.decide_next("a", 0.0)
    assert isinstance(decision, Refused)
    assert decision.refusal == Refusal(
        reason=Reason.OVER_QUOTA_MAX, quota="a", resource="cpu", limit=4000, requested=5000
    )
    assert decision.refusal.missing == 1000
    assert refusal_of_unit(cluster.engine, "ns/u") == decision.refusal
    assert cluster.engine.decide_next("a", 0.0) == Rest()
    assert cluster.plugin.used("a") == {}


def test_units_of_one_class_are_refused_once(cluster: Cluster) -> None:
    cluster.unit(*(build_unit(f"u{n}", "a", cpu=5) for n in range(50)))
    assert len(cluster.workers.run()) == 1
    assert refusal_of_unit(cluster.engine, "ns/u49") == refusal_of_unit(cluster.engine, "ns/u0")


def test_an_unknown_queue_is_not_asked(cluster: Cluster) -> None:
    assert cluster.engine.decide_next("unknown", 0.0) == Rest()


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param("Priority", ["high", "old", "new"], id="Priority: the big one is passed"),
        pytest.param("Block", ["high"], id="Block: no unit passes the big one"),
        pytest.param("FIFO", ["old"], id="FIFO: no unit passes the big one"),
    ],
)
def test_policies(policy: str, want: list[str]) -> None:
    cluster = Cluster(*new_engine())
    cluster.quota("a", 4)
    cluster.queue("a", policy)
    cluster.unit(
        build_unit("old", "a", created=1),
        build_unit("big", "a", cpu=9, created=2, priority=1),
        build_unit("high", "a", created=3, priority=2),
        build_unit("new", "a", created=4),
    )
    assert cluster.run() == want


def test_a_refused_unit_does_not_hold_back_another_quota() -> None:
    cluster = Cluster(*new_engine())
    for name in ("a", "b"):
        cluster.quota(name, 2)
    cluster.queue("shared", "Block", takes="a,b")
    cluster.unit(
        build_unit("a-big", "a", queue="shared", cpu=3, created=1),
        build_unit("a-small", "a", queue="shared", created=2),
        build_unit("b-small", "b", queue="shared", created=3),
    )
    assert cluster.run() == ["b-small"]


def test_equal_queues_take_turns_and_the_higher_goes_first() -> None:
    cluster = Cluster(*new_engine())
    cluster.quota("top", 6)
    for name in ("a", "b", "c"):
        cluster.quota(name, 9, parent="top")
        cluster.queue(name, priority=1 if name == "c" else None)
    for n in range(3):
        cluster.unit(*(build_unit(f"{name}{n}", name, created=n) for name in ("a", "b", "c")))
    assert cluster.run() == ["c0", "c1", "c2", "a0", "b0", "a1"]


# --- waking -------------------------------------------------------------------------------------


def test_a_release_wakes_units_that_it_may_help(cluster: Cluster) -> None:
    cluster.quota("other", 1)
    cluster.queue("other")
    big = build_unit("big", "a", cpu=4)
    cluster.unit(big, build_unit("next", "a", cpu=4), build_unit("o", "other", cpu=2))
    assert cluster.run() == ["big"]
    running = admitted(big, 2, "Running")
    assert cluster.unit(running) == ()
    assert cluster.unit(changed(running, 3, "Succeed")) == ("a",)
    assert cluster.run() == ["next"]


def test_a_quota_that_grows_wakes(cluster: Cluster) -> None:
    cluster.unit(build_unit("u", "a", cpu=5))
    assert cluster.run() == []
    cluster.quota("a", 5)
    assert cluster.run() == ["u"]


def test_no_queue_is_woken_for_a_class_that_left(cluster: Cluster) -> None:
    unit = build_unit("u", "a", cpu=5)
    cluster.unit(unit)
    cluster.workers.run()
    assert cluster.plugin.waiters() == {("a", 0)}
    cluster.engine.on_queue_unit_gone(unit)
    assert cluster.plugin.waiters() == set()


class Moody:
    """A filter that cannot say what would help it, and that no class keys tell apart."""

    name = "Moody"

    def __init__(self) -> None:
        self.is_open = False
        self.asked = 0

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        self.asked += 1
        return None if self.is_open else Refusal(reason=Reason.REFUSED_BY_PLUGIN, other=self.name)


def test_a_filter_without_waking_is_asked_again_after_every_fact_but_not_in_between() -> None:
    moody = Moody()
    cluster = Cluster(*new_engine(moody))
    cluster.quota("a", 4)
    cluster.queue("a")
    cluster.unit(build_unit("u1", "a"), build_unit("u2", "a"))
    assert refused(cluster.workers.run()) == [
        ("u1", "RefusedByPlugin"),
        ("u2", "RefusedByPlugin"),
    ]
    assert moody.asked == 2
    moody.is_open = True
    cluster.workers.wake(cluster.engine.on_pod(build_pod("p")))
    assert cluster.run() == ["u1", "u2"]


# --- options of queues --------------------------------------------------------------------------


def test_units_start_one_at_a_time_where_pods_are_waited_for(cluster: Cluster) -> None:
    first = build_unit("u1", "a")
    cluster.queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    cluster.unit(first, build_unit("u2", "a"))
    assert cluster.run() == ["u1"]
    assert refusal_of_unit(cluster.engine, "ns/u2") == Refusal(
        reason=Reason.WAITING_FOR_PODS_RUNNING, quota="a"
    )
    assert cluster.unit(admitted(first, 2)) == ()
    assert cluster.unit(admitted(first, 3, "Running")) == ("a",)
    assert cluster.run() == ["u2"]


@pytest.mark.parametrize("waits", ["true", "false"])
def test_a_decision_says_whether_the_queue_waits_for_its_pods(cluster: Cluster, waits: str) -> None:
    cluster.queue("a", annotations={WAIT_FOR_PODS_RUNNING: waits})
    cluster.unit(build_unit("u1", "a"))
    (decision,) = (each for each in cluster.workers.run() if isinstance(each, Dequeue))
    assert decision.is_waited_for is (waits == "true")


def test_a_queue_that_begins_to_wait_for_pods_finds_units_in_flight(cluster: Cluster) -> None:
    cluster.unit(admitted(build_unit("u1", "a"), 2), build_unit("u2", "a"))
    cluster.queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    assert cluster.run() == []
    cluster.workers.wake(cluster.engine.on_queue_gone("a"))
    cluster.queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    assert cluster.run() == [], "nor does a recreated queue forget it"
    cluster.queue("a")
    assert cluster.run() == ["u2"]


def test_a_unit_dequeued_by_another_writer_stops_the_queue(cluster: Cluster) -> None:
    cluster.queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    cluster.unit(build_unit("u2", "a"), admitted(build_unit("u1", "a"), 2))
    assert cluster.run() == []


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        pytest.param(["2"], ["u1"], id="two positions, of which one fits"),
        pytest.param(["2", "many"], ["u1"], id="nonsense changes nothing"),
        pytest.param(["2", "1_0"], ["u1"], id="a number for Python only is nonsense"),
        pytest.param(["2", "-1"], ["u1", "u3"], id="negative is no limit"),
        pytest.param(["2", None], ["u1", "u3"], id="removed"),
        pytest.param(["0"], [], id="none"),
    ],
)
def test_depth(cluster: Cluster, texts: list[str | None], want: list[str]) -> None:
    for text in texts:
        cluster.queue("a", annotations={} if text is None else {MAX_DEPTH: text})
    cluster.unit(
        build_unit("big", "a", cpu=5, created=0),
        build_unit("u1", "a", created=1),
        build_unit("big2", "a", cpu=6, created=2),
        build_unit("u3", "a", created=3),
    )
    # u1 leaves its position to big2 when it starts.
    assert cluster.run() == want


# --- queries ------------------------------------------------------------------------------------


def test_why_a_unit_waits(cluster: Cluster) -> None:
    cluster.queue("a", "Block")
    cluster.unit(
        build_unit("big", "a", cpu=5, created=1),
        build_unit("behind", "a", created=2),
        build_unit("off", "a", active=False),
        build_unit("lost", "nowhere"),
        admitted(build_unit("on", "a"), 2),
        changed(build_unit("over", "a"), 2, "Succeed"),
    )
    assert refusal_of_unit(cluster.engine, "ns/big") == Refusal(reason=Reason.WAITING, quota="a")
    cluster.workers.run()
    reasons = {}
    for name in ("big", "behind", "off", "lost", "on", "over", "unknown"):
        refusal = refusal_of_unit(cluster.engine, f"ns/{name}")
        reasons[name] = refusal.reason if refusal else None
    assert reasons == {
        "big": Reason.OVER_QUOTA_MAX,
        "behind": Reason.BEHIND_REFUSED_UNIT,
        "off": Reason.INACTIVE,
        "lost": Reason.NO_QUOTA,
        "on": None,
        "over": None,
        "unknown": None,
    }


def test_pending_units_are_listed_in_order(cluster: Cluster) -> None:
    cluster.unit(*(build_unit(f"u{n}", "a", priority=n % 3, created=n) for n in range(6)))
    got = [record.unit.metadata.name for record in pending_units(cluster.engine.units, "a")]
    assert got == ["u2", "u5", "u1", "u4", "u0", "u3"]
    assert list(pending_units(cluster.engine.units, "unknown")) == []


# --- copies -------------------------------------------------------------------------------------


def test_a_fork_is_independent(cluster: Cluster) -> None:
    cluster.unit(*(build_unit(f"u{n}", "a", cpu=3) for n in range(2)))
    fork = cluster.engine.fork()
    fork.on_quota(build_quota("a", cpu=6))
    others = Workers(fork)
    others.wake(["a"])
    assert started(others.run()) == ["u0", "u1"]
    assert cluster.run() == ["u0"]
    cluster.engine.validate()


class Forgetful(Moody):
    """Refuses; class keys tell its answers apart, and it cannot be copied."""

    name = "Forgetful"

    def class_key(self, unit: QueueUnit) -> Hashable:
        return unit.metadata.labels.get(PREEMPTIBLE)


def test_a_fork_trusts_the_same_names() -> None:
    engine = Engine(PluginRunner([]), (), names_are_proved=True)
    assert engine.fork().usage.are_names_proved
    assert not Engine(PluginRunner([]), ()).fork().usage.are_names_proved


def test_a_fork_without_a_plugin_forgets_its_refusals() -> None:
    cluster = Cluster(*new_engine(Forgetful()))
    cluster.quota("a", 4)
    cluster.queue("a")
    cluster.unit(build_unit("u", "a"))
    assert cluster.run() == []
    fork = cluster.engine.fork()
    assert fork.plugins.without_fork == ("Forgetful",)
    others = Workers(fork)
    others.wake(["a"])
    assert started(others.run()) == ["u"]
    assert refusal_of_unit(cluster.engine, "ns/u") == Refusal(
        reason=Reason.REFUSED_BY_PLUGIN, other="Forgetful"
    )
