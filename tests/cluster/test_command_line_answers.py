"""What `explain`, `when`, `describe`, `try`, `what-if` and `dump` print of a real cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cluster.command_line_kit import (
    COLUMNS,
    CommandLine,
    Printed,
    assert_golden,
    command_line,
    without_styles,
)
from tests.cluster.queue_world import OWN_TIMES_SECONDS
from tests.waiting import until

JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: next, labels: {quota.scheduling.koordinator.sh/name: team}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: none, resources: {requests: {cpu: 2}}}]
"""
READS: Final = ("--verb=get,list", "--resource=queueunits")
FORECAST: Final = r"(?m)^(Forecast: +)it (?:starts|may start) .*"


@pytest.fixture(scope="module")
def cli(
    controlplane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """In quota team, of four cores, one job runs with three, and two that want two each wait."""
    record = f"--record-dir={tmp_path_factory.mktemp('record')}"
    with command_line(controlplane_binaries, record) as found:
        world = found.world
        world.create_quota("team", cpu_max=4)
        until(lambda: world.has_queue("team"))
        world.create_job("first", "team", cpu="3", run_seconds=3600)
        until(lambda: world.running_pods("first"), OWN_TIMES_SECONDS)
        for name in ("second", "third"):
            world.create_job(name, "team", cpu="2")
            until(lambda: "OverQuotaMax" in found.run("explain", f"job/{name}").out)  # noqa: B023 - called at once
        until(lambda: found.run("when", "third").code == 0, OWN_TIMES_SECONDS)
        yield found


# --- explain --------------------------------------------------------------------------------------


def test_why_a_job_waits_and_what_would_start_it(cli: CommandLine) -> None:
    printed = cli.run("explain", "job/third", "--changes")
    assert (printed.code, printed.err) == (0, "")
    assert_golden("explain-waiting", printed.out)


def test_what_a_job_was_admitted_on(cli: CommandLine) -> None:
    assert_golden("explain-admitted", cli.run("explain", "job/first").out)


def test_an_explanation_of_a_terminal_fits_it_and_has_colors(cli: CommandLine) -> None:
    shown = cli.run_on_terminal("explain", "job/third")
    lines = without_styles(shown.out).splitlines()
    assert "\x1b[33mIt waits in queue team" in shown.out
    assert max(map(len, lines)) <= COLUMNS
    assert lines[1] == "(limit 4, used 3, requested 2).", "the sentence is wrapped between words"


def test_an_explanation_as_json_is_the_answer_of_the_api(cli: CommandLine) -> None:
    found = json.loads(cli.run("explain", "third", "-o", "json").out)
    assert (found["verdict"], found["position"]) == ("waiting", 2)
    assert yaml.safe_load(cli.run("explain", "third", "-o", "yaml").out)["verdict"] == "waiting"


def test_from_the_objects_alone_the_reason_is_known(cli: CommandLine) -> None:
    cli.world.plane.kubectl("create", "clusterrole", "reads", *READS)
    cli.world.plane.kubectl("create", "rolebinding", "reads", "--clusterrole=reads", "--user=bob")
    until(lambda: cli.run("units", "--as", "bob").code == 0)  # a new right counts after a moment
    printed = cli.run("explain", "job/third", "--as", "bob")
    assert_golden("explain-objects-alone", printed.out)
    assert printed.err.startswith("note: numbers, position and changes are not known: ")
    assert 'User "bob" cannot get resource "pendingunits' in printed.err


def test_why_a_job_waited_by_the_record(cli: CommandLine) -> None:
    asked = ("explain", "job/third", "--at", "1s", "--server", cli.server)
    until(lambda: cli.run(*asked).code == 0, OWN_TIMES_SECONDS)
    assert "It waits in queue team, at position 2: needs more cpu" in cli.run(*asked).out
    gone = cli.run("explain", "was-deleted", "--at", "1s", "--server", cli.server)
    assert gone.err.startswith("error: ")
    assert "default/was-deleted" in gone.err, "the record is asked, not the cluster"
    early = cli.run("explain", "job/third", "--at", "20d", "--server", cli.server)
    assert (early.code, early.out) == (1, "")


# --- when -----------------------------------------------------------------------------------------


def test_when_a_job_starts(cli: CommandLine) -> None:
    start, end, alone, basis, _ = cli.run("when", "job/third").lines
    assert re.match(
        r"third (starts (between|after|by|at about|more than) |may start at any moment)", start
    )
    assert end.startswith("It ends ")
    assert alone.startswith("If nothing else were submitted, it starts ")
    assert re.match(r"Based on \d+ futures? played \d+s ago, and 0 runs like it", basis)


def test_when_the_units_of_a_queue_start(cli: CommandLine) -> None:
    header, *rows = cli.run("when", "queue/team", "--server", cli.server).lines
    assert header.split() == ["NAMESPACE", "NAME", "EARLIEST", "MEDIAN", "LATEST", "ENDS"]
    assert [row.split()[:2] for row in rows] == [["default", "second"], ["default", "third"]]


def test_a_queue_that_is_not_there_has_no_forecast(cli: CommandLine) -> None:
    printed = cli.run("when", "queue/nosuch", "--server", cli.server)
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith("error: there is no queue nosuch\n")


def test_a_unit_is_named_with_its_namespace(cli: CommandLine) -> None:
    want = cli.run("explain", "job/third").out
    for named in ("default/third", "unit/third", "third", "jobs.batch/third"):
        assert cli.run("explain", named).out == want
    assert cli.run("explain", "default/third", "-n", "kube-system").out == want
    printed = cli.run("explain", "nosuch/third")
    assert printed.code == 1
    assert "no unit of namespace default belongs to nosuch/third" in printed.err


def test_a_job_without_a_unit_is_explained_by_the_controllers(cli: CommandLine) -> None:
    world, asked = cli.world, ("--server", cli.controllers_server)
    misspelt = {"quota.scheduling.koordinator.sh/nmae": "team"}
    world.create_job("fist", "", labels=misspelt)
    for command in ("explain", "describe", "when"):
        printed = answered(cli, command, "job/fist", *asked)
        assert printed.code == 1
        assert printed.err.startswith(
            "error: job/fist has no queue unit. It is not managed: it names no queue or quota. "
        )
        assert "Did you mean quota.scheduling.koordinator.sh/name?" in printed.err
    # Nobody may be asked: the port-forward has no pod to lead to.
    alone = cli.run("explain", "job/fist")
    assert "job/fist; whether it is managed is not known: kubectl port-forward failed" in alone.err
    assert alone.err.endswith("Did you mean job/first?\n")
    gone = cli.run("explain", "job/frist", *asked)
    assert "and there is no Job 'frist' in namespace 'default'" in gone.err
    assert gone.err.endswith("Did you mean job/first?\n")


def answered(cli: CommandLine, *arguments: str) -> Printed:
    """Return what is printed once the controllers have read what the answer depends on."""
    until(lambda: "ask again in a moment" not in cli.run(*arguments).err)
    return cli.run(*arguments)


def test_a_pod_is_explained_as_a_part_of_its_job(cli: CommandLine) -> None:
    (pod,) = cli.world.running_pods("first")
    name = pod["metadata"]["name"]
    printed = cli.run("explain", f"pod/{name}")
    assert printed.out == cli.run("explain", "job/first").out
    assert f"pod/{name} is a part of job/first" in printed.err


def test_a_job_that_runs_has_no_forecast(cli: CommandLine) -> None:
    printed = cli.run("when", "job/first")
    assert printed.code == 1
    assert printed.err == (
        "error: first has no forecast, since it is not waiting in a queue\n"
        "`koord-queue explain job/first` says where it stands.\n"
    )


# --- describe -------------------------------------------------------------------------------------


def test_the_life_of_a_job_that_runs(cli: CommandLine) -> None:
    until(lambda: "its pods run" in cli.run("describe", "job/first").out)
    assert_golden("describe-running", without_events(cli.run("describe", "job/first")))
    assert "job/first" in cli.run("describe", "job/first").out.partition("Events:")[2]


def test_the_life_of_a_job_that_waits(cli: CommandLine) -> None:
    described = without_events(cli.run("describe", "job/third"))
    assert_golden("describe-waiting", re.sub(FORECAST, r"\1it starts ...", described))


def test_a_description_of_a_terminal_cuts_nothing(cli: CommandLine) -> None:
    shown = without_styles(cli.run_on_terminal("describe", "job/third").out)
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    words = " ".join(shown.split())
    assert "missing 1 (limit 4, used 3, requested 2)." in words


def without_events(printed: Printed) -> str:
    """Return a description up to its events, which come when they come."""
    return printed.out.partition("\nEvents:")[0]


# --- try ------------------------------------------------------------------------------------------


def test_what_would_become_of_a_manifest(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    file.write_text(JOB, encoding="utf-8")
    printed = cli.run("try", "-f", str(file))
    assert (printed.code, printed.err) == (0, "")
    assert_golden("try", re.sub(r"(?m)^It starts .*", "It starts ...", printed.out))
    assert cli.world.api.find("/apis/batch/v1/namespaces/default/jobs/next") is None


def test_a_manifest_of_two_documents_comes_from_standard_input(cli: CommandLine) -> None:
    other = JOB.replace("name: next", "name: other")
    printed = cli.run("try", "-f", "-", "-o", "json", text=f"{JOB}---{other}")
    found = json.loads(printed.out)
    assert [each["name"] for each in found["jobs"]] == ["next", "other"]
    assert found["defaulted"] is True


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(JOB.replace("Never", "Always"),
            "error: Job default/next would not be created: Job.batch \"next\" is invalid: ",
            id="a field that the API server does not accept"),
        pytest.param(JOB.replace("batch/v1", "batch/v9"),
            "error: Job default/next would not be created: the server has no kind Job",
            id="a version that is not served"),
        pytest.param("a: [", "error: the manifest cannot be used: it is not YAML: ", id="no YAML"),
        pytest.param("", "error: the manifest cannot be used: it has no object\n", id="nothing"),
    ],
)  # fmt: skip
def test_a_refused_dry_run_is_the_answer(cli: CommandLine, manifest: str, want: str) -> None:
    printed = cli.run("try", "-f", "-", text=manifest)
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith(want)


