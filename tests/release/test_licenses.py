"""THIRD_PARTY.md has what is bundled, under licenses that permit it."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.release.licenses import (
    LOCK,
    TABLE,
    Bundled,
    expression,
    is_allowed,
    libraries,
    license_files,
    page,
    read,
)
from tests.tidy.dependency_locks import locked

TEXT = TABLE.read_text(encoding="utf-8")


def test_the_table_is_current() -> None:
    """Else `make licenses` writes it anew."""
    assert page() == TEXT


def test_the_table_has_every_locked_package() -> None:
    want = {
        (name, version) for name, (version, _) in locked(LOCK.read_text(encoding="utf-8")).items()
    }
    assert {row[:2] for row in read(TEXT, "package")} == want


def test_the_table_has_every_library_of_the_pages() -> None:
    names = {row.name.lower().rpartition("/")[2] for row in read(TEXT, "library")}
    assert {path.stem.lower() for path, _ in license_files()} - names == set()
    assert "@preact/signals-core" in {row.name for row in read(TEXT, "library")}


def test_every_license_permits_it() -> None:
    rows = [*read(TEXT, "package"), *read(TEXT, "library")]
    assert [row for row in rows if not is_allowed(row.license)] == []


@pytest.mark.parametrize(
    ("spdx", "want"),
    [
        pytest.param("MIT", True, id="one"),
        pytest.param("Apache-2.0 AND MIT", True, id="both are allowed"),
        pytest.param("GPL-3.0-only OR MIT", True, id="a choice"),
        pytest.param("GPL-3.0-only", False, id="copyleft"),
        pytest.param("MIT AND LGPL-3.0-or-later", False, id="one of both"),
        pytest.param("(MIT OR GPL-3.0-only) AND ISC", False, id="not understood"),
    ],
)
def test_a_license_that_does_not_permit_it_is_found(spdx: str, want: bool) -> None:
    assert is_allowed(spdx) == want


@pytest.mark.parametrize(
    ("declared", "want"),
    [
        pytest.param({"license_expression": "MIT OR ISC"}, "MIT OR ISC", id="an expression"),
        pytest.param({"license": "Apache 2.0"}, "Apache-2.0", id="a known spelling"),
        pytest.param(
            {"classifier": ["Typing :: Typed", "License :: OSI Approved :: MIT License"]},
            "MIT",
            id="a classifier",
        ),
        pytest.param(
            {"license": "ISC", "classifier": ["License :: OSI Approved :: BSD License"]},
            "ISC",
            id="the field is more exact than the classifier",
        ),
    ],
)
def test_metadata_is_read_as_an_expression(declared: dict[str, str | list[str]], want: str) -> None:
    assert expression({"name": "thing", **declared}) == want


@pytest.mark.parametrize("said", ["", "BSD", "see LICENSE"])
def test_an_unknown_license_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="thing: no known license"):
        expression({"name": "thing", "license": said})


def test_a_library_that_notice_does_not_name_is_refused() -> None:
    files = [(PurePosixPath("vendor/thing.LICENSE"), "The MIT License (MIT)")]
    assert [*libraries("contains Thing 1.2.3 by", files)] == [Bundled("Thing", "1.2.3", "MIT")]
    with pytest.raises(ValueError, match="NOTICE does not name"):
        list(libraries("contains others", files))
