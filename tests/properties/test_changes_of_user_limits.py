"""Raising limits of users: what is said to start a unit does, and one grain less does not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.insight.change import Change, ChangeKind
from queue_insight.insight.changes import find_changes
from queue_insight.insight.trials import Edit
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.quota_policy import UserLimit
from shared_api.quantity import amount as amount_of
from tests.properties.engine_checks import QUOTAS
from tests.properties.engine_kit import build_policy
from tests.properties.engine_world import Story
from tests.properties.test_changes import WALL, check_named, is_by_itself, starts
from tests.properties.test_engine_properties import EVERYTHING, numbers, stories
from tests.properties.test_engine_with_quotas import NODES, modes, prepared

pytestmark = pytest.mark.properties

LIMITS = st.lists(
    st.tuples(
        st.sampled_from(QUOTAS),
        st.sampled_from((1, 2, 3, 5)),
        st.sampled_from((None, 0, 1, 2)),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each[0],
)
"""Of up to three quotas: cores, running units, and whether they are of groups."""


def limited(
    mode: QuotaMode, story: Story, limits: list[tuple[str, int, int | None, bool]]
) -> Engine:
    """Return an engine at rest in which each of some quotas limits everybody."""
    world = prepared(mode)
    for quota, cores, running, is_group in limits:
        whose: dict[str, Any] = {"groups" if is_group else "users": ("*",)}
        limit = UserLimit(**whose, max={"cpu": cores}, running=running)
        policy = build_policy(f"p-{quota}", [quota], limit)
        world.workers.wake(world.engine.on_quota_policy(policy))
    world.play(story)
    world.come_to_rest()
    return world.engine


@modes
@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, least=20), limits=LIMITS)
def test_a_change_starts_the_unit_as_it_says(mode: QuotaMode, story: Story, limits: Any) -> None:
    check_named(limited(mode, story, limits))


@modes
@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, least=20), limits=LIMITS)
def test_a_limit_less_one_grain_does_not_start_the_unit(
    mode: QuotaMode, story: Story, limits: Any
) -> None:
    engine = limited(mode, story, limits)
    for key, change in raises(engine):
        assert change.minimal, change
        for edit in less_one(engine, change):
            assert not starts(engine, key, (edit,)), (key, change)


def raises(engine: Engine) -> Iterator[tuple[str, Change]]:
    """Yield the limits to raise that are named, each with its unit."""
    for key in engine.units.records:
        changes = find_changes(engine.fork(), key, WALL)
        for change in () if changes is None else changes.found:
            if change.kind is ChangeKind.USER_LIMIT and change.sufficient:
                yield key, change


@modes
@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, least=20), limits=LIMITS, pick=numbers)
def test_no_limit_starts_a_unit_where_none_is_named(
    mode: QuotaMode, story: Story, limits: Any, pick: int
) -> None:
    engine = limited(mode, story, limits)
    keys = sorted(engine.units.records)
    key = keys[pick % len(keys)]
    changes = find_changes(engine.fork(), key, WALL)
    if changes is None or is_by_itself(changes):
        return
    if not any(each.sufficient and each.kind is ChangeKind.USER_LIMIT for each in changes.found):
        for edit in every_raise(engine):
            assert not starts(engine, key, (edit,)), f"{key}: {edit} is not named"


def less_one(engine: Engine, change: Change) -> Iterator[Edit]:
    """Yield the policy of a change with a milli-CPU, or a running unit, less than it says."""
    (patch,) = change.patches
    stated = engine.policies.find(patch.name)
    assert stated is not None
    wanted = [each for each in patch.operations if each["op"] == "replace"]
    for less in wanted:
        (entry,) = stated.api_object.spec.user_limits
        for each in wanted:
            is_less = each is less
            if each["path"].endswith("/running"):
                entry = replace(entry, running=each["value"] - is_less)
            else:
                milli = amount_of("cpu", each["value"]) - is_less
                entry = replace(entry, max={"cpu": f"{milli}m"})
        yield put(engine, patch.name, entry)


def every_raise(engine: Engine) -> Iterator[Edit]:
    """Yield each policy with more cores, or more running units."""
    for stated in engine.policies:
        name = stated.api_object.metadata.name
        (entry,) = stated.api_object.spec.user_limits
        for more in (1, 3, 12):
            cores = amount_of("cpu", entry.max["cpu"]) // 1000 + more
            yield put(engine, name, replace(entry, max={"cpu": cores}))
            if entry.running is not None:
                yield put(engine, name, replace(entry, running=entry.running + more))


def put(engine: Engine, name: str, entry: UserLimit) -> Edit:
    stated = engine.policies.find(name)
    assert stated is not None
    spec = replace(stated.api_object.spec, user_limits=(entry,))
    return partial(Engine.on_quota_policy, policy=replace(stated.api_object, spec=spec))
