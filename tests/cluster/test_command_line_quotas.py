"""What `tree`, `top` and `log` show of a real cluster, and what completion offers there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest

from tests.cluster.command_line_kit import (
    CommandLine,
    Printed,
    assert_golden,
    command_line,
    without_styles,
)
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUEUE_NAMESPACE, QueueWorld, debug
from tests.waiting import PATIENCE_SECONDS, until

PARENT: Final = "quota.scheduling.koordinator.sh/parent"
IS_PARENT: Final = "quota.scheduling.koordinator.sh/is-parent"


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """Of quota org, research borrows of teaching, whose unit waits; decisions are recorded."""
    with (
        tempfile.TemporaryDirectory() as folder,
        command_line(controlplane_binaries, f"--record-dir={folder}") as found,
    ):
        world = found.world
        until(lambda: is_recorded(found), OWN_TIMES_SECONDS)
        world.create_quota("org", cpu_max=10, labels={IS_PARENT: "true"})
        for name, least in (("research", 2), ("teaching", 4)):
            world.create_quota(name, cpu_max=8, cpu_min=least, labels={PARENT: "org"})
        until(lambda: world.has_queue("research") and world.has_queue("teaching"))
        for name, cpu in (("big", 4), ("small", 2)):
            world.create_unit(name, "research", cpu=cpu)
            until(partial(is_admitted, world, name))
        world.create_unit("wide", "teaching", cpu=7)
        until(lambda: "default/wide" in found.run(*of(found, "log")).out, OWN_TIMES_SECONDS)
        yield found


def of(cli: CommandLine, *arguments: str) -> tuple[str, ...]:
    """Return a command that asks the scheduler's debug API."""
    return (*arguments, "--server", cli.server)


def is_admitted(world: QueueWorld, unit: str) -> bool:
    return world.phase(unit) == "Dequeued"


def is_recorded(cli: CommandLine) -> bool:
    """Return whether decisions are recorded."""
    try:
        return bool(
            debug(cli.cluster.scheduler, "/debug/insight")["record"]["state"] == "recording"
        )
    except HTTPError:  # the insight program is not connected yet
        return False


def test_the_tree_of_quotas_has_a_line_for_each_in_a_pipe(cli: CommandLine) -> None:
    printed = cli.run(*of(cli, "tree"))
    assert (printed.code, printed.err) == (0, "")
    assert_golden("tree", printed.out)
    below = cli.run(*of(cli, "tree", "research", "--resource", "cpu"))
    assert [line.split()[0] for line in below.lines] == ["QUOTA", "research"]


def test_the_tree_of_quotas_has_bars_on_a_terminal(cli: CommandLine) -> None:
    printed = cli.run_on_terminal(*of(cli, "tree"))
    assert_golden("tree-on-a-terminal", without_styles(printed.out))
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    plain = cli.run_on_terminal(*of(cli, "tree"), more=ascii_only)
    assert_golden("tree-in-ascii", without_styles(plain.out))


def test_the_tree_as_values(cli: CommandLine) -> None:
    found = json.loads(cli.run(*of(cli, "tree", "-o", "json")).out)["quotas"]
    [research] = [each for each in found if each["path"] == "org/research"]
    assert (research["used"], research["borrowed"], research["share"]) == ("6", "4", 0.75)


def test_a_quota_that_is_not_there_is_an_error_with_similar_names(cli: CommandLine) -> None:
    printed = cli.run(*of(cli, "tree", "resaerch"))
    assert printed.code == 1
    assert printed.err == "error: there is no quota resaerch\nDid you mean research?\n"


def test_without_the_scheduler_the_tree_is_that_of_the_objects(cli: CommandLine) -> None:
    printed = cli.run("tree")
    assert printed.code == 0
    assert "what is charged, granted and borrowed is not known" in printed.err
    assert_golden("tree-of-objects", printed.out)


def test_top_shows_what_is_used_most(cli: CommandLine) -> None:
    assert_golden("top", cli.run(*of(cli, "top")).out)
    assert_golden("top-units", cli.run("top", "units").out)
    shown = cli.run_on_terminal(*of(cli, "top"))
    assert_golden("top-on-a-terminal", without_styles(shown.out))


def test_top_draws_again_on_terminals_only(cli: CommandLine) -> None:
    printed = cli.run(*of(cli, "top", "-w"))
    assert printed.code == 2
    assert "-w draws on a terminal only" in printed.err


