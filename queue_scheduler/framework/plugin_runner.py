"""All plugins as one: sorts them by extension point once, and asks them in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from queue_scheduler.decision import Refusal
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.plugin_facts import PluginFacts
from queue_scheduler.framework.plugin_placing import PluginPlacing
from queue_scheduler.framework.plugin_waking import PluginWaking
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.framework.taking_part import takes_part
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts


class PluginRunner:
    """Asks the plugins in their order: whether a unit may start, and what is charged for it.

    The other extension points are those of its parts; each asks the same plugins.

    Attributes:
        plugins: All plugins.
        left_out: Plugins that this fork left out.
        placing: Where a unit belongs.
        waking: Which refused classes are woken, and for which units room is kept.
        facts: What the plugins are told, and their notices.
        filters: Plugins that refuse units.
        own: The engine's own filters that refuse anything now (`set_own`).
        reclaiming: Plugins that let owners reclaim what others borrow.
        sparing: Plugins that spare units when owners do that.
        noted: What the unit of the last `reserve` was compared with, if a plugin noted it.
    """

    def __init__(self, plugins: Sequence[points.Plugin]) -> None:
        self.plugins = tuple(plugins)
        self.left_out: tuple[points.Plugin, ...] = ()
        self.placing = PluginPlacing(plugins)
        self.waking = PluginWaking(plugins)
        self.facts = PluginFacts(plugins)
        self.filters = [p for p in plugins if takes_part(p, points.Filter)]
        self.own: tuple[points.OwnFilter, ...] = ()
        self._what_if = {p.name: p for p in plugins if takes_part(p, points.WhatIf)}
        self._by_charges = {p.name for p in plugins if takes_part(p, points.FollowsCharges)}
        self._reserve = [p for p in plugins if takes_part(p, points.Reserve)]
        self.noted: points.AdmissionRecord | None = None
        self._records = [p for p in plugins if takes_part(p, points.AdmissionRecords)]
        self._contention = [p for p in plugins if takes_part(p, points.Contention)]
        self._chains = [p for p in plugins if takes_part(p, points.QuotaChains)]
        self.reclaiming = [p for p in plugins if takes_part(p, points.Reclaiming)]
        self.sparing = [p for p in plugins if takes_part(p, points.MinRunTimes)]

    def __iter__(self) -> Iterator[points.Plugin]:
        return iter(self.plugins)

    @property
    def without_fork(self) -> tuple[str, ...]:
        """Names of plugins that this fork left out."""
        return tuple(plugin.name for plugin in self.left_out)

    # --- deciding -----------------------------------------------------------------------------

    def check(self, info: QueueUnitInfo) -> tuple[Refusal, points.Plugin] | None:
        """Ask the filters; return the first refusal with its plugin, or None."""
        for own in self.own:
            refusal = own.check(info)
            if refusal is not None:
                return refusal, own
        for plugin in self.filters:
            refusal = plugin.check(info)
            if refusal is not None:
                return refusal, plugin
        return None

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[points.Supposed] = ()
    ) -> Refusal | None:
        """Ask the plugins whether a unit would pass with other charges; return the refusal or None.

        The engine's own filters are not asked: whom they refuse now is no head, and evicts nobody,
        and what others release or are charged does not change that.

        Args:
            info: The unit.
            released: Units for which nothing is charged in this question.
            added: Charges that are added in this question.
        """
        for plugin in self.filters:
            what_if = self._what_if.get(plugin.name)
            if what_if is None:
                refusal = plugin.check(info)
            else:
                refusal = what_if.check_without(info, released, added)
            if refusal is not None:
                return refusal
        return None

    def domains(self, quota: str) -> frozenset[str]:
        """Return the limits that units of the quota compete for."""
        return frozenset[str]().union(*(plugin.domains(quota) for plugin in self._contention))

    def chain(self, quota: str) -> tuple[str, ...]:
        """Return the quotas in which a charge to a quota counts, nearest first; "" is in none.

        If several plugins know the quota, the first counts.
        """
        for plugin in self._chains:
            chain = plugin.chain(quota)
            if chain:
                return chain
        return (quota,) if quota else ()

    def follows_charges(self, plugin: points.Plugin) -> bool:
        """Return whether a filter's answers change with charges, quotas and nodes alone."""
        if self.is_own(plugin):
            return takes_part(plugin, points.FollowsCharges)
        return plugin.name in self._by_charges

    def is_own(self, plugin: points.Plugin) -> bool:
        """Return whether a filter is one of the engine's own."""
        return any(own is plugin for own in self.own)

    def set_own(self, own: points.OwnFilter, *, is_on: bool) -> None:
        """Ask this filter before the plugins from now on, or no more, in the order of names."""
        others = [each for each in self.own if each.name != own.name]
        self.own = tuple(sorted([*others, own] if is_on else others, key=lambda each: each.name))
        self.waking.set_own(self.own)

    def reserve(self, info: QueueUnitInfo) -> tuple[Refusal, points.Plugin] | None:
        """Charge with every plugin or, after a refusal or an exception, with none."""
        for index, plugin in enumerate(self._reserve):
            try:
                refusal = plugin.reserve(info)
            except BaseException:
                self._undo_first(index + 1, info.uid)  # it may have charged the unit
                raise
            if refusal is not None:
                self._undo_first(index, info.uid)
                return refusal, plugin
        self.noted = None
        for recorder in self._records:
            self.noted = recorder.noted or self.noted
        return None

    def _undo_first(self, count: int, uid: Uid) -> None:
        for plugin in reversed(self._reserve[:count]):
            plugin.unreserve(uid)

    def unreserve(self, uid: Uid) -> None:
        """Release what is charged for a unit."""
        for plugin in reversed(self._reserve):
            plugin.unreserve(uid)

    def resize(
        self,
        uid: Uid,
        quota: str,
        amounts: Amounts,
        *,
        non_preemptible: bool,
        pods: int,
        firm: Amounts | None = None,
    ) -> None:
        """Charge exactly this for a unit; `firm` is the part that living pods make firm."""
        for plugin in self._reserve:
            if firm and takes_part(plugin, points.ReservePartlyFirm):
                plugin.resize_partly_firm(uid, quota, amounts, firm=firm, pods=pods)
            else:
                plugin.resize(uid, quota, amounts, non_preemptible=non_preemptible, pods=pods)

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> PluginRunner:
        """Return a runner over forks; plugins that cannot fork are left out and named.

        The engine's own filters are not forked; the caller sets those of the copy.
        """
        twin = PluginRunner([p.fork() for p in self.plugins if takes_part(p, points.Forkable)])
        left_out = (p for p in self.plugins if not takes_part(p, points.Forkable))
        twin.left_out = (*self.left_out, *left_out)
        twin.waking.take_over(self.waking)
        return twin
