"""Packages that are nested too deeply, and ``__init__`` files with code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.source_tree import (
    ROOT,
    Finding,
    SourceFile,
    planted,
    report,
    shipped_files,
    source_files,
)

# A package, a package in it, a module: deeper trees are hard to search.
MOST_PATH_PARTS = 3


def deep_packages(source: SourceFile) -> Iterator[Finding]:
    """Yield modules below the second level of packages."""
    if source.is_shipped and len(source.path.parts) > MOST_PATH_PARTS:
        yield source.finding(1, "two levels of packages at most")


def maps_with_code(source: SourceFile) -> Iterator[Finding]:
    """Yield ``__init__`` files other than a docstring (a map of the package), or empty in tests."""
    if source.path.name != "__init__.py":
        return
    if source.is_shipped and ast.get_docstring(source.tree) is None:
        yield source.finding(1, "say what is here, in which order to read it, what is not here")
    for node in source.tree.body[1:]:
        yield source.finding(node.lineno, "an __init__.py is a map: code goes into a module")


def missing_tests(source: SourceFile) -> Iterator[Finding]:
    """Yield tests that the map of a package names, and that do not exist."""
    if source.path.name == "__init__.py" and source.is_shipped:
        for path in re.findall(r"``(tests/[^`]+)``", ast.get_docstring(source.tree) or ""):
            if not any(ROOT.glob(path)):
                yield source.finding(1, f"{path}: no such tests")


def test_packages_are_shallow() -> None:
    assert report(deep_packages, shipped_files()) == ""


def test_init_files_are_maps() -> None:
    assert report(maps_with_code, source_files()) == ""


def test_the_tests_that_maps_name_exist() -> None:
    assert report(missing_tests, shipped_files()) == ""


def test_a_name_of_missing_tests_is_found() -> None:
    text = '"""A map.\n\nTested by ``tests/nowhere``.\n"""'
    assert report(missing_tests, [planted(text, "shared_api/__init__.py")])


def test_deep_packages_are_found() -> None:
    assert report(deep_packages, [planted("", "shared_api/client/http/transport.py")])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="no map"),
        pytest.param('"""A map."""\nfrom shared_api import quantity', id="a re-export"),
    ],
)
def test_code_in_maps_is_found(text: str) -> None:
    assert report(maps_with_code, [planted(text, "shared_api/__init__.py")])
