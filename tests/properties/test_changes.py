"""The changes that are said to start a unit do, in the engine itself; smaller ones do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import combinations, product

import pytest
from hypothesis import given
from msgspec.structs import replace

from queue_insight.insight.change import Change, ChangeKind
from queue_insight.insight.changes import Changes, find_changes
from queue_insight.insight.trials import Edit, edit_spec, end
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.quantity import amount as amount_of
from tests.properties.engine_kit import Workers, changed, wall_time
from tests.properties.engine_world import Story, World
from tests.properties.test_engine_properties import EVERYTHING, numbers, stories
from tests.properties.test_engine_with_quotas import NODES, modes, prepared

pytestmark = pytest.mark.properties

WALL = wall_time(1_800_000_000)
WAIT = ChangeKind.WAIT


def at_rest(mode: QuotaMode, story: Story) -> World:
    world = prepared(mode, judges=False)
    world.play(story)
    world.come_to_rest()
    return world


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30))
def test_a_change_starts_the_unit_as_it_says(mode: QuotaMode, story: Story) -> None:
    """One grain less than a minimal one does not; and waiting does if that is said."""
    engine = at_rest(mode, story).engine
    for key in engine.units.records:
        changes = find_changes(engine.fork(), key, WALL)
        if changes is not None:
            check_found(engine, key, changes)
            check_minimal(engine, key, changes)
            check_waiting(engine, key, changes)


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30), pick=numbers)
def test_no_change_of_a_kind_starts_a_unit_where_none_is_named(
    mode: QuotaMode, story: Story, pick: int
) -> None:
    engine = at_rest(mode, story).engine
    keys = sorted(engine.units.records)
    check_missing(engine, keys[pick % len(keys)], every_limit(engine))


def check_named(engine: Engine) -> None:
    """Assert that each change that is named starts its unit, or does not, as it says."""
    for key in engine.units.records:
        changes = find_changes(engine.fork(), key, WALL)
        if changes is not None:
            check_found(engine, key, changes)


def check_found(engine: Engine, key: str, changes: Changes) -> None:
    """Assert that each of a unit's changes starts it, or does not, as it says."""
    assert changes.are_complete, key
    for change in changes.found:
        if change.edits:
            assert starts(engine, key, change.edits) == change.sufficient, (key, change)


def check_minimal(engine: Engine, key: str, changes: Changes) -> None:
    """Assert that a minimal change less one grain does not start the unit."""
    for change in changes.found:
        if change.sufficient and change.minimal:
            for edit in one_grain_less(engine, key, change):
                assert not starts(engine, key, (edit,)), (key, change)


def check_waiting(engine: Engine, key: str, changes: Changes) -> None:
    """Assert that the unit starts by waiting for what runs if that is said, and else does not."""
    record = engine.record(key)
    assert record is not None
    if is_by_itself(changes) or record.hold is not None:
        return
    (wait,) = (each for each in changes.found if each.kind is WAIT)
    if wait.verified:
        assert starts_some_day(engine, key) == wait.sufficient, (key, wait)


def one_grain_less(engine: Engine, key: str, change: Change) -> Iterator[Edit]:
    """Yield a change with a milli-CPU, a pod or a priority less, and with one unit that ends less.

    It is read from what a user is told: the patches, or the sentence.
    """
    record = engine.record(key)
    assert record is not None
    spec = record.unit.spec
    match change.kind:
        case ChangeKind.QUOTA_MAX | ChangeKind.QUOTA_MIN:
            yield limit_less_one(engine, change)
        case ChangeKind.UNITS_END:
            for ended in combinations(change.units, len(change.units) - 1):
                yield end(ended)
        case ChangeKind.PRIORITY:
            priority = int(re.findall(r"priority (-?\d+)", change.description)[0])
            yield edit_spec(record, replace(spec, priority=priority - 1))
        case ChangeKind.REQUEST if not spec.pod_set:
            (patch,) = change.patches
            cpu = amount_of("cpu", patch.patch["spec"]["request"]["cpu"]) + 1
            yield edit_spec(record, replace(spec, request={"cpu": f"{cpu}m"}))
        case ChangeKind.COUNT:
            count, name = re.findall(r" (\d+) pods of (\S+);", change.description)[0]
            more = [
                replace(each, count=int(count) + 1, min_count=None) if each.name == name else each
                for each in spec.pod_set
            ]
            yield edit_spec(record, replace(spec, pod_set=tuple(more)))
        case _:
            return  # it has no amount


def limit_less_one(engine: Engine, change: Change) -> Edit:
    """Return the quota of a change with one milli-CPU less than it says."""
    (patch,) = change.patches
    ((field, listed),) = patch.patch["spec"].items()
    (quota,) = (
        each
        for each in engine.objects.of_kind(ElasticQuota)
        if (each.metadata.namespace, each.metadata.name) == (patch.namespace, patch.name)
    )
    less = {resource: f"{amount_of(resource, text) - 1}m" for resource, text in listed.items()}
    assert list(less) == ["cpu"], change
    spec = replace(quota.spec, **{field: {**getattr(quota.spec, field), **less}})
    return partial(Engine.on_quota, quota=replace(quota, spec=spec))


