"""Plugins and policies by name; an unknown, duplicate or refused one is reported in one line."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from queue_scheduler.configuration import KoordQueueConfiguration, PluginEntry
from queue_scheduler.framework.installed_packages import PLUGIN_GROUP, POLICY_GROUP
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.setup.plugin_handle import PluginHandle, StoreCaches
from queue_scheduler.setup.plugin_loading import (
    Switches,
    build_plugins,
    load_policies,
)
from shared_api.program_flags import ConfigurationError
from tests.queue_scheduler.offered_packages import offer
from tests.queue_scheduler.setup.test_plugin_handle import build_caches
from tests.queue_scheduler.shell_kit import HeldWrites, SentEvents, ShellKit


def build(
    names: list[str],
    configs: dict[str, dict[str, Any]] | None = None,
    switches: Switches | None = None,
) -> list[Any]:
    configuration = KoordQueueConfiguration(
        plugins=tuple(PluginEntry(name) for name in names), plugin_configs=configs or {}
    )
    caches: StoreCaches = build_caches(ShellKit())
    handle = PluginHandle(caches, Fraction(1), SentEvents(), HeldWrites())
    return list(build_plugins(configuration, switches or Switches(), handle))


def test_without_a_list_the_defaults_are_loaded() -> None:
    assert [type(each) for each in build([])] == [Priority, ElasticQuotaPlugin]


def test_the_order_is_that_of_the_file() -> None:
    got = build(["ElasticQuotaV2", "Priority"])
    assert [each.name for each in got] == ["ElasticQuotaV2", "Priority"]


@pytest.mark.parametrize(
    ("names", "configs", "says"),
    [
        pytest.param(
            ["Elastic"],
            {},
            "'Elastic' is unknown; known: ElasticQuota, ElasticQuotaV2",
            id="unknown",
        ),
        pytest.param(
            ["Priority", "ElasticQuotaV2", "Priority"], {}, "'Priority' is listed twice", id="twice"
        ),
        pytest.param(
            ["Priority"], {"ElasticQuotaV2": {}}, "pluginConfigs.ElasticQuotaV2", id="not loaded"
        ),
        pytest.param(
            ["Priority"], {"Priority": {"a": 1}}, "pluginConfigs.Priority", id="no arguments"
        ),
        pytest.param(
            ["ElasticQuotaV2"],
            {"ElasticQuotaV2": {"mod": "max"}},
            "pluginConfigs.ElasticQuotaV2: .*`mod`",
            id="a typo",
        ),
        pytest.param(
            ["ElasticQuota"],
            {"ElasticQuota": {"checkHungry": True}},
            "pluginConfigs.ElasticQuota: .*`checkHungry`",
            id="a typo about trees",
        ),
        pytest.param(
            ["ElasticQuota"],
            {"ElasticQuota": {"checkQuotaOversold": True, "checkHungryQuota": False}},
            "are one setting",
            id="a contradiction",
        ),
        pytest.param(
            ["ResourceQuota"],
            {"ResourceQuota": {"a": 1}},
            "pluginConfigs.ResourceQuota: .*`a`",
            id="a typo about namespaces",
        ),
        pytest.param(
            ["defaultgroup"],
            {"defaultgroup": {"a": 1}},
            "pluginConfigs.defaultgroup: takes no",
            id="nothing to set",
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named(
    names: list[str], configs: dict[str, dict[str, Any]], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        build(names, configs)


def test_all_upstream_plugins_exist() -> None:
    names = ["Priority", "defaultgroup", "ResourceQuota", "ElasticQuota", "ElasticQuotaV2"]
    assert [each.name for each in build(names)] == names


def test_a_gate_of_a_plugin_that_is_not_loaded_is_refused() -> None:
    switches = Switches(checks_available_quota=True)
    with pytest.raises(ConfigurationError, match="CheckAvailableQuota needs plugin ElasticQuota"):
        build(["ElasticQuotaV2"], switches=switches)
    build(["ElasticQuota"], switches=switches)


def test_the_built_in_policies_exist() -> None:
    assert {"Priority", "Block", "FIFO"} <= {policy.name for policy in load_policies()}


HERE = "tests.queue_scheduler.setup.test_plugin_loading"


def build_other(_arguments: dict[str, Any], _handle: object) -> Priority:
    """Stands for the target of another package's entry point."""
    return Priority()


def test_plugins_of_other_packages_are_loaded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    other, broken = f"{HERE}:build_other", "no.such.module:plugin"
    offer(monkeypatch, (PLUGIN_GROUP, "Other", other), (PLUGIN_GROUP, "Broken", broken))
    assert [type(each) for each in build(["Other"])] == [Priority], "only what is named is loaded"
    with pytest.raises(ConfigurationError, match=r"'Broken' \(no.such.module:plugin\) cannot be"):
        build(["Broken"])


@pytest.mark.parametrize("group", [PLUGIN_GROUP, POLICY_GROUP])
def test_two_packages_that_offer_one_name_are_refused(
    monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    offer(monkeypatch, (group, "Same", f"{HERE}:build_other"), (group, "Same", "other:plugin"))
    with pytest.raises(ConfigurationError, match=f"two packages offer 'Same' as {group}"):
        build(["Priority"]) if group == PLUGIN_GROUP else load_policies()


def test_a_policy_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, (POLICY_GROUP, "Broken", "no.such.module:policy"))
    with pytest.raises(ConfigurationError, match="queue_policies 'Broken'"):
        load_policies()
