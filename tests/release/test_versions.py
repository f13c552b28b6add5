"""The files agree on the version, and one that does not is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.release import versions
from tests.release.versions import PLACES, Place, disagreements, version, versions_at
from tests.tidy.source_tree import ROOT


def test_the_files_agree() -> None:
    assert "\n".join(disagreements(version())) == ""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that name the version, in a folder of their own."""
    for name in {place.path for place in PLACES}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_place_with_another_version_is_found(copy: Path, place: Place) -> None:
    path = copy / place.path
    text = path.read_text(encoding="utf-8")
    there = place.pattern.search(text)
    assert there is not None
    path.write_text(f"{there[1]}9.8.7\n{text}", encoding="utf-8")
    assert list(disagreements(version(), copy)) == [f"{place}: 9.8.7, not {version()}"]


def test_a_version_is_written_to_all_places(copy: Path) -> None:
    versions.write("9.8.7", copy)
    assert list(disagreements("9.8.7", copy)) == []
    assert version(copy) == "9.8.7"
    changed = (copy / "README.md").read_text(encoding="utf-8").replace("9.8.7", version())
    assert changed == (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_place_without_a_version_is_an_error(copy: Path) -> None:
    (copy / "README.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(ValueError, match="no version stands there"):
        versions_at(Place("README.md", "koord-queue:"), copy)


@pytest.mark.parametrize(
    ("tag", "want"),
    [
        pytest.param("v9.8.7", "not 9.8.7", id="another version"),
        pytest.param(version(), "a tag starts with v", id="without a v"),
        pytest.param("v9.8.7", "no section about 9.8.7", id="no section"),
    ],
)
def test_a_tag_that_does_not_fit_fails(
    tag: str, want: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["versions", "--tag", tag])
    assert versions.main() == 1
    assert want in capsys.readouterr().out
