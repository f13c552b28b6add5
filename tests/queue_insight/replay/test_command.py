"""`koord-queue replay`, as a user types it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from koord_queue.cli.replay import replay
from queue_insight.replay.csv_traces import NORMALIZED_COLUMNS, OPENB_COLUMNS, OWN_COLUMNS
from queue_insight.replay.trace_files import FORMATS
from shared_api.testing.object_builders import (
    elastic_quota_tree_body,
    queue_body,
    resource_quota_body,
    tree_node,
)
from tests.queue_insight.replay.replay_kit import HEAD, Desk, quota
from tests.tidy.source_tree import ROOT


def test_the_most_important_numbers_are_shown(desk: Desk) -> None:
    assert desk.run() == 0
    shown = desk.out.getvalue()
    assert shown.startswith("5 jobs within 40 s\n")
    assert "as configured" in shown
    assert "  blue" in shown
    assert "1 min 10 s" in shown, "the longest wait"
    assert desk.err.getvalue() == ""


def test_the_same_replay_gives_the_same_bytes(desk: Desk) -> None:
    names = ("one.json", "two.json")
    for name in names:
        assert desk.run(f"--json={desk.folder / name}", "--compare", "FIFO", "--seed=7") == 0
    one, two = (desk.folder.joinpath(name).read_bytes() for name in names)
    assert one == two
    assert b'"seed": 7' in one


def test_the_order_of_sets_does_not_count(desk: Desk) -> None:
    """Each process hashes texts in its own way."""
    found = []
    for number in ("1", "2"):
        path = desk.folder / f"{number}.json"
        files = [f"--trace={desk.folder}/trace.csv", f"--quotas={desk.folder}/quotas.yaml"]
        line = [sys.executable, "-m", "koord_queue", "replay", *files]
        environment = {**os.environ, "PYTHONHASHSEED": number}
        subprocess.run([*line, f"--json={path}"], cwd=ROOT, env=environment, check=True)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_a_policy_counts_for_all_queues(desk: Desk) -> None:
    starved = {
        policy: [job["line"] for job in desk.report(f"--policy={policy}")["runs"][0]["starved"]]
        for policy in ("FIFO", "Priority")
    }
    assert starved["FIFO"] != starved["Priority"]


def test_replays_are_compared_with_the_first(desk: Desk) -> None:
    more = desk.write("more.yaml", yaml.safe_dump_all([quota("org", 9, ""), *(
        quota(name, 9) for name in ("red", "blue")
    )]))  # fmt: skip
    report = desk.report("--policy=FIFO", "--compare", "Priority", more)
    assert [each["name"] for each in report["runs"]] == ["FIFO", "Priority", "more.yaml"]
    policy, quotas = report["comparisons"]
    assert (policy["with"], quotas["with"]) == ("FIFO", "FIFO")
    first = report["runs"][0]["waits"]
    assert quotas["waits"]["total"] == -first["all"]["total"]
    assert quotas["byTenant"]["red"]["max"] == -first["byTenant"]["red"]["max"]


def test_what_one_unit_more_would_have_saved(desk: Desk) -> None:
    report = desk.report("--policy=FIFO", "--marginal")
    worst = report["runs"][0]["bottlenecks"][0]
    margin = report["marginal"][0]
    assert (margin["quota"], margin["resource"]) == (worst["quota"], "cpu")
    assert margin["more"] == "1"
    assert margin["savedWaitHours"] > 0
    assert f"wait {margin['savedWaitHours']:.1f} h less\n" in desk.out.getvalue()


def test_queues_come_from_a_file(desk: Desk) -> None:
    queues = desk.write("queues.yaml", yaml.safe_dump(queue_body("red", policy="FIFO")))
    own, fifo = (desk.report(flag)["runs"][0] for flag in (f"--queues={queues}", "--policy=FIFO"))
    waits = [each["waits"]["byTenant"]["red"] for each in (own, fifo)]
    assert waits[0] == waits[1]
    assert waits[0] != desk.report()["runs"][0]["waits"]["byTenant"]["red"]


@pytest.mark.parametrize(("mode", "want"), [("max", 0), ("least", 2)])
def test_settings_come_from_a_file(desk: Desk, mode: str, want: int) -> None:
    config = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "KoordQueueConfiguration",
        "plugins": [{"name": "Priority"}, {"name": "ElasticQuotaV2"}],
        "pluginConfigs": {"ElasticQuotaV2": {"mode": mode}},
    }
    assert desk.run("--config", desk.write("config.yaml", yaml.safe_dump(config))) == want
    assert ("pluginConfigs.ElasticQuotaV2" in desk.err.getvalue()) == bool(want)


def test_rows_that_are_left_out_are_told(desk: Desk) -> None:
    desk.write("trace.csv", f"{HEAD}\n0,,red,1,0\n0,1,red,1,0\n")
    report = desk.report()
    assert report["trace"]["skipped"] == [{"why": "it never ran", "count": 1}]
    assert "rows that are left out: 1 where it never ran" in desk.err.getvalue()


def test_jobs_that_can_never_start_are_told(desk: Desk) -> None:
    desk.write("trace.csv", f"{HEAD}\n0,1,red,3,0\n")
    assert desk.report()["runs"][0]["neverStarted"][0]["count"] == 1
    assert "1 jobs never started: " in desk.out.getvalue()


def test_jobs_that_request_nothing_of_their_quota_are_told(desk: Desk) -> None:
    desk.write("trace.csv", "submit_seconds,run_seconds,quota,memory\n0,1,red,1Gi\n")
    assert desk.report()["runs"][0]["requestNothing"] == [{"tenant": "red", "jobs": 1}]
    assert "1 jobs of red request nothing that their quota limits" in desk.out.getvalue()


def test_resource_quotas_count_by_namespace(desk: Desk) -> None:
    quotas = desk.write(
        "hard.yaml", yaml.safe_dump(resource_quota_body("q", namespace="red", hard={"cpu": 2}))
    )
    desk.write("trace.csv", "\n".join((HEAD, "0,100,red,2,0", "10,50,red,1,0")))
    report = desk.report("--marginal", f"--quotas={quotas}")
    assert report["runs"][0]["waits"]["all"]["max"] == 90.0
    assert report["marginal"][0]["quota"] == "red/q"
    assert report["marginal"][0]["savedWaitHours"] == 0.025


def test_the_nodes_of_a_tree_have_their_queues(desk: Desk) -> None:
    limits = {"cpu": 2}
    leaf = tree_node("red", max=limits, min=limits, namespaces=["red"])
    root = tree_node("root", leaf, max={"cpu": 9}, min=limits)
    quotas = desk.write("tree.yaml", yaml.safe_dump(elastic_quota_tree_body(root)))
    desk.write("trace.csv", "\n".join((HEAD, "0,100,red,2,0", "10,50,red,1,0")))
    report = desk.report(f"--quotas={quotas}", "--marginal")
    assert report["runs"][0]["waits"]["all"]["max"] == 90.0
    assert report["marginal"][0]["savedWaitHours"] > 0


# --- the page for users -------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_works(desk: Desk) -> None:
    blocks = dict(re.findall(r"^```(csv|yaml)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    desk.write("trace.csv", blocks["csv"])
    desk.write("quotas.yaml", blocks["yaml"])
    line = re.search(r"^    koord-queue replay (.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert line is not None
    words = line[1].replace("\\\n", " ").split()
    files = {"replay.json": "json", "replay.html": "html"}
    flags = [f"{desk.folder}/{word}" if word in files else word for word in words[4:]]
    assert desk.run(*flags) == 0, desk.err.getvalue()
    assert all((desk.folder / name).stat().st_size for name in files)


def test_the_page_has_every_flag_column_and_format() -> None:
    flags = {name for each in replay.params if isinstance(each, click.Option) for name in each.opts}
    assert {flag for flag in flags if f"| `{flag}" not in PAGE} == set()
    assert {name for name in OWN_COLUMNS if f"| `{name}` |" not in PAGE} == set()
    assert {name for name in FORMATS if f"### {name}\n" not in PAGE} == set()
    columns = {*NORMALIZED_COLUMNS, *OPENB_COLUMNS}
    assert {name for name in columns if f"`{name}`" not in PAGE} == set()


# --- what is wrong ------------------------------------------------------------------------------


def test_a_missing_file(desk: Desk) -> None:
    assert desk.run(trace="none.csv") == 2
    want = f"error: {desk.folder}/none.csv: No such file or directory\n"
    assert desk.err.getvalue() == want
    assert desk.out.getvalue() == ""


def test_an_empty_trace(desk: Desk) -> None:
    desk.write("trace.csv", "")
    assert desk.run() == 2
    assert desk.err.getvalue().endswith("trace.csv: it is empty\n")


@pytest.mark.parametrize("flag", ["--policy", "--compare"])
def test_an_unknown_policy(desk: Desk, flag: str) -> None:
    assert desk.run(flag, "Fastest") == 2
    also = " (nor is there a file of that name)" if flag == "--compare" else ""
    want = f"{flag} Fastest: there is no such policy{also}; known: Priority, Block, FIFO"
    assert want in desk.err.getvalue()


def test_quotas_that_the_file_does_not_have(desk: Desk) -> None:
    desk.write("trace.csv", "\n".join((HEAD, "0,1,red,1,0", *["1,1,green,1,0"] * 3)))
    assert desk.run() == 2
    want = "trace.csv, line 3: no quota: green does not exist (3 jobs)\n"
    assert desk.err.getvalue().endswith(want)


def test_many_wrong_quotas_are_named_in_part(desk: Desk) -> None:
    desk.write("trace.csv", "\n".join((HEAD, *(f"0,1,q{number},1,0" for number in range(9)))))
    assert desk.run() == 2
    assert desk.err.getvalue().endswith("q4 does not exist (1 jobs)\nand 4 more\n")


def test_jobs_without_a_quota_get_the_one_that_is_given(desk: Desk) -> None:
    desk.write("trace.csv", f"{HEAD}\n0,1,,1,0\n")
    assert desk.run() == 2
    want = "line 2: it names no quota; --default-quota gives such jobs one (1 jobs)\n"
    assert desk.err.getvalue().endswith(want)
    assert desk.run("--default-quota=red") == 0


@pytest.mark.parametrize(("text", "want"), [
    ("kind: Pod\nmetadata: {name: x}", "document 1: kind is 'Pod', want one of ElasticQuota, "),
    ("kind: List\nitems: [{kind: Pod}]", "document 1, item 1: kind is 'Pod', want one of "),
    ("kind: ElasticQuota\nspec: {max: 3}\nmetadata: {name: x}",
     "document 1: Expected `object`, got `int` - at `$.spec.max`"),
    ("kind: ElasticQuota\nspec: {}", "document 1: it has no metadata.name"),
    ("[]", "document 1: want an object with a kind"),
    ("a: 1\na: 2", "not valid YAML: `a` is there already, on line 1"),
    ("", "it has no quota; docs/replay.md has an example"),
], ids=["a kind", "in a list", "a field", "no name", "no object", "twice", "empty"])  # fmt: skip
def test_wrong_quotas(desk: Desk, text: str, want: str) -> None:
    desk.write("quotas.yaml", text)
    assert desk.run() == 2
    assert want in desk.err.getvalue()


def test_a_plugin_that_the_quotas_need_is_missing(desk: Desk) -> None:
    config = desk.write(
        "config.yaml",
        "apiVersion: scheduling.k8s.io/v1\nkind: KoordQueueConfiguration\n"
        "plugins: [{name: Priority}]\n",
    )
    assert desk.run(f"--config={config}") == 2
    assert "the quotas need plugin ElasticQuotaV2" in desk.err.getvalue()


def test_results_that_cannot_be_written_are_noticed_before_the_replay(desk: Desk) -> None:
    assert desk.run(f"--json={desk.folder}/none/r.json", trace="none.csv") == 2
    assert f"{desk.folder}/none/r.json: there is no folder" in desk.err.getvalue()
    assert desk.run(f"--report={desk.folder}", trace="none.csv") == 2
    assert f"{desk.folder}: it is a folder" in desk.err.getvalue()


def test_a_kubectl_list_is_read(desk: Desk) -> None:
    documents = yaml.safe_load_all(Path(desk.folder, "quotas.yaml").read_text(encoding="utf-8"))
    desk.write("quotas.yaml", yaml.safe_dump({"kind": "List", "items": list(documents)}))
    assert desk.run() == 0


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("", "--trace is missing: the file with the jobs"),
        ("--trace={trace}", "--quotas is missing: the file with the quotas"),
        ("--score-forecasts", "--trace is missing: the file with the jobs"),
        ("{trace} --score-forecasts --policies Fast", "--policies Fast: there is no such policy"),
    ],
    ids=["no trace", "no quotas", "no trace to score on", "a policy to score that is unknown"],
)
def test_what_is_missing_is_named(desk: Desk, line: str, want: str) -> None:
    assert desk.type(*line.format(trace=desk.folder / "trace.csv").split()) == 2
    assert f"error: {want}" in desk.err.getvalue()


def test_forecasts_are_scored(desk: Desk) -> None:
    """The trace may stand without a flag; scores are shown, and written as JSON."""
    jobs = [f"{100 * n},{300 + 7 * (n % 40)},{'red' if n % 3 else 'blue'},1,0" for n in range(200)]
    trace = desk.write("long.csv", "\n".join((HEAD, *jobs)))
    flags = ["--loads=0.9", "--policies=FIFO", "--declared=near", "--oracle", "--forecasts=9"]
    path = desk.folder / "scores.json"
    assert desk.type(trace, "--score-forecasts", *flags, f"--json={path}") == 0, desk.err.getvalue()
    (world,) = json.loads(path.read_bytes())["worlds"]
    assert world["questions"] > 0
    assert world["largestOracleError"] == 0
    assert "largest error with the truth given: 0 s" in desk.out.getvalue()
