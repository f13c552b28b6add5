"""Which changelogs are well formed, and what a cut makes of one."""

from __future__ import annotations

from datetime import date

import pytest

from tests.release.changelog import CHANGELOG, cut, notes, problems, sections
from tests.release.versions import version
from tests.tidy.source_tree import ROOT

TEXT = """\
# Changelog

What changes.

## Unreleased

### Added

- A page.

## 0.2.0 - 2026-11-02

### Fixed

- A limit.

## 0.1.0 - 2026-10-01

- The first.
"""


def test_the_changelog_is_well_formed() -> None:
    text = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    assert list(problems(text, version(), released=False)) == []


def test_sections_have_version_day_and_text() -> None:
    found = sections(TEXT)
    assert [(each.version, each.day) for each in found] == [
        ("", None),
        ("0.2.0", date(2026, 11, 2)),
        ("0.1.0", date(2026, 10, 1)),
    ]
    assert [each.body for each in found[1:]] == ["### Fixed\n\n- A limit.", "- The first."]


@pytest.mark.parametrize("released", [False, True])
def test_a_well_formed_one_has_no_problems(released: bool) -> None:
    assert list(problems(TEXT, "0.2.0", released=released)) == []


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("## Unreleased\n", "", "first section is not Unreleased", id="no next one"),
        pytest.param("0.2.0 -", "0.0.9 -", "newest release is not first", id="order"),
        pytest.param("0.2.0 -", "0.1.0 -", "one stands twice", id="twice"),
        pytest.param("2026-11-02", "2026-09-02", "older than the one before", id="days"),
        pytest.param("0.2.0 -", "0.3.0 -", "not 0.2.0, which the files name", id="too new"),
        pytest.param("### Fixed", "### Mended", "'Mended' is no kind", id="another kind"),
        pytest.param("- A page.", "### Added", "'Added' is no kind, or twice", id="a kind twice"),
    ],
)
def test_a_malformed_one_is_found(old: str, new: str, want: str) -> None:
    found = list(problems(TEXT.replace(old, new), "0.2.0", released=False))
    assert want in "\n".join(found)


@pytest.mark.parametrize("heading", ["0.3.0", "[0.3.0] - 2026-11-03", "0.3.0 - soon", "v0.3.0 - x"])
def test_another_heading_is_refused(heading: str) -> None:
    with pytest.raises(ValueError, match="neither Unreleased nor a version"):
        sections(f"{TEXT}\n## {heading}\n")


def test_a_release_needs_its_section() -> None:
    (found,) = problems(TEXT, "0.3.0", released=True)
    assert "no section about 0.3.0" in found


def test_notes_are_the_section_of_the_release() -> None:
    assert notes(TEXT, "0.1.0") == "- The first."
    with pytest.raises(ValueError, match="says nothing about"):
        notes(TEXT, "0.3.0")


def test_a_cut_moves_what_is_unreleased() -> None:
    text = cut(TEXT, "0.3.0", date(2026, 12, 1))
    assert list(problems(text, "0.3.0", released=True)) == []
    assert notes(text, "0.3.0") == "### Added\n\n- A page."
    assert sections(text)[0].body == ""
    assert sections(text)[2:] == sections(TEXT)[1:]


@pytest.mark.parametrize(
    ("text", "new", "want"),
    [
        pytest.param(TEXT.replace("### Added\n\n- A page.", ""), "0.3.0", "nothing", id="nothing"),
        pytest.param(TEXT, "0.2.0", "not newer", id="the same"),
        pytest.param(TEXT, "0.1.9", "not newer", id="an older one"),
    ],
)
def test_a_cut_that_makes_no_sense_is_refused(text: str, new: str, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        cut(text, new, date(2026, 12, 1))
