"""What an edit is said to start, refuse and evict, it does when the engine is told of it for real.

The other engine is told of the edited objects by the methods that the shells call, its workers ask
until they rest, and units leave as their objects say. What differs from the engine without the
edit is read from its final state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.what_if.at_once import answer_at_once
from queue_insight.what_if.edit import Edit
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Moment, Preempt, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    PREEMPT_RUNNING,
    QUOTA_NAME,
    RECLAIM_POLICY,
    STOP_POLICY,
)
from tests.properties.engine_kit import (
    Workers,
    build_quota,
    build_unit,
    changed,
    wall_time,
)
from tests.properties.engine_world import Story
from tests.properties.test_engine_properties import (
    EVERYTHING,
    LIVES,
    RULES,
    UNITS,
    numbers,
    stories,
)
from tests.properties.test_engine_with_quotas import NODES, prepared

pytestmark = pytest.mark.properties

WALL: Final = wall_time(1_800_000_000)
LAST: Final = stories(*UNITS, *LIVES, *RULES, *NODES, most=6)
"""What the engine has not decided about yet, so that units start without any edit as well."""

T = TypeVar("T")
Tell = Callable[[Engine], object]


class Case(NamedTuple):
    """An edit as data, and the same as the shells tell it."""

    edit: Edit
    apply: Tell


# --- edits of each kind ---------------------------------------------------------------------------


def nth(things: Sequence[T], n: int) -> T | None:
    return things[n % len(things)] if things else None


def patched_quota(engine: Engine, a: int, b: int) -> Case | None:
    quota = nth(list(engine.objects.of_kind(ElasticQuota)), a)
    if quota is None:
        return None
    field, cpu = ("max", "min")[b % 2], b % 13
    listed = {**getattr(quota.spec, field), "cpu": cpu}
    reclaims = {**quota.metadata.annotations, RECLAIM_POLICY: "Any"}
    meta = replace(quota.metadata, annotations=reclaims) if b % 3 == 0 else quota.metadata
    after = replace(quota, spec=replace(quota.spec, **{field: listed}), metadata=meta)
    patch: dict[str, Any] = {"spec": {field: {"cpu": cpu}}}
    if b % 3 == 0:
        patch["metadata"] = {"annotations": {RECLAIM_POLICY: "Any"}}
    edit = Edit(kind="ElasticQuota", namespace="kq", name=quota.metadata.name, patch=patch)
    return Case(edit, partial(Engine.on_quota, quota=after))


def deleted_quota(engine: Engine, a: int, _b: int) -> Case | None:
    quota = nth(list(engine.objects.of_kind(ElasticQuota)), a)
    if quota is None:
        return None
    edit = Edit(kind="ElasticQuota", name=quota.metadata.name, patch=None)
    return Case(edit, partial(Engine.on_quota_gone, quota=quota))


def created_quota(_engine: Engine, _a: int, b: int) -> Case | None:
    quota = build_quota("new", cpu=b % 9, guaranteed=0, parent="top")
    body = {
        "metadata": {"labels": quota.metadata.labels},
        "spec": {"max": {"cpu": b % 9}, "min": {"cpu": 0}},
    }
    edit = Edit(kind="ElasticQuota", namespace="kq", name="new", patch=body)
    return Case(edit, partial(Engine.on_quota, quota=quota))


def patched_queue(engine: Engine, a: int, b: int) -> Case | None:
    found = nth(list(engine.queues), a)
    if found is None:
        return None
    queue, policy = found.rules.api_object, ("Priority", "Block", "FIFO", "Intelligent")[b % 4]
    keys = (BACKFILL, STOP_POLICY, STOP_POLICY, ENABLE_PREEMPTION)
    values = ("true", "HoldAndDrain", "None", "true")
    marks = {keys[b % 4]: values[b % 4]}
    annotations = {**queue.metadata.annotations, **marks}
    after = replace(
        queue,
        metadata=replace(queue.metadata, annotations=annotations),
        spec=replace(queue.spec, queue_policy=policy),
    )
    patch = {"metadata": {"annotations": marks}, "spec": {"queuePolicy": policy}}
    edit = Edit(kind="Queue", name=queue.metadata.name, patch=patch)
    return Case(edit, partial(Engine.on_queue, queue=after))


def deleted_queue(engine: Engine, a: int, _b: int) -> Case | None:
    found = nth(list(engine.queues), a)
    if found is None:
        return None
    return Case(
        Edit(kind="Queue", name=found.name, patch=None),
        partial(Engine.on_queue_gone, name=found.name),
    )


def some_unit(engine: Engine, a: int) -> QueueUnit | None:
    key = nth(sorted(engine.units.records), a)
    return None if key is None else engine.units.records[key].unit


def patched_unit(engine: Engine, a: int, b: int) -> Case | None:
    unit = some_unit(engine, a)
    if unit is None:
        return None
    meta, spec, patch = unit.metadata, unit.spec, dict[str, Any]()
    match b % 5:
        case 0:
            spec, patch = replace(spec, priority=b % 7), {"spec": {"priority": b % 7}}
        case 1:
            name = ("a", "b", "shared", "")[b % 4]
            spec, patch = replace(spec, queue=name), {"spec": {"queue": name}}
        case 2:
            labels = {**meta.labels, QUOTA_NAME: ("a", "b", "c")[b % 3]}
            meta, patch = replace(meta, labels=labels), {"metadata": {"labels": labels}}
        case 3:
            spec, patch = replace(spec, active=False), {"spec": {"active": False}}
        case _:
            cpu = b % 4
            spec = replace(spec, request={**spec.request, "cpu": cpu}, pod_set=())
            patch = {"spec": {"request": {"cpu": cpu}, "podSet": None}}
    edit = Edit(kind="QueueUnit", namespace=meta.namespace, name=meta.name, patch=patch)
    return Case(edit, partial(Engine.on_queue_unit, unit=newer(engine, meta, spec, unit)))


def newer(engine: Engine, meta: Any, spec: Any, unit: QueueUnit) -> QueueUnit:
    version = str(engine.units.records[meta.key].version + 1)
    return replace(unit, metadata=replace(meta, resource_version=version), spec=spec)


def ended_unit(engine: Engine, a: int, _b: int) -> Case | None:
    occupying = sorted(key for key, each in engine.units.records.items() if each.occupies)
    key = nth(occupying, a)
    if key is None:
        return None
    unit = engine.units.records[key].unit
    meta = unit.metadata
    edit = Edit(kind="QueueUnit", namespace=meta.namespace, name=meta.name, end=True)
    return Case(edit, lambda other: leave(other, key, "Succeed"))


def deleted_unit(engine: Engine, a: int, _b: int) -> Case | None:
    unit = some_unit(engine, a)
    if unit is None:
        return None
    meta = unit.metadata
    edit = Edit(kind="QueueUnit", namespace=meta.namespace, name=meta.name, patch=None)
    return Case(edit, partial(Engine.on_queue_unit_gone, unit=unit))


def created_unit(_engine: Engine, a: int, b: int) -> Case | None:
    quota, cpu, priority = ("a", "b", "c")[a % 3], b % 5, b % 4
    unit = build_unit("new", quota, cpu=cpu, priority=priority)
    unit = replace(unit, metadata=replace(unit.metadata, creation_timestamp=LATE))
    body = {
        "metadata": {"labels": {QUOTA_NAME: quota}},
        "spec": {"request": {"cpu": cpu}, "priority": priority},
    }
    edit = Edit(kind="QueueUnit", namespace="ns", name="new", patch=body)
    return Case(edit, partial(Engine.on_queue_unit, unit=unit))


LATE: Final = changed(build_unit("x"), 1).metadata.creation_timestamp.replace("2026", "2027")


def patched_node(engine: Engine, a: int, b: int) -> Case | None:
    node = nth(list(engine.objects.of_kind(Node)), a)
    if node is None:
        return None
    after = replace(node, status=replace(node.status, allocatable={"cpu": b % 20}))
    patch = {"status": {"allocatable": {"cpu": b % 20}}}
    edit = Edit(kind="Node", name=node.metadata.name, patch=patch)
    return Case(edit, partial(Engine.on_node, node=after))


def deleted_node(engine: Engine, a: int, _b: int) -> Case | None:
    node = nth(list(engine.objects.of_kind(Node)), a)
    if node is None:
        return None
    name = node.metadata.name
    return Case(Edit(kind="Node", name=name, patch=None), partial(Engine.on_node_gone, name=name))


def more_nodes(engine: Engine, a: int, b: int) -> Case | None:
    node = nth(list(engine.objects.of_kind(Node)), a)
    if node is None:
        return None
    copies = [
        replace(node, metadata=replace(node.metadata, name=f"copy-{n}")) for n in range(1 + b % 3)
    ]

    def apply(other: Engine) -> None:
        for copy in copies:
            other.on_node(copy)

    return Case(Edit(kind="Node", name=node.metadata.name, copies=len(copies)), apply)


def settings_of_all(_engine: Engine, a: int, b: int) -> Case | None:
    policy, on = ("Priority", "Block", "FIFO", "Intelligent")[a % 4], b % 2 == 0
    patch = {"queuePolicy": policy, "preemption": True, "preemptRunning": True, "backfill": on}
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true", BACKFILL: str(on).lower()}

    def change(queue: Queue) -> Queue:
        annotations = {**queue.metadata.annotations, **marks}
        meta = replace(queue.metadata, annotations=annotations)
        return replace(queue, metadata=meta, spec=replace(queue.spec, queue_policy=policy))

    def apply(other: Engine) -> None:
        for queue in [each.rules.api_object for each in other.queues]:
            other.on_queue(change(queue))

    return Case(Edit(kind="SchedulerSettings", patch=patch), apply)


EDITS: Final[tuple[Callable[[Engine, int, int], Case | None], ...]] = (
    patched_quota, deleted_quota, created_quota, patched_queue, deleted_queue, patched_unit,
    ended_unit, deleted_unit, created_unit, patched_node, deleted_node, more_nodes,
    settings_of_all,
)  # fmt: skip


# --- the engine that is told for real -------------------------------------------------------------


def leave(engine: Engine, key: str, phase: str) -> None:
    """Let the job of a unit end, or stop with all its pods."""
    record = engine.record(key)
    assert record is not None
    for pod, _ in engine.living_pods.pods_of(record.uid):
        engine.forget_pod(pod)
    unit = changed(record.unit, record.version + 1, phase, admissions=(), conditions=())
    engine.on_queue_unit(unit)


class Played:
    """An engine at rest, after an edit or none."""

    def __init__(self, engine: Engine, now: float, apply: Tell | None) -> None:
        self.engine, self.left = engine, set[str]()
        if apply is not None:
            apply(engine)
        for key in [each.key for each in engine.units.records.values() if is_asked(engine, each)]:
            self.leave([key])
        workers = Workers(engine, choose=lambda going: going[0])
        workers.now = now
        workers.wake(queue.name for queue in engine.queues)
        while not workers.is_quiet():
            decision = workers.step()
            if isinstance(decision, Preempt):
                workers.wake(engine.on_preempted(decision))
                self.leave([victim.unit for victim in decision.victims])
                workers.wake(queue.name for queue in engine.queues)

    def leave(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.left.add(key)
            leave(self.engine, key, "TimeoutBackoff")

    def runs(self, key: str) -> bool:
        record = self.engine.record(key)
        return record is not None and record.occupies

    def reason(self, key: str) -> tuple[str, str, str]:
        return essence(refusal_of_unit(self.engine, key))

    def waiting(self) -> set[str]:
        records = self.engine.units.records.values()
        over = {UnitState.ENDED, UnitState.ADMITTED, UnitState.ASSUMED}
        return {each.key for each in records if each.state not in over}


def is_asked(engine: Engine, record: Any) -> bool:
    """Return whether a unit is inactive, or its queue is drained."""
    asked = any(each.type == "Evicted" for each in record.unit.status.conditions)
    if record.state is not UnitState.ADMITTED or (
        asked and record.unit.status.conditions[0].status == "True"
    ):
        return False
    queue = engine.queues.find(record.queue_name)
    is_drained = queue is not None and queue.rules.options.stop == "HoldAndDrain"
    return record.unit.spec.active is False or is_drained


def essence(refusal: Refusal | None) -> tuple[str, str, str]:
    return ("", "", "") if refusal is None else (refusal.reason, refusal.quota, refusal.resource)


@pytest.mark.parametrize("make", EDITS, ids=lambda make: make.__name__)
@settings(max_examples=25)  # four engines each
@given(
    mode=st.sampled_from(QuotaMode),
    story=stories(*EVERYTHING, *NODES, least=20, most=50),
    last=LAST,
    a=numbers,
    b=numbers,
)
def test_an_edit_does_what_is_said(
    mode: QuotaMode, make: Any, story: Story, last: Story, a: int, b: int
) -> None:
    world = prepared(mode, judges=False)
    world.play(story)
    world.come_to_rest()
    world.play(last)
    world.deliver_all()
    case = make(world.engine, a, b)
    if case is None:
        return
    now = world.workers.now
    plain = Played(world.engine.fork(), now, None)
    edited = Played(world.engine.fork(), now, case.apply)
    got = answer_at_once(world.engine.fork(), [case.edit], Moment(now, WALL))
    assert got.is_complete
    before = {key for key, each in world.engine.units.records.items() if each.occupies}
    starts = {key for key in edited.engine.units.records if edited.runs(key)} - before
    assert {each.unit for each in got.started} == {key for key in starts if not plain.runs(key)}
    assert {each.unit for each in got.evicted} == edited.left - plain.left
    assert set(got.spared) == plain.left - edited.left
    changed_reasons = {
        key: edited.reason(key)
        for key in edited.waiting() - edited.left
        if plain.runs(key)
        or plain.engine.record(key) is None
        or plain.reason(key) != edited.reason(key)
    }
    assert {each.unit: essence(each.refusal) for each in got.refused} == changed_reasons
