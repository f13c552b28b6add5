"""What the page ships of others is what they published, but for the edits listed here.

There is no build step, so their modules import each other by relative paths. To bring a newer
version: take the files out of the package of the npm registry, make the same edits, and write the
new version and SHA-256 into the table, and into NOTICE.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.tidy.source_tree import ROOT

VENDOR: Final = ROOT / "queue_insight" / "page" / "static" / "vendor"
AXE: Final = ROOT / "tests" / "data" / "axe"


class Vendored(NamedTuple):
    """A file of a package, and how it differs from what was published.

    Attributes:
        package: The package and its version.
        source: The file's path in the package.
        sha256: Of the published file.
        edits: What was published, and what stands there instead.
    """

    package: str
    source: str
    sha256: str
    edits: tuple[tuple[str, str], ...] = ()


_PREACT: Final = ('from"preact"', 'from"./preact.js"')


FILES: Final = {
    VENDOR / "preact.js": Vendored(
        "preact 11.2.0",
        "dist/preact.mjs",
        "bdcbd9abdf2c77c5c45326eab42191e949222d479d0d5f69467387a77040cb55",
    ),
    VENDOR / "preact-hooks.js": Vendored(
        "preact 11.2.0",
        "hooks/dist/hooks.mjs",
        "e862ab2973aa6455eaa0f77c5d832d2157d6be59a17c8ba546550a575b58c6b4",
        (_PREACT,),
    ),
    VENDOR / "preact.LICENSE": Vendored(
        "preact 11.2.0",
        "LICENSE",
        "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    ),
    VENDOR / "htm.js": Vendored(
        "htm 3.1.1",
        "dist/htm.mjs",
        "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4",
    ),
    VENDOR / "htm.LICENSE": Vendored(
        "htm 3.1.1",
        "LICENSE",
        "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
    ),
    VENDOR / "signals-core.js": Vendored(
        "@preact/signals-core 1.14.5",
        "dist/signals-core.mjs",
        "0c80bc127d72ecb1496ef116ffddae75079829a3af01e7f417c8e5a6474c68b6",
    ),
    VENDOR / "signals.js": Vendored(
        "@preact/signals 2.11.4",
        "dist/signals.mjs",
        "ba8177597f45acaca4d05dcf3966b527d0a8264cfa2b0a87ace92dff324217f8",
        (
            _PREACT,
            ('from"preact/hooks"', 'from"./preact-hooks.js"'),
            ('from"@preact/signals-core"', 'from"./signals-core.js"'),
        ),
    ),
    VENDOR / "signals.LICENSE": Vendored(
        "@preact/signals 2.11.4",
        "LICENSE",
        "a11fc89e4c6b118854c7a667734a0b2e6bf2af5e45c6686de31adbccc8f3ae8d",
    ),
    VENDOR / "uplot.js": Vendored(
        "uPlot 1.6.32",
        "dist/uPlot.iife.min.js",  # the package has no module that is small
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        (("", "export default uPlot;\n"),),
    ),
    VENDOR / "uplot.css": Vendored(
        "uPlot 1.6.32",
        "dist/uPlot.min.css",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
    VENDOR / "uplot.LICENSE": Vendored(
        "uPlot 1.6.32",
        "LICENSE",
        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    ),
    AXE / "axe.min.js": Vendored(
        "axe-core 4.14.1",
        "axe.min.js",
        "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
    ),
    AXE / "LICENSE": Vendored(
        "axe-core 4.14.1",
        "LICENSE",
        "af175b9d96ee93c21a036152e1b905b0b95304d4ae8c2c921c7609100ba8df7e",
    ),
}


def published(text: str, row: Vendored) -> str:
    """Return a file as it was published."""
    for original, edited in row.edits:
        assert edited in text, f"{edited!r} does not stand there"
        text = text.replace(edited, original)
    return text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_vendored_file_is_what_was_published(path: Path) -> None:
    row = FILES[path]
    text = published(path.read_text(encoding="utf-8"), row)
    assert hashlib.sha256(text.encode()).hexdigest() == row.sha256, row


def test_every_vendored_file_has_a_row() -> None:
    there = {*VENDOR.iterdir(), *AXE.iterdir()}
    assert there == set(FILES)


def test_notice_names_every_package_and_version() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert {row.package for row in FILES.values() if row.package not in notice} == set()
