"""Functions, tests, and tables that are too long to read at once.

Classes: `test_class_sizes`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.source_tree import (
    Finding,
    FunctionNode,
    SourceFile,
    functions,
    planted,
    report,
    source_files,
)

# Aim for 20; docstrings are contracts and are not counted.
MOST_FUNCTION_LINES = 60
MOST_TEST_LINES = 40
MOST_TABLE_ROWS = 30
MOST_NESTING = 3

# A with or a try adds no case to keep in mind.
BLOCKS = (ast.If, ast.For, ast.While, ast.Match)


def long_functions(source: SourceFile) -> Iterator[Finding]:
    """Yield functions and tests above their limit."""
    for node in functions(source):
        most = MOST_TEST_LINES if _is_test(source, node) else MOST_FUNCTION_LINES
        lines = _code_lines(node)
        if lines > most:
            yield source.finding(node.lineno, f"{node.name} has {lines} lines; at most {most}")


def long_tables(source: SourceFile) -> Iterator[Finding]:
    """Yield parametrized tables with too many rows."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"), args=[_, ast.List(elts=rows), *_]
            ):
                if len(rows) > MOST_TABLE_ROWS:
                    yield source.finding(
                        node.lineno, f"{len(rows)} rows; at most {MOST_TABLE_ROWS}: two tables"
                    )
            case _:
                pass


def deep_nesting(source: SourceFile) -> Iterator[Finding]:
    """Yield functions with too deeply nested blocks."""
    for node in functions(source):
        depth = max((_depth(statement) for statement in node.body), default=0)
        if depth > MOST_NESTING:
            yield source.finding(
                node.lineno, f"{node.name} nests {depth} deep; at most {MOST_NESTING}"
            )


def _is_test(source: SourceFile, node: FunctionNode) -> bool:
    return source.path.name.startswith("test_") and node.name.startswith("test_")


def _code_lines(node: FunctionNode) -> int:
    assert node.end_lineno is not None  # ast.parse always sets it
    lines = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _depth(node: ast.AST) -> int:
    """Return the blocks around the deepest statement; an elif is at the level of its if."""
    if isinstance(node, FunctionNode | ast.ClassDef | ast.expr):
        return 0
    below = max((_depth(child) for child in _children(node)), default=0)
    return below + isinstance(node, BLOCKS)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    while isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from node.body
        node = node.orelse[0]
    yield from ast.iter_child_nodes(node)


def test_functions_are_short() -> None:
    assert report(long_functions, source_files()) == ""


def test_tables_are_short() -> None:
    assert report(long_tables, source_files()) == ""


def test_nesting_is_shallow() -> None:
    assert report(deep_nesting, source_files()) == ""


@pytest.mark.parametrize(
    ("path", "name", "most"),
    [
        pytest.param("shared_api/quantity.py", "parse", MOST_FUNCTION_LINES, id="a function"),
        pytest.param("tests/test_quantity.py", "test_parse", MOST_TEST_LINES, id="a test"),
        pytest.param(
            "tests/test_quantity.py", "build", MOST_FUNCTION_LINES, id="a helper of tests"
        ),
    ],
)
def test_long_functions_are_found(path: str, name: str, most: int) -> None:
    def of_lines(count: int) -> SourceFile:
        return planted(f"def {name}():\n" + "    x = 1\n" * (count - 1), path)

    assert not report(long_functions, [of_lines(most)])
    assert report(long_functions, [of_lines(most + 1)])


def test_docstrings_do_not_count() -> None:
    text = 'def parse():\n    """Contract.' + "\n    More." * 70 + '\n    """\n    return 1\n'
    assert not report(long_functions, [planted(text)])


def test_long_tables_are_found() -> None:
    rows = ", ".join(["1"] * (MOST_TABLE_ROWS + 1))
    assert report(long_tables, [planted(f"pytest.mark.parametrize('n', [{rows}])")])


def test_deep_nesting_is_found() -> None:
    text = "def f():\n with a:\n  for b in a:\n   if b:\n    for c in b:\n     {}\n"
    assert not report(deep_nesting, [planted(text.format("x = 1"))])
    assert report(deep_nesting, [planted(text.format("while c:\n      x = 1"))])


def test_elif_is_at_the_level_of_its_if() -> None:
    text = "def f():\n if a:\n  x = 1\n elif b:\n  x = 1\n elif c:\n  if d:\n   if e:\n    x = 1\n"
    assert not report(deep_nesting, [planted(text)])
