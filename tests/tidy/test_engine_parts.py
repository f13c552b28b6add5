"""The records of all units are read by the parts of the engine alone; others ask by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.source_tree import Finding, SourceFile, planted, report, shipped_files

PARTS: Final = (
    "queue_scheduler/cache/",
    "queue_scheduler/engine/",
    "queue_scheduler/preemption/",
)
"""The packages that hold an engine's state, or decide with it."""


def stray_records(source: SourceFile) -> Iterator[Finding]:
    """Yield uses of the dict with the records of all units outside these packages."""
    if str(source.path).startswith(PARTS):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(
                value=ast.Attribute(attr="units" | "_units") | ast.Name(id="units"), attr="records"
            ):
                found = f"{ast.unparse(node)}: iterate over the units, or ask known_units"
                yield source.finding(node.lineno, found)
            case _:
                pass


def test_only_the_parts_of_the_engine_use_the_records() -> None:
    assert report(stray_records, shipped_files()) == ""


@pytest.mark.parametrize(
    ("text", "path", "want"),
    [
        pytest.param("engine.units.records", "queue_insight/a.py", 1, id="through an engine"),
        pytest.param("units.records[key]", "queue_insight/a.py", 1, id="of the cache"),
        pytest.param("self.engine.units", "queue_insight/a.py", 0, id="the cache itself"),
        pytest.param("file.records", "queue_insight/a.py", 0, id="other records"),
        pytest.param("self._units.records", "queue_scheduler/preemption/a.py", 0, id="in a part"),
    ],
)
def test_the_rule_finds_what_is_planted(text: str, path: str, want: int) -> None:
    assert len(list(stray_records(planted(text, path)))) == want
