"""What the reader of a page does, from top to bottom: commands to type, and files to save.

A command is a line of an indented block that begins with a prompt, `$ `; the lines below it are
what it shows. A line that ends with `...` shows the beginning of one. A file is a block of YAML
whose first line is a comment with its name: `# team.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.tidy.source_tree import ROOT

_STEP: Final = re.compile(
    r"^(?P<indent> {4,})\$ (?P<command>[^\n]+)\n(?P<shown>(?:(?P=indent)(?!\$ )[^\n]*\n)*)"
    r"|^```yaml\n(?P<text># (?P<file>[\w.-]+\.yaml)\n.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Command(NamedTuple):
    """A command, and the lines that the page shows below it."""

    text: str
    shown: tuple[str, ...]

    def missing(self, printed: str) -> list[str]:
        """Return the shown lines that were not printed; spaces may differ."""
        found = " ".join(printed.split())
        wanted = (" ".join(line.removesuffix("...").split()) for line in self.shown)
        return [line for line in wanted if line not in found]


class File(NamedTuple):
    """A file to save, and its content."""

    name: str
    text: str


def steps(page: str) -> list[Command | File]:
    """Return the steps of a page of docs/, or of README.md."""
    folder = ROOT if page == "README.md" else ROOT / "docs"
    return list(steps_of((folder / page).read_text(encoding="utf-8")))


def steps_of(text: str) -> Iterator[Command | File]:
    """Yield the steps of a text."""
    for match in _STEP.finditer(text):
        if match["file"]:
            yield File(match["file"], match["text"])
        else:
            shown = (line.strip() for line in match["shown"].splitlines())
            yield Command(match["command"], tuple(line for line in shown if line))
