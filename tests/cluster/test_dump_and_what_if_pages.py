"""The commands of docs/dump.md and docs/what-if.md, run in order, say what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.page_commands import arrange_waiting_job, check_commands
from tests.cluster.queue_world import Cluster


@pytest.fixture(scope="module")
def arranged(cluster: Cluster) -> Cluster:
    """The job that both pages are about waits; the last page lets it start."""
    arrange_waiting_job(cluster)
    return cluster


def test_the_commands_of_the_page_on_dumps_say_what_it_shows(
    arranged: Cluster, tmp_path: Path
) -> None:
    check_commands("dump.md", arranged, tmp_path, least=12)
    assert (tmp_path / "dump.json.gz").exists()


def test_the_commands_of_the_page_on_what_if_say_what_it_shows(
    arranged: Cluster, tmp_path: Path
) -> None:
    check_commands("what-if.md", arranged, tmp_path, least=4)
