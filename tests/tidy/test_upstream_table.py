"""The table of upstream's tests says what is: every id has its row, every test in it exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

from tests.tidy.source_tree import ROOT

TABLE: Final = (ROOT / "tests" / "cluster" / "upstream" / "README.md").read_text(encoding="utf-8")
ROWS: Final = [row.split("|") for row in TABLE.splitlines() if row.startswith("| `")]

SCHEDULERS: Final = {"P": 5, "A": 2, "C": 2, "R": 1, "K": 5, "I": 5, "E": 3}
"""How many ids each letter has."""
NAMED: Final = {"QueueV2", "tree", "V2 accounting", "job failure", "further"}
LAST_OF_CONTROLLERS: Final = 68

_TEST: Final = re.compile(r"`(test_\w+\.py)(?:::(\w+))?`")
_BRACKETS: Final = re.compile(r'"""\[([^\]\n]+)\]')


def ids_of(text: str) -> set[str]:
    """Return the ids of a cell or of a docstring, ranges spelt out."""
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
    """Return the files of tests that have this name."""
    return sorted((ROOT / "tests").rglob(name))


@cache
def functions_of(name: str) -> set[str]:
    """Return the tests in them."""
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


def test_every_row_names_a_test() -> None:
    assert [row[1].strip() for row in ROWS if not _TEST.search(row[3])] == []


def test_ids_in_tests_are_those_of_the_table() -> None:
    known = {one for row in ROWS for one in ids_of(row[1])}
    cluster = (ROOT / "tests" / "cluster").glob("test_*.py")
    said = {
        one
        for path in cluster
        for cell in _BRACKETS.findall(path.read_text(encoding="utf-8"))
        for one in ids_of(cell)
    }
    assert said - known == set()
    assert len(said) > 25
