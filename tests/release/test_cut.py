"""A cut writes all files that name the version, or none."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from tests.release.changelog import CHANGELOG, UNRELEASED, problems
from tests.release.cut import write
from tests.release.versions import PLACES, disagreements, version
from tests.tidy.source_tree import ROOT

DAY = date(2126, 12, 1)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that a cut changes."""
    for name in {CHANGELOG, *(place.path for place in PLACES)}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_cut_makes_a_release_that_fits_its_tag(copy: Path) -> None:
    path = copy / CHANGELOG
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace(UNRELEASED, f"{UNRELEASED}\n- x\n", 1), encoding="utf-8")
    write("99.0.0", DAY, copy)
    text = path.read_text(encoding="utf-8")
    assert list(disagreements("99.0.0", copy)) == []
    assert list(problems(text, "99.0.0", released=True)) == []
    assert "\n## 99.0.0 - 2126-12-01\n" in text


def test_a_refused_cut_writes_nothing(copy: Path) -> None:
    (copy / CHANGELOG).write_text("## Unreleased\n\n## 0.0.1 - 2026-01-01\n", encoding="utf-8")
    with pytest.raises(ValueError, match="nothing stands under Unreleased"):
        write("99.0.0", DAY, copy)
    assert version(copy) == version()
