"""Meaningless names, packages that are nested too deeply, and ``__init__`` files with code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.tidy.source_tree import (
    Finding,
    SourceFile,
    planted,
    report,
    shipped_files,
    source_files,
)

# A module with such a name collects unrelated code.
EMPTY_WORDS = frozenset(
    ("base", "common", "core", "helper", "helpers", "manager", "managers", "misc", "util", "utils")
)
# A package, a package in it, a module: deeper trees are hard to search.
MOST_PATH_PARTS = 3

WORDS_OF_A_CLASS_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def meaningless_names(source: SourceFile) -> Iterator[Finding]:
    """Yield modules, folders, and classes with a name that has no meaning in the field."""
    for part in source.path.with_suffix("").parts:
        for word in EMPTY_WORDS.intersection(part.lower().split("_")):
            yield source.finding(1, f"{part!r} says nothing: name it after what it is, not {word}")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            words = {word.lower() for word in WORDS_OF_A_CLASS_NAME.findall(node.name)}
            for word in EMPTY_WORDS & words:
                yield source.finding(node.lineno, f"class {node.name}: {word!r} says nothing")


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


def test_names_have_a_meaning() -> None:
    assert report(meaningless_names, source_files()) == ""


def test_packages_are_shallow() -> None:
    assert report(deep_packages, shipped_files()) == ""


def test_init_files_are_maps() -> None:
    assert report(maps_with_code, source_files()) == ""


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param("shared_api/utils.py", "", id="a module of utilities"),
        pytest.param("shared_api/common/quantity.py", "", id="a folder for anything"),
        pytest.param("queue_scheduler/quota_manager.py", "", id="one word of the name"),
        pytest.param("queue_scheduler/quota.py", "class QuotaManager: ...", id="a class"),
        pytest.param("queue_scheduler/quota.py", "class HTTPBase: ...", id="after an acronym"),
    ],
)
def test_meaningless_names_are_found(path: str, text: str) -> None:
    assert report(meaningless_names, [planted(text, path)])


@pytest.mark.parametrize("name", ["Database", "Coreless", "Commons"])
def test_parts_of_words_are_not_words(name: str) -> None:
    assert not report(meaningless_names, [planted(f"class {name}: ...")])


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
