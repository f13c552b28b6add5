"""The table of upstream's tests is correct: every id has a row, every row its tests.

One of them uses a real API server, and contains the id.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from tests.check_situations import SITUATIONS
from tests.tidy.source_tree import ROOT

TABLE: Final = (ROOT / "tests" / "cluster" / "upstream" / "README.md").read_text(encoding="utf-8")
ROWS: Final = [row.split("|") for row in TABLE.splitlines() if row.startswith("| `")]

SCHEDULERS: Final = {"P": 5, "A": 2, "C": 2, "R": 1, "K": 5, "I": 5, "E": 3}
"""The number of ids per letter."""
NAMED: Final = {"QueueV2", "tree", "V2 accounting", "job failure", "further"}
LAST_OF_CONTROLLERS: Final = 68

_TEST: Final = re.compile(r"`(test_\w+\.py)(?:::(\w+))?`")
_BRACKETS: Final = re.compile(r'"""\[([^\]\n]+)\]')
_OWN_NAME: Final = re.compile(r'id="(ctl-\d+) |(?:def test_|_)(ctl_\d+)(?=_)')
CLUSTER: Final = ROOT / "tests" / "cluster"


def ids_of(text: str) -> set[str]:
    """Return the ids of a cell or of a docstring, with ranges expanded."""
    found: set[str] = set()
    for part in text.replace("`", "").split(","):
        first, _, last = part.strip().partition(" to ")
        stem = first.rstrip("0123456789")
        if not last:
            found.add(first)
            continue
        numbers = range(int(first[len(stem) :]), int(last[len(stem) :]) + 1)
        found.update(f"{stem}{number}" for number in numbers)
    return found


@cache
def files_of(name: str) -> list[Path]:
    """Return the test files with this name."""
    return sorted((ROOT / "tests").rglob(name))


@cache
def functions_of(name: str) -> set[str]:
    """Return the tests in files with this name."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files_of(name))
    return {each.name for tree in trees for each in tree.body if isinstance(each, ast.FunctionDef)}


def test_every_id_has_its_row() -> None:
    want = {f"{letter}{n}" for letter, most in SCHEDULERS.items() for n in range(1, most + 1)}
    want |= NAMED | {f"ctl-{number}" for number in range(1, LAST_OF_CONTROLLERS + 1)}
    got = {one for row in ROWS for one in ids_of(row[1])}
    assert got == want


def test_every_test_of_the_table_exists() -> None:
    named = {pair for row in ROWS for pair in _TEST.findall(row[3])}
    assert len(named) > 40
    assert {name for name, _ in named if not files_of(name)} == set()
    missing = {f"{name}::{test}" for name, test in named if test and test not in functions_of(name)}
    assert missing == set()


def test_every_row_names_a_test_on_a_real_server() -> None:
    def is_real(name: str) -> bool:
        return (CLUSTER / name).exists()

    rows = [(row[1].strip(), _TEST.findall(row[3])) for row in ROWS]
    assert [ids for ids, tests in rows if not any(is_real(name) for name, _ in tests)] == []


def named_in_cluster_tests() -> set[str]:
    """Return the ids in docstrings, names, and parameters of cluster tests."""
    said: set[str] = set()
    for path in CLUSTER.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        said.update(one for cell in _BRACKETS.findall(text) for one in ids_of(cell))
        said.update((a or b).replace("_", "-") for a, b in _OWN_NAME.findall(text))
    return said


def test_ids_in_tests_are_those_of_the_table() -> None:
    known = {one for row in ROWS for one in ids_of(row[1])}
    # An id may be part of a situation's id, or a range of ids: `P4-end`, `K1-K5`.
    on_any_cluster = {name.partition("-")[0] for name in SITUATIONS}
    assert named_in_cluster_tests() | on_any_cluster == known
