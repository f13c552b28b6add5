"""Makes a release of what is unreleased: ``python -m tests.release.cut 0.2.0 2026-12-01``.

The section gets the version and the day, an empty one stands above it, and every file that
names the version gets the new one. Nothing is committed or tagged.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from tests.release import versions
from tests.release.changelog import CHANGELOG, cut
from tests.tidy.source_tree import ROOT


def write(version: str, day: date, root: Path = ROOT) -> None:
    """Write the changelog, then the version to all places.

    Raises:
        ValueError: Nothing is to be released, or the version is not newer; nothing was written.
    """
    path = root / CHANGELOG
    path.write_text(cut(path.read_text(encoding="utf-8"), version, day), encoding="utf-8")
    versions.write(version, root)


def main() -> int:
    """Cut a release; return 1 if there is nothing to cut."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("day", type=date.fromisoformat)
    arguments = parser.parse_args()
    try:
        write(arguments.version, arguments.day)
    except ValueError as error:
        print(f"cut: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
