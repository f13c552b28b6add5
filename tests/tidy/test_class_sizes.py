"""Classes that do more than one thing, or are too large to understand.

Modules have no limit in lines: a module is as long as its subject. Classes do, since every method
may change what every other one relies on.

Public methods are counted. Those of a protocol of the project count only there, not in classes that
implement it completely: these are used through the protocol. Lines are those with code, without
docstrings, comments, and blank ones.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.source_tree import (
    Finding,
    FunctionNode,
    SourceFile,
    planted,
    report,
    shipped_files,
)

MOST_METHODS: Final = 15
MOST_LINES: Final = 300

LARGER: Final = {
    "Engine": "a method for each fact and each outcome: calls are passed on and recorded by their"
    " names; what is only asked is asked of its parts",
    "QuotaCache": "a charge or an edit marks the waiters, which the same trees check again: a part"
    " for the waiters would hold the cache that holds it",
    "Turns": "whatever changes a rank touches the domains whose wakes it collects: a part for the"
    " use of quotas would hold the turns that hold it",
}
"""By name of the class: why it is not split."""


def large_classes(source: SourceFile) -> Iterator[Finding]:
    """Yield classes above a limit."""
    for node in _classes(source):
        problem = _find_problem(source, node)
        if problem and node.name not in LARGER:
            yield source.finding(node.lineno, f"{node.name} has {problem}: is it two?")


def _find_problem(source: SourceFile, node: ast.ClassDef) -> str:
    methods = _own_methods(node)
    if len(methods) > MOST_METHODS:
        return f"{len(methods)} public methods; at most {MOST_METHODS}"
    lines = _code_lines(source, node)
    return f"{lines} lines; at most {MOST_LINES}" if lines > MOST_LINES else ""


def _own_methods(node: ast.ClassDef) -> frozenset[str]:
    """Return the public methods of a class without those of protocols that it implements."""
    methods = _public_methods(node)
    if not _is_protocol(node):
        for protocol in _protocols():
            if protocol <= _public_methods(node):
                methods -= protocol
    return methods


@functools.cache
def _protocols() -> tuple[frozenset[str], ...]:
    """Return the methods of each protocol of the project."""
    return tuple(
        _public_methods(node)
        for source in shipped_files()
        for node in _classes(source)
        if _is_protocol(node)
    )


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("Protocol") for base in node.bases)


def _public_methods(node: ast.ClassDef) -> frozenset[str]:
    return frozenset(
        each.name
        for each in node.body
        if isinstance(each, FunctionNode) and not each.name.startswith("_")
    )


def _classes(source: SourceFile) -> Iterator[ast.ClassDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            yield node


def _code_lines(source: SourceFile, node: ast.ClassDef) -> int:
    assert node.end_lineno is not None  # ast.parse always sets it
    numbers = set(range(node.lineno, node.end_lineno + 1))
    for each in ast.walk(node):
        if isinstance(each, FunctionNode | ast.ClassDef) and ast.get_docstring(each, clean=False):
            first = each.body[0]
            assert first.end_lineno is not None
            numbers -= set(range(first.lineno, first.end_lineno + 1))
    lines = source.text.splitlines()
    texts = (lines[number - 1].strip() for number in numbers)
    return sum(bool(text) and not text.startswith("#") for text in texts)


def test_classes_are_small() -> None:
    assert report(large_classes, shipped_files()) == ""


def test_every_exception_is_needed() -> None:
    large = {
        node.name
        for source in shipped_files()
        for node in _classes(source)
        if _find_problem(source, node)
    }
    assert set(LARGER) <= large, "these classes are below the limits"


def methods(count: int) -> str:
    return "".join(f"  def method_{number}(self): ...\n" for number in range(count))


def test_many_public_methods_are_found() -> None:
    few = "class Some:\n" + methods(MOST_METHODS) + "  def _inside(self): ...\n"
    assert not report(large_classes, [planted(few)])
    assert report(large_classes, [planted("class Some:\n" + methods(MOST_METHODS + 1))])


def test_methods_of_a_protocol_that_is_implemented_completely_do_not_count() -> None:
    protocol = max(_protocols(), key=len)
    asked_for = "".join(f"  def {name}(self): ...\n" for name in sorted(protocol))
    whole = f"class Some:\n{methods(MOST_METHODS)}{asked_for}"
    assert not report(large_classes, [planted(whole)])
    in_part = "\n".join(whole.splitlines()[:-1])
    assert report(large_classes, [planted(in_part)])


def test_docstrings_do_not_count() -> None:
    contract = '    """Contract.' + "\n    More." * MOST_LINES + '"""\n'
    text = f"class Some:\n  def method(self):\n{contract}    return 1\n"
    assert not report(large_classes, [planted(text)])


@pytest.mark.parametrize("line", ["x = 1", "# Why.", ""])
def test_lines_without_code_do_not_count(line: str) -> None:
    text = "class Some:\n  def method(self):\n" + f"    {line}\n" * MOST_LINES + "    return 1\n"
    assert bool(report(large_classes, [planted(text)])) is (line == "x = 1")
