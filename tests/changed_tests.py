"""`python -m tests.changed_tests BASE`: prints the unit tests of what differs from a commit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tests.tidy.source_tree import PACKAGES, ROOT, project_files

SLOW = {"cluster", "contracts", "page", "properties", "scenarios", "simulation"}
"""Folders of tests that are steps of their own: none of them ends within a minute."""


def find_tests(
    changed: Iterable[PurePosixPath], present: Iterable[PurePosixPath]
) -> Iterator[PurePosixPath]:
    """Yield the test files that changed, and those of modules that changed, each once.

    Args:
        changed: What changed, relative to the root; it may be deleted.
        present: The files that there are.
    """
    changes = frozenset(changed)
    for path in sorted(present):
        if path.suffix != ".py" or path.parts[0] != "tests" or path.parts[1] in SLOW:
            continue
        if path.name.startswith("test_") and (path in changes or _is_of_a_change(path, changes)):
            yield path


def _is_of_a_change(test: PurePosixPath, changes: frozenset[PurePosixPath]) -> bool:
    """Return whether a test has the path and the name of a module that changed."""
    folder = PurePosixPath(*test.parts[1:-1])
    if not folder.parts or folder.parts[0] not in PACKAGES:
        return False
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
    return any(folder / f"{name}.py" in changes for name in names)


def changed_since(base: str) -> list[PurePosixPath]:
    """Return the files that differ from a commit, and those that git does not know yet.

    Raises:
        subprocess.CalledProcessError: There is no such commit.
    """
    commands = (
        ["git", "diff", "--name-only", "-z", base],
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
    )
    listed = (
        subprocess.run(each, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for each in commands
    )
    return [PurePosixPath(name) for text in listed for name in text.split("\0") if name]


if __name__ == "__main__":
    print(*find_tests(changed_since(sys.argv[1]), project_files()))
