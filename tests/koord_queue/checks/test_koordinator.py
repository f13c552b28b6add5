"""Which profiles of koord-scheduler evict for pods that its quota plugin has not counted yet."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from koord_queue.checks.facts import Answer
from koord_queue.checks.koordinator import called_at, config_places
from tests.koord_queue.checks.healthy import Json, finding_texts, found, listed, named

PLACE = "koordinator-system/koord-scheduler-config"
KEY = f"koord-scheduler-config of ConfigMap {PLACE}"
FINE = f"ok: {KEY}: no profile evicts for pods that are not counted yet"
EVICTS = (
    f"warning: {KEY}: profile {{}} calls ElasticQuota in postFilter without DefaultPreemption"
    " before it: for a pod that is not counted yet, it may evict pods of lower priority in the same"
    " quota although there is room"
)


def enabled(*names: str, disabled: tuple[str, ...] = ()) -> Json:
    """Return the plugins of one extension point."""
    lists = {"enabled": names, "disabled": disabled}
    return {field: [{"name": each} for each in found] for field, found in lists.items() if found}


def profile(name: str = "koord-scheduler", **points: Json) -> Json:
    return {"schedulerName": name, "plugins": {"preFilter": enabled("ElasticQuota"), **points}}


def config(*profiles: Json, **more: Any) -> str:
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles),
    }
    return yaml.safe_dump(body | more)


def seen(text: str, **more: str) -> list[str]:
    """Return what is said of a ConfigMap with this text."""
    body = {"data": {"koord-scheduler-config": text, **more}}
    return finding_texts("koordinator", scheduler_configs={PLACE: Answer(body)})


SHIPPED = enabled(
    "Reservation", "Coscheduling", "ElasticQuota", "DefaultPreemption", disabled=("*",)
)
"""What Koordinator 1.8's chart has in postFilter."""
FIRST = enabled("DefaultPreemption", "ElasticQuota", disabled=("*",))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(config(profile(postFilter=SHIPPED)), EVICTS.format("koord-scheduler"),
            id="as Koordinator's chart has it"),
        pytest.param(config(profile(postFilter=enabled("ElasticQuota", disabled=("*",)))),
            EVICTS.format("koord-scheduler"), id="with the chart's job preemption"),
        pytest.param(config(profile(postFilter=FIRST)), FINE, id="DefaultPreemption first"),
        pytest.param(config(profile(postFilter=enabled(disabled=("*",)))), FINE, id="none evicts"),
        pytest.param(config(profile()), FINE, id="the default of kube-scheduler"),
        pytest.param(config({"plugins": {"postFilter": SHIPPED}}), FINE,
            id="a quota plugin that refuses no pod"),
        pytest.param(config(profile("a", postFilter=FIRST), profile("b", postFilter=SHIPPED),
            profile("", postFilter=SHIPPED)), EVICTS.format("b, default-scheduler"),
            id="some of several profiles"),
        pytest.param(config(), FINE, id="no profile"),
        pytest.param(config(profiles=None), FINE, id="no list of profiles"),
    ],
)  # fmt: skip
def test_profiles_are_judged(text: str, want: str) -> None:
    assert seen(text) == [want]


def test_the_way_out_is_on_a_page() -> None:
    body = {"data": {"x": config(profile(postFilter=SHIPPED))}}
    (finding,) = found("koordinator", scheduler_configs={PLACE: Answer(body)})
    assert finding.fix == "docs/quotas.md, When koord-scheduler evicts for such a pod"