def manifest_of(cli: CommandLine, name: str, restarts: str = "Never") -> str:
    """Return the manifest by which a job was applied."""
    found = cli.world.job(name)
    given = {key: found["spec"][key] for key in ("parallelism", "completions", "suspend")}
    pod = {**found["spec"]["template"]["spec"], "restartPolicy": restarts}
    metadata = {"name": name, "labels": found["metadata"]["labels"]}
    spec = {**given, "template": {"spec": pod}}
    return json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})


def test_a_manifest_that_is_applied_already_is_tried_as_its_update(cli: CommandLine) -> None:
    waits = cli.run("try", "-f", "-", text=manifest_of(cli, "second"))
    assert (waits.code, waits.err) == (0, "")
    want = "Job default/second: It exists already. It would not start now. It waits in queue team,"
    assert waits.lines[0].startswith(f"{want} at position 1: ")
    runs = cli.run("try", "-f", "-", text=manifest_of(cli, "first"))
    assert runs.lines[0] == (
        "Job default/first: It exists already. It has been admitted in queue team."
    )
    refused = cli.run("try", "-f", "-", text=manifest_of(cli, "second", restarts="OnFailure"))
    assert refused.code == 1
    assert refused.err.startswith("error: Job default/second would not be updated: ")


# --- what-if --------------------------------------------------------------------------------------


