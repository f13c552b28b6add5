"""Two extensions for one kind: the version that the server serves decides between them."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from shared_api.informer.kind_watch import POLL_SECONDS
from tests.queue_controllers.reservations.reservation_kit import KoordScheduler
from tests.sample_jobs import crd, sample

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]

BOTH = "--enabled-extensions=mpijob,mpijobv1"
CRDS = "customresourcedefinitions"


def both_versions() -> Json:
    """Return a CRD with both versions."""
    merged = crd("mpijobs-v2beta1")
    other = deepcopy(crd("mpijobs-v1")["spec"]["versions"][0])
    merged["spec"]["versions"].append({**other, "storage": False})
    return merged


def detail(world: World, key: str) -> str:
    """Return a probe's detail about an extension's cache."""
    assert world.controllers is not None
    return world.controllers.ready_checks()[f"{key}-synced"]()[1]


def create(world: World, key: str, name: str = "sample") -> Json:
    """Create a sample in a queue."""
    body = sample(key)
    body["metadata"] |= {"name": name, "namespace": "team"}
    return world.direct.create(body)


@pytest.mark.parametrize(
    ("served", "other"),
    [
        pytest.param("mpijobv1", "mpijob", id="the training-operator's"),
        pytest.param("mpijob", "mpijobv1", id="the mpi-operator's"),
    ],
)
def test_both_may_be_enabled(world: World, served: str, other: str) -> None:
    files = {"mpijobv1": "mpijobs-v1", "mpijob": "mpijobs-v2beta1"}
    world.direct.create(crd(files[served]))
    world.start(BOTH)
    create(world, served)
    world.settle()
    assert world.units() == ["sample-mpi-qu"]
    assert world.direct.get("mpijobs", "sample", "team")["spec"]["runPolicy"]["suspend"] is True
    assert detail(world, served) == "1 mpijobs"
    assert detail(world, other).endswith(
        f"waits while extension {served} serves that kind in another version"
        if served == "mpijob"
        else "is not served, waiting for its CRD"
    )


def test_one_of_them_manages_a_kind_served_in_both_versions(world: World) -> None:
    world.direct.create(both_versions())
    world.start(BOTH)
    create(world, "mpijob", "a")
    create(world, "mpijobv1", "b")
    world.settle(3 * POLL_SECONDS)
    assert sorted(world.units()) == ["a-mpi-qu", "b-mpi-qu"]
    assert detail(world, "mpijob") == "2 mpijobs"
    waits = "waits while extension mpijob serves that kind in another version"
    assert detail(world, "mpijobv1").endswith(waits)


def test_the_other_takes_over_with_its_crd(world: World) -> None:
    """The operator is replaced: the jobs of the first are deleted with its CRD."""
    world.direct.create(crd("mpijobs-v1"))
    world.start(BOTH)
    create(world, "mpijobv1", "old")
    world.settle()
    world.direct.delete(CRDS, "mpijobs.kubeflow.org")
    world.direct.create(crd("mpijobs-v2beta1"))
    create(world, "mpijob", "new")
    world.settle(4 * POLL_SECONDS)
    assert world.units() == ["new-mpi-qu"]
    assert detail(world, "mpijob") == "1 mpijobs"


def test_nodes_are_reserved_for_jobs_of_the_active_extension(world: World) -> None:
    """The one that waits knows none of them."""
    KoordScheduler(world.direct).install()
    world.direct.create(crd("mpijobs-v1"))
    world.start("--enable-reservation", BOTH)
    create(world, "mpijobv1")
    world.settle()
    (name,) = world.units()
    admissions = [
        {"name": role, "replicas": n, "running": 0} for role, n in (("launcher", 1), ("worker", 2))
    ]
    now = world.now()
    times = {"lastAllocateTime": now, "lastUpdateTime": now}
    status = {"phase": "SchedReady", "attempts": 1, "admissions": admissions, **times}
    world.patch_unit_status(status, name)
    world.settle()
    assert len(KoordScheduler(world.direct).reservations()) == 3
