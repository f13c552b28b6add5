"""A feed gets every change of its kind."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest

from shared_api.client.resource_types import NAMESPACES
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.event_feed import EventFeed, Seen
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import build_namespace


class World:
    def __init__(self) -> None:
        clock = VirtualClock()
        self.server = FakeApiServer(clock=clock, rng=random.Random(1))
        self.sink: deque[Seen] = deque()
        self.feed = EventFeed(JsonApi(self.server), NAMESPACES, clock, self.sink)

    def create(self, name: str) -> dict[str, Any]:
        return self.server.direct.create(build_namespace(name))

    def news(self) -> list[tuple[str, bool]]:
        for _ in range(3):  # a break, a list, and a watch may each take a step
            self.feed.step()
        got = [(seen.body["metadata"]["name"], seen.is_gone) for seen in self.sink]
        self.sink.clear()
        return got


@pytest.fixture
def world() -> World:
    made = World()
    made.news()
    return made


def test_existing_objects_come_first() -> None:
    world = World()
    world.create("a")
    assert ("a", False) in world.news()


def test_changes_come_in_order(world: World) -> None:
    world.create("a")
    world.server.direct.patch("namespaces", "a", {"metadata": {"labels": {"x": "y"}}})
    assert world.news() == [("a", False), ("a", False)]
    world.server.direct.delete("namespaces", "a")
    assert world.news()[-1] == ("a", True)


def test_versions_are_those_of_the_server(world: World) -> None:
    body = world.create("a")
    world.feed.step()
    assert world.sink[0].version == int(body["metadata"]["resourceVersion"])


@pytest.mark.parametrize("how", ["drop", "end", "expire"])
def test_a_watch_that_ends_loses_nothing(world: World, how: str) -> None:
    world.create("a")
    world.feed.step()
    getattr(world.server.watches, how)()
    world.create("b")
    assert world.news() == [("a", False), ("b", False)]


def test_objects_deleted_between_watches_are_gone(world: World) -> None:
    world.create("a")
    world.news()
    world.server.watches.drop()
    world.server.direct.delete("namespaces", "a")
    world.create("b")
    world.server.compact()
    assert world.news() == [("a", True), ("b", False)]


def test_unblocking_before_the_first_step_is_harmless() -> None:
    World().feed.unblock()
