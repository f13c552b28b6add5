"""All plugins as one: order, first answers, undo, forks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pytest

from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Mapped,
    Place,
    QueueDirectory,
    Supposed,
    Unmapped,
    Waiter,
)
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.queue_set import QueueSet
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from tests.properties.engine_kit import build_info, build_queue, build_quota, build_unit
from tests.queue_scheduler.fault_kit import PluginError, raise_once

UNIT = build_unit("u", "a")
INFO = build_info(UNIT, demand=UnitDemand((), {"cpu": 1}))
NO = Refusal(reason=Reason.REFUSED_BY_PLUGIN)
WAITER = ("q", 1)


class Book:
    """A Reserve plugin that records its calls."""

    def __init__(self, name: str, log: list[str], refusal: Refusal | None = None) -> None:
        self.name = name
        self.log = log
        self.refusal = refusal

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        self.log.append(f"{self.name} reserve {info.key}")
        return self.refusal

    def unreserve(self, uid: Uid) -> None:
        self.log.append(f"{self.name} unreserve {uid}")

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        self.log.append(f"{self.name} resize {uid} {quota} {amounts} {non_preemptible}")


class Gate:
    """A Filter."""

    def __init__(self, name: str, refusal: Refusal | None = None) -> None:
        self.name = name
        self.refusal = refusal

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        return self.refusal


class Supposer(Gate):
    """A Filter that refuses until a unit is gone."""

    def __init__(self, name: str, refusal: Refusal) -> None:
        super().__init__(name, refusal)
        self.asked: list[tuple[Sequence[Uid], Sequence[Supposed]]] = []

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        self.asked.append((released, added))
        return None if released else self.refusal


class KeyedGate(Gate):
    """A Filter whose answers classes share."""

    def class_key(self, unit: QueueUnit) -> Hashable:
        return unit.metadata.labels.get("team")


class Waker(Gate):
    """A Filter that knows what would help."""

    def __init__(self, name: str) -> None:
        super().__init__(name, NO)
        self.waiting: list[Waiter] = []
        self.woken: list[Waiter] = []

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        self.waiting.append(waiter)

    def stop_waiting(self, waiter: Waiter) -> None:
        if waiter in self.waiting:
            self.waiting.remove(waiter)

    def take_woken(self) -> list[Waiter]:
        woken, self.woken = self.woken, []
        return woken


class InTurn(Gate):
    """A Filter that knows the order of the units that a fact helps."""

    def __init__(self, name: str, stirred: list[str]) -> None:
        super().__init__(name, NO)
        self.stirred = stirred
        self.waiting: list[Waiter] = []

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        self.waiting.append(waiter)

    def stop_waiting(self, waiter: Waiter) -> None:
        if waiter in self.waiting:
            self.waiting.remove(waiter)

    def stirred_domains(self) -> list[str]:
        return self.stirred

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        return min(((place_of(waiter), waiter) for waiter in self.waiting), default=None)


class TestDeciding:
    def test_the_first_refusal_counts_and_names_its_plugin(self) -> None:
        other = Refusal(reason=Reason.OVER_MIN)
        gates = [Gate("open"), Gate("shut", NO), Gate("never asked", other)]
        assert PluginRunner(gates).check(INFO) == (NO, gates[1])
        assert PluginRunner(gates[:1]).check(INFO) is None

    def test_a_filter_that_cannot_suppose_answers_as_things_are(self) -> None:
        able = Supposer("able", NO)
        released, added = [Uid("uid-x")], [Supposed("a", {"cpu": 1})]
        assert PluginRunner([able, Gate("open")]).check_without(INFO, released, added) is None
        assert able.asked == [(released, added)]
        assert PluginRunner([able, Gate("shut", NO)]).check_without(INFO, released) == NO
        assert PluginRunner([able]).check_without(INFO, []) == NO

    def test_all_plugins_reserve_or_none_does(self) -> None:
        log: list[str] = []
        quotas = [Book("a", log), Book("b", log), Book("c", log, NO), Book("d", log)]
        assert PluginRunner(quotas).reserve(INFO) == (NO, quotas[2])
        want = ["a reserve ns/u", "b reserve ns/u", "c reserve ns/u"]
        assert log == [*want, "b unreserve uid-u", "a unreserve uid-u"]

    def test_no_plugin_reserves_when_one_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The one that raises may have reserved half of it."""
        log: list[str] = []
        quotas = [Book("a", log), Book("b", log), Book("c", log)]
        raise_once(monkeypatch, quotas[1], "reserve")
        with pytest.raises(PluginError):
            PluginRunner(quotas).reserve(INFO)
        assert log == ["a reserve ns/u", "b unreserve uid-u", "a unreserve uid-u"]

    def test_undo_goes_backwards_and_resize_forwards(self) -> None:
        log: list[str] = []
        runner = PluginRunner([Book("a", log), Book("b", log)])
        assert runner.reserve(INFO) is None
        runner.resize(INFO.uid, "q", {"cpu": 2}, non_preemptible=True, pods=1)
        runner.unreserve(INFO.uid)
        words = [line.rsplit(" uid", 1)[0].split(" ")[:2] for line in log]
        assert words == [
            ["a", "reserve"],
            ["b", "reserve"],
            ["a", "resize"],
            ["b", "resize"],
            ["b", "unreserve"],
            ["a", "unreserve"],
        ]


