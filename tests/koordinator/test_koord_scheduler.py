"""What koord-scheduler is built from, where it is kept, and how it is configured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import go_tools
from tests.controlplane.binaries import KOORDINATOR, module_folder, pinned_version
from tests.controlplane.go_tools import KOORD_SCHEDULER, find_or_build_tool
from tests.controlplane.tool_cache import cache_folder
from tests.koordinator.koord_scheduler import NAMESPACE, configuration

VERSION = "v1.8.0"
"""docs/support.md names it."""


def test_the_version_is_pinned_by_both_files_of_its_module() -> None:
    folder = module_folder(KOORDINATOR)
    assert pinned_version(KOORDINATOR) == VERSION
    assert f"{KOORDINATOR} {VERSION} h1:" in (folder / "go.sum").read_text()
    assert VERSION in (Path(__file__).parents[2] / "docs" / "support.md").read_text()


def test_it_is_kept_beside_the_control_plane_and_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache, built = cache_folder(), list[Path]()

    def build(_: object, folder_in: Callable[[Path], Path], __: object) -> Path:
        built.append(folder_in(cache))
        return folder_in(cache)

    monkeypatch.setattr(go_tools, "build", build)
    want = cache / f"koord-scheduler-{VERSION}" / "koord-scheduler"
    assert find_or_build_tool(KOORD_SCHEDULER) == want
    assert built == [want.parent]
    want.parent.mkdir()
    want.write_text("#!/bin/sh\n")
    want.chmod(0o755)
    assert find_or_build_tool(KOORD_SCHEDULER) == want
    assert built == [want.parent]


def test_quotas_are_asked_before_filters_after_them_and_at_reservation() -> None:
    (profile,) = configuration(Path("kubeconfig"), {"enableCheckParentQuota": True})["profiles"]
    enabled = {
        point: [each["name"] for each in plugins["enabled"]]
        for point, plugins in profile["plugins"].items()
    }
    assert enabled == {
        "preFilter": ["ElasticQuota"],
        "reserve": ["ElasticQuota"],
        "postFilter": ["ElasticQuota", "DefaultPreemption"],
    }
    (plugin,) = profile["pluginConfig"]
    assert plugin["args"]["quotaGroupNamespace"] == NAMESPACE
    assert plugin["args"]["enableCheckParentQuota"] is True
