"""The controllers' metrics, read from a scrape of the running program."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from queue_controllers.metrics import ControllersMetrics
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector, UnitMetrics
from shared_api.fake_api_server.faults import Match
from tests.queue_controllers.controllers_world import World
from tests.queue_scheduler.shell_kit import ShellKit

EXPECTED = {
    "koord_queue_job_actions_total": "extension action outcome",
    "koord_queue_job_kind_served": "extension",
    "koord_queue_jobs": "extension",
    "controller_runtime_reconcile_errors_total": "controller",
    "koord_queue_build_info": "component version python_version",
    "koord_queue_leader": "",
    "koord_queue_takeover_seconds": "part",
    "workqueue_depth": "name",
    "workqueue_adds_total": "name",
    "workqueue_retries_total": "name",
    "workqueue_work_duration_seconds_bucket": "name le",
    "koord_queue_informer_objects": "resource",
    "koord_queue_informer_synced": "resource",
}


@pytest.fixture
def world() -> World:
    return World()


def value(world: World, name: str, **labels: str) -> float | None:
    return world.host.metrics.registry.get_sample_value(name, labels)


def test_every_name_exists_with_its_labels(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    text = world.host.metrics.exposition()[0].decode()
    samples = [
        sample for family in text_string_to_metric_families(text) for sample in family.samples
    ]
    found = {sample.name: set(sample.labels) for sample in samples}
    assert {name: found.get(name) for name in EXPECTED} == {
        name: set(labels.split()) for name, labels in EXPECTED.items()
    }


def test_failed_reconciles_are_counted_and_conflicts_are_not(world: World) -> None:
    errors = "controller_runtime_reconcile_errors_total"
    world.start()
    assert value(world, errors, controller="job") == 0
    create = Match(plural="queueunits", verb="create")
    world.server.faults.fail(409, times=1, match=create)
    world.job()
    world.settle(3.0)
    assert world.units() != []
    assert value(world, errors, controller="job") == 0
    world.server.faults.fail(403, times=2, match=create)
    world.job("other")
    world.settle(3.0)
    assert value(world, errors, controller="job") == 2


def test_metrics_of_only_one_program_have_other_names() -> None:
    kit, scheduler, controllers = ShellKit(), CollectorRegistry(), CollectorRegistry()
    scheduler.register(StateCollector(kit.shared, SchedulerMetrics(scheduler)))
    scheduler.register(UnitMetrics(kit.shared, lambda: True, kit.clock))
    ControllersMetrics(controllers)
    names = [{family.name for family in each.collect()} for each in (scheduler, controllers)]
    assert min(map(len, names)) > 3
    assert names[0] & names[1] == set()
