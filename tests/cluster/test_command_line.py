"""What `koord-queue units` and `queues` print of a real cluster, and how answers are reached."""

from __future__ import annotations

import json
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

OF_ANN: Final = {"koord-queue/user": "ann"}


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """In quota team one job runs and two wait; one names a quota that is not there."""
    with command_line(controlplane_binaries) as found:
        world = found.world
        world.create_quota("team", cpu_max=4)
        until(lambda: world.has_queue("team"))
        world.create_job("first", "team", cpu="3", run_seconds=3600)
        until(lambda: world.phase_of_job("first") == "Running", OWN_TIMES_SECONDS)
        for name in ("second", "third"):
            world.create_job(name, "team", cpu="2", labels=OF_ANN)
            await_reason(found, name, "OverQuotaMax")
        world.create_job("lost", "none-such")
        await_reason(found, "lost", "NoQuota")
        # The last forecast knows all that waits.
        until(lambda: starts(found) == ["-", "not-as-things-are"], OWN_TIMES_SECONDS)
        yield found


def await_reason(cli: CommandLine, job: str, wanted: str) -> None:
    """Return when the unit of a job is shown with a reason."""
    until(lambda: reason(cli, job) == wanted, OWN_TIMES_SECONDS)


def starts(cli: CommandLine) -> list[str]:
    """Return STARTS of the units of which no time is told."""
    cells = [line.split()[5] for line in cli.run("units").lines[1:]]
    return [cell for cell in cells if not cell[0].isdecimal()]


def reason(cli: CommandLine, job: str) -> str:
    """Return the reason that is shown for the unit of a job, or ""."""
    rows = [line.split() for line in cli.run("units").lines if f"job/{job} " in line]
    return rows[0][-1] if rows else ""


def names(printed: Printed) -> list[str]:
    """Return the first column without its heading."""
    return [line.split()[0] for line in printed.lines[1:]]


# --- units ----------------------------------------------------------------------------------------


def test_units_are_a_table(cli: CommandLine) -> None:
    printed = cli.run("units")
    assert (printed.code, printed.err) == (0, "")
    assert_golden("units", printed.out)
    assert_golden("units-wide", cli.run("units", "-o", "wide", "-A").out)


def test_units_of_a_pipe_have_as_many_words_in_each_row(cli: CommandLine) -> None:
    lines = cli.run("units").lines
    assert {len(line.split()) for line in lines} == {8}
    assert "\x1b" not in "".join(lines)


def test_units_of_a_terminal_fit_it_and_have_colors(cli: CommandLine) -> None:
    shown = cli.run_on_terminal("units", "-A")
    plain = without_styles(shown.out)
    assert "\x1b[32mRunning" in shown.out
    assert max(map(len, plain.splitlines())) <= COLUMNS
    assert cli.run_on_terminal("units", more={"NO_COLOR": "1"}).out.count("\x1b[3") == 0


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["-l", "koord-queue/user=ann"], ["second", "third"], id="by label"),
        pytest.param(["--sort-by", "name"], ["first", "lost", "second", "third"], id="by name"),
        pytest.param(["--as", "ann", "--as-group", "system:masters", "--mine"], ["second", "third"],
            id="of whoever asks"),
    ],
)  # fmt: skip
def test_units_that_are_wanted(cli: CommandLine, arguments: list[str], want: list[str]) -> None:
    assert names(cli.run("units", *arguments)) == want


def test_units_as_objects(cli: CommandLine) -> None:
    listed = json.loads(cli.run("units", "-o", "json").out)
    kinds = {(each["kind"], each["apiVersion"]) for each in listed["items"]}
    assert (listed["kind"], kinds) == ("List", {("QueueUnit", "scheduling.x-k8s.io/v1alpha1")})
    assert yaml.safe_load(cli.run("units", "-o", "yaml").out) == listed
    first, *_ = cli.run("units", "-o", "name").lines
    assert first == "queueunit.scheduling.x-k8s.io/first"
    by_name = cli.run("units", "-o", "name", "--sort-by", "queue").lines
    assert [each.rpartition("/")[2] for each in by_name] == names(cli.run("units"))


def test_no_unit_is_said(cli: CommandLine) -> None:
    printed = cli.run("units", "-n", "kube-system")
    assert printed == (0, "", "note: no unit in kube-system waits or runs\n")
    assert cli.run("units", "--finished").err == (
        "note: no unit in default has ended; -A looks in all namespaces\n"
    )


# --- queues ---------------------------------------------------------------------------------------


def test_queues_are_a_table(cli: CommandLine) -> None:
    until(lambda: cli.run("queues").lines[1].split()[2:4] == ["2", "1"])
    assert_golden("queues", cli.run("queues").out)
    assert cli.run("queues", "-o", "name").lines == ["queue.scheduling.x-k8s.io/team"]


# --- how answers are reached ----------------------------------------------------------------------


def test_whoever_may_list_units_alone_learns_what_is_missing(cli: CommandLine) -> None:
    role = ["create", "clusterrole", "lists", "--verb=list", "--resource=queueunits"]
    cli.world.plane.kubectl(*role)
    binding = ["create", "rolebinding", "lists", "--clusterrole=lists", "--user=bob"]
    cli.world.plane.kubectl(*binding)
    until(lambda: cli.run("units", "--as", "bob").code == 0)  # a new right counts after a moment
    printed = cli.run("units", "--as", "bob")
    assert sorted(names(printed)) == ["first", "lost", "second", "third"]
    assert {line.split()[4] for line in printed.lines[1:]} == {"-"}
    assert "positions and forecasts are not known" in printed.err
    assert 'User "bob" cannot list resource "pendingunits"' in printed.err


def test_a_server_is_asked_alone(cli: CommandLine) -> None:
    printed = cli.run("units", "--server", cli.server)
    assert_golden("units-of-a-server", printed.out)


@pytest.mark.parametrize(
    ("arguments", "code", "want"),
    [
        pytest.param(["units", "--as", "eve"], 1,
            'error: queueunits.scheduling.x-k8s.io is forbidden: User "eve" cannot list resource',
            id="no right"),
        pytest.param(["units", "--kubeconfig", "/none"], 1,
            "error: no cluster is configured: there is no kubeconfig at /none\n"
            "Name one with --kubeconfig or --context.\n", id="no kubeconfig"),
        pytest.param(["units", "--context", "none"], 1, "error: no cluster is configured",
            id="no context"),
        pytest.param(["units", "--as-group", "x"], 2, "error: --as-group needs --as\n",
            id="a group alone"),
        pytest.param(["units", "--sort-by", "size"], 2, "Usage: koord-queue units",
            id="no such order"),
        pytest.param(["unit"], 2, "Usage: koord-queue", id="no such command"),
    ],
)  # fmt: skip
def test_errors_are_a_sentence(
    cli: CommandLine, arguments: list[str], code: int, want: str
) -> None:
    printed = cli.run(*arguments)
    assert (printed.code, printed.out) == (code, "")
    assert printed.err.startswith(want)
    assert "Traceback" not in printed.err
