"""Jobs of an operator that forgets them, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from queue_controllers.extensions.batch_job import KIND, BatchJobAdapter

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

TOUCHED = "koord-queue/touched-at"


def test_a_job_without_pods_is_touched_repeatedly_also_by_a_new_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetful = msgspec.structs.replace(KIND, nudge_seconds=30.0)
    monkeypatch.setattr(BatchJobAdapter, "kind", forgetful)
    world.start()
    world.job()
    world.settle()
    world.admit()
    world.settle(25.0)
    assert TOUCHED not in world.get_job()["metadata"]["annotations"]
    world.settle(10.0)
    first = world.get_job()["metadata"]["annotations"][TOUCHED]
    assert "NoPodsYet" in world.notes_on_jobs()
    assert TOUCHED not in world.get_unit()["metadata"]["annotations"]
    world.start()
    world.settle(40.0)
    assert world.get_job()["metadata"]["annotations"][TOUCHED] == first
    world.settle(30.0)
    second = world.get_job()["metadata"]["annotations"][TOUCHED]
    assert second > first
    world.run_pods()
    world.settle(300.0)
    assert world.get_job()["metadata"]["annotations"][TOUCHED] == second
    assert world.phase() == "Running"
