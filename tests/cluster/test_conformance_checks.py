"""Upstream's conformance list about checks, conditions and activation, on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.check_situations import (
    ADMISSION_CHECK_CRD,
    SITUATIONS,
    Json,
    Situation,
    activity,
    admission_check,
)
from tests.cluster.kueue_objects import CHECK, path_of, take_newer_version_away
from tests.cluster.queue_world import MERGE, UNITS, QueueWorld
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of
from tests.waiting import PATIENCE_SECONDS, until, within

CHECKS = path_of(CHECK)
OLDER_CHECKS = path_of(CHECK, version="v1beta1")
INACTIVE = "AdmissionCheckInactive"


class RealCluster:
    """A `Cluster` of `check_situations` with a real API server."""

    def __init__(self, world: QueueWorld) -> None:
        self._world = world

    def create_quota(self, name: str, *, cpu_max: int, labels: Mapping[str, str]) -> None:
        self._world.create_quota(name, cpu_max=cpu_max, labels=dict(labels))

    def create_unit(self, body: Json) -> None:
        self._world.api.request("POST", UNITS.format("default"), body)

    def unit(self, name: str) -> Json:
        return self._world.unit(name)

    def patch_unit(self, name: str, body: Json) -> None:
        self._world.patch_unit(name, body)

    def patch_queue(self, name: str, body: Json) -> None:
        self._world.patch_queue(name, body)
        # Units come by another watch, and may arrive before this. No check exists here, or
        # is active, and the queue reports that.
        until(
            lambda: condition_of(self._world.queue(name), "Ready").get("reason", "Ready") != "Ready"
        )

    def has_queue(self, name: str) -> bool:
        return self._world.has_queue(name)

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        return within(seconds, what)


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    with QueueWorld(controlplane_binaries) as world:
        world.start_scheduler("--leader-elect=false")
        yield world


def situation_in(world: QueueWorld, prefix: str) -> Situation:
    return Situation(RealCluster(world), prefix, patience_seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("number", SITUATIONS)
def test_upstreams_list(world: QueueWorld, number: str) -> None:
    SITUATIONS[number](situation_in(world, number.lower()))


def test_kueues_check_that_is_not_active_holds_units_until_it_is(world: QueueWorld) -> None:
    """The CRD is created while the scheduler runs, in two versions."""
    situation = situation_in(world, "kueue")
    situation.quota(cpu=4)
    situation.ask("nodes")
    install_crds(world.plane, ADMISSION_CHECK_CRD)
    world.api.request("POST", CHECKS, admission_check("nodes"))
    say(world, f"{CHECKS}/nodes", "False", "no controller")
    queue = partial(world.queue, "kueue")
    until(lambda: condition_of(queue(), "Ready").get("reason") == "AdmissionCheckInactive")
    situation.create("u")
    until(lambda: situation.condition("u", "QuotaReserved").get("reason") == INACTIVE)
    say(world, f"{CHECKS}/nodes", "True")
    situation.becomes("u", "Reserved")
    situation.say("u", nodes="Ready")
    situation.becomes("u", "Dequeued")


def test_an_older_kueue_has_only_the_older_version(world: QueueWorld) -> None:
    """The check is watched in that version: it is created inactive, and becomes active."""
    take_newer_version_away(world)
    situation = situation_in(world, "older")
    situation.quota(cpu=4)
    situation.ask("older")
    check = {**admission_check("older"), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    world.api.request("POST", OLDER_CHECKS, check)
    say(world, f"{OLDER_CHECKS}/older", "False")
    queue = partial(world.queue, "older")
    until(lambda: condition_of(queue(), "Ready").get("reason") == INACTIVE)
    situation.create("u")
    until(lambda: situation.condition("u", "QuotaReserved").get("reason") == INACTIVE)
    say(world, f"{OLDER_CHECKS}/older", "True")
    situation.becomes("u", "Reserved")


def say(world: QueueWorld, check: str, active: str, message: str = "") -> None:
    """Set whether a check is active, as its controller does."""
    status = activity(active, message)
    world.api.request("PATCH", f"{check}/status", status, content_type=MERGE)
