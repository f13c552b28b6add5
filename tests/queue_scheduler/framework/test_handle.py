"""The handle that plugins are written against is the one they get."""

from __future__ import annotations

from fractions import Fraction

from queue_scheduler.framework.handle import Caches, Handle, PluginFactory, RouteGroup
from queue_scheduler.setup.plugin_handle import PluginHandle
from tests.queue_scheduler.setup.test_plugin_handle import build_caches
from tests.queue_scheduler.shell_kit import HeldWrites, SentEvents, ShellKit


def test_a_plugin_that_knows_only_the_protocol_can_use_all_of_it(kit: ShellKit) -> None:
    """The annotations are the test: `mypy` rejects a handle that lacks something."""
    made = PluginHandle(build_caches(kit), Fraction(1), SentEvents(), HeldWrites())
    made.attach(kit.shared)
    used: list[object] = []

    def build(_arguments: object, handle: Handle) -> object:
        caches: Caches = handle.caches
        group: RouteGroup = handle.debug_group("mine")
        used.extend([caches, group, handle.oversell_rate, handle.units_of_quota("team")])
        return object()

    factory: PluginFactory = build
    factory({}, made)
    assert len(used) == 4
    assert used[2:] == [Fraction(1), ()]
