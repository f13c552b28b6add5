"""The program `koord-queue`."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_scheduler.command_line.__main__ import run


@pytest.mark.parametrize(("line", "want"), [
    ("", "koord-queue: error: the following arguments are required: COMMAND"),
    ("rewind", "koord-queue: error: argument COMMAND: invalid choice: 'rewind'"),
    ("replay --trace t --quotas q --start-seconds=-1",
     "koord-queue replay: error: argument --start-seconds: invalid seconds value: '-1'"),
], ids=["no command", "an unknown one", "a time below 0"])  # fmt: skip
def test_what_is_wrong_with_a_line(
    line: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        run(line.split())
    assert raised.value.code == 2
    assert want in capsys.readouterr().err


def test_the_exit_code_is_that_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", f"--trace={tmp_path}/t", f"--quotas={tmp_path}/q"]) == 2
    assert capsys.readouterr().err.startswith("koord-queue replay: error: ")
