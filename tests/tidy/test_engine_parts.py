"""What the parts of the engine hold is used by them alone; others ask by name."""

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


HELD: Final = {
    "units": {
        *("records", "queues", "usage", "charges", "builder", "gone", "fact_waits", "held"),
        *("admitted", "changed_queues", "held_lately", "lowered_lately"),
    },
    "queues": {"turns"},
    "usage": {"known", "pods"},
    "pods": {"of_units", "claims", "untried"},
    "rounds": {"search", "nominations", "waiters"},
    "plugins": {"plugins", "placing", "waking", "facts"},
}
"""What these parts hold: by the name under which an engine gives the part."""


def stray_state(source: SourceFile) -> Iterator[Finding]:
    """Yield uses of the parts of a part outside these packages."""
    if str(source.path).startswith(PARTS):
        return
    for node in ast.walk(source.tree):
        match node:
            case ast.Attribute(value=ast.Attribute(attr=part) | ast.Name(id=part), attr=name) if (
                name in HELD.get(part.removeprefix("_"), ())
            ):
                found = f"{ast.unparse(node)}: ask the engine's part by its name, or known_units"
                yield source.finding(node.lineno, found)
            case _:
                pass


def test_only_the_parts_of_the_engine_use_what_they_hold() -> None:
    assert report(stray_state, shipped_files()) == ""


@pytest.mark.parametrize(
    ("text", "path", "want"),
    [
        pytest.param("engine.units.records", "queue_insight/a.py", 1, id="through an engine"),
        pytest.param("units.records[key]", "queue_insight/a.py", 1, id="of the cache"),
        pytest.param("self.engine.units", "queue_insight/a.py", 0, id="the cache itself"),
        pytest.param("engine.units.usage.pods", "queue_insight/a.py", 2, id="two parts deep"),
        pytest.param("engine.rounds.search", "queue_scheduler/cycles/a.py", 1, id="of a round"),
        pytest.param("engine.living_pods", "queue_insight/a.py", 0, id="a part by its name"),
        pytest.param("file.records", "queue_insight/a.py", 0, id="other records"),
        pytest.param("self._units.records", "queue_scheduler/preemption/a.py", 0, id="in a part"),
    ],
)
def test_the_rule_finds_what_is_planted(text: str, path: str, want: int) -> None:
    assert len(list(stray_state(planted(text, path)))) == want
