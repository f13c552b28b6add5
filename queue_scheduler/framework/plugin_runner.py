"""All plugins as one: sorts them by extension point once, and asks them in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from msgspec.structs import replace

from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.queue_unit_info import (
    OrderKey,
    QueueUnitInfo,
    read_chosen_queue,
)
from queue_scheduler.quota.quota_view import QuotaView
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import PREEMPTIBLE

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # in typing from Python 3.13 on

_Point = TypeVar("_Point")


class PluginRunner:
    """Runs every extension point over the plugins that take part in it, in their order.

    Attributes:
        plugins: All plugins.
        waking_in_turn: Plugins whose classes are offered room in turn.
        guarantees: Plugins that keep room for the first pending units.
        has_guarantees: Whether there are any of these.
        waits_for_anything: Classes refused by a plugin that cannot say what would help them: any
            fact wakes them.
        wakes_at_once: Whether any plugin returns the classes that a fact lets in.
        reclaiming: Plugins that let owners reclaim what others borrow.
        has_own_labels: Whether any plugin reads its own label about preemption.
        noted: What the unit of the last `reserve` was compared with, if a plugin noted it.
    """

    def __init__(self, plugins: Sequence[points.Plugin]) -> None:
        # At most 30 attributes: beyond, CPython reads each of them more slowly.
        self.plugins = tuple(plugins)
        self._left_out: tuple[points.Plugin, ...] = ()
        self._mapping = [p for p in plugins if _takes_part(p, points.QueueUnitMapping)]
        self._multi_queue_sort = [p for p in plugins if _takes_part(p, points.MultiQueueSort)]
        self._score = [p for p in plugins if _takes_part(p, points.Score)]
        self._queue_sort = [p for p in plugins if _takes_part(p, points.QueueSort)]
        self._filter = [p for p in plugins if _takes_part(p, points.Filter)]
        self._what_if = {p.name: p for p in plugins if _takes_part(p, points.WhatIf)}
        self._by_charges = {p.name for p in plugins if _takes_part(p, points.FollowsCharges)}
        self._request_checks = [p for p in plugins if _takes_part(p, points.RequestChecks)]
        self._class_keys = [p for p in plugins if _takes_part(p, points.ClassKeys)]
        self._keyless = any(not _takes_part(p, points.ClassKeys) for p in self._filter)
        self._reserve = [p for p in plugins if _takes_part(p, points.Reserve)]
        self.noted: points.AdmissionRecord | None = None
        self._records = [p for p in plugins if _takes_part(p, points.AdmissionRecords)]
        self._waking = [p for p in plugins if _takes_part(p, points.Waking)]
        self.waking_in_turn = [p for p in plugins if _takes_part(p, points.WakingInTurn)]
        self._all_waking: tuple[points.Waking | points.WakingInTurn, ...] = (
            *self._waking,
            *self.waking_in_turn,
        )
        self._waking_by_name = {
            p.name: p
            for p in plugins
            if _takes_part(p, points.Waking) or _takes_part(p, points.WakingInTurn)
        }
        self._contention = [p for p in plugins if _takes_part(p, points.Contention)]
        self.guarantees = [p for p in plugins if _takes_part(p, points.Guarantees)]
        self.has_guarantees = bool(self.guarantees)
        self.reclaiming = [p for p in plugins if _takes_part(p, points.Reclaiming)]
        self._facts = [p for p in plugins if _takes_part(p, points.ClusterFacts)]
        self._providers = [p for p in plugins if _takes_part(p, points.QuotaProvider)]
        self._own_labels = [p for p in plugins if _takes_part(p, points.OwnPreemptibleLabel)]
        self.has_own_labels = bool(self._own_labels)
        self._readiness = [p for p in plugins if _takes_part(p, points.QueueReadiness)]
        self.wakes_at_once = bool(self._waking)
        self.waits_for_anything: dict[points.Waiter, None] = {}
        # Classes taken from plugins and not yet returned, since a later plugin raised.
        self._taken: list[points.Waiter] = []

    def __iter__(self) -> Iterator[points.Plugin]:
        return iter(self.plugins)

    @property
    def without_fork(self) -> tuple[str, ...]:
        """Names of plugins that this fork left out."""
        return tuple(plugin.name for plugin in self._left_out)

    # --- placing ------------------------------------------------------------------------------

    def map_unit(
        self, unit: QueueUnit, queues: points.QueueDirectory
    ) -> points.Mapped | points.Unmapped:
        """Ask the mapping plugins; the first answer counts (`QueueUnitMapping`)."""
        queue = ""
        held: points.Unmapped | None = None
        for plugin in self._mapping:
            answer = plugin.map_unit(unit, queues)
            match answer:
                case None:
                    pass
                case points.Mapped(quota=""):
                    queue = queue or answer.queue
                case points.Mapped():
                    return points.Mapped(answer.quota, queue or answer.queue)
                case points.Unmapped() if answer.refusal.reason is Reason.NO_QUOTA:
                    held = answer if held is None else _wait_for_both(held, answer)
                case points.Unmapped() if queue and _is_about_its_queue(answer.refusal):
                    return points.Mapped(answer.refusal.quota, queue)
                case points.Unmapped():
                    return answer
        if held is not None:
            return _look_for_queue(unit, replace(held, queue=queue or held.queue), queues)
        if queue:
            return points.Mapped("", queue)
        refusal = Refusal(reason=Reason.NO_QUEUE, detail="no plugin maps this unit to a queue")
        return points.Unmapped(refusal, ())

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit whose pods lack a request may not be pending, or None."""
        for plugin in self._request_checks:
            refusal = plugin.check_requests(info)
            if refusal is not None:
                return refusal
        return None

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the governed resources of its quota if the unit requests none of them; else ()."""
        for plugin in self._request_checks:
            unrequested = plugin.find_unrequested(info)
            if unrequested:
                return unrequested
        return ()

    def rank(self, queue: Queue) -> tuple[int, ...]:
        """Return the rank of a queue; smaller goes first."""
        ranks = [-plugin.queue_rank(queue) for plugin in self._multi_queue_sort]
        return (*ranks, *(-plugin.score(queue) for plugin in self._score))

    def order_key(self, unit: QueueUnit, queue: Queue) -> OrderKey | None:
        """Return the order key that a QueueSort plugin gives, or None."""
        for plugin in self._queue_sort:
            key = plugin.order_key(unit, queue)
            if key is not None:
                return key
        return None

    def class_keys(self, unit: QueueUnit) -> tuple[Hashable, ...]:
        """Return what the filters' answers depend on, in addition to quota and demand."""
        keys = tuple(plugin.class_key(unit) for plugin in self._class_keys)
        return (*keys, unit.metadata.uid) if self._keyless else keys

    # --- deciding -----------------------------------------------------------------------------

    def check(self, info: QueueUnitInfo) -> tuple[Refusal, points.Plugin] | None:
        """Ask the filters; return the first refusal with its plugin, or None."""
        for plugin in self._filter:
            refusal = plugin.check(info)
            if refusal is not None:
                return refusal, plugin
        return None

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Ask all filters; return all their refusals, in order."""
        found: list[Refusal] = []
        for plugin in self._filter:
            if isinstance(plugin, points.EveryRefusal):
                found += plugin.every_refusal(info)
            elif (refusal := plugin.check(info)) is not None:
                found.append(refusal)
        return found

    def with_pods(self, info: QueueUnitInfo, refusal: Refusal) -> Refusal:
        """Return a refusal that tells the pods without a node behind it."""
        pods: tuple[str, ...] = ()
        for plugin in self._filter:
            if not pods and isinstance(plugin, points.NamesPods):
                pods = plugin.pods_behind(info, refusal)
        return replace(refusal, pods=pods) if pods else refusal

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[points.Supposed] = ()
    ) -> Refusal | None:
        """Ask the filters whether a unit would pass with other charges; return the refusal or None.

        Args:
            info: The unit.
            released: Units for which nothing is charged in this question.
            added: Charges that are added in this question.
        """
        for plugin in self._filter:
            what_if = self._what_if.get(plugin.name)
            if what_if is None:
                refusal = plugin.check(info)
            else:
                refusal = what_if.check_without(info, released, added)
            if refusal is not None:
                return refusal
        return None

    def follows_charges(self, plugin: points.Plugin) -> bool:
        """Return whether a filter's answers change with charges, quotas and nodes alone."""
        return plugin.name in self._by_charges

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

    def loan_of(self, uid: Uid) -> points.Loan | None:
        """Return what the quota of a charged unit borrows; None: no plugin can say."""
        loans = (p.loan_of(uid) for p in self.plugins if isinstance(p, points.Loans))
        return next((loan for loan in loans if loan is not None), None)

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
            if firm and isinstance(plugin, points.ReservePartlyFirm):
                plugin.resize_partly_firm(uid, quota, amounts, firm=firm, pods=pods)
            else:
                plugin.resize(uid, quota, amounts, non_preemptible=non_preemptible, pods=pods)

    # --- waiting ------------------------------------------------------------------------------

    def wait(
        self, waiter: points.Waiter, info: QueueUnitInfo, refusal: Refusal, by: points.Plugin
    ) -> None:
        """Register a refused class with the plugin that refused it."""
        waking = self._waking_by_name.get(by.name)
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

    def domains(self, quota: str) -> frozenset[str]:
        """Return the limits that units of the quota compete for."""
        return frozenset[str]().union(*(plugin.domains(quota) for plugin in self._contention))

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Pass on the first pending unit of a quota; None if there is none."""
        for plugin in self.guarantees:
            plugin.protect(quota, info)

    def keeps_room_for(self, quota: str) -> bool:
        """Return whether a plugin keeps room for the first pending unit of a quota."""
        for plugin in self.guarantees:  # noqa: SIM110 - no generator: asked for every unit
            if plugin.keeps_room_for(quota):
                return True
        return False

    # --- facts --------------------------------------------------------------------------------

    def on_quota(self, quota: ElasticQuota | points.QuotaSource) -> set[str]:
        """Pass on a quota; return the `waits_for` names that it may answer."""
        if isinstance(quota, ElasticQuota):
            return {name for plugin in self._facts for name in plugin.on_quota(quota)}
        return {name for plugin in self._of_sources() for name in plugin.on_quota_source(quota)}

    def on_quota_gone(self, quota: ElasticQuota | points.QuotaSource) -> set[str]:
        """Pass on a deleted quota; return the `waits_for` names that it may answer."""
        if isinstance(quota, ElasticQuota):
            return {name for plugin in self._facts for name in plugin.on_quota_gone(quota)}
        return {
            name for plugin in self._of_sources() for name in plugin.on_quota_source_gone(quota)
        }

    def on_queue(self, queue: Queue) -> set[str]:
        """Pass on a queue; return the `waits_for` names that it may answer."""
        return {name for plugin in self._of_queues() for name in plugin.on_queue(queue)}

    def on_queue_gone(self, queue: str) -> set[str]:
        """Pass on a deleted queue; return the `waits_for` names that it may answer."""
        return {name for plugin in self._of_queues() for name in plugin.on_queue_gone(queue)}

    def _of_queues(self) -> Iterator[points.QueueFacts]:
        return (plugin for plugin in self.plugins if isinstance(plugin, points.QueueFacts))

    def _of_sources(self) -> Iterator[points.QuotaSourceFacts]:
        return (plugin for plugin in self.plugins if isinstance(plugin, points.QuotaSourceFacts))

    def on_node(self, node: Node) -> None:
        """Pass on a node."""
        for plugin in self._facts:
            plugin.on_node(node)

    def on_node_gone(self, name: str) -> None:
        """Pass on a deleted node."""
        for plugin in self._facts:
            plugin.on_node_gone(name)

    def on_foreign_pod(self, key: str, pod: points.ForeignPod | None) -> None:
        """Pass on a pod without a unit."""
        for plugin in self._facts:
            plugin.on_foreign_pod(key, pod)

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events."""
        return [notice for plugin in self._facts for notice in plugin.take_notices()]

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that a unit is charged to, nearest first."""
        unknown: tuple[str, ...] = ()
        for plugin in self._providers:
            names = plugin.quota_names(unit)
            if names and (
                not isinstance(plugin, points.KnownQuotas) or plugin.knows_quota(names[0])
            ):
                return names
            unknown = unknown or names
        return unknown

    def quota_of_pod(self, namespace: str, labels: dict[str, str]) -> str:
        """Return the quota that a pod with these labels is charged to, or ""."""
        for plugin in self._providers:
            name = plugin.quota_of_pod(namespace, labels)
            if name:
                return name
        return ""

    def is_non_preemptible(self, quota: str, labels: dict[str, str]) -> bool:
        """Return whether these labels forbid to preempt pods charged to a quota.

        The common label counts in every quota, a plugin's own label in the quotas of that plugin.
        """
        return labels.get(PREEMPTIBLE) == "false" or any(
            plugin.knows_quota(quota) and plugin.is_non_preemptible(labels)
            for plugin in self._own_labels
        )

    def list_quotas(self) -> tuple[str, ...]:
        """Return the names of the quotas of all plugins, each once, in the order of the plugins."""
        names = (name for plugin in self._showing() for name in plugin.list_quotas())
        return tuple(dict.fromkeys(names))

    def view_quota(self, name: str) -> QuotaView | None:
        """Return one quota with its numbers, of the first plugin that has it."""
        views = (plugin.view_quota(name) for plugin in self._showing())
        return next((view for view in views if view is not None), None)

    def view_quotas(self) -> list[QuotaView]:
        """Return all quotas with their numbers."""
        found: dict[str, QuotaView] = {}
        for plugin in self._showing():
            # A plugin is asked for its own alone: to find nothing takes it longest.
            for name in plugin.list_quotas():
                if name not in found and (view := plugin.view_quota(name)) is not None:
                    found[name] = view
        return list(found.values())

    def without_views(self) -> tuple[str, ...]:
        """Return the names of plugins with quotas that are not shown: see `ShowsQuotas`."""
        with_quotas = (p for p in self.plugins if _takes_part(p, points.QuotaProvider))
        hidden = (p for p in with_quotas if not _takes_part(p, points.ShowsQuotas))
        left_out = (p for p in self._left_out if _takes_part(p, points.QuotaProvider))
        return tuple(plugin.name for plugin in (*hidden, *left_out))

    def _showing(self) -> Iterator[points.ShowsQuotas]:
        return (p for p in self.plugins if _takes_part(p, points.ShowsQuotas))

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        """Return why no unit of a queue can start (`QueueReadiness`)."""
        refusals = [plugin.why_not_ready(queue) for plugin in self._readiness]
        for refusal in refusals:
            if refusal is not None and refusal.reason is not Reason.NO_QUOTA:
                return refusal
        return refusals[0] if refusals and None not in refusals else None

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> PluginRunner:
        """Return a runner over forks; plugins that cannot fork are left out and named."""
        twin = PluginRunner([p.fork() for p in self.plugins if _takes_part(p, points.Forkable)])
        left_out = (p for p in self.plugins if not _takes_part(p, points.Forkable))
        twin._left_out = (*self._left_out, *left_out)
        twin.waits_for_anything = dict(self.waits_for_anything)
        twin._taken = list(self._taken)
        return twin


_TAKES_PART: Final[dict[tuple[type, object], bool]] = {}
"""Whether a plugin implements an extension point, by the types of both."""


def _takes_part(plugin: object, point: Callable[..., _Point]) -> TypeIs[_Point]:
    """Return whether a plugin takes part in an extension point.

    An isinstance check of a runtime protocol takes microseconds, and all of them are made for every
    fork of the engine, under its lock. So each is made once for each type.
    """
    key = type(plugin), point
    found = _TAKES_PART.get(key)
    if found is None:
        found = _TAKES_PART[key] = isinstance(plugin, cast("type", point))
    return found


def _wait_for_both(first: points.Unmapped, second: points.Unmapped) -> points.Unmapped:
    """Return the first, waiting for the facts of both."""
    return replace(first, waits_for=tuple(dict.fromkeys((*first.waits_for, *second.waits_for))))


def _look_for_queue(
    unit: QueueUnit, held: points.Unmapped, queues: points.QueueDirectory
) -> points.Unmapped:
    """Return why a unit without a quota is on hold, with its queue if that is missing as well.

    Of a unit that names a queue and no quota, the queue is what its user has to correct first.
    """
    named = read_chosen_queue(unit)
    if not named or named != held.queue:
        return held
    # Also while the queue exists: it may be deleted, and is the reason then.
    held = replace(held, waits_for=(*held.waits_for, f"queue/{named}"))
    if queues.queue(named) is not None:
        return held
    missing = Refusal(reason=Reason.NO_QUEUE, other=named)
    if held.refusal.quota:
        return replace(held, others=(missing,))
    return replace(held, refusal=missing, others=(held.refusal,))


def _is_about_its_queue(refusal: Refusal) -> bool:
    """Return whether the refusal concerns only the plugin's own default queue."""
    return refusal.reason in {Reason.NO_QUEUE, Reason.QUOTA_NOT_IN_QUEUE} and bool(refusal.quota)
