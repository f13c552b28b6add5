"""Loads plugins and policies by name: built-in ones, and third-party ones by entry point."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any, Final

import msgspec

from queue_scheduler.configuration import (
    CHECK_AVAILABLE_QUOTA,
    FEATURE_GATES_FLAG,
    KoordQueueConfiguration,
)
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.framework.handle import Handle
from queue_scheduler.framework.installed_packages import (
    PLUGIN_GROUP,
    POLICY_GROUP,
    load_offered,
    offered_by_name,
    refuse_twins,
)
from queue_scheduler.plugins.default_group import NAME as DEFAULT_GROUP
from queue_scheduler.plugins.default_group import DefaultGroupPlugin
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.elastic_quota_arguments import read_arguments
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.elastic_quota_tree_arguments import read_tree_arguments
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.plugins.resource_quota import NAME as RESOURCE_QUOTA
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.plugins.resource_quota_arguments import read_resource_quota_arguments
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES, QueuePolicy
from shared_api.program_flags import ConfigurationError

BUILT_IN: Final = (
    Priority.name,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_TREE,
    RESOURCE_QUOTA,
    DEFAULT_GROUP,
)


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that are about quotas.

    Attributes:
        oversell_rate: `--oversellrate`.
        checks_available_quota: The gate ElasticQuotaTreeCheckAvailableQuota.
        checks_namespaces: Whether quota or namespace must list the other, of all quotas.
    """

    oversell_rate: Fraction = Fraction(1)
    checks_available_quota: bool = False
    checks_namespaces: bool = False


def build_plugins(
    configuration: KoordQueueConfiguration, switches: Switches, handle: Handle
) -> list[Plugin]:
    """Return the configured plugins, in order.

    Raises:
        ConfigurationError: An unknown plugin, one that is listed twice, arguments for one that is
            not loaded, arguments that a plugin refuses, or a gate of one that is not loaded; the
            message names the place.
    """
    names = configuration.plugin_names()
    if switches.checks_available_quota and ELASTIC_QUOTA_TREE not in names:
        msg = f"{FEATURE_GATES_FLAG}: {CHECK_AVAILABLE_QUOTA} needs plugin {ELASTIC_QUOTA_TREE}"
        raise ConfigurationError(msg)
    refuse_twins(names, "plugins: {!r} is listed twice")
    for name in configuration.plugin_configs:
        if name not in names:
            msg = f"pluginConfigs.{name}: no such plugin in plugins ({', '.join(names)})"
            raise ConfigurationError(msg)
    others = offered_by_name(PLUGIN_GROUP)
    return [
        _build(name, configuration.plugin_configs.get(name, {}), switches, handle, others)
        for name in names
    ]


def _build(
    name: str,
    arguments: Mapping[str, Any],
    switches: Switches,
    handle: Handle,
    others: Mapping[str, EntryPoint],
) -> Plugin:
    try:
        if name in BUILT_IN:
            return _build_built_in(name, arguments, switches)
        if name in others:
            plugin: Plugin = load_offered(others[name])(arguments, handle)
            return plugin
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    known = ", ".join(sorted([*BUILT_IN, *others]))
    raise ConfigurationError(f"plugins: {name!r} is unknown; known: {known}")


def _build_built_in(name: str, arguments: Mapping[str, Any], switches: Switches) -> Plugin:
    if name == ELASTIC_QUOTA:
        return ElasticQuotaPlugin(
            *read_arguments(arguments, switches.oversell_rate),
            checks_namespaces=switches.checks_namespaces,
        )
    if name == ELASTIC_QUOTA_TREE:
        settings = read_tree_arguments(arguments)
        return ElasticQuotaTreePlugin(
            switches.oversell_rate,
            checks_hungry=settings.checks_hungry,
            required_requests=settings.required_requests,
            checks_available=switches.checks_available_quota or switches.checks_namespaces,
        )
    if name == RESOURCE_QUOTA:
        return ResourceQuotaPlugin(read_resource_quota_arguments(arguments))
    if arguments:
        raise ConfigurationError(f"pluginConfigs.{name}: takes no arguments")
    return DefaultGroupPlugin() if name == DEFAULT_GROUP else Priority()


def load_policies() -> tuple[QueuePolicy, ...]:
    """Return the built-in policies and third-party ones; their names are unique.

    Raises:
        ConfigurationError: Two policies have one name, or one cannot be loaded.
    """
    others = (load_offered(point)() for point in offered_by_name(POLICY_GROUP).values())
    policies = (*BUILT_IN_POLICIES, *others)
    refuse_twins((policy.name for policy in policies), "two queue policies are called {!r}")
    return policies
