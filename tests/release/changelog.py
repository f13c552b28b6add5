"""The sections of CHANGELOG.md, in the form of Keep a Changelog.

``python -m tests.release.changelog --notes 0.1.0`` prints the section of a release.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Final

from tests.tidy.source_tree import ROOT

CHANGELOG: Final = "CHANGELOG.md"
UNRELEASED: Final = "## Unreleased\n"
KINDS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_HEADING: Final = re.compile(r"^## (?:Unreleased|(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2}))$")


@dataclass(frozen=True)
class Section:
    """The changes of one release.

    Attributes:
        version: Such as "0.1.0"; "" for the changes that no release has yet.
        day: When it was released; None if it is not.
        body: The text below its heading, without empty lines around it.
    """

    version: str
    day: date | None
    body: str


def sections(text: str) -> list[Section]:
    """Return the sections, in the order of the file.

    Raises:
        ValueError: A heading of the second level is neither "Unreleased" nor "0.1.0 - 2026-01-31".
    """
    found = []
    for part in re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        match = _HEADING.match(heading)
        if match is None:
            raise ValueError(f"{heading!r} is neither Unreleased nor a version with its day")
        day = date.fromisoformat(match[2]) if match[2] else None
        found.append(Section(match[1] or "", day, body.strip()))
    return found


def notes(text: str, version: str) -> str:
    """Return the section of a release.

    Raises:
        ValueError: There is none, or it is empty.
    """
    for section in sections(text):
        if section.version == version and section.body:
            return section.body
    raise ValueError(f"{CHANGELOG} says nothing about {version}")


def problems(text: str, version: str, *, released: bool) -> Iterator[str]:
    """Yield what is wrong with the form, or does not fit the version of the program.

    Args:
        text: The changelog.
        version: The version that the files name.
        released: Whether that version must have a section; otherwise it may.
    """
    found = sections(text)
    if not found or found[0].version:
        yield f"{CHANGELOG}: its first section is not Unreleased"
    order = [_numbers(section.version) for section in found[1:]]
    if order != sorted({*order}, reverse=True):
        yield f"{CHANGELOG}: the newest release is not first, or one stands twice"
    days = [section.day for section in found[1:] if section.day]
    if days != sorted(days, reverse=True):
        yield f"{CHANGELOG}: a release is older than the one before it"
    if order and order[0] > _numbers(version):
        yield f"{CHANGELOG}: its newest release is not {version}, which the files name"
    for section in found:
        kinds = re.findall(r"^### (.*)$", section.body, re.MULTILINE)
        for kind in kinds:
            if kind not in KINDS or kinds.count(kind) > 1:
                where = section.version or "Unreleased"
                yield f"{CHANGELOG}: {where}: {kind!r} is no kind, or twice"
    if released and not any(each.version == version and each.body for each in found):
        yield f"{CHANGELOG}: no section about {version}"


def cut(text: str, version: str, day: date) -> str:
    """Return the changelog with "Unreleased" as the section of a version.

    Raises:
        ValueError: Nothing has changed since the last release, or the version is not newer.
    """
    unreleased, *earlier = sections(text)
    if not unreleased.body:
        raise ValueError("nothing stands under Unreleased")
    if earlier and _numbers(version) <= _numbers(earlier[0].version):
        raise ValueError(f"{version} is not newer than {earlier[0].version}")
    return text.replace(UNRELEASED, f"{UNRELEASED}\n## {version} - {day.isoformat()}\n", 1)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


def main() -> int:
    """Print the notes of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", metavar="VERSION", required=True)
    text = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    try:
        print(notes(text, parser.parse_args().notes))
    except ValueError as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
