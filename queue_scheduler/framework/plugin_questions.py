"""Questions to all plugins that no decision depends on: quotas for users, loans, every refusal."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from queue_scheduler.decision import Refusal
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.framework.taking_part import takes_part
from queue_scheduler.quota.quota_view import QuotaView
from shared_api.objects.meta import Uid


def every_refusal(plugins: PluginRunner, info: QueueUnitInfo) -> list[Refusal]:
    """Ask all filters; return all their refusals, in order."""
    found = [refusal for own in plugins.own for refusal in own.every_refusal(info)]
    for plugin in plugins.filters:
        if takes_part(plugin, points.EveryRefusal):
            found += plugin.every_refusal(info)
        elif (refusal := plugin.check(info)) is not None:
            found.append(refusal)
    return found


def with_pods(plugins: PluginRunner, info: QueueUnitInfo, refusal: Refusal) -> Refusal:
    """Return a refusal that tells the pods without a node behind it."""
    pods: tuple[str, ...] = ()
    for plugin in plugins.filters:
        if not pods and takes_part(plugin, points.NamesPods):
            pods = plugin.pods_behind(info, refusal)
    return replace(refusal, pods=pods) if pods else refusal


def loan_of(plugins: PluginRunner, uid: Uid) -> points.Loan | None:
    """Return what the quota of a charged unit borrows; None: no plugin can say."""
    loans = (p.loan_of(uid) for p in plugins if takes_part(p, points.Loans))
    return next((loan for loan in loans if loan is not None), None)


def list_quotas(plugins: PluginRunner) -> tuple[str, ...]:
    """Return the names of the quotas of all plugins, each once, in the order of the plugins."""
    names = (name for plugin in _showing(plugins) for name in plugin.list_quotas())
    return tuple(dict.fromkeys(names))


def view_quota(plugins: PluginRunner, name: str) -> QuotaView | None:
    """Return one quota with its numbers, of the first plugin that has it."""
    views = (plugin.view_quota(name) for plugin in _showing(plugins))
    return next((view for view in views if view is not None), None)


def view_all_quotas(plugins: PluginRunner) -> list[QuotaView]:
    """Return all quotas with their numbers."""
    found: dict[str, QuotaView] = {}
    for plugin in _showing(plugins):
        # A plugin is asked for its own alone: to find nothing takes it longest.
        for name in plugin.list_quotas():
            if name not in found and (view := plugin.view_quota(name)) is not None:
                found[name] = view
    return list(found.values())


def plugin_with_quota(plugins: PluginRunner, name: str) -> str:
    """Return the first plugin that has a quota of that name; "": none has."""
    for plugin in plugins:
        if takes_part(plugin, points.KnownQuotas):
            if plugin.knows_quota(name):
                return plugin.name
        elif takes_part(plugin, points.ShowsQuotas) and plugin.view_quota(name) is not None:
            return plugin.name
    return ""


def without_views(plugins: PluginRunner) -> tuple[str, ...]:
    """Return the names of plugins with quotas that are not shown: see `ShowsQuotas`."""
    with_quotas = (p for p in plugins if takes_part(p, points.QuotaProvider))
    hidden = (p for p in with_quotas if not takes_part(p, points.ShowsQuotas))
    left_out = (p for p in plugins.left_out if takes_part(p, points.QuotaProvider))
    return tuple(plugin.name for plugin in (*hidden, *left_out))


def _showing(plugins: PluginRunner) -> Iterator[points.ShowsQuotas]:
    return (p for p in plugins if takes_part(p, points.ShowsQuotas))
