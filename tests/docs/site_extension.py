"""The Sphinx extension of docs/conf.py: what the site has that the pages on GitHub have not.

- A comment `<!-- made: NAME -->` is replaced by what a module of this folder makes of the sources.
- The index's lists of links become the site's tables of contents.
- Links to files outside docs/ become links to the repository, or its files as text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from sphinx.application import Sphinx

from tests.charts.values_reference import CHART, build_table, read_values
from tests.docs.reference_kinds import kinds_text
from tests.docs.reference_metrics import metrics_text
from tests.docs.reference_programs import commands_text, flags_text
from tests.docs.reference_reasons import reasons_text

MADE: Final = re.compile(r"^<!-- made: ([a-z]+) -->$", re.MULTILINE)
INDEX: Final = "index"
_SECTION: Final = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"^- \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
_OUTSIDE: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)\s]+)\)")


def values_text() -> str:
    """Return the table of the chart's values."""
    return build_table(read_values((CHART / "values.yaml").read_text(encoding="utf-8")))


MAKERS: Final[Mapping[str, Callable[[], str]]] = {
    "kinds": kinds_text,
    "flags": flags_text,
    "values": values_text,
    "metrics": metrics_text,
    "reasons": reasons_text,
    "commands": commands_text,
}


def filled(text: str) -> str:
    """Return a page with what is made of the sources in the place of its comments."""
    return MADE.sub(lambda match: MAKERS[match[1]]().rstrip(), text)


def contents(index: str) -> str:
    """Return the tables of contents of a site: one for each section of the index with links."""
    trees = [
        f":::{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n:::\n"
        for title, body in _SECTION.findall(index)
        if (pages := _ENTRY.findall(body))
    ]
    return "\n".join(trees)


def within_site(text: str, page: str) -> str:
    """Return a page without links that leave docs/: the file's path in their place.

    Args:
        text: The page.
        page: Its name, such as "start/with-koordinator".
    """

    def replace(match: re.Match[str]) -> str:
        target, _, _ = match[2].partition("#")
        path = PurePosixPath(os.path.normpath(PurePosixPath("docs", page).parent / target))
        if path.parts[0] == "docs":
            return match[0]
        said = match[1].strip("`")
        return f"`{path}`" if said == str(path) or said == path.name else f"{match[1]} (`{path}`)"

    return _OUTSIDE.sub(replace, text)


def on_read(_app: Sphinx, page: str, source: list[str]) -> None:
    """Change a page before it is parsed."""
    text = filled(within_site(source[0], page))
    if page == INDEX:
        text += "\n" + contents(text)
    source[0] = text


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", on_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
