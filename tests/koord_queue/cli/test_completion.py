from __future__ import annotations

import signal
import subprocess
import sys

import click
import pytest

from koord_queue.cli.completion import _time_limit, complete, kinds_of


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
def test_each_shell_has_a_script(shell: str) -> None:
    command = [sys.executable, "-m", "koord_queue", "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "koord_queue" in script
    if shell in {"bash", "kubectl"}:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
