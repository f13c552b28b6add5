"""CRDs that are created after the controllers, deleted, and created again.

No operator is played: the test sees whether jobs are held and in the queue.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.kind_table import BY_KEY, KindRow
from tests.cluster.kind_world import JobLife, KindWorld, kind_world
from tests.cluster.served_kinds import install_crds, remove_crd
from tests.sample_jobs import crd
from tests.waiting import until

SOON_SECONDS: Final = 60.0
"""Time after which jobs of a new kind are held, on a busy machine, too. That ten are enough on an
idle one is tested in virtual time (kind_watch)."""
QUOTA: Final = "come-and-go"
COMES_AND_GOES: Final = ("jobset", "pytorchjob")
MPI: Final = ("mpijob", "mpijobv1")


@pytest.fixture(scope="module")
def place(controlplane_binaries: Path) -> Iterator[KindWorld]:
    """Both programs, and none of the CRDs of their kinds."""
    rows = [BY_KEY[key] for key in ("job", *COMES_AND_GOES, *MPI)]
    with kind_world(controlplane_binaries, rows, without=rows) as place:
        place.create_quota(QUOTA, 1)
        # A kind that was just installed makes the controllers unready while it is listed.
        until(lambda: "widgets" in listed_by(place))
        place.controllers.wait_until_ready()
        yield place


@pytest.mark.parametrize("key", COMES_AND_GOES)
def test_a_kind_is_managed_while_its_crd_exists(place: KindWorld, key: str) -> None:
    row = BY_KEY[key]
    assert place.controllers.get_health("/readyz") == 200
    first = come(place, row)
    go(place, row)
    assert place.controllers.get_health("/readyz") == 200
    assert place.controllers.get_health("/livez") == 200
    other = place.job(BY_KEY["job"], f"beside-{key}")
    other.create(QUOTA, suspend=True)
    other.await_phase("Enqueued")
    second = come(place, row)
    assert second.uid != first.uid
    first.await_gone()
    assert troubles_of(place) == []


def test_the_served_mpi_job_is_managed(place: KindWorld) -> None:
    """Both are enabled. They are served one after the other, never by both adapters."""
    for key in MPI:
        job = come(place, BY_KEY[key])
        assert place.controllers.get_health("/readyz") == 200
        go(place, BY_KEY[key])
        job.await_gone()
    assert troubles_of(place) == []


def come(place: KindWorld, row: KindRow) -> JobLife:
    """Install the CRD of a kind, and wait until a job of it is held and in the queue."""
    install_crds(place.world.plane, crd(row.crd))
    served_at = time.monotonic()
    job = place.job(row, f"{row.key}-comes")
    job.create(QUOTA, suspend=False)
    job.await_phase("Enqueued")
    assert time.monotonic() - served_at < SOON_SECONDS
    assert job.is_suspended()
    return job


def go(place: KindWorld, row: KindRow) -> None:
    """Remove the CRD of a kind, and wait until the controllers no longer watch it."""
    name, (api_version, _, _) = crd(row.crd)["metadata"]["name"], row.api.rpartition("/")
    before = len(ends_of(place, api_version))
    remove_crd(place.world.plane, name)
    until(lambda: len(ends_of(place, api_version)) > before)


def ends_of(place: KindWorld, api_version: str) -> list[object]:
    """Return how often the controllers logged that they no longer watch a kind."""
    return [
        event
        for event in place.controllers.events()
        if event["event"] == "kind is not followed any more" and api_version in str(event["kind"])
    ]


def listed_by(place: KindWorld) -> set[object]:
    """Return the resources that the controllers have listed."""
    events = place.controllers.events()
    return {each["resource"] for each in events if each.get("event") == "cache complete"}


def troubles_of(place: KindWorld) -> list[object]:
    """Return what the controllers logged as errors."""
    return [each for each in place.controllers.events() if each.get("level") == "error"]
