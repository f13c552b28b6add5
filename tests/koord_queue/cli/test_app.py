"""The program itself: its list of commands, and what it says of mistakes."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from koord_queue.cli import app
from koord_queue.errors import CommandError
from shared_api.version import VERSION


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Return a function that makes another one the command `units`."""

    def planted(function: Callable[[], None]) -> None:
        command = click.command()(function)
        monkeypatch.setattr(app.LazyCommands, "get_command", lambda *_: command)

    return planted


def test_help_lists_each_command_in_its_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert [name for name in app.COMMANDS if f"\n  {name} " not in out] == []
    assert [
        section
        for section, listed in app.SECTIONS.items()
        if listed and f"\n{section}:\n" not in out
    ] == []


def test_its_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"koord-queue {VERSION}\n"


def test_each_command_can_be_imported() -> None:
    with click.Context(app.root) as context:
        got = [app.root.get_command(context, name) for name in app.COMMANDS]
    assert None not in got


def test_an_error_is_a_sentence_and_a_next_step(
    plant: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise CommandError("no \x1b[31m unit", "Look again.", exit_code=3)

    plant(fails)
    assert app.run(["units"]) == 3
    assert capsys.readouterr() == (
        "",
        "error: no \N{REPLACEMENT CHARACTER}[31m unit\nLook again.\n",
    )


def test_an_interrupt_is_no_error(
    plant: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    plant(interrupted)
    assert app.run(["units"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["uints"]) == 2
    assert "There is no command 'uints'. Did you mean units?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["units", "-n", "../x"], "'../x' is no name of a namespace.", id="-n"),
        pytest.param(["queues", "--system-namespace", "a b"], "'a b' is no name of a namespace.",
            id="--system-namespace"),
        pytest.param(["units", "--as", "a\nb"], r"'a\nb' has characters that cannot be sent.",
            id="--as"),
        pytest.param(["units", "--as", "a", "--as-group", "\udcff"],
            r"'\udcff' has characters that cannot be sent.", id="--as-group"),
        pytest.param(["units", "--at", "soon"], "'soon' is not a moment", id="units --at"),
        pytest.param(["explain", "a", "--at", "soon"], "'soon' is not a moment", id="explain --at"),
        pytest.param(["explain", "a", "--at", "2h", "--changes"], "--changes is about now",
            id="changes in the past"),
        pytest.param(["units", "--at", "2h", "--sort-by", "start"], "know no starts to sort by.",
            id="starts of another time"),
        pytest.param(["queues", "-n", "x"], "-n names no queues: they are where --system-namespace",
            id="queues -n"),
        pytest.param(["top", "-n", "x"], "-n is for `top units`: quotas are those of all",
            id="top -n"),
        pytest.param(["tree", "-n", "x"], "-n is of no use here: quotas are those of all",
            id="tree -n"),
        pytest.param(["log", "--since", "soon"], "'soon' is not a moment", id="log --since"),
        pytest.param(["log", "queue/"], "'queue/' names no queue", id="log of no queue"),
        pytest.param(["when", "queue/a/b", "--server", "http://127.0.0.1:1"],
            "'queue/a/b' names no queue", id="when of no queue"),
        pytest.param(["what-if", "--server", "http://127.0.0.1:1", "--quota", "x"],
            "Write NAME.max.RESOURCE=VALUE", id="what-if --quota"),
        pytest.param(["what-if", "--server", "http://127.0.0.1:1", "--policy", "x"],
            "Write NAME.userLimits[N].max.RESOURCE=VALUE", id="what-if --policy"),
        pytest.param(["what-if", "--server", "http://127.0.0.1:1", "--queue", "x"],
            "Write NAME.priority=N", id="what-if --queue"),
        pytest.param(["what-if", "--server", "http://127.0.0.1:1", "--node", "x"],
            "Write NAME.copies=N", id="what-if --node"),
    ],
)  # fmt: skip
def test_what_is_not_written_as_it_must_be_is_refused_before_anything_is_asked(
    arguments: list[str], want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 2
    assert want in " ".join(capsys.readouterr().err.split())


def test_kubectl_calls_it_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-koord_queue", "--help"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl koord-queue [OPTIONS]")
