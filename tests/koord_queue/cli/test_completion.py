from __future__ import annotations

import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest

from koord_queue.cli.app import run
from koord_queue.cli.completion import complete
from koord_queue.cli.shells import _time_limit, kinds_of
from tests.tidy.source_tree import ROOT

PATIENCE_SECONDS: Final = 60.0


@pytest.mark.parametrize(
    ("parameter", "want"),
    [
        pytest.param(click.Argument(["unit"]), ("unit",), id="a unit"),
        pytest.param(click.Argument(["targets"], metavar="JOB..."), ("unit",), id="jobs"),
        pytest.param(click.Argument(["targets"], metavar="QUEUE..."), ("queue",), id="queues"),
        pytest.param(
            click.Argument(["about"], metavar="[UNIT | queue/NAME]"),
            ("unit", "queue/"),
            id="a unit, or a queue with its word",
        ),
        pytest.param(click.Argument(["quota"]), ("quota",), id="a quota"),
        pytest.param(click.Argument(["file"], metavar="TRACE"), (), id="a file"),
        pytest.param(
            click.Option(["-n", "--namespace"], metavar="NAME"), ("namespace",), id="a namespace"
        ),
        pytest.param(click.Option(["--to", "queue"], metavar="QUEUE"), ("queue",), id="a queue"),
        pytest.param(click.Option(["--quota"], metavar="EDIT"), (), id="an edit of a quota"),
        pytest.param(click.Option(["--context"], metavar="NAME"), (), id="another name"),
    ],
)
def test_parameters_that_name_objects_are_known(
    parameter: click.Parameter, want: tuple[str, ...]
) -> None:
    assert kinds_of(parameter) == want


@pytest.mark.parametrize(
    ("words", "incomplete", "want"),
    [
        pytest.param([], "tr", {"tree", "try"}, id="commands"),
        pytest.param(["top"], "", {"quotas", "units"}, id="words of a command"),
        pytest.param(["tree"], "--res", {"--resource"}, id="options"),
        pytest.param(["tree", "-o"], "y", {"yaml"}, id="values of an option"),
        pytest.param(["no-such"], "", set(), id="a command that does not exist"),
    ],
)
def test_words_are_completed_without_a_cluster(
    words: list[str], incomplete: str, want: set[str]
) -> None:
    assert {each.value for each in complete(words, incomplete)} == want


def test_a_cluster_that_cannot_be_asked_completes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    assert complete(["tree"], "") == []


def test_names_are_waited_for_a_limited_time() -> None:
    with pytest.raises(TimeoutError), _time_limit(0.01):
        signal.pause()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_each_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "koord_queue" in script
    if shell in {"bash", "kubectl"}:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


# --- the scripts in their shells ------------------------------------------------------------------


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The program on the PATH, an empty home, and no cluster."""
    program = tmp_path / "koord-queue"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m koord_queue "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    path = f"{tmp_path}:{os.environ['PATH']}"
    more = {"PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "KUBECONFIG": "/none"}
    return os.environ | more | {"TERM": "dumb", "COLUMNS": "100"}


def found_shell(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on PATH (Debian: apt install {name})")
    return found


@pytest.mark.parametrize(
    ("line", "want"),
    [("koord-queue vers", ["version"]), ("koord-queue tree -o ", ["json", "table", "yaml"])],
)
def test_fish_completes(environment: dict[str, str], line: str, want: list[str]) -> None:
    script = f"koord-queue completion fish | source; complete --do-complete '{line}'"
    command = [found_shell("fish"), "--no-config", "--command", script]
    done = subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert sorted(each.partition("\t")[0] for each in done.stdout.splitlines()) == want


def test_zsh_completes(environment: dict[str, str]) -> None:
    """Typed on a terminal: what the tab key has added is run."""
    shell = found_shell("zsh")
    ours, theirs = pty.openpty()
    typed = (
        "autoload -Uz compinit && compinit -D -u\n"
        "source <(koord-queue completion zsh)\n"
        "koord-queue vers\t--client > told.txt\n"
        "exit\n"
    )
    with subprocess.Popen(
        [shell, "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment, cwd=environment["HOME"], start_new_session=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, typed.encode())
        read_all(ours)
        process.wait(PATIENCE_SECONDS)
    os.close(ours)
    got = (Path(environment["HOME"]) / "told.txt").read_text()
    assert got.split()[:4] == ["PROGRAM", "VERSION", "IMAGE", "command-line"]


def read_all(terminal: int) -> None:
    """Read until the shell has closed its end, so that it never waits for a reader."""
    try:
        while os.read(terminal, 65_536):
            pass
    except OSError:
        return
