"""Users' mistakes, and what a job waits for, are shown by `kubectl describe job`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.queue_world import QUOTA_LABEL, QueueWorld
from tests.waiting import STILL_SECONDS, stays, until


@pytest.fixture(scope="module")
def world(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[QueueWorld]:
    config = tmp_path_factory.mktemp("config") / "controllers.yaml"
    config.write_text("reportUnqueuedJobs: true\n")
    with QueueWorld(controlplane_binaries) as world:
        world.create_quota("gold", cpu_max=2)
        world.create_quota("silver", cpu_max=2)
        world.plane.kubectl("create", "namespace", "quiet")
        world.start_scheduler()
        world.start_controllers(f"--config={config}")
        yield world


def shown(world: QueueWorld, name: str) -> str:
    return world.plane.kubectl("describe", "job", name)


def test_a_misspelled_quota_is_named_on_an_unmanaged_job(world: QueueWorld) -> None:
    misspelled = QUOTA_LABEL.replace("name", "nmae")
    world.create_job("misspelled", "", labels={misspelled: "gold"})
    until(lambda: "KeyWithoutEffect" in world.event_notes("misspelled"))
    text = shown(world, "misspelled")
    assert f"Did you mean {QUOTA_LABEL}?" in text
    assert "no queue will resume it" in text


def test_a_misspelled_setting_is_named_on_a_queued_job(world: QueueWorld) -> None:
    annotations = {"koord-queue/runing-timeout": "10m"}
    world.create_job("set", "gold", cpu="1", annotations=annotations)
    until(lambda: "KeyWithoutEffect" in world.event_notes("set"))
    assert "Did you mean koord-queue/running-timeout?" in shown(world, "set")


def test_a_job_that_waits_names_its_unit_and_its_queue(world: QueueWorld) -> None:
    world.create_job("first", "silver", cpu="2", run_seconds=600)
    until(lambda: not world.job("first")["spec"]["suspend"])
    world.create_job("second", "silver", cpu="2")
    note = until(lambda: world.event_notes("second").get("Queued", ""))
    assert note.startswith("Queue unit second waits in queue silver: ")
    assert "Queued" not in world.event_notes("first")


def test_unmanaged_jobs_among_queued_ones_are_warned_where_enabled(world: QueueWorld) -> None:
    world.create_job("beside", "", suspend=False)
    until(lambda: "NotQueued" in world.event_notes("beside"))
    assert "names no queue or quota" in shown(world, "beside")
    world.create_job("alone", "", suspend=False, namespace="quiet")
    stays(partial(_is_told_nothing, world, "alone"), STILL_SECONDS)


def _is_told_nothing(world: QueueWorld, name: str) -> bool:
    return world.event_notes(name) == {}
