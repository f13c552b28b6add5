"""State is written only in the module of its class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.source_tree import Finding, SourceFile, planted, report, source_files

OWNED: Final = "queue_scheduler/quota_cache/"
"""Packages in which sums, marks, and caches depend on each other, so each has one writer."""


def foreign_writes(source: SourceFile) -> Iterator[Finding]:
    """Yield writes to fields, or items of them, outside the module of their class."""
    if not str(source.path).startswith(OWNED):
        return
    own = _own_fields(source.tree)
    for node in ast.walk(source.tree):
        for target in map(_without_index, _targets(node)):
            if isinstance(target, ast.Attribute) and target.attr not in own:
                written = ast.unparse(target)
                yield source.finding(target.lineno, f"{written} is written here: ask its owner to")
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"setattr", "delattr"}:
            yield source.finding(node.lineno, "a field is written by its name")


def _own_fields(tree: ast.Module) -> set[str]:
    """Return the fields of the module's classes: annotated, or set by methods on `self`."""
    fields: set[str] = set()
    for node in ast.walk(tree):
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                fields.add(target.attr)
        if isinstance(node, ast.ClassDef):
            fields |= {
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            }
    return fields


def _without_index(target: ast.expr) -> ast.expr:
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case _:
            pass


def test_state_is_written_by_its_owner() -> None:
    assert report(foreign_writes, source_files()) == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("books.watchers = 1", id="a field"),
        pytest.param("books.used['cpu'] += 1", id="an item of a field"),
        pytest.param("del ledger.owners[owner]", id="an item that is deleted"),
        pytest.param("total, books.asked = 1, 2", id="among others"),
        pytest.param("setattr(books, 'used', {})", id="by its name"),
    ],
)
def test_foreign_writes_are_found(text: str) -> None:
    assert report(foreign_writes, [planted(text, OWNED + "reclaim.py")])


def test_the_module_of_the_class_may_write_it() -> None:
    owner = "class Books:\n def __init__(self):\n  self.used = {}\n"
    text = owner + "def add(books):\n books.used['cpu'] = 2\n"
    assert not report(foreign_writes, [planted(text, OWNED + "tree_usage.py")])
