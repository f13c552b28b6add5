"""What is said of objects of a manifest that exist."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from queue_insight.debug_api.try_views import TriedJob, view_tried
from shared_api.objects.queue_unit import QueueUnitStatus
from tests.queue_insight.insight.changes_kit import SmallCluster
from tests.queue_insight.try_out.test_submission import Json, create, job, quota, submit


def viewed(cluster: SmallCluster, body: Json) -> TriedJob:
    (tried,) = submit(cluster, body)
    return view_tried(tried, leader=True)


def nothing(cluster: SmallCluster) -> None:
    """Leave the job where it does not exist."""


def waiting(cluster: SmallCluster) -> None:
    cluster.run("old", cpu=3)
    create(cluster, job(cpu=2))


def admitted(cluster: SmallCluster) -> None:
    create(cluster, job(cpu=2))


def ended(cluster: SmallCluster) -> None:
    unit = create(cluster, job(cpu=2))
    meta = replace(unit.metadata, resource_version="99")
    cluster.apply(replace(unit, metadata=meta, status=QueueUnitStatus(phase="Succeed")))


@pytest.mark.parametrize(
    ("before", "phase", "summary"),
    [
        pytest.param(nothing, "", "It would start now in queue a.", id="it does not exist"),
        pytest.param(waiting, "Enqueued", "It exists already. It would not start now. It waits",
            id="it waits"),
        pytest.param(admitted, "Enqueued", "It exists already. It has been admitted in queue a.",
            id="it was admitted, which is not written yet"),
        pytest.param(ended, "Succeed", "It exists already. It has ended.", id="it has ended"),
    ],
)  # fmt: skip
def test_a_job(before: Callable[[SmallCluster], None], phase: str, summary: str) -> None:
    cluster = SmallCluster()
    before(cluster)
    got = viewed(cluster, job(cpu=2))
    assert (got.exists, got.phase) == (bool(phase), phase)
    assert got.summary.startswith(summary)


@pytest.mark.parametrize(
    ("amount", "summary"),
    [
        pytest.param(9, "It exists, and is no job: jobs are tried with it", id="it counts"),
        pytest.param("many", "It could not be updated: spec.min.cpu: ", id="it is refused"),
    ],
)
def test_a_quota(amount: int | str, summary: str) -> None:
    assert viewed(SmallCluster(), quota(amount)).summary.startswith(summary)
