"""A change that comes as a worker gives its job up is not lost: one of the two queues the job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.queue_controllers.controllers_world import World


class JustBefore(set[str]):
    """The keys at work: something happens just before the first one is given up."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self.happens: Callable[[], None] | None = happens

    def discard(self, key: object, /) -> None:
        """Give a key up."""
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        super().discard(key)


class JustAfter(set[str]):
    """The keys at work: the first look finds a key that is given up right after it."""

    is_looked_at = False

    def __contains__(self, key: object, /) -> bool:
        """Return whether a worker has a key."""
        is_first, self.is_looked_at = not self.is_looked_at, True
        return is_first or super().__contains__(key)


def watch(world: World, monkeypatch: pytest.MonkeyPatch, keys: set[str]) -> None:
    assert world.controllers is not None
    for server in world.controllers.servers:
        monkeypatch.setattr(server.reconciler, "_at_work", keys)


def admit(world: World) -> None:
    world.admit()
    world.deliver()


def test_a_change_just_before_the_worker_gives_its_job_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    keys = JustBefore(lambda: admit(world))
    watch(world, monkeypatch, keys)
    world.job()
    world.settle(0.1)
    assert keys.happens is None
    assert not world.is_suspended()


def test_a_change_while_the_worker_gives_its_job_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.job()
    world.settle()
    keys = JustAfter()
    watch(world, monkeypatch, keys)
    admit(world)
    assert keys.is_looked_at
    world.settle(0.1)
    assert not world.is_suspended()
