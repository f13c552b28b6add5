"""The commands of the agent skill exist, and take these arguments."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest
import yaml

from koord_queue.cli.app import COMMANDS, SECTIONS, root

TEXT: Final = (Path(__file__).resolve().parents[2] / "examples/agent-skill/SKILL.md").read_text(
    encoding="utf-8"
)
BLOCKS: Final = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
LINES: Final = [line for block in BLOCKS for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_a_command_is_written_as_it_takes_it(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "koord-queue"
    command = root.get_command(click.Context(root), name)
    assert command is not None
    command.make_context(name, arguments)


def test_all_that_changes_something_needs_to_be_asked_for() -> None:
    rule = TEXT.partition("## When not to act")[2]
    acts = [name for name in SECTIONS["Do"] if f"`{name}`" not in rule]
    assert acts == []
    changing = [line for line in LINES if line.split()[1] in SECTIONS["Do"]]
    assert [line for line in changing if "--dry-run" not in line] == []


def test_the_front_matter_is_short_enough_to_be_always_loaded() -> None:
    found = yaml.safe_load(TEXT.split("---")[1])
    assert found.keys() == {"name", "description"}
    assert (found["name"], len(found["description"]) < 1024) == ("koord-queue", True)
    assert set(re.findall(r"koord-queue ([a-z-]+)", " ".join(LINES))) <= COMMANDS.keys()
