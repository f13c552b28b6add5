"""What of koord-scheduler's configuration evicts pods of jobs that the queue has admitted.

koord-scheduler may refuse the first pod of a job for a moment, since its quota plugin has not
counted it yet. Called in postFilter, the same plugin then looks for victims: pods of the same quota
with a lower priority. Source: `SelectVictimsOnNode` of its plugin ElasticQuota, which spares pods
only within the runtime that was too small. DefaultPreemption ahead of it finds that a node has room
and takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from koord_queue.checks.facts import Answer, Facts, Json, list_of, part, some, text_of
from koord_queue.checks.findings import Finding, ok, unknown, warning

CHECK: Final = "koordinator"
APP: Final = "koord-scheduler"
"""Value of the label `koord-app` of its Deployment."""
CHART_PLACE: Final = ("koordinator-system", "koord-scheduler-config")
"""Namespace and name of its ConfigMap. Source: Koordinator's chart."""
PAGE: Final = "docs/quotas.md, When koord-scheduler evicts for such a pod"

KIND: Final = "KubeSchedulerConfiguration"
ELASTIC_QUOTA: Final = "ElasticQuota"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
DEFAULT_PROFILE: Final = "default-scheduler"
ALL: Final = "*"
_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {"postFilter": (DEFAULT_PREEMPTION,)}
"""Plugins that are called at a point without being named, as far as they count here."""


def check_koordinator(facts: Facts) -> Iterator[Finding]:
    """Yield whether koord-scheduler may evict for a pod that it has not counted yet."""
    found = [
        finding
        for place, answer in facts.scheduler_configs.items()
        for finding in _judge_config(place, answer)
    ]
    if not found and not facts.koord_schedulers.is_known:
        found = [unknown(CHECK, f"whether it runs: {facts.koord_schedulers.why_unknown()}")]
    if not found and config_places(facts.koord_schedulers.items) == ():
        found = [unknown(CHECK, "koord-scheduler's configuration is in no ConfigMap")]
    yield from found or [ok(CHECK, "no koord-scheduler was found")]


def config_places(schedulers: list[Json]) -> tuple[tuple[str, str], ...] | None:
    """Return namespace and name of the ConfigMaps of koord-scheduler; None if it does not run.

    Args:
        schedulers: Its Deployments.
    """
    running = [each for each in schedulers if part(each, "spec", "replicas") != 0]
    if not running:
        return None
    places = {
        (text_of(each, "metadata", "namespace"), text_of(volume, "configMap", "name"))
        for each in running
        for volume in list_of(each, "spec", "template", "spec", "volumes")
        if text_of(volume, "configMap", "name")
    }
    return tuple(sorted(places))


def _judge_config(place: str, answer: Answer) -> Iterator[Finding]:
    if not answer.is_known:
        text = f"whether koord-scheduler evicts for pods that are not counted yet, by {place}"
        yield unknown(CHECK, f"{text}: {answer.why_unknown()}", PAGE)
        return
    if answer.value is None:
        return
    data = part(answer.value, "data")
    texts = data if isinstance(data, dict) else {}
    configs = {key: text for key, text in texts.items() if KIND in str(text)}
    if not configs:
        yield unknown(CHECK, f"ConfigMap {place} has no {KIND}")
    for key, text in configs.items():
        yield _judge_text(f"{key} of ConfigMap {place}", str(text))


def _judge_text(source: str, text: str) -> Finding:
    try:
        config = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return unknown(CHECK, f"{source} is not valid YAML: {' '.join(str(error).split())}")
    if text_of(config, "kind") != KIND:
        return unknown(CHECK, f"{source} is no {KIND}")
    evicting = [
        text_of(each, "schedulerName") or DEFAULT_PROFILE
        for each in list_of(config, "profiles")
        if evicts_uncounted(part(each, "plugins"))
    ]
    if not evicting:
        return ok(CHECK, f"{source}: no profile evicts for pods that are not counted yet")
    text = (
        f"{source}: profile {some(evicting)} calls {ELASTIC_QUOTA} in postFilter without"
        f" {DEFAULT_PREEMPTION} before it: for a pod that is not counted yet, it may evict pods of"
        " lower priority in the same quota although there is room"
    )
    return warning(CHECK, text, PAGE)


def evicts_uncounted(plugins: Json) -> bool:
    """Return whether a profile's quota plugin refuses pods, and looks for victims first."""
    if ELASTIC_QUOTA not in called_at("preFilter", plugins):
        return False
    order = called_at("postFilter", plugins)
    before = order[: order.index(ELASTIC_QUOTA)] if ELASTIC_QUOTA in order else order
    return ELASTIC_QUOTA in order and DEFAULT_PREEMPTION not in before


def called_at(point: str, plugins: Json) -> list[str]:
    """Return the plugins that are called at a point, in their order.

    Only those of kube-scheduler's defaults are known that count here. Source: `mergePlugins` and
    `expandMultiPointPlugins` of kube-scheduler: `multiPoint` stands for all points; plugins that it
    has and the point names come first, then the others that it has, then what the point alone
    names. Disabled plugins are not taken from `multiPoint`, which for `*` is not looked at at all.

    Args:
        point: Such as `postFilter`.
        plugins: `plugins` of a profile.
    """
    own, disabled = _names(plugins, point, "enabled"), _names(plugins, point, "disabled")
    if ALL in disabled:
        return own
    everywhere = _names(plugins, "multiPoint", "enabled")
    nowhere = _names(plugins, "multiPoint", "disabled")
    defaults = (
        [] if ALL in nowhere else [each for each in _DEFAULTS.get(point, ()) if each not in nowhere]
    )
    several = [*defaults, *(each for each in everywhere if each not in defaults)]
    several = [each for each in several if each not in disabled]
    return [
        *(each for each in own if each in several),
        *(each for each in several if each not in own),
        *(each for each in own if each not in several),
    ]


def _names(plugins: Any, point: str, field: str) -> list[str]:  # noqa: ANN401 - decoded YAML
    return [text_of(each, "name") for each in list_of(plugins, point, field)]
