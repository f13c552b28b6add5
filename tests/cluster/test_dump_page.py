"""The commands of docs/dump.md, run from top to bottom, say what the page shows."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.page_commands import arrange_waiting_job, check_commands
from tests.cluster.queue_world import Cluster


def test_the_commands_say_what_the_page_shows(cluster: Cluster, tmp_path: Path) -> None:
    arrange_waiting_job(cluster)
    check_commands("dump.md", cluster, tmp_path, least=12)
    assert (tmp_path / "dump.json.gz").exists()
