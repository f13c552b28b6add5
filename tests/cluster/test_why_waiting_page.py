"""The commands of docs/why-waiting.md, run from top to bottom, say what the page shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.page_commands import arrange_waiting_job, check_commands
from tests.cluster.queue_world import OWN_TIMES_SECONDS, Cluster, QueueWorld
from tests.waiting import until


@pytest.fixture
def cluster(controlplane_binaries: Path, tmp_path: Path) -> Iterator[Cluster]:
    """All three programs, since the page asks for a forecast."""
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        world.start_insight(
            f"--socket-dir={tmp_path}", "--forecast-interval=1s", "--forecast-least-runs=0"
        )
        flags = ("--leader-elect=false", f"--insight-socket-dir={tmp_path}")
        scheduler = world.start_scheduler(*flags)
        yield Cluster(world, scheduler, world.start_controllers("--leader-elect=false"))


def has_forecast(cluster: Cluster) -> bool:
    return cluster.scheduler.ask("/debug/queueunits/default/train/forecast").status_code == 200


def test_the_commands_say_what_the_page_shows(cluster: Cluster, tmp_path: Path) -> None:
    arrange_waiting_job(cluster)
    until(lambda: has_forecast(cluster), OWN_TIMES_SECONDS)
    check_commands("why-waiting.md", cluster, tmp_path, least=10)
