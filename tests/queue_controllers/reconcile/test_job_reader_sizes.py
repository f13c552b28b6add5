"""Waiting jobs whose size another object says: they follow it, over the fake API server."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_controllers.controllers_world import World
from tests.queue_controllers.pod_kit import (
    GATE,
    KINDS,
    gates,
    make_lws,
    make_pod,
    make_set,
    of_group,
    of_set,
    pod_sets,
    reasons,
    run,
)
from tests.sample_jobs import crd

Json = dict[str, Any]

SOON_SECONDS = 3.0
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"


@pytest.fixture
def world() -> World:
    """A cluster with all of the kinds, and controllers for them."""
    world = World()
    for name in ("podgroups", "leaderworkersets"):
        world.direct.create(crd(name))
    world.start(KINDS)
    return world


def reads(world: World, plural: str) -> int:
    """Return how many such objects the controllers have read one by one."""
    return world.server.counts["get", plural, ""]


def scale_set(world: World, replicas: int) -> None:
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": replicas}}, namespace="team")
    world.settle(SOON_SECONDS)


@pytest.mark.parametrize("replicas", [3, 1, 8, 0])
def test_a_waiting_set_follows_its_scale_without_an_event_of_a_pod(
    world: World, replicas: int
) -> None:
    made = make_set(world, 5)
    of_set(world, made, 0)
    world.settle()
    assert pod_sets(world, "db-sts-qu") == {"main": 5}
    scale_set(world, replicas)
    assert pod_sets(world, "db-sts-qu") == {"main": replicas}
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": str(replicas)}


def test_a_set_that_is_scaled_up_as_it_waits_starts_whole(world: World) -> None:
    made = make_set(world, 1)
    of_set(world, made, 0)
    world.settle()
    scale_set(world, 4)
    world.admit_unit("db-sts-qu")
    for number in range(4):
        world.settle()
        assert GATE not in gates(world, f"db-{number}")
        run(world, f"db-{number}")
        if number < 3:
            of_set(world, made, number + 1)


def test_other_changes_of_a_set_need_no_reconcile_and_no_read(world: World) -> None:
    of_set(world, make_set(world, 2), 0)
    world.settle()
    before = reads(world, "statefulsets")
    written = world.server.resource_version
    world.direct.patch("statefulsets", "db", {"spec": {"serviceName": "other"}}, namespace="team")
    status = {"status": {"replicas": 1}}
    world.direct.patch("statefulsets", "db", status, namespace="team", subresource="status")
    world.settle(SOON_SECONDS)
    assert int(world.server.resource_version) == int(written) + 2
    assert reads(world, "statefulsets") == before


# --- groups of a LeaderWorkerSet ------------------------------------------------------------------


def resize_lws(world: World, size: int) -> None:
    spec = {"spec": {"leaderWorkerTemplate": {"size": size}}}
    world.direct.patch("leaderworkersets", "llm", spec, namespace="team")
    world.settle(SOON_SECONDS)


@pytest.mark.parametrize("workers", [0, 1], ids=["its leader alone is there", "with a worker"])
def test_a_waiting_group_follows_the_size_of_its_set(world: World, workers: int) -> None:
    make_lws(world)
    for number in range(workers + 1):
        of_group(world, number)
    world.settle()
    assert pod_sets(world, "llm-1-lws-qu") == {"leader": 1, "workers": 2}
    resize_lws(world, 5)
    assert pod_sets(world, "llm-1-lws-qu") == {"leader": 1, "workers": 4}
    assert world.get_unit("llm-1-lws-qu")["spec"]["request"] == {"cpu": "9"}


def test_a_group_that_runs_has_the_size_that_it_was_created_with(world: World) -> None:
    make_lws(world)
    for number in range(3):
        of_group(world, number)
    world.settle()
    world.admit_unit("llm-1-lws-qu")
    world.settle()
    run(world, "llm-1", "llm-1-1", "llm-1-2")
    world.settle()
    resize_lws(world, 5)
    assert pod_sets(world, "llm-1-lws-qu") == {"leader": 1, "workers": 2}
    assert "Grown" not in reasons(world)


# --- groups that a PodGroup sizes -----------------------------------------------------------------


def pod_group(world: World, members: int) -> None:
    meta = {"name": "pair", "namespace": "team"}
    api = "scheduling.sigs.k8s.io/v1alpha1"
    body = {"apiVersion": api, "kind": "PodGroup", "metadata": meta}
    world.direct.create({**body, "spec": {"minMember": members}})


def test_a_group_follows_the_minimum_of_its_pod_group(world: World) -> None:
    pod_group(world, 5)
    for name in ("pair-0", "pair-1"):
        make_pod(world, name, labels={POD_GROUP: "pair"})
    world.settle(7.0)
    assert world.units() == []
    spec = {"spec": {"minMember": 2}}
    world.direct.patch("podgroups", "pair", spec, namespace="team")
    world.settle(SOON_SECONDS)
    assert sum(pod_sets(world, "pair-pg-qu").values()) == 2


def test_a_group_is_known_as_soon_as_its_pod_group_is_created(world: World) -> None:
    for name in ("pair-0", "pair-1"):
        make_pod(world, name, labels={POD_GROUP: "pair"})
    world.settle(7.0)
    assert world.units() == []
    pod_group(world, 2)
    world.settle(SOON_SECONDS)
    assert world.units() == ["pair-pg-qu"]


def test_a_pod_group_that_is_deleted_sizes_what_is_left_of_its_group(world: World) -> None:
    pod_group(world, 2)
    for name in ("pair-0", "pair-1"):
        make_pod(world, name, labels={POD_GROUP: "pair"})
    world.settle()
    world.admit_unit("pair-pg-qu")
    world.settle()
    world.direct.delete("podgroups", "pair", "team")
    run(world, "pair-0", "pair-1")
    world.settle(SOON_SECONDS)
    assert world.phase("pair-pg-qu") == "Running"
    assert "DemandUnknown" not in reasons(world)


# --- kinds that are missing, come, or may not be watched ------------------------------------------


def test_a_crd_that_comes_late_is_followed_from_then_on() -> None:
    world = World()
    world.start(KINDS)
    make_pod(world, "pair-0", labels={POD_GROUP: "pair"})
    world.settle()
    world.direct.create(crd("podgroups"))
    pod_group(world, 1)
    world.settle(8.0)
    assert world.units() == ["pair-pg-qu"]


def test_a_kind_that_goes_is_not_asked_any_more(world: World) -> None:
    make_lws(world)
    of_group(world, 0)
    of_group(world, 1)
    world.settle()
    assert pod_sets(world, "llm-1-lws-qu") == {"leader": 1, "workers": 2}
    name = "leaderworkersets.leaderworkerset.x-k8s.io"
    world.direct.delete("customresourcedefinitions", name)
    world.settle(20.0)
    of_group(world, 2)
    world.settle()
    assert pod_sets(world, "llm-1-lws-qu") == {"leader": 1, "workers": 2}
    assert world.controllers is not None
    assert all(
        is_ok for is_ok, _ in (check() for check in world.controllers.ready_checks().values())
    )


def test_without_the_right_to_watch_sets_they_are_read_with_their_pods() -> None:
    world = World()
    for verb in ("list", "watch"):
        match = Match(verb=verb, plural="statefulsets")
        world.server.faults.fail(403, times=EVERY_TIME, match=match)
    world.start(KINDS)
    of_set(world, make_set(world, 3), 0)
    world.settle(3.0)
    assert pod_sets(world, "db-sts-qu") == {"main": 3}
    assert world.controllers is not None
    is_ok, detail = world.controllers.ready_checks()["sizes-statefulsets.apps-synced"]()
    assert is_ok
    assert "read one by one" in detail
