"""The program itself: its list of commands, and what it says of mistakes."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from koord_queue.cli import app
from koord_queue.errors import CommandError


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


def test_kubectl_calls_it_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-koord_queue", "--help"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl koord-queue [OPTIONS]")
