"""Usage follows from the objects, however the objects reached their state.

An engine that has seen edits of units (labels, what they gave back, admissions, ends, their pods)
has booked the same as a new one that is told the last objects: quotas, amounts, pods, jobs, and
which units may not be preempted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, Growth, Rest, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Plugin, QuotaSource
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_plugin import QuotaPlugin
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import PodSet, QueueUnit, ReclaimablePod
from shared_api.testing.object_builders import resource_quota, tree_node
from shared_api.well_known_labels import (
    PREEMPTIBLE,
    QUOTA_NAME,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    TREE_PREEMPTIBLE,
)
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    moment,
)
from tests.properties.engine_world import Story
from tests.properties.test_engine_properties import stories
from tests.queue_scheduler.quota_source_kit import TREE_LABEL, cpus, tree

pytestmark = pytest.mark.properties

Source = ElasticQuota | QuotaSource


class Kind(NamedTuple):
    """A plugin, how it learns of quotas, and the labels by which units name them."""

    plugin: Callable[[], Plugin]
    sources: tuple[Source, ...]
    queues: tuple[str, ...]
    label: str
    firm: tuple[str, ...] = (PREEMPTIBLE,)


def hard(name: str, **limits: int) -> QuotaSource:
    meta = {"uid": name}
    return resource_quota(name, namespace="ns", hard=cast("Any", limits), metadata=meta)


NODES = (tree_node("a", **cpus(20, 8, 4)), tree_node("b", **cpus(20, 8)))
KINDS = {
    "ElasticQuotaV2": Kind(
        lambda: ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)),
        (build_quota("a", cpu=20, guaranteed=8), build_quota("b", cpu=20, guaranteed=8)),
        ("a", "b"),
        QUOTA_NAME,
    ),
    "ElasticQuota": Kind(
        lambda: ElasticQuotaTreePlugin(Fraction(1)),
        (tree(*NODES, **cpus(40, 16)),),
        ("root-a", "root-b"),
        TREE_LABEL,
        (PREEMPTIBLE, TREE_PREEMPTIBLE),
    ),
    "ResourceQuota": Kind(
        ResourceQuotaPlugin, (hard("ns", pods=12, cpu=30),), ("default",), "unread"
    ),
}

ACTS = (
    *("create", "create", "decide", "decide", "decide_in_vain", "label", "label", "move"),
    *("give_back", "admit", "resize", "grow", "run", "end", "evict", "delete"),
    *("put_pod", "put_pod", "put_pod", "drop_pod", "quotas_gone"),
    *("resize_pod", "end_pod", "label_pod", "label_pod"),
)


class Edited:
    """The objects, and an engine that is told of each change of them."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.units: dict[str, QueueUnit] = {}
        self.pods: dict[str, Pod] = {}
        self._version = 0
        self.engine = self.new_engine(kind.sources)

    def new_engine(self, sources: tuple[Source, ...]) -> Engine:
        engine = Engine(PluginRunner([self.kind.plugin()]), BUILT_IN_POLICIES)
        for source in sources:
            engine.on_quota(source)
        for name in self.kind.queues:
            engine.on_queue(build_queue(name, takes="*"))
        return engine

    def play(self, story: Story) -> None:
        for act, a, b in story:
            getattr(self, act)(a, b)
            self.engine.validate()

    # --- units --------------------------------------------------------------------------------

    def create(self, a: int, b: int) -> None:
        """Create a unit under a new name: pods of another unit of that name are another story."""
        pods = (("main", 1 + a % 3, 1, 1 if b % 2 else None), ("more", 1 + b % 2, 2))[: 1 + a % 2]
        unit = build_unit(f"u{self.next_version()}", pods=pods, labels=self._labels(a, b))
        self.apply(replace(unit, spec=replace(unit.spec, queue=self._queue(b))))

    def _labels(self, a: int, b: int) -> dict[str, str]:
        firm = {key: "false" for n, key in enumerate(self.kind.firm) if a % (3 + n) == 0}
        return {self.kind.label: "ab"[b % 2], **firm}

    def _queue(self, b: int) -> str:
        return self.kind.queues[b % len(self.kind.queues)]

    def label(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None:
            key = self.kind.firm[b % len(self.kind.firm)]
            self.apply(with_labels(unit, {key: ("true", "false", "")[b % 3]}))

    def move(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None:
            moved = replace(unit, spec=replace(unit.spec, queue=self._queue(b)))
            self.apply(with_labels(moved, {self.kind.label: "ab"[b % 2]}))

    def give_back(self, a: int, b: int) -> None:
        back = (ReclaimablePod(name="main", count=b % 4),)
        self.edit(a, reclaimable_pods=back)

    def admit(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None and unit.status.admissions:
            first, *others = unit.status.admissions
            amounts = {} if b % 2 else first.resources
            self.edit(a, admissions=(replace(first, replicas=b % 5, resources=amounts), *others))

    def resize(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None:
            first, *others = unit.spec.pod_set
            pod_set: tuple[PodSet, ...] = (replace(first, count=b % 5), *others)
            self.apply(replace(unit, spec=replace(unit.spec, pod_set=pod_set)))

    def run(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None and unit.status.admissions:
            self.edit(a, phase="Running")

    def end(self, a: int, b: int) -> None:
        self.edit(a, phase=("Succeed", "Failed")[b % 2])

    def evict(self, a: int, b: int) -> None:
        self.edit(a, phase=("Enqueued", "TimeoutBackoff")[b % 2], admissions=())

    def delete(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None and not any(self._is_other(pod, unit) for pod in self.pods.values()):
            self.engine.on_queue_unit_gone(self.units.pop(unit.metadata.key))

    def _is_other(self, pod: Pod, unit: QueueUnit) -> bool:
        """Return whether a restart, which finds only the pod, could not know what the unit said."""
        is_its = pod.metadata.name.startswith(f"{unit.metadata.name}-")
        return is_its and pod.metadata.labels != unit.metadata.labels

    # --- decisions ----------------------------------------------------------------------------

    def decide(self, a: int, b: int) -> None:
        decision = self._decide(a)
        if decision is not None:
            unit = self.units[decision.unit]
            self.apply(admitted(unit, self.next_version(), grants=decision.grants))

    def decide_in_vain(self, a: int, b: int) -> None:
        decision = self._decide(a)
        if decision is not None:
            self.engine.validate()
            self.engine.on_write_failed(decision, WriteFailure.REJECTED)

    def _decide(self, a: int) -> Dequeue | None:
        while True:
            decision = self.engine.decide_next(self._queue(a), 0.0)
            if isinstance(decision, Dequeue):
                return decision
            if isinstance(decision, Rest):
                return None

    def grow(self, a: int, b: int) -> None:
        unit = self.pick(a)
        growth = None if unit is None else self.engine.grow(unit.metadata.key)
        if not isinstance(growth, Growth):
            return
        self.engine.validate()
        if b % 2:
            self.engine.on_growth_failed(growth)
        else:
            self.edit(a, admissions=growth.admissions)

    # --- pods and quotas ----------------------------------------------------------------------

    def put_pod(self, a: int, b: int) -> None:
        unit = self.pick(a)
        if unit is not None:
            meta = unit.metadata
            pod = build_pod(f"{meta.name}-{b % 5}", unit=meta.key, cpu=1 + b % 2)
            marks = {RELATED_POD_SET: ("main", "more", "gone")[a % 3]} if b % 3 else {}
            notes = {**pod.metadata.annotations, **marks}
            labels = dict(meta.labels)
            meta = replace(pod.metadata, labels=labels, annotations=notes)
            self.apply_pod(replace(pod, metadata=meta))

    def resize_pod(self, a: int, b: int) -> None:
        pod = self.pick_pod(a)
        if pod is not None:
            self.apply_pod(replace(pod, spec=build_pod("", cpu=1 + b % 4).spec))

    def end_pod(self, a: int, b: int) -> None:
        pod = self.pick_pod(a)
        if pod is not None:
            self.apply_pod(
                replace(pod, metadata=replace(pod.metadata, deletion_timestamp=moment(1)))
            )

    def label_pod(self, a: int, b: int) -> None:
        """Change the label of the quota, or one about preemption, of a living pod.

        A restart does not know what a deleted unit said, and with which pods its pods were counted.
        """
        pod = self.pick_pod(a)
        if pod is not None and pod.metadata.annotations[RELATED_QUEUE_UNIT] in self.units:
            firm = dict.fromkeys(self.kind.firm[:1], ("true", "false")[b // 4 % 2])
            edit = firm if b % 2 else {self.kind.label: "ab"[b // 2 % 2]}
            labels = {**pod.metadata.labels, **edit}
            self.apply_pod(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def pick_pod(self, a: int) -> Pod | None:
        names = sorted(self.pods)
        return self.pods[names[a % len(names)]] if names else None

    def apply_pod(self, pod: Pod) -> None:
        self.pods[pod.metadata.key] = pod
        self.engine.on_pod(pod)

    def drop_pod(self, a: int, b: int) -> None:
        names = sorted(self.pods)
        if names:
            self.engine.on_pod_gone(self.pods.pop(names[a % len(names)]))

    def quotas_gone(self, a: int, b: int) -> None:
        """Delete the quotas, edit a unit meanwhile, and create them again."""
        for source in self.kind.sources:
            self.engine.on_quota_gone(source)
        (self.label, self.give_back, self.drop_pod)[b % 3](a, b)
        for source in self.kind.sources:
            self.engine.on_quota(source)

    # --- telling ------------------------------------------------------------------------------

    def pick(self, a: int) -> QueueUnit | None:
        keys = sorted(self.units)
        return self.units[keys[a % len(keys)]] if keys else None

    def edit(self, a: int, **status: Any) -> None:
        unit = self.pick(a)
        if unit is not None:
            self.apply(changed(unit, 0, **status))

    def apply(self, unit: QueueUnit) -> None:
        version = str(self.next_version())
        unit = replace(unit, metadata=replace(unit.metadata, resource_version=version))
        self.units[unit.metadata.key] = unit
        self.engine.on_queue_unit(unit)

    def next_version(self) -> int:
        self._version += 1
        return self._version

    def restarted(self, shuffle: Callable[[list[Any]], None]) -> Engine:
        """Return a new engine that is told the last objects, in any order."""
        engine = self.new_engine(())
        facts: list[Any] = [*self.kind.sources, *self.units.values(), *self.pods.values()]
        shuffle(facts)
        for fact in facts:
            if isinstance(fact, QueueUnit):
                engine.on_queue_unit(fact)
            elif isinstance(fact, Pod):
                engine.on_pod(fact)
            else:
                engine.on_quota(fact)
        engine.validate()
        return engine


def with_labels(unit: QueueUnit, labels: dict[str, str]) -> QueueUnit:
    """Return the unit with other labels; "" removes one."""
    edited = {key: value for key, value in {**unit.metadata.labels, **labels}.items() if value}
    return replace(unit, metadata=replace(unit.metadata, labels=edited))


Booking = tuple[str, tuple[tuple[str, int], ...], bool, tuple[tuple[str, int], ...]]
"""(quota, amounts without zeros, non-preemptible, the part of preemptible ones that is not)"""


def bookings_of(engine: Engine) -> tuple[dict[str, Booking], Counter[Booking]]:
    """Return what the plugin has booked: by unit, and for deleted units."""
    (plugin,) = engine.plugins
    assert isinstance(plugin, QuotaPlugin)
    plugin.quotas.validate()
    units = {record.uid for record in engine.units.records.values()}
    own: dict[str, Booking] = {}
    others: Counter[Booking] = Counter()
    for uid in engine.usage:
        found = plugin.quotas.charge_of(uid)
        assert found is not None, f"{uid} is charged, and the plugin has nothing booked"
        quota, demand = found
        amounts = tuple(sorted((key, n) for key, n in demand.amounts.items() if n))
        firm = tuple(sorted(demand.firm.items()))
        booking = (quota, amounts, demand.non_preemptible, firm)
        if uid in units:
            own[uid] = booking
        else:
            others[booking] += 1
    return own, others


@pytest.mark.parametrize("kind", KINDS)
@given(story=stories(*ACTS, least=25), rng=st.randoms(use_true_random=False))
def test_a_restart_books_the_same(kind: str, story: Story, rng: random.Random) -> None:
    world = Edited(KINDS[kind])
    world.play(story)
    assert bookings_of(world.engine) == bookings_of(world.restarted(rng.shuffle))


@pytest.mark.parametrize("kind", KINDS)
@given(story=stories(*ACTS, least=25))
def test_a_fork_books_the_same_from_there_on(kind: str, story: Story) -> None:
    world = Edited(KINDS[kind])
    half = len(story) // 2
    world.play(story[:half])
    first = world.engine
    world.engine = first.fork()
    before = bookings_of(first)
    world.play(story[half:])
    assert bookings_of(first) == before
    assert bookings_of(world.engine) == bookings_of(world.restarted(lambda _: None))
