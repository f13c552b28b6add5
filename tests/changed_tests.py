"""`python -m tests.changed_tests BASE FOLDER ...`: prints the tests of what differs from a commit.

Those in the folders are left out: they are steps of their own, which take longer.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath

from tests.tidy.source_tree import PACKAGES, ROOT, mirrored_modules, project_files


def find_tests(
    changed: Iterable[PurePosixPath],
    present: Iterable[PurePosixPath],
    left_out: Collection[str] = (),
) -> Iterator[PurePosixPath]:
    """Yield the test files that changed, and those of modules that changed, each once.

    Args:
        changed: What changed, relative to the root; it may be deleted.
        present: The files that there are.
        left_out: Folders of tests whose files are not wanted.
    """
    changes = frozenset(changed)
    modules = {path.with_suffix("") for path in changes if path.parts[0] in PACKAGES}
    for path in sorted(present):
        is_test = path.parts[0] == "tests" and path.name.startswith("test_")
        if not is_test or path.suffix != ".py" or path.parts[1] in left_out:
            continue
        if path in changes or modules & mirrored_modules(path):
            yield path


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
    base, *folders = sys.argv[1:]
    print(*find_tests(changed_since(base), project_files(), folders))
