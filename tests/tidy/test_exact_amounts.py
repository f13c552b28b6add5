"""Amounts are exact integers: they are computed without floats and true division."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.source_tree import (
    Finding,
    SourceFile,
    functions,
    planted,
    report,
    source_files,
)

EXACT_PLACES = (
    "queue_scheduler/quota/",
    "queue_scheduler/quota_cache/",
    "shared_api/quantity.py",
    "shared_api/resource_list.py",
)

# (file, function): why it uses float64.
FLOAT_FUNCTIONS = {
    ("shared_api/quantity.py", "_parse_number"): (
        "a JSON number may arrive as a float; its shortest digits are read, nothing is computed"
    ),
    ("queue_scheduler/quota/quota_spec.py", "annotated_amounts"): (
        "JSON again, and parse_amounts reads it in the same way"
    ),
    ("queue_scheduler/quota/runtime_division.py", "scaled_min"): (
        "koord-scheduler scales mins with float64; this repeats its expression"
    ),
    ("queue_scheduler/quota/runtime_division.py", "half_up_share"): (
        "koord-scheduler 1.8 rounds shares half-up with float64; this repeats its expression"
    ),
}


def inexact_arithmetic(source: SourceFile) -> Iterator[Finding]:
    """Yield divisions, float literals, and the name ``float`` in exact code."""
    if not str(source.path).startswith(EXACT_PLACES):
        return
    allowed = {
        line
        for node in functions(source)
        if (str(source.path), node.name) in FLOAT_FUNCTIONS
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for node in ast.walk(source.tree):
        what = _inexact(node)
        if what and isinstance(node, ast.expr | ast.stmt) and node.lineno not in allowed:
            yield source.finding(node.lineno, f"{what}: amounts are exact integers")


def _inexact(node: ast.AST) -> str:
    match node:
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return "/"
        case ast.Constant(value=float() | complex()):
            return "a float literal"
        case ast.Name(id="float"):
            return "float"
        case ast.ImportFrom(module="math") | ast.Attribute(value=ast.Name(id="math")):
            return "math"
        case ast.Call(func=ast.Name(id="round")):
            return "round() is half-even"
        case _:
            return ""


def test_amounts_are_exact() -> None:
    assert report(inexact_arithmetic, source_files()) == ""


def test_exceptions_are_needed() -> None:
    named = {
        (str(source.path), node.name) for source in source_files() for node in functions(source)
    }
    present = {str(source.path) for source in source_files()}
    gone = [row for row in FLOAT_FUNCTIONS if row[0] in present and row not in named]
    assert gone == []


@pytest.mark.parametrize(
    "text",
    [
        "half = total / 2",
        "total /= 2",
        "rate = 1.5",
        "def share(weight: float) -> int: ...",
        "share = float(total)",
        "import math\nshare = math.floor(total)",
        "from math import floor",
        "share = round(total)",
    ],
)
@pytest.mark.parametrize(
    "path", ["queue_scheduler/quota_cache/limit_checks.py", "shared_api/quantity.py"]
)
def test_inexact_arithmetic_is_found(path: str, text: str) -> None:
    assert report(inexact_arithmetic, [planted(text, path)])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param(
            "queue_scheduler/quota_cache/limit_checks.py", "half = total // 2", id="whole"
        ),
        pytest.param("queue_scheduler/engine/engine.py", "half = total / 2", id="elsewhere"),
        pytest.param(
            "queue_scheduler/quota/runtime_division.py",
            "def half_up_share(x: int) -> int:\n    return int(x * 1.5)",
            id="a listed function",
        ),
    ],
)
def test_exact_arithmetic_is_no_finding(path: str, text: str) -> None:
    assert not report(inexact_arithmetic, [planted(text, path)])