def check_missing(engine: Engine, key: str, limits: Iterable[tuple[ChangeKind, Edit]]) -> None:
    """Assert that no change of a kind starts the unit where none of that kind is named.

    Args:
        engine: At rest.
        key: The unit.
        limits: All changes of quotas.
    """
    changes = find_changes(engine.fork(), key, WALL)
    if changes is None or is_by_itself(changes):
        return  # it runs, or starts by itself
    named = {each.kind for each in changes.found if each.sufficient}
    for kind, edit in every_change(engine, key, limits):
        # A min that would be above its max is named together with the max.
        got = named | ({ChangeKind.QUOTA_MIN} if ChangeKind.SEVERAL in named else set())
        assert kind in got or not starts(engine, key, (edit,)), f"{key}: {kind} is not named"


def is_by_itself(changes: Changes) -> bool:
    """Return whether a unit starts although nothing is changed, and nothing ends."""
    return any(each.kind is WAIT and each.minimal for each in changes.found)


def starts_some_day(engine: Engine, key: str) -> bool:
    """Return whether a unit starts if all that is admitted ends, again and again."""
    workers = Workers(engine.fork(), choose=max, validates=False)
    workers.wake(queue.name for queue in workers.engine.queues)
    workers.run()
    while True:
        records = workers.engine.units.records
        running = [each.key for each in records.values() if each.occupies]
        if key in running or not running:
            return key in running
        workers.wake(end(running)(workers.engine))
        while not workers.is_quiet():
            decision = workers.step()
            if isinstance(decision, Preempt):
                workers.wake(workers.engine.on_preempted(decision))
                leave(workers, [victim.unit for victim in decision.victims])


def every_change(
    engine: Engine, key: str, limits: Iterable[tuple[ChangeKind, Edit]]
) -> Iterator[tuple[ChangeKind, Edit]]:
    """Yield all changes of a small world's amounts, in whole cores, pods and priorities."""
    record = engine.record(key)
    assert record is not None
    spec = record.unit.spec
    yield from limits
    for priority in range(-1, 6):
        yield ChangeKind.PRIORITY, edit_spec(record, replace(spec, priority=priority))
    occupying = [each.key for each in engine.units.records.values() if each.occupies]
    for count in (1, 2, 3):
        for ended in combinations(occupying, count):
            yield ChangeKind.UNITS_END, end(ended)
    # To request nothing is no advice.
    for cpu in range(1, amount_of("cpu", spec.request.get("cpu", 0)) // 1000):
        yield ChangeKind.REQUEST, edit_spec(record, replace(spec, request={"cpu": cpu}))
    for index, pods in enumerate(spec.pod_set):
        for count in range(1, pods.count):
            fewer = replace(pods, count=count, min_count=None)
            pod_set = (*spec.pod_set[:index], fewer, *spec.pod_set[index + 1 :])
            yield ChangeKind.COUNT, edit_spec(record, replace(spec, pod_set=pod_set))


def every_limit(engine: Engine) -> Iterator[tuple[ChangeKind, Edit]]:
    """Yield each quota with up to twelve cores more."""
    for quota in engine.objects.of_kind(ElasticQuota):
        kinds = {"max": ChangeKind.QUOTA_MAX, "min": ChangeKind.QUOTA_MIN}
        for (field, kind), more in product(kinds.items(), range(1, 13)):
            listed = getattr(quota.spec, field)
            cpu = amount_of("cpu", listed.get("cpu", 0)) // 1000 + more
            spec = replace(quota.spec, **{field: {**listed, "cpu": cpu}})
            if kind is ChangeKind.QUOTA_MIN or "cpu" in listed:
                yield kind, partial(Engine.on_quota, quota=replace(quota, spec=spec))


def starts(engine: Engine, key: str, edits: Iterable[Edit]) -> bool:
    """Return whether changes start a unit in a copy of the engine, as workers would ask it."""
    workers = Workers(engine.fork(), choose=max, validates=False)
    workers.wake(queue.name for queue in workers.engine.queues)
    workers.run()
    for edit in edits:
        workers.wake(edit(workers.engine))
    while not workers.is_quiet():
        decision = workers.step()
        if isinstance(decision, Dequeue) and decision.unit == key:
            return True
        if isinstance(decision, Preempt):
            workers.wake(workers.engine.on_preempted(decision))
            if decision.unit == key:
                leave(workers, [victim.unit for victim in decision.victims])
    return False


def leave(workers: Workers, keys: Iterable[str]) -> None:
    """Let victims stop with all their pods, and wait until they are tried again."""
    engine = workers.engine
    for key in keys:
        record = engine.record(key)
        assert record is not None
        for pod, _ in engine.living_pods.pods_of(record.uid):
            workers.wake(engine.forget_pod(pod))
        gone = changed(record.unit, record.version + 1, "TimeoutBackoff", admissions=())
        workers.wake(engine.on_queue_unit(gone))
