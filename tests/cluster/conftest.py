"""A cluster with both programs running, one per module that requests it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.queue_world import JOBS, QUOTA_LABEL, Cluster, QueueWorld
from tests.waiting import until

LONGEST: Final = (
    "test_many_kinds.py",
    "test_monitoring.py",
    "test_every_kind.py",
    "test_chart.py",
    "test_insight.py",
    "test_visibility_server.py",
    "test_kill_and_restart.py",
    "test_demo_clusters.py",
    "test_command_line_answers.py",
    "test_bad_input.py",
    "test_kinds_come_and_go.py",
    "test_command_line_acts.py",
    "test_jobs.py",
    "test_start_pages.py",
    "test_quota_plugins.py",
    "test_example_commands.py",
    "test_admission_preview.py",
    "test_floods.py",
    "test_insight_answers.py",
    "test_command_line_submit.py",
    "test_conformance_job_side.py",
    "test_gated_pods.py",
    "test_command_line.py",
    "test_how_to_pages.py",
    "test_chart_life.py",
    "test_admission_policy.py",
    "test_conformance_kinds.py",
    "test_page.py",
    "test_strict_queues.py",
    "test_pods_not_ready.py",
    "test_admission_check_life.py",
    "test_pod_templates.py",
    "test_command_line_quotas.py",
    "test_kind_rights.py",
    "test_upgrade.py",
)
"""Files of fifty seconds and more, which start first: no worker is left with one at the end."""

EARLY: Final = "early"
"""A quota, and its Job that runs before the programs start and exceeds the quota."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first."""
    rank = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Both programs run, with default settings; tests use quotas of their own."""
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        world.create_quota(EARLY, cpu_max=1)
        world.create_job(EARLY, EARLY, cpu="2", run_seconds=600, suspend=False)
        until(lambda: world.running_pods(EARLY))
        scheduler = world.start_scheduler("--leader-elect=false")
        yield Cluster(world, scheduler, world.start_controllers("--leader-elect=false"))


@pytest.fixture
def world(cluster: Cluster) -> Iterator[QueueWorld]:
    """The same cluster for every test of a module; a test's Jobs are deleted after it."""
    yield cluster.world
    others = f"{QUOTA_LABEL}%20notin%20({EARLY})"
    path = f"{JOBS.format('default')}?labelSelector={others}"
    cluster.world.api.request("DELETE", path, {"propagationPolicy": "Background"})
