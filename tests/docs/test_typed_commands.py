"""Every command of the pages is run by a test, or stands in a table that says why not."""

from __future__ import annotations

from typing import Final

import click
import pytest

from koord_queue.cli.app import COMMANDS, root
from tests.docs.page_steps import Command, steps_of
from tests.docs.typed_commands import (
    NOT_TYPED,
    PLAYED,
    commands,
    examples,
    has_fenced_commands,
    own_arguments,
    read_commands,
    why_not_typed,
)
from tests.tidy.source_tree import ROOT

PAGES: Final = read_commands()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_every_command_is_typed_or_says_why_not(page: str) -> None:
    text = PAGES[page]
    assert not has_fenced_commands(text), "write commands as indented blocks: `    $ command`"
    if page in PLAYED:
        left = [each for each in commands(text) if not each.has_prompt]
        assert [each for each in left if not why_not_typed(each.text)] == []


def test_the_files_that_type_a_page_name_it() -> None:
    for page, file in PLAYED.items():
        assert f'"{page}"' in (ROOT / "tests/cluster" / file).read_text(encoding="utf-8")
        assert [step for step in steps_of(PAGES[page]) if isinstance(step, Command)]


def test_the_table_of_commands_that_are_not_typed_is_not_stale() -> None:
    untyped = (
        each.text
        for page, text in PAGES.items()
        for each in commands(text)
        if page not in PLAYED or not each.has_prompt
    )
    used = {why_not_typed(each) for each in untyped}
    assert {pattern for pattern, _ in NOT_TYPED} - used == set()


def test_pages_that_are_not_read_as_a_whole_are_examples() -> None:
    pages = {"a.md": "    $ kubectl get a\n", "b.md": "    pip install x\n", "what-if.md": ""}
    assert examples(pages) == ["a.md"]


@pytest.mark.parametrize("page", sorted(PAGES))
def test_our_commands_have_the_options_that_pages_name(page: str) -> None:
    for each in commands(PAGES[page]):
        for call in own_arguments(each.text):
            parse(call)


def parse(call: list[str]) -> None:
    """Parse a command line of `koord-queue` without running it.

    Raises:
        click.UsageError: It is not one.
    """
    name, *arguments = call
    if name in {"--help", "COMMAND"}:
        return
    assert name in COMMANDS, call
    command = root.get_command(click.Context(root), name)
    assert command is not None
    command.make_context(name, arguments, resilient_parsing=False)


@pytest.mark.parametrize(
    "command", ["koord-queue explane job/a", "true | koord-queue units --nmespace x"]
)
def test_a_wrong_command_is_found(command: str) -> None:
    (call,) = own_arguments(command)
    with pytest.raises((AssertionError, click.UsageError)):
        parse(call)


def test_commands_are_found() -> None:
    shown = "    $ kubectl get x\n    curl y\n\n"
    text = f"{shown}    helm install a b \\\n        --set c=d\n\n    it prints\n"
    found = [(each.text, each.has_prompt) for each in commands(text)]
    assert found == [("kubectl get x", True), ("helm install a b --set c=d", False)]