class TestClasses:
    def test_the_key_has_what_filters_look_at(self) -> None:
        runner = PluginRunner([KeyedGate("x")])
        assert runner.placing.class_keys(build_unit("a", labels={"team": "red"})) == ("red",)
        assert runner.placing.class_keys(build_unit("a")) == runner.placing.class_keys(
            build_unit("b")
        )

    def test_without_a_key_of_a_filter_every_unit_is_its_own_class(self) -> None:
        runner = PluginRunner([KeyedGate("x"), Gate("y")])
        assert runner.placing.class_keys(build_unit("a")) != runner.placing.class_keys(
            build_unit("b")
        )


class TestWaiting:
    def test_a_filter_that_knows_what_helps_is_asked(self) -> None:
        waker = Waker("w")
        runner = PluginRunner([waker])
        runner.waking.wait(WAITER, INFO, NO, waker)
        assert waker.waiting == [WAITER]
        assert runner.waking.take_woken(anything_changed=True) == []
        waker.woken = [WAITER]
        assert runner.waking.take_woken(anything_changed=False) == [WAITER]

    def test_a_filter_that_offers_in_turn_is_asked_by_domain(self) -> None:
        first, second = InTurn("f", ["a", "b"]), InTurn("s", ["b"])
        runner = PluginRunner([first, Waker("w"), second])
        runner.waking.wait(WAITER, INFO, NO, second)
        assert (first.waiting, second.waiting) == ([], [WAITER])
        assert [plugin.name for plugin in runner.waking.waking_in_turn] == ["f", "s"]
        assert runner.waking.take_woken(anything_changed=True) == []
        runner.waking.stop_waiting(WAITER)
        assert second.waiting == []

    def test_a_class_of_a_filter_that_does_not_know_waits_for_anything(self) -> None:
        gate = Gate("g", NO)
        runner = PluginRunner([gate, Waker("w")])
        runner.waking.wait(WAITER, INFO, NO, gate)
        assert runner.waking.take_woken(anything_changed=False) == []
        assert runner.waking.take_woken(anything_changed=True) == [WAITER]
        assert runner.waking.take_woken(anything_changed=True) == []

    def test_no_class_is_lost_if_a_plugin_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gate, first, second = Gate("g", NO), Waker("f"), Waker("s")
        runner = PluginRunner([gate, first, second])
        runner.waking.wait(WAITER, INFO, NO, gate)
        first.woken = [("q", 8)]
        raise_once(monkeypatch, second, "take_woken")
        with pytest.raises(PluginError):
            runner.waking.take_woken(anything_changed=True)
        for each in (runner.fork(), runner):
            assert each.waking.take_woken(anything_changed=False) == [WAITER, ("q", 8)]
            assert each.waking.take_woken(anything_changed=True) == []

    def test_a_class_that_left_is_forgotten_by_all(self) -> None:
        gate, waker = Gate("g", NO), Waker("w")
        runner = PluginRunner([gate, waker])
        for plugin in (gate, waker):
            runner.waking.wait(WAITER, INFO, NO, plugin)
        runner.waking.stop_waiting(WAITER)
        assert waker.waiting == []
        assert runner.waking.take_woken(anything_changed=True) == []


class Everything:
    """Implements every extension point whose answer is a value."""

    name = "everything"

    def __init__(self, said: dict[str, Any]) -> None:
        self.said = said
        self.log: list[str] = []

    def map_unit(self, unit: QueueUnit, queues: QueueDirectory) -> Mapped | Unmapped | None:
        answer: Mapped | Unmapped | None = self.said.get("mapped")
        return answer

    def queue_rank(self, queue: Queue) -> int:
        return int(self.said.get("rank", 0))

    def score(self, queue: Queue) -> int:
        return int(self.said.get("score", 0))

    def order_key(self, unit: QueueUnit, queue: Queue) -> OrderKey | None:
        answer: OrderKey | None = self.said.get("order")
        return answer

    def domains(self, quota: str) -> frozenset[str]:
        return frozenset(self.said.get("domains", ()))

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        self.log.append(f"protect {quota} {info.key if info else None}")

    def keeps_room_for(self, quota: str) -> bool:
        return quota in self.said.get("guaranteed", ())

    def lent_to(self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool) -> None:
        return None

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        return tuple(self.said.get("quotas", ()))

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        return "".join(self.said.get("quotas", ())[:1])

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        return (f"quota/{quota.metadata.name}", *self.said.get("facts", ()))

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        return (f"gone/{quota.metadata.name}",)

    def on_node(self, node: Node) -> None:
        self.log.append(f"node {node.metadata.name}")

    def on_node_gone(self, name: str) -> None:
        self.log.append(f"node gone {name}")

    def on_foreign_pod(self, key: str, pod: ForeignPod | None) -> None:
        self.log.append(f"foreign {key}")

    def take_notices(self) -> list[Notice]:
        return [Notice(kind="Queue", key="q", uid=Uid(""), reason="R", note=n) for n in self.log]


