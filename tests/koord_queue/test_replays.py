"""A replay as values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from koord_queue.replays import CommandError, plot_queue_length, plot_waits, replay

Json = dict[str, Any]
QUOTA: Json = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "team"},
    "spec": {"min": {"cpu": "4"}, "max": {"cpu": "4"}},
}
JOBS: list[Json] = [
    {"submit_seconds": 0, "run_seconds": 100, "quota": "team", "cpu": 3, "name": "first"},
    {"submit_seconds": 1, "run_seconds": 100, "quota": "team", "cpu": 3, "name": "large"},
    {"submit_seconds": 2, "run_seconds": 10, "quota": "team", "cpu": 1, "name": "small"},
]


def test_each_policy_has_its_waits() -> None:
    played = replay(JOBS, [QUOTA], policy="Priority", compare=["FIFO"])
    assert [run.name for run in played.runs] == ["Priority", "FIFO"]
    assert played.first.job("small").wait == 0
    assert played.run("FIFO").job("small").wait == 98
    assert played.first.waits.all.max == 99
    assert played.first.waits.by_tenant["team"].jobs == 3
    assert played.report["comparisons"][0]["name"] == "FIFO"


def test_other_quotas_are_replayed_under_their_names() -> None:
    double = {**QUOTA, "spec": {"min": {"cpu": "8"}, "max": {"cpu": "8"}}}
    played = replay(JOBS, [QUOTA], policy="FIFO", name="now", compare_quotas={"twice": [double]})
    got = [(run.name, run.job("large").wait) for run in played.runs]
    assert got == [("now", 99), ("twice", 0)]


@pytest.mark.parametrize("form", ["text", "file", "path"])
def test_quotas_have_any_form(tmp_path: Path, form: str) -> None:
    text = yaml.safe_dump(QUOTA)
    path = tmp_path / "quotas.yaml"
    path.write_text(text, encoding="utf-8")
    forms: dict[str, str | Path] = {"text": text, "file": str(path), "path": path}
    assert replay(JOBS, forms[form]).first.finished == 3


def test_queues_count() -> None:
    queue = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": "team"},
        "spec": {"queuePolicy": "FIFO"},
    }
    assert replay(JOBS, [QUOTA], queues=[queue]).first.job("small").wait == 98


def test_a_configuration_counts(tmp_path: Path) -> None:
    quota = {**QUOTA, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "4"}}}
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: KoordQueueConfiguration\n"
        "plugins: [{name: Priority}, {name: ElasticQuotaV2}]\n"
        "pluginConfigs: {ElasticQuotaV2: {mode: min}}\n",
        encoding="utf-8",
    )
    waits = {each.name: each.wait for each in replay(JOBS, [quota], config=config).first.jobs}
    assert waits == {"first": None, "large": None, "small": 0}


@pytest.mark.parametrize(
    ("jobs", "given", "want"),
    [
        pytest.param([{**JOBS[0], "cpu": "x"}], {}, "^trace.csv, line 2: cpu is", id="a cell"),
        pytest.param(JOBS, {"policy": "LIFO"}, "no policy LIFO; known: ", id="a policy"),
        pytest.param("gone.csv", {}, "gone.csv", id="a file"),
        pytest.param([{**JOBS[0], "quota": "gone"}], {}, "gone", id="a quota"),
    ],
)
def test_what_is_wrong_is_named(jobs: Any, given: Json, want: str) -> None:
    with pytest.raises(CommandError, match=want):
        replay(jobs, [QUOTA], **given)


def test_a_name_that_is_not_there() -> None:
    played = replay(JOBS, [QUOTA])
    with pytest.raises(KeyError, match="gone"):
        played.first.job("gone")
    with pytest.raises(KeyError, match="gone"):
        played.run("gone")


def test_plots_have_a_line_for_each_run() -> None:
    played = replay(JOBS, [QUOTA], policy="Priority", compare=["FIFO"])
    for plot in (plot_waits(played), plot_queue_length(played)):
        assert plot.svg.count("<polyline") == 2
        assert ">Priority<" in plot.svg
