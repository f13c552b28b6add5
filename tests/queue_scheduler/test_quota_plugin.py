"""A unit that waits has the room of its living pods already: it asks for the rest."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Uid
from shared_api.testing.object_builders import node
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    started,
)

THREE = (("main", 3, 1),)
"""The unit in question: three pods of one core."""


class Room:
    """A quota of so many cores; a unit of three pods, of which some live, waits in it."""

    def __init__(self, mode: QuotaMode, cores: int) -> None:
        plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
        self.engine = Engine(PluginRunner([plugin]), BUILT_IN_POLICIES)
        self.workers = Workers(self.engine)
        self.tell(self.engine.on_node, node("n", allocatable={"cpu": cores}))
        self.tell(self.engine.on_quota, build_quota("a", cpu=cores, guaranteed=cores))
        self.tell(self.engine.on_queue, build_queue("a"))

    def tell(self, door: Any, fact: Any) -> None:
        self.workers.wake(door(fact))
        self.engine.validate()

    def started(self) -> list[str]:
        return started(self.workers.run())

    def open_pods(self, *names: str) -> None:
        for name in names:
            self.tell(self.engine.on_pod, build_pod(name, unit="ns/three", created=9))


MODES = pytest.mark.parametrize("mode", list(QuotaMode))


@MODES
def test_it_fits_beside_its_own_pod(mode: QuotaMode) -> None:
    room = Room(mode, cores=3)
    room.open_pods("p0")
    room.tell(room.engine.on_queue_unit, build_unit("three", "a", pods=THREE))
    assert room.started() == ["three"]
    charge = room.engine.units.bookings.charge_of(Uid("uid-three"))
    assert charge is not None
    assert charge.amounts == {"cpu": 3000}


@MODES
def test_it_does_not_fit_without_room_for_the_rest(mode: QuotaMode) -> None:
    room = Room(mode, cores=3)
    room.tell(room.engine.on_queue_unit, admitted(build_unit("runs", "a"), 2, "Running"))
    room.open_pods("p0")
    room.tell(room.engine.on_queue_unit, build_unit("three", "a", pods=THREE))
    assert room.started() == []
    refusal = room.engine.refusal_of("ns/three")
    assert refusal is not None
    assert refusal.requested == 2000, "of its three, one is used already"


@MODES
@pytest.mark.parametrize(
    "others",
    [
        pytest.param((), id="alone"),
        pytest.param((5, 6), id="with others that ask for the same behind it"),
        pytest.param((1, 5), id="with others that ask for the same before and behind it"),
    ],
)
def test_it_is_woken_when_the_rest_fits(mode: QuotaMode, others: tuple[int, ...]) -> None:
    """It was refused with nothing; then somebody opened a pod, and then the other unit ended."""
    room = Room(mode, cores=3)
    runs = admitted(build_unit("runs", "a", pods=(("main", 2, 1),), version=1), 2, "Running")
    room.tell(room.engine.on_queue_unit, runs)
    for created, name in [(3, "three"), *((created, f"w{created}") for created in others)]:
        unit = build_unit(name, "a", pods=THREE, version=2 + created, created=created)
        room.tell(room.engine.on_queue_unit, unit)
    assert room.started() == []
    room.open_pods("p0")
    assert room.started() == []
    room.tell(room.engine.on_queue_unit, changed(runs, 9, "Succeed"))
    assert room.started() == ["three"]
