"""Metrics of both programs on a real cluster: no series of a deleted object is left, by any label.

Every object of these tests has one word in its name. So a new metric that keeps a label of a
deleted object is found without being listed. The controllers label their series by kind, never by
object: their Jobs leave none, and the series of a kind are removed with its CRD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.program_metrics import counted, scrape
from tests.cluster.program_process import CONTROLLERS, ProgramProcess
from tests.cluster.queue_world import (
    OWN_TIMES_SECONDS,
    QUEUES,
    QUOTAS,
    UNITS,
    Cluster,
    Json,
    QueueWorld,
    unit_view,
)
from tests.cluster.served_kinds import install_crds, remove_crd
from tests.sample_jobs import crd
from tests.waiting import until

MARK: Final = "passing"
NAMES: Final = [f"{MARK}-{number}" for number in range(30)]
"""Names of namespaces, and of the Job in each."""
_NAMESPACES: Final = "/api/v1/namespaces"
_NAME: Final = re.compile(r"^\w+")


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Both programs, with default settings."""
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        scheduler = world.start_scheduler("--leader-elect=false")
        flags = ("--enabled-extensions=job,jobset", "--leader-elect=false")
        yield Cluster(world, scheduler, world.start(CONTROLLERS, *flags))


def marked(program: ProgramProcess, word: str = MARK) -> list[str]:
    """Return the series with a label that has the word."""
    series = re.compile(rf'^\w+\{{.*"[^"]*{word}[^"]*".*\}} ')
    lines = scrape(program).raise_for_status().text.splitlines()
    return [line for line in lines if series.match(line)]


def metrics_of(lines: list[str]) -> set[str]:
    return {found[0] for line in lines if (found := _NAME.match(line)) is not None}


def create_unit(world: QueueWorld, namespace: str, name: str, kind: str) -> None:
    """Create a unit of an unknown kind of job; the word is in all of its references."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    consumer = {"apiVersion": "example.com/v1", "kind": kind, "name": name}
    body: Json = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": {
            "name": name,
            "labels": {"quota.scheduling.koordinator.sh/name": f"{MARK}-quota"},
        },
        "spec": {
            "consumerRef": {**consumer, "namespace": namespace, "uid": name},
            "podSet": [{"name": "main", "template": {"spec": {"containers": [container]}}}],
        },
    }
    world.api.request("POST", UNITS.format(namespace), body)


def test_no_series_is_left_of_deleted_objects(cluster: Cluster) -> None:
    world, scheduler, controllers = cluster
    world.create_quota(f"{MARK}-quota", cpu_max=len(NAMES))
    world.create_queue(f"{MARK}-queue", "Priority")
    for name in NAMES:
        world.api.request("POST", _NAMESPACES, {"metadata": {"name": name}})
        world.create_job(name, f"{MARK}-quota", namespace=name, run_seconds=600)
        create_unit(world, name, f"{MARK}-unit", "Passing")
    for name in NAMES:
        until(lambda name=name: unit_view(scheduler, f"{MARK}-unit", name))  # type: ignore[misc] # bound
        until(lambda name=name: world.unit_of(name, name))  # type: ignore[misc] # bound
    until(lambda: len([each for each in marked(scheduler) if "by_namespace" in each]) >= 3)
    seen = metrics_of(marked(scheduler))
    assert {
        "queueunits_by_job_type",
        "queueunits_coming_rate_by_job_type",
        "dequeued_quota_usage_by_namespace",
        "dequeued_quota_usage_by_quota",
        "koord_queue_pending_units",
        "koord_queue_admitted_units_total",
        "koord_queue_quota_max",
    } <= seen
    # By now the controllers have done all that could add a series for an object.
    assert counted(controllers, "koord_queue_jobs", extension="job") == len(NAMES)
    assert counted(controllers, "koord_queue_job_actions_total", outcome="done") >= len(NAMES)
    for name in NAMES:
        world.api.request("DELETE", f"{_NAMESPACES}/{name}")
    world.api.request("DELETE", f"{QUOTAS.format('default')}/{MARK}-quota")
    world.api.request("DELETE", f"{QUEUES}/{MARK}-queue")
    until(lambda: not marked(scheduler), seconds=OWN_TIMES_SECONDS)
    until(lambda: counted(controllers, "koord_queue_jobs", extension="job") == 0)
    assert marked(controllers) == []


def test_no_series_is_left_of_a_deleted_kind(cluster: Cluster) -> None:
    definition = crd("jobsets")
    install_crds(cluster.world.plane, definition)
    until(lambda: marked(cluster.controllers, "jobsets"), seconds=OWN_TIMES_SECONDS)
    remove_crd(cluster.world.plane, definition["metadata"]["name"])
    until(lambda: not marked(cluster.controllers, "jobsets"), seconds=OWN_TIMES_SECONDS)
