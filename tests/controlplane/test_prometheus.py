"""Where prometheus and promtool are looked for, with scripts in their place; nothing is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import prometheus
from tests.controlplane.prometheus import TOOLS, find_or_build_prometheus, folder_in
from tests.controlplane.tool_cache import cache_folder

BUILT = Path("/built")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new cache, a PATH without the programs, and a build that only says where it would be."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(prometheus, "build", lambda *_: BUILT)
    return cache_folder()


def fill(folder: Path, version: str) -> Path:
    """Create scripts that print this version, as the programs do."""
    folder.mkdir(parents=True)
    for tool in TOOLS:
        script = folder / tool.name
        script.write_text(f"#!/bin/sh\necho '{tool.name}, version {version} (branch: HEAD)'\n")
        script.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "is_taken"),
    [
        pytest.param("2.42.0+ds", True, id="Debian 12 has this one"),
        pytest.param("3.13.5", True, id="a newer one"),
        pytest.param("2.31.2", False, id="too old"),
        pytest.param("unknown", False, id="it does not say"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_those_of_a_package_are_taken_if_they_are_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, *, is_taken: bool
) -> None:
    folder = fill(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    assert find_or_build_prometheus() == (folder if is_taken else BUILT)


def test_the_pinned_ones_take_precedence(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_or_build_prometheus() == BUILT
    pinned = fill(folder_in(cache), "3.13.5")
    monkeypatch.setenv("PATH", str(fill(tmp_path / "bin", "2.42.0")), prepend=":")
    assert find_or_build_prometheus() == pinned
    assert pinned.name.startswith("prometheus-v")
