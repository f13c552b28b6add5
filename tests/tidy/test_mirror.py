"""Unit tests have the paths and names of their modules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import pytest

from tests.cluster.conftest import LONGEST
from tests.tidy.source_tree import PACKAGES, Finding, mirrored_modules, project_files


def strays(files: Iterable[PurePosixPath]) -> Iterator[Finding]:
    """Yield unit tests without a module, and folders without a package."""
    present = frozenset(files)
    folders = {parent for path in present for parent in path.parents}
    modules = folders | {path.with_suffix("") for path in present if path.suffix == ".py"}
    for path in sorted(present):
        if path.suffix != ".py" or path.parts[0] != "tests":
            continue
        mirrored = PurePosixPath(*path.parts[1:-1])
        if not mirrored.parts or mirrored.parts[0] not in PACKAGES:
            continue
        if mirrored not in folders:
            yield Finding(path, 1, f"there is no package {mirrored}/")
        elif path.name.startswith("test_") and not modules & mirrored_modules(path):
            yield Finding(path, 1, f"there is no module in {mirrored}/ with this test's name")


def test_unit_tests_mirror_the_tree() -> None:
    assert "\n".join(map(str, strays(project_files()))) == ""


def test_files_that_start_first_exist() -> None:
    assert set(LONGEST) <= {path.name for path in project_files()}


PLANTED = [
    PurePosixPath(name)
    for name in (
        "shared_api/__init__.py",
        "shared_api/quantity.py",
        "queue_scheduler/__main__.py",
        "queue_scheduler/quota/quota_tree.py",
    )
]


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("tests/shared_api/test_amounts.py", id="no such module"),
        pytest.param("tests/shared_api/test_quota_tree.py", id="a module of another package"),
        pytest.param("tests/queue_scheduler/plugins/test_priority.py", id="no such package"),
    ],
)
def test_strays_are_found(test: str) -> None:
    assert list(strays([*PLANTED, PurePosixPath(test)]))


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("tests/shared_api/test_quantity.py", id="the module"),
        pytest.param("tests/shared_api/test_quantity_rounding.py", id="one aspect of it"),
        pytest.param("tests/queue_scheduler/test_quota.py", id="a package"),
        pytest.param("tests/queue_scheduler/test_main.py", id="the program"),
        pytest.param("tests/queue_scheduler/quota/conftest.py", id="fixtures"),
        pytest.param("tests/shared_api/scripted_server.py", id="a helper of tests"),
        pytest.param("tests/properties/test_never_over.py", id="not a unit test"),
    ],
)
def test_mirrored_tests_are_no_finding(test: str) -> None:
    assert not list(strays([*PLANTED, PurePosixPath(test)]))