def both(first: dict[str, Any], second: dict[str, Any]) -> tuple[PluginRunner, list[Everything]]:
    plugins = [Everything(first), Everything(second)]
    return PluginRunner(plugins), plugins


class TestAnswers:
    def test_the_first_plugin_that_knows_the_place_gives_it(self) -> None:
        mapped = Mapped(quota="a", queue="q")
        runner, _ = both({}, {"mapped": mapped})
        assert runner.placing.map_unit(UNIT, QueueSet()) == mapped
        runner, _ = both({}, {})
        nowhere = runner.placing.map_unit(UNIT, QueueSet())
        assert isinstance(nowhere, Unmapped)
        assert nowhere.refusal.reason is Reason.NO_QUEUE

    def test_higher_ranks_then_higher_scores_go_first(self) -> None:
        runner, _ = both({"rank": 2, "score": 1}, {"rank": 3, "score": 4})
        assert runner.placing.rank(build_queue("q")) == (-2, -3, -1, -4)

    @pytest.mark.parametrize(("order", "want"), [(("a", "b"), ("a", "b")), (None, ("x", "y"))])
    def test_the_first_plugin_that_orders_does(self, order: OrderKey, want: OrderKey) -> None:
        runner, _ = both({"order": order}, {"order": ("x", "y")})
        assert runner.placing.order_key(UNIT, build_queue("q")) == want

    def test_no_plugin_orders(self) -> None:
        runner, _ = both({}, {})
        assert runner.placing.order_key(UNIT, build_queue("q")) is None

    def test_limits_of_all_plugins_count(self) -> None:
        runner, _ = both({"domains": ["x"]}, {"domains": ["y"]})
        assert runner.domains("a") == {"x", "y"}
        assert PluginRunner([]).domains("a") == frozenset()

    def test_the_first_plugin_that_knows_the_quota_names_it(self) -> None:
        runner, _ = both({}, {"quotas": ["a", "top"]})
        assert runner.placing.quota_names(UNIT) == ("a", "top")
        assert runner.placing.quota_of_pod("ns", {}) == "a"
        assert PluginRunner([]).placing.quota_names(UNIT) == ()
        assert PluginRunner([]).placing.quota_of_pod("ns", {}) == ""


def lacks(reason: Reason, *waits_for: str, queue: str = "") -> Unmapped:
    return Unmapped(Refusal(reason=reason, quota="a"), waits_for, queue)


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([None, Mapped("a", "q")], Mapped("a", "q"), id="one has no opinion"),
        pytest.param(
            [lacks(Reason.NO_QUOTA, "quota/a"), Mapped("b", "q")],
            Mapped("b", "q"),
            id="the next knows the quota",
        ),
        pytest.param(
            [lacks(Reason.NO_QUOTA, "quota/a"), lacks(Reason.NO_QUOTA, "quota/a", "namespace/n")],
            lacks(Reason.NO_QUOTA, "quota/a", "namespace/n"),
            id="none does: it waits for what either waits for",
        ),
        pytest.param(
            [lacks(Reason.NO_QUEUE, "queue/q"), Mapped("b", "q")],
            lacks(Reason.NO_QUEUE, "queue/q"),
            id="a refusal that is not about quotas is an answer",
        ),
        pytest.param(
            [Mapped("", "default"), Mapped("a", "q")],
            Mapped("a", "default"),
            id="one chooses the queue, the next the quota",
        ),
        pytest.param(
            [Mapped("", "default"), lacks(Reason.NO_QUEUE, "queue/q")],
            Mapped("a", "default"),
            id="the queue is chosen, whatever the next lacks",
        ),
        pytest.param(
            [Mapped("", "default"), lacks(Reason.QUOTA_NOT_IN_QUEUE, "queue/q")],
            Mapped("a", "default"),
            id="or whose units its own takes",
        ),
        pytest.param(
            [Mapped("", "default"), lacks(Reason.NO_QUOTA, "quota/a", queue="q")],
            lacks(Reason.NO_QUOTA, "quota/a", queue="default"),
            id="a chosen queue does not make up for the quota",
        ),
        pytest.param([Mapped("", "default")], Mapped("", "default"), id="none has quotas"),
    ],
)
def test_the_order_decides_where_several_plugins_place_units(
    answers: list[Mapped | Unmapped | None], want: Mapped | Unmapped
) -> None:
    runner = PluginRunner([Everything({"mapped": answer}) for answer in answers])
    assert runner.placing.map_unit(UNIT, QueueSet()) == want


