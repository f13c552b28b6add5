"""A manifest is said to start now exactly if its unit, told to the engine itself, does."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given

from queue_insight.try_out.submission import TryOut, read_manifest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.well_known_labels import MAX_EXEC_TIME, PRIORITY, QUEUE_NAME, QUOTA_NAME
from tests.properties.engine_checks import QUEUES, QUOTAS
from tests.properties.engine_world import NAMESPACES, Story, World
from tests.properties.test_changes import WALL, at_rest, starts
from tests.properties.test_engine_properties import EVERYTHING, numbers, stories
from tests.properties.test_engine_with_quotas import NODES, modes

pytestmark = pytest.mark.properties


def manifest(a: int, b: int) -> bytes:
    """Return a Job that names a quota, and perhaps a queue."""
    labels = {QUOTA_NAME: QUOTAS[a % len(QUOTAS)]}
    if b % 3 == 0:
        labels[QUEUE_NAME[0]] = QUEUES[b % len(QUEUES)]
    annotations = {PRIORITY: str(a % 4)} | ({MAX_EXEC_TIME: str(60 * b + 1)} if b % 2 else {})
    requests = {"cpu": 1 + a % 3}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    count = 1 + b % 2
    spec = {"suspend": True, "parallelism": count, "completions": count, "template": {"spec": pod}}
    meta = {"name": "tried", "namespace": NAMESPACES[b % 2], "labels": labels}
    meta["annotations"] = annotations
    return json.dumps(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
    ).encode()


def bare(name: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name))


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30), a=numbers, b=numbers)
def test_it_starts_now_exactly_if_the_unit_does(
    mode: QuotaMode, story: Story, a: int, b: int
) -> None:
    world: World = at_rest(mode, story)
    found = read_manifest(manifest(a, b), is_json=True, namespace="ns")
    before = dict(world.engine.units.records)
    (tried,) = TryOut(world.engine.fork(), WALL, bare).submit(found, with_changes=b % 5 == 0)
    assert tried.unit is not None, tried.verdict.message
    assert (tried.explanation is None) is tried.starts
    apply = partial(Engine.on_queue_unit, unit=tried.unit)
    assert starts(world.engine, tried.unit.metadata.key, (apply,)) is tried.starts
    assert world.engine.units.records == before, "the engine itself learns nothing of it"