def test_what_a_larger_quota_would_change(cli: CommandLine) -> None:
    flags = ("--quota", "team.max.cpu=+1", "--server", cli.server)
    printed = cli.run("what-if", *flags)
    assert (printed.code, printed.err) == (0, "")
    assert_golden("what-if", printed.out)


def test_what_a_drained_queue_would_change(cli: CommandLine) -> None:
    flags = ("--queue", "team.stop-policy=HoldAndDrain", "--server", cli.server)
    printed = cli.run("what-if", *flags)
    assert "default/first (QueueStopped): " in printed.out
    assert "default/second (queue team): queue team is stopped" in printed.out


def test_what_would_change_within_an_hour(cli: CommandLine) -> None:
    flags = ("--end", "job/first", "--horizon", "1h", "--seed", "3", "--server", cli.server)
    printed = cli.run("what-if", *flags)
    assert (printed.code, printed.err) == (0, "")
    assert re.search(r"(?m)^Within 1 h \(\d+ futures?, seed 3; ", printed.out)
    # Which differences are clear depends on how many jobs came in the cluster's first minute, and
    # on how many futures the machine could play. There may be none: the answer says so then. The
    # table itself is asked of a cluster with a fixed past in tests/koord_queue/session.
    table_or_sentence = r"(?m)^(all|queue/team) +(wait-p50|cpu-used) |^ +No wait, no number of "
    assert re.search(table_or_sentence, printed.out), printed.out


def test_an_edit_that_the_api_server_would_refuse(cli: CommandLine) -> None:
    printed = cli.run("what-if", "--queue", "team.priority=3000000000", "--server", cli.server)
    assert printed.code == 1
    want = "error: the API server would refuse the edit of Queue team: "
    assert printed.err.startswith(want)


def test_whoever_may_not_patch_learns_that_it_was_not_asked(cli: CommandLine) -> None:
    flags = ("--queue", "team.priority=3", "--server", cli.server, "--as", "eve")
    printed = cli.run("what-if", *flags)
    assert printed.code == 0
    said = "note: the API server was not asked whether it accepts the edit: Queue team: "
    assert printed.err.startswith(said)
    assert 'User "eve" cannot patch resource "queues"' in printed.err


# --- dump -----------------------------------------------------------------------------------------


def test_a_dump_is_saved_and_asked(cli: CommandLine, tmp_path: Path) -> None:
    file = str(tmp_path / "mine.json.gz")
    saved = cli.run("dump", "--server", cli.server, "--no-anonymize", "-o", file)
    assert (saved.code, saved.out) == (0, "")
    assert saved.err == f"note: {file}: 3 units, 1 queues, WITH names\n"
    explained = cli.run("explain", "job/third", "--changes", "--from-dump", file)
    assert explained.out == cli.run("explain", "job/third", "--changes").out
