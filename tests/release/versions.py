"""The files that name the version: ``python -m tests.release.versions [--tag v0.1.0]``.

Without a tag they have to agree with each other; with one, with the tag as well, and the changelog
has to have a section for it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.release.changelog import CHANGELOG, problems
from tests.tidy.source_tree import ROOT


@dataclass(frozen=True)
class Place:
    """Where a file names the version.

    Attributes:
        path: The file, relative to the root.
        before: What stands before the version, as a regular expression; it occurs once or more.
    """

    path: str
    before: str

    def __str__(self) -> str:
        return f"{self.path} ({self.before.strip('^ ')})"

    @property
    def pattern(self) -> re.Pattern[str]:
        """A pattern whose second group is the version."""
        return re.compile(rf"({self.before})(\d+\.\d+\.\d+)\b", re.MULTILINE)


_CHART: Final = "charts/koord-queue/Chart.yaml"
PLACES: Final = (
    Place("pyproject.toml", r'^version = "'),
    Place("shared_api/version.py", r'^VERSION: Final = "'),
    Place(_CHART, "^version: "),
    Place(_CHART, "^appVersion: "),
    Place(_CHART, "image: koord-queue:"),
    Place("README.md", "koord-queue:"),
    Place("docs/coming-from.md", r"controller\.image\.tag="),
    Place("queue_insight/debug_api/openapi.json", '^  "version": "'),
    Place("queue_controllers/debug_api/openapi.json", '^  "version": "'),
)


def version(root: Path = ROOT) -> str:
    """Return the version that pyproject.toml names."""
    ((found, *_),) = [versions_at(PLACES[0], root)]
    return found


def versions_at(place: Place, root: Path) -> list[str]:
    """Return every version that stands at a place, in the order of the file.

    Raises:
        ValueError: There is none.
    """
    text = (root / place.path).read_text(encoding="utf-8")
    found = [match[2] for match in place.pattern.finditer(text)]
    if not found:
        raise ValueError(f"{place}: no version stands there")
    return found


def disagreements(wanted: str, root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each place that names another version than the wanted one."""
    for place in PLACES:
        for found in sorted({*versions_at(place, root)} - {wanted}):
            yield f"{place}: {found}, not {wanted}"


def write(new: str, root: Path = ROOT) -> None:
    """Write a version to all places."""
    for place in PLACES:
        path = root / place.path
        text = path.read_text(encoding="utf-8")
        path.write_text(place.pattern.sub(rf"\g<1>{new}", text), encoding="utf-8")


def main() -> int:
    """Print what disagrees; return 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default="", help="a tag, such as v0.1.0")
    tag: str = parser.parse_args().tag
    wanted = tag.removeprefix("v") if tag else version()
    changelog = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    found = [*disagreements(wanted), *problems(changelog, wanted, released=bool(tag))]
    if tag and not tag.startswith("v"):
        found.append(f"{tag}: a tag starts with v")
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
