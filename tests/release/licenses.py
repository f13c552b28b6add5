"""The licenses of what is bundled: ``python -m tests.release.licenses --write``, THIRD_PARTY.md.

The packages are those of requirements.txt, with what their metadata says; the libraries are those
that the pages show in browsers, with the text beside them. Metadata names licenses in three ways,
the older two freely, so `expression` makes SPDX expressions of them, and refuses what it does not
know.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import metadata
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from tests.tidy.dependency_locks import locked
from tests.tidy.source_tree import ROOT, project_files

TABLE: Final = ROOT / "THIRD_PARTY.md"
LOCK: Final = ROOT / "requirements.txt"
ALLOWED: Final = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "MIT",
        "MIT-0",
        # A file's license, not a program's: certifi is a list of authorities, which is unchanged.
        "MPL-2.0",
        "PSF-2.0",
    }
)
"""Licenses that permit to bundle a work unchanged in one under Apache-2.0."""

_SPELLED: Final = {
    "Apache 2.0": "Apache-2.0",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
}
"""Spellings in metadata that are no SPDX identifiers, and mean one license only."""

_TEXTS: Final = {"The MIT License": "MIT", "Apache License": "Apache-2.0"}
"""How the text of a license starts."""

HEADER: Final = """\
# Licenses of what is bundled

The image holds these packages, and the archives for krew some of them; each has its license beside
it, in the folder `NAME-VERSION.dist-info`. Written by `make licenses`; do not edit. The image also
holds the Python of its base image (PSF-2.0) and Debian packages (`/usr/share/doc/*/copyright` on
the base image); its SBOM attestation lists these.
"""
LIBRARIES: Final = "These libraries are files of the packages, and run in browsers:\n"


class Bundled(NamedTuple):
    """A work of others.

    Attributes:
        name: As its registry spells it.
        version: The one that is bundled.
        license: An SPDX expression.
    """

    name: str
    version: str
    license: str


def expression(declared: Mapping[str, str | list[str]]) -> str:
    """Return the license of a package.

    Args:
        declared: Its metadata, as `importlib.metadata` gives it as JSON.

    Raises:
        ValueError: It names none, or one of an unknown spelling.
    """
    if spdx := declared.get("license_expression"):
        return str(spdx)
    classifiers = declared.get("classifier", [])
    said = [str(declared.get("license", "")), *classifiers]
    for each in said:
        known = _SPELLED.get(each, each)
        if known in ALLOWED:
            return str(known)
    raise ValueError(f"{declared['name']}: no known license in {said}")


def is_allowed(spdx: str) -> bool:
    """Return whether a work under an expression may be bundled; parentheses are not understood."""
    return all(
        any(choice in ALLOWED for choice in part.split(" OR ")) for part in spdx.split(" AND ")
    )


def packages(lock: str) -> Iterator[Bundled]:
    """Yield the packages of a lock, which have to be installed."""
    for name, (version, _) in locked(lock).items():
        yield Bundled(name, version, expression(metadata(name).json))


def libraries(notice: str, texts: Iterable[tuple[PurePosixPath, str]]) -> Iterator[Bundled]:
    """Yield the libraries in the pages, as NOTICE names them, with the licenses beside them.

    Args:
        notice: NOTICE, which says "NAME 1.2.3".
        texts: The license files of libraries, such as "vendor/preact.LICENSE", and their texts.

    Raises:
        ValueError: A license is unknown, or NOTICE does not name its library.
    """
    for path, text in texts:
        spdx = next((known for start, known in _TEXTS.items() if start in text[:200]), "")
        pattern = rf"((?:@[a-z]+/)?{re.escape(path.stem)}(?:-core)?) (\d+(?:\.\d+)+)"
        found = set(re.findall(pattern, notice, re.IGNORECASE))
        if not (spdx and found):
            raise ValueError(f"{path}: an unknown license, or NOTICE does not name the library")
        for name, version in found:
            yield Bundled(name, version, spdx)


def license_files() -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the license files of libraries, with their texts."""
    for path in project_files():
        if path.suffix == ".LICENSE":
            yield path, (ROOT / path).read_text(encoding="utf-8")


def page() -> str:
    """Return THIRD_PARTY.md."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    first = _table("package", packages(LOCK.read_text(encoding="utf-8")))
    second = _table("library", sorted({*libraries(notice, license_files())}))
    return "\n".join([HEADER, first, LIBRARIES, second])


def _table(kind: str, rows: Iterable[Bundled]) -> str:
    lines = [f"| {kind} | version | license |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def read(text: str, kind: str) -> list[Bundled]:
    """Return the rows of one table of THIRD_PARTY.md: of a "package", or of a "library"."""
    pattern = rf"^\| {kind} \| version \| license \|\n[|-]+\n((?:\|.*\n)+)"
    table = re.search(pattern, text, re.MULTILINE)
    if table is None:
        raise ValueError(f"{TABLE.name} has no table of a {kind}")
    return [Bundled(*row.strip("| ").split(" | ")) for row in table[1].splitlines()]


def main() -> int:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    if parser.parse_args().write:
        Path(TABLE).write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