def test_the_log_has_the_newest_decision_last(cli: CommandLine) -> None:
    printed = cli.run(*of(cli, "log"))
    assert (printed.code, printed.err) == (0, "")
    assert_golden("log", printed.out)
    assert_golden("log-on-a-terminal", without_styles(cli.run_on_terminal(*of(cli, "log")).out))


def units_in(printed: Printed) -> list[str]:
    return [line.split()[1] for line in printed.lines[1:]]


def test_the_log_is_about_what_was_asked(cli: CommandLine) -> None:
    assert set(units_in(cli.run(*of(cli, "log", "wide")))) == {"default/wide"}
    gone = cli.run(*of(cli, "log", "unit/gone"))
    assert (gone.code, gone.err) == (0, "note: nothing of this is recorded\n")
    of_queue = cli.run(*of(cli, "log", "queue/research", "--since", "1h"))
    assert set(units_in(of_queue)) == {"default/big", "default/small"}
    newest = cli.run(*of(cli, "log", "--limit", "1"))
    assert set(units_in(newest)) == {"default/wide"}
    assert newest.err == "note: older entries are left out: --limit is 1\n"
    unreadable = cli.run(*of(cli, "log", "--since", "soon"))
    assert unreadable.code == 2
    assert "'--since': 'soon' is not a moment such as" in unreadable.err


@pytest.fixture(scope="module")
def scripts(cli: CommandLine) -> Iterator[dict[str, str]]:
    """An environment whose PATH has the programs that pip installs, and kubectl."""
    with tempfile.TemporaryDirectory() as folder:
        for name, call in (
            ("koord-queue", "koord_queue.__main__:main"),
            ("kubectl-koord_queue", "koord_queue.__main__:main"),
            ("kubectl_complete-koord_queue", "koord_queue.cli.completion:complete_for_kubectl"),
        ):
            module, _, function = call.partition(":")
            file = Path(folder) / name
            file.write_text(
                f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\n"
                f"sys.exit({function}())\n"
            )
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        plane = cli.world.plane
        yield cli.environment() | {"PATH": f"{folder}:{plane.binaries}:{os.environ['PATH']}"}


def shell(scripts: dict[str, str], command: str) -> list[str]:
    """Return the lines that bash prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        env=scripts,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


COMPLETED: Final = """
source <(koord-queue completion bash)
complete -p koord-queue > /dev/null
COMP_WORDS=(koord-queue {words}) COMP_CWORD={last}
_koord_queue_completion koord-queue
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["vers"], ["version"], id="a command"),
        pytest.param(["tree", "re"], ["research"], id="a quota"),
        pytest.param(["log", "queue/t"], ["queue/teaching"], id="a queue with its word"),
        pytest.param(["log", "b"], ["big"], id="a unit"),
        pytest.param(["units", "-n", "kube-p"], ["kube-public"], id="a namespace"),
        pytest.param(
            ["log", "-n", "kube-public", ""],
            ["queue/org", "queue/research", "queue/teaching"],
            id="no unit of another namespace",
        ),
    ],
)
def test_bash_and_kubectl_complete_the_same(
    scripts: dict[str, str], words: list[str], want: list[str]
) -> None:
    quoted = " ".join(f"'{word}'" for word in words)
    in_bash = COMPLETED.format(words=quoted, last=len(words))
    by_kubectl = f"kubectl __complete koord-queue {quoted} 2> /dev/null"

    def completed() -> list[str]:
        return [line.split("\t")[0] for line in shell(scripts, by_kubectl)]

    # On a busy machine an answer may come later than the tab key waits, and nothing is completed.
    until(lambda: shell(scripts, in_bash) == want)
    until(lambda: completed() == [*want, ":4"])


def test_kubectl_runs_the_same_program(scripts: dict[str, str]) -> None:
    got = shell(scripts, "kubectl koord-queue version --client")
    assert got == shell(scripts, "koord-queue version --client")
    assert "kubectl koord-queue top" in shell(scripts, "kubectl koord-queue top --help")[0]


def test_the_scheduler_has_to_answer_for_a_log(cli: CommandLine) -> None:
    printed = cli.run("log", "--as", "nobody", "-n", QUEUE_NAMESPACE)
    assert printed.code == 1
    assert printed.err.startswith("error: ")
