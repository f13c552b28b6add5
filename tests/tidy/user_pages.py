"""The pages for users, and their content: links, tables, examples, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from tests.tidy.source_tree import ROOT, Finding, SourceFile, project_files

Pages = Mapping[PurePosixPath, str]
"""Text by path, relative to the root."""

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR: Final = re.compile(r'<a id="([^"]+)"></a>')
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

METRIC_TYPES: Final = {
    "Counter": "_total",
    "CounterMetricFamily": "_total",
    "CounterOfObjects": "_total",
    "counter": "_total",  # the constructors with their registry
    "gauge": "",
    "histogram": "",
    "Gauge": "",
    "GaugeMetricFamily": "",
    "Histogram": "",
    "HistogramMetricFamily": "",
    "Metric": "",
}
"""The constructors of metrics, and the suffixes that the library appends to names."""


def read_pages(*, of_users: bool) -> Pages:
    """Return README.md and docs/, or all pages of the project."""
    return {
        path: (ROOT / path).read_text(encoding="utf-8")
        for path in project_files()
        if path.suffix == ".md" and (not of_users or _is_for_users(path))
    }


def _is_for_users(path: PurePosixPath) -> bool:
    return str(path) == "README.md" or path.parts[0] == "docs"


# ------------------------------------------------------------------------------------- links


def anchors(text: str) -> set[str]:
    """Return the link targets in a page: its headings, as GitHub spells them, and ids."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    spelled = {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
    return spelled | set(_ANCHOR.findall(text))


def broken_links(pages: Pages) -> Iterator[Finding]:
    """Yield links to files and headings that do not exist."""
    for path, text in pages.items():
        for match in _LINK.finditer(text):
            target = match[1]
            if "://" not in target and not _is_there(path, target, pages):
                number = text.count("\n", 0, match.start()) + 1
                yield Finding(path, number, f"{target}: no such page or heading")


def _is_there(path: PurePosixPath, target: str, pages: Pages) -> bool:
    file, _, anchor = target.partition("#")
    found = (ROOT / path.parent / file).resolve() if file else ROOT / path
    if not found.exists():
        return False
    page = pages.get(PurePosixPath(found.relative_to(ROOT)))
    return not anchor or (page is not None and anchor in anchors(page))


# --------------------------------------------------------------------------- tables and names


def first_cells(pages: Pages, header: str) -> set[str]:
    """Return the names in the first column of a table, which is found by its first header."""
    pattern = rf"^\| {re.escape(header)} \|.*\n[|-]+\n((?:\|.*\n)+)"
    tables = [each for text in pages.values() for each in re.findall(pattern, text, re.MULTILINE)]
    assert tables, header
    return {
        name for table in tables for row in table.splitlines() for name in quoted(row.split("|")[1])
    }


def quoted(text: str) -> set[str]:
    """Return the texts in backquotes."""
    return set(re.findall(r"`([^`\n]+)`", text))


def metric_names(sources: Iterable[SourceFile]) -> set[str]:
    """Return the names of the metrics in sources, as a scrape has them."""
    return {
        node.args[0].value + METRIC_TYPES[node.func.id]
        for source in sources
        if "prometheus_client" in source.text
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in METRIC_TYPES
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


EVENT_CALLS: Final = {
    "RecordJobEvent",
    "RecordUnitEvent",
    "with_event_once",
    "announce_eviction",
    "build_request",
    "Notice",
    "_notice",
    "_problem",
    "QuotaProblem",
    "_report",
    "InvalidCheck",
    "Event",
}
"""Calls with the reason of an event, or of an eviction, which becomes one."""

_REASON: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)*")


def event_reasons(sources: Iterable[SourceFile]) -> set[str]:
    """Return the reasons of events in sources, as literals or constants."""
    trees = [source.tree for source in sources]
    constants = {
        node.target.id: node.value.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
    values = (
        value
        for call in calls
        if ast.unparse(call.func).rpartition(".")[2] in EVENT_CALLS
        for value in [*call.args, *(each.value for each in call.keywords if each.arg != "kind")]
    )
    texts = (
        constants.get(value.id) if isinstance(value, ast.Name) else value.value
        for value in values
        if isinstance(value, ast.Name | ast.Constant)
    )
    return {text for text in texts if isinstance(text, str) and _REASON.fullmatch(text)}


_WORDS_IN_ONE: Final = re.compile(r"[A-Z][a-z]+(?:[A-Z][a-z]+)+")


def camel_texts(sources: Iterable[SourceFile]) -> set[str]:
    """Return the texts of sources that look like a reason, a phase, or a kind.

    A reason of one word looks like any other text, and the names that a module exports are not
    shown to users.
    """
    found: set[str] = set()
    for source in sources:
        exported = {
            id(each) for node in source.tree.body if _exports(node) for each in ast.walk(node)
        }
        found |= {
            node.value
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in exported
            and _WORDS_IN_ONE.fullmatch(node.value)
        }
    return found


def _exports(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def words(text: str) -> set[str]:
    """Return the words of a page that consist of letters."""
    return set(re.findall(r"[A-Za-z]+", text))


# ----------------------------------------------------------------------------------- examples


def examples(text: str) -> list[list[Any]]:
    """Return the YAML documents of each example of a page."""
    return [list(yaml.safe_load_all(body)) for kind, body in _FENCE.findall(text) if kind == "yaml"]


def shown(text: str, command: str) -> list[str]:
    """Return the lines below a command in an indented example of a page, up to a blank line."""
    rest = text.partition(f"\n    $ {command}\n")[2].partition("\n\n")[0]
    return [line.removeprefix("    ") for line in rest.splitlines()]