BOTH = enabled("ElasticQuota", "DefaultPreemption")


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(None, ["DefaultPreemption"], id="nothing is said"),
        pytest.param({"postFilter": BOTH}, ["DefaultPreemption", "ElasticQuota"],
            id="a default that is named comes first all the same"),
        pytest.param({"postFilter": BOTH | enabled(disabled=("*",))},
            ["ElasticQuota", "DefaultPreemption"], id="without defaults in the order of the list"),
        pytest.param({"postFilter": BOTH | enabled(disabled=("DefaultPreemption",))},
            ["ElasticQuota", "DefaultPreemption"], id="a default that is disabled and named"),
        pytest.param({"multiPoint": enabled("ElasticQuota")},
            ["DefaultPreemption", "ElasticQuota"], id="at all points, after the defaults"),
        pytest.param({"multiPoint": BOTH | enabled(disabled=("*",))},
            ["ElasticQuota", "DefaultPreemption"], id="at all points, without the defaults"),
        pytest.param({"multiPoint": BOTH | enabled(disabled=("DefaultPreemption",))},
            ["ElasticQuota", "DefaultPreemption"], id="at all points, another order"),
        pytest.param({"multiPoint": enabled("ElasticQuota"),
            "postFilter": enabled(disabled=("*",))}, [], id="at all points, but not at this one"),
        pytest.param({"multiPoint": enabled("ElasticQuota", disabled=("*",)),
            "postFilter": enabled("DefaultPreemption")}, ["ElasticQuota", "DefaultPreemption"],
            id="what only the point names comes last"),
        pytest.param({"postFilter": {"enabled": [{"weight": 1}, "x"], "disabled": 7}},
            ["DefaultPreemption", "", ""], id="what cannot be read has no name"),
    ],
)  # fmt: skip
def test_the_order_of_plugins(plugins: Json | None, want: list[str]) -> None:
    assert called_at("postFilter", plugins) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kind: [KubeSchedulerConfiguration", "is not valid YAML: while parsing",
            id="not YAML"),
        pytest.param("a: &a [*a]\n# KubeSchedulerConfiguration", "is no KubeSchedulerConfiguration",
            id="only a comment"),
        pytest.param("- KubeSchedulerConfiguration", "is no KubeSchedulerConfiguration",
            id="a list"),
        pytest.param("", f"ConfigMap {PLACE} has no KubeSchedulerConfiguration", id="empty"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_read_is_unknown(text: str, want: str) -> None:
    (line,) = seen(text)
    assert line.startswith("unknown: ")
    assert want in line


def test_each_key_with_a_configuration_is_judged() -> None:
    lines = seen("policy: none", other=config(profile(postFilter=SHIPPED)))
    assert [line.split(":")[0] for line in lines] == ["warning"]


def scheduler(name: str, *config_maps: str, replicas: int = 1) -> Json:
    volumes = [*({"configMap": {"name": each}} for each in config_maps), {"emptyDir": {}}]
    pod = {"spec": {"volumes": volumes}}
    return named(name, "koordinator-system", spec={"replicas": replicas, "template": pod})


@pytest.mark.parametrize(
    ("schedulers", "want"),
    [
        pytest.param([], None, id="none"),
        pytest.param([scheduler("a", "x", replicas=0)], None, id="one that is off"),
        pytest.param([scheduler("a")], (), id="one without a ConfigMap"),
        pytest.param([scheduler("a", "y"), scheduler("b", "x", "y")],
            (("koordinator-system", "x"), ("koordinator-system", "y")), id="two of them"),
    ],
)  # fmt: skip
def test_where_the_configuration_is(
    schedulers: list[Json], want: tuple[tuple[str, str], ...] | None
) -> None:
    assert config_places(schedulers) == want


REFUSED = Answer(right="get configmaps in namespace koordinator-system")
NOT_LISTED = Answer(right="list deployments.apps")


@pytest.mark.parametrize(
    ("schedulers", "answer", "want"),
    [
        pytest.param(listed(), Answer(), "ok: no koord-scheduler was found", id="there is none"),
        pytest.param(NOT_LISTED, Answer(),
            "unknown: whether it runs: you may not list deployments.apps", id="nobody knows"),
        pytest.param(listed(scheduler("a", "x")), REFUSED,
            "unknown: whether koord-scheduler evicts for pods that are not counted yet, by"
            f" {PLACE}: you may not {REFUSED.right}", id="no right to read it"),
        pytest.param(NOT_LISTED, Answer({"data": {"koord-scheduler-config": config()}}), FINE,
            id="its usual ConfigMap is there"),
    ],
)  # fmt: skip
def test_without_a_configuration(schedulers: Answer, answer: Answer, want: str) -> None:
    configs = {PLACE: answer}
    assert finding_texts("koordinator", koord_schedulers=schedulers, scheduler_configs=configs) == [
        want
    ]


def test_a_scheduler_whose_configuration_is_in_no_config_map_is_unknown() -> None:
    want = "unknown: koord-scheduler's configuration is in no ConfigMap"
    assert finding_texts("koordinator", koord_schedulers=listed(scheduler("a"))) == [want]