class Directory:
    """The existing queues."""

    def __init__(self, *names: str) -> None:
        self._queues = {name: build_queue(name) for name in names}

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)


@pytest.mark.parametrize(
    ("quota", "queue", "known", "want"),
    [
        pytest.param("", "q", "", ["NoQueue", "NoQuota"], id="a queue alone, and it is missing"),
        pytest.param("", "q", "q", ["NoQuota"], id="a queue alone, and it exists"),
        pytest.param("", "", "", ["NoQuota"], id="neither"),
        pytest.param("a", "q", "", ["NoQuota", "NoQueue"], id="both, and both are missing"),
        pytest.param("a", "a", "", ["NoQuota"], id="the controllers fill in the quota's name"),
    ],
)
def test_a_missing_queue_is_named_of_a_unit_without_a_quota(
    quota: str, queue: str, known: str, want: list[str]
) -> None:
    held = Unmapped(Refusal(reason=Reason.NO_QUOTA, quota=quota), ("quota/a",), queue)
    unit = build_unit("u", quota, queue=queue)
    got = PluginRunner([Everything({"mapped": held})]).placing.map_unit(unit, Directory(known))
    assert isinstance(got, Unmapped)
    assert [each.reason for each in (got.refusal, *got.others)] == want
    assert ("queue/q" in got.waits_for) == (queue == "q"), "the queue may come, or go"
    assert (got.queue, "quota/a" in got.waits_for) == (queue, True)


class Keeper(Everything):
    """Has one quota."""

    def knows_quota(self, quota: str) -> bool:
        return quota == "known"


def test_the_plugin_that_knows_a_quota_is_believed_first() -> None:
    guess, knowing = Keeper({"quotas": ("a",)}), Keeper({"quotas": ("known", "root")})
    assert PluginRunner([guess, knowing]).placing.quota_names(UNIT) == ("known", "root")
    assert PluginRunner([guess, guess]).placing.quota_names(UNIT) == ("a",)


def test_room_is_kept_for_a_quota_if_any_plugin_does_so() -> None:
    runner, _ = both({}, {"guaranteed": ("a",)})
    assert (runner.waking.keeps_room_for("a"), runner.waking.keeps_room_for("b")) == (True, False)


def test_facts_reach_all_plugins() -> None:
    runner, plugins = both({"facts": ["namespace/x"]}, {})
    assert runner.facts.on_quota(build_quota("a")) == {"quota/a", "namespace/x"}
    assert runner.facts.on_quota_gone(build_quota("a")) == {"gone/a"}
    assert runner.waking.has_guarantees
    assert not PluginRunner([]).waking.has_guarantees
    assert not runner.waking.keeps_room_for("a")
    runner.waking.protect("a", INFO)
    runner.facts.on_node(Node(metadata=ObjectMeta(name="n")))
    runner.facts.on_node_gone("n")
    runner.facts.on_foreign_pod("ns/p", None)
    want = ["protect a ns/u", "node n", "node gone n", "foreign ns/p"]
    assert [plugin.log for plugin in plugins] == [want, want]
    assert [notice.note for notice in runner.facts.take_notices()] == [*want, *want]


class Forking(Waker):
    """Has a state that can be copied."""

    def fork(self) -> Forking:
        twin = Forking(self.name)
        twin.waiting = list(self.waiting)
        return twin


def test_a_fork_leaves_out_plugins_that_cannot_fork_and_says_so() -> None:
    forking, gate = Forking("can"), Gate("cannot", NO)
    runner = PluginRunner([gate, forking])
    runner.waking.wait(WAITER, INFO, NO, forking)
    twin = runner.fork()
    assert twin.without_fork == ("cannot",)
    assert runner.without_fork == ()
    assert [plugin.name for plugin in twin.plugins] == ["can"]
    twin.waking.stop_waiting(WAITER)
    assert forking.waiting == [WAITER]


def test_a_fork_remembers_classes_that_wait_for_anything() -> None:
    forking = Forking("f")
    gate = Gate("g", NO)
    runner = PluginRunner([forking, gate])
    runner.waking.wait(WAITER, INFO, NO, gate)
    twin = runner.fork()
    assert twin.waking.take_woken(anything_changed=True) == [WAITER]
    assert runner.waking.take_woken(anything_changed=True) == [WAITER]
