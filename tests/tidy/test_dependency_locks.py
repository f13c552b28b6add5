"""The lock files hold what pyproject.toml asks for, with hashes, and agree with each other."""

from __future__ import annotations

import pytest

from tests.tidy.dependency_locks import HEADERS, canonical, locked, wanted
from tests.tidy.source_tree import ROOT

LOCKS = {name: locked((ROOT / name).read_text(encoding="utf-8")) for name in HEADERS}


@pytest.mark.parametrize("name", HEADERS)
def test_every_wanted_package_is_locked(name: str) -> None:
    assert {canonical(row) for row in wanted(name)} - LOCKS[name].keys() == set()


@pytest.mark.parametrize("name", HEADERS)
def test_every_package_has_its_hashes(name: str) -> None:
    assert [package for package, (_, hashes) in LOCKS[name].items() if not hashes] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_smaller_locks_are_cuts_of_the_largest(name: str) -> None:
    assert LOCKS[name].items() - LOCKS["requirements-test.txt"].items() == set()


@pytest.mark.parametrize(
    "line",
    ["--index-url https://mirror.example", "-e .", "fastapi>=0.115", "fastapi", "./wheels/x.whl"],
)
def test_lines_that_lock_nothing_are_found(line: str) -> None:
    with pytest.raises(ValueError, match="neither a pin nor a hash"):
        locked(f"# header\n{line}\n")


def test_pins_without_hashes_are_counted() -> None:
    assert locked("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n") == {
        "a": ("1", 1),
        "b": ("2", 0),
    }
