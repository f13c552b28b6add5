"""Which refused classes the plugins wake, and for which pending units they keep room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from queue_scheduler.decision import Refusal
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.framework.taking_part import takes_part


class PluginWaking:
    """The refused classes, each with the plugin that wakes it, and those that any fact wakes.

    Attributes:
        waking_in_turn: Plugins whose classes are offered room in turn.
        guarantees: Plugins that keep room for the first pending units.
        has_guarantees: Whether there are any of these.
        waits_for_anything: Classes refused by a plugin that cannot say what would help them: any
            fact wakes them.
        wakes_at_once: Whether any plugin returns the classes that a fact lets in.
    """

    def __init__(self, plugins: Sequence[points.Plugin]) -> None:
        self._waking = [p for p in plugins if takes_part(p, points.Waking)]
        self.waking_in_turn = [p for p in plugins if takes_part(p, points.WakingInTurn)]
        self._all_waking: tuple[points.Waking | points.WakingInTurn, ...] = (
            *self._waking,
            *self.waking_in_turn,
        )
        self._own: tuple[points.OwnFilter, ...] = ()
        self._waking_by_name = {
            p.name: p
            for p in plugins
            if takes_part(p, points.Waking) or takes_part(p, points.WakingInTurn)
        }
        self.guarantees = [p for p in plugins if takes_part(p, points.Guarantees)]
        self.has_guarantees = bool(self.guarantees)
        self.wakes_at_once = bool(self._waking)
        self.waits_for_anything: dict[points.Waiter, None] = {}
        # Classes taken from plugins and not yet returned, since a later plugin raised.
        self._taken: list[points.Waiter] = []

    def set_own(self, own: tuple[points.OwnFilter, ...]) -> None:
        """Offer room to the classes that these filters have refused as well."""
        before: Sequence[object] = self.waking_in_turn
        without = [each for each in before if all(each is not own for own in self._own)]
        self.waking_in_turn = cast("Any", [*without, *own])
        self._all_waking = (*self._waking, *self.waking_in_turn)
        self._own = own

    def wait(
        self, waiter: points.Waiter, info: QueueUnitInfo, refusal: Refusal, by: points.Plugin
    ) -> None:
        """Register a refused class with the plugin that refused it."""
        own = next((each for each in self._own if each is by), None)
        waking = own or self._waking_by_name.get(by.name)
        if waking is not None:
            waking.wait(waiter, info, refusal)
        else:
            self.waits_for_anything[waiter] = None

    def stop_waiting(self, waiter: points.Waiter) -> None:
        """Forget a class."""
        self.waits_for_anything.pop(waiter, None)
        for plugin in self._all_waking:
            plugin.stop_waiting(waiter)

    def take_woken(self, *, anything_changed: bool) -> list[points.Waiter]:
        """Return the classes that may start now, except those that are offered room in turn."""
        taken = self._taken
        if anything_changed and self.waits_for_anything:
            taken.extend(self.waits_for_anything)
            self.waits_for_anything.clear()
        for plugin in self._waking:
            taken.extend(plugin.take_woken())
        self._taken = []
        return taken

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Pass on the first pending unit of a quota; None: there is none."""
        for plugin in self.guarantees:
            plugin.protect(quota, info)

    def keeps_room_for(self, quota: str) -> bool:
        """Return whether a plugin keeps room for the first pending unit of a quota."""
        for plugin in self.guarantees:  # noqa: SIM110 - no generator: asked for every unit
            if plugin.keeps_room_for(quota):
                return True
        return False

    def take_over(self, other: PluginWaking) -> None:
        """Copy the classes of another, of whose plugins these are forks."""
        self.waits_for_anything = dict(other.waits_for_anything)
        self._taken = list(other._taken)
