"""Objects with nasty values, on every kind: they are told or refused, and delay no other job.

Both programs work on one thread, so whatever a step raises fails the test: no worker would sleep.
`make poison` does the same with 10,000 objects.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from shared_api.metrics import SharedMetrics
from shared_api.well_known_labels import (
    ACTIVE,
    BACKOFF_LIMIT,
    BACKOFF_TIMEOUT,
    MAX_EXEC_TIME,
    POD_CREATION_TIMEOUT,
    POD_SET_UPDATES,
    PRIORITY,
    RUNNING_TIMEOUT,
)
from tests.queue_scheduler.scheduler_world import running_world
from tests.scenarios.poison_kit import CRDS, ENABLED, KINDS, TEXTS, Poison, poisons, put
from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

OBJECTS: Final = int(os.environ.get("POISON_OBJECTS", "600"))
"""Bad objects: every kind, every key and every value at least once."""

BATCH: Final = 150
"""Objects that are created at a time; after each batch a good job comes."""

MANY: Final = 1_000_000
"""Calls of a step in a row: some wake all jobs."""

TICK_SECONDS: Final = 0.2
"""How exactly the time of a release is known."""

CPU_SECONDS: Final = 0.05
"""Of processor time that a bad object may cost, of all that happens for it: ten times the mean."""

INVALID_FOR: Final = {
    PRIORITY: {"below zero", "a number as JSON"},
    ACTIVE: {"a number as JSON"},
    MAX_EXEC_TIME: {"a number as JSON"},
    RUNNING_TIMEOUT: {"a number as JSON"},
    POD_CREATION_TIMEOUT: {"a number as JSON"},
    BACKOFF_TIMEOUT: {"a number as JSON"},
    BACKOFF_LIMIT: {"a number as JSON"},
    POD_SET_UPDATES: {"an empty map"},
}
"""Annotations that users or the controllers write on jobs, and the nasty values that are valid."""

BAD: Final = {
    "koord_queue_key_errors_total",
    "koord_queue_loop_errors_total",
    "koord_queue_informer_handler_errors_total",
}
"""Metrics that count exceptions."""


@contextmanager
def poisoned_town() -> Iterator[Town]:
    """A cluster with both programs, with quota poor for bad jobs and rich for good ones."""
    with running_world() as scheduling:
        scheduling.direct.create_all(CRDS)
        town = Town(scheduling, cpu=None)
        town.jobs.start(f"--enabled-extensions={ENABLED}")
        scheduling.add_quota("poor", cpu=1)
        scheduling.add_quota("rich", cpu=100_000)
        town.pass_time(1.0)
        yield town


def errors_of(metrics: SharedMetrics) -> dict[str, float]:
    """Return the counts of exceptions that are not 0."""
    samples = (each for family in metrics.registry.collect() for each in family.samples)
    bad = (each for each in samples if each.name in BAD and each.value)
    return {f"{each.name} {each.labels}": each.value for each in bad}


def release_seconds(town: Town, name: str) -> float:
    """Create a good job; return how long it takes until it is resumed."""
    labels = {"quota.scheduling.koordinator.sh/name": "rich"}
    town.jobs.job(name, labels=labels)
    began = town.scheduling.clock.monotonic()
    while town.jobs.is_suspended(name):
        town.pass_time(TICK_SECONDS, MANY)
        waited = town.scheduling.clock.monotonic() - began
        assert waited < 30.0, f"{name} is not resumed"
    return town.scheduling.clock.monotonic() - began


def engine_of(town: Town) -> Engine:
    """Return a copy of the scheduler's engine."""
    scheduler = town.scheduling.scheduler
    assert scheduler is not None
    return scheduler._shared.fork()  # noqa: SLF001 - no door


def reasons_by_name(town: Town) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for event in town.scheduling.direct.list("events.events.k8s.io"):
        found.setdefault(str(event["regarding"]["name"]), set()).add(str(event["reason"]))
    return found


@pytest.mark.usefixtures("logs")
def test_bad_objects_of_every_kind_delay_no_other_job() -> None:
    with poisoned_town() as town:
        usual = release_seconds(town, "alone")
        began, late, made = time.process_time(), [], 0
        for number, poison in enumerate(poisons(OBJECTS)):
            made += put(town.scheduling.direct, poison)
            if number % BATCH == BATCH - 1:
                took = release_seconds(town, f"good-{number}")
                late += [(poison.about, took)] if took > 1.2 * usual + TICK_SECONDS else []
        town.pass_time(5.0, MANY)
        assert late == []
        assert made > OBJECTS / 2, "most are accepted"
        assert errors_of(town.scheduling.metrics) == {}
        assert errors_of(town.jobs.host.metrics) == {}
        assert town.jobs.host.metrics.work_queues.check_failing()[0]
        engine = engine_of(town)
        assert digest(thaw(freeze(engine))) == digest(engine), "the insight program begins with it"
        assert (time.process_time() - began) / OBJECTS < CPU_SECONDS


@pytest.mark.usefixtures("logs")
def test_a_bad_annotation_of_a_job_is_told_or_refused() -> None:
    with poisoned_town() as town:
        made: dict[str, str] = {}
        for key, valid in INVALID_FOR.items():
            for about in TEXTS.keys() - valid:
                body = KINDS[0]()
                name = body["metadata"]["name"] = f"bad-{len(made)}"
                body["metadata"]["annotations"][key] = TEXTS[about]
                if put(town.scheduling.direct, Poison(body, about)):
                    made[name] = f"{key}: {about}"
            town.pass_time(3.0, MANY)
        town.pass_time(5.0, MANY)
        got = reasons_by_name(town)
        silent = [about for name, about in made.items() if "IgnoredAnnotation" not in got[name]]
        assert silent == []
        started = sum(not town.jobs.is_suspended(name) for name in made)
        assert started <= 100, "the quota has room for a hundred of them"
