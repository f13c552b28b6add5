"""Archives and manifest for krew: ``python -m tests.release.krew --output build/krew``.

krew unpacks one archive per platform and links one program; it installs nothing else, and no
Python. Some packages are compiled for one Python each, so an archive has them for all supported
ones, unpacked as they are imported:

    kubectl-koord_queue    a shell script; finds a Python
    start.py               runs the command line with the packages below
    lib/common             packages that are the same for all Pythons
    lib/cp311 ...          packages that are compiled for this one

Wheels come from the locked requirement file, with its hashes, and only those that the command line
needs. The same commit and lock give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from pathlib import Path, PurePosixPath
from typing import Final

import yaml

from tests.controlplane.tool_cache import run_pip
from tests.release.licenses import LOCK
from tests.release.versions import version
from tests.tidy.dependency_locks import canonical, locked, needed, pyproject, supported_pythons
from tests.tidy.source_tree import ROOT

FILES: Final = Path(__file__).with_name("krew_files")
PROGRAM: Final = "kubectl-koord_queue"
START: Final = "start.py"
MANIFEST: Final = "koord-queue.yaml"
REPOSITORY_URL: Final = "https://github.com/OWNER/koord-queue"
"""Where the archives will be, if nothing else is said: a manifest to look at."""
COMMON: Final = "common"


@dataclass(frozen=True)
class Platform:
    """One archive.

    Attributes:
        os: As Go names it.
        arch: As Go names it.
        tags: The platforms whose wheels run there, as pip names them.
    """

    os: str
    arch: str
    tags: tuple[str, ...]


# glibc 2.28 is that of Debian 10 and RHEL 8, macOS 11 the first on arm64; pip adds older ones of
# the last two itself.
PLATFORMS: Final = (
    *(
        Platform(
            "linux", arch, tuple(f"manylinux{old}_{cpu}" for old in ("_2_28", "_2_17", "2014"))
        )
        for arch, cpu in (("amd64", "x86_64"), ("arm64", "aarch64"))
    ),
    *(
        Platform("darwin", arch, (f"macosx_11_0_{cpu}",))
        for arch, cpu in (("amd64", "x86_64"), ("arm64", "arm64"))
    ),
)


def base_lock(lock: str, pythons: Iterable[str]) -> str:
    """Return the rows of a lock that the command line needs on one of these Pythons."""
    base: list[str] = pyproject()["project"]["dependencies"]
    known = locked(lock)
    names = {
        canonical(row.name)
        for python in pythons
        for row, _ in needed(base, known, python, lambda name: requires(name) or [])
    }
    rows = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]
    return "".join(row for row in rows if canonical(row) in names)


def download(lock: str, python: str, platform: Platform, folder: Path) -> list[Path]:
    """Download the wheels of a lock for a Python, such as "3.13", and return them.

    Raises:
        BinariesUnavailable: The registry does not answer, or a package has no such wheel.
    """
    folder.mkdir(parents=True)
    rows = folder / "requirements.txt"
    rows.write_text(lock, encoding="utf-8")
    run_pip(
        *("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
        *("--python-version", python, *(f"--platform={tag}" for tag in platform.tags)),
        *("--dest", str(folder), "--requirement", str(rows)),
    )
    return sorted(folder.glob("*.whl"))


def own_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", folder], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def layout(wheels: Mapping[str, Sequence[Path]]) -> dict[str, Path]:
    """Return the wheels by folder and name: what is the same for all Pythons is there once.

    Args:
        wheels: By Python, such as "3.13".
    """
    shared = set.intersection(*({wheel.name for wheel in each} for each in wheels.values()))
    placed = {}
    for python, each in wheels.items():
        tag = tag_of(python)
        for wheel in each:
            # The second: if there is one Python only, it shares all.
            common = wheel.name in shared and f"-{tag}-{tag}-" not in wheel.name
            placed[f"{COMMON if common else tag}/{wheel.name}"] = wheel
    return placed


def tag_of(python: str) -> str:
    """Return the name of a Python in wheels: "cp313" of "3.13"."""
    return f"cp{python.replace('.', '')}"


def archive(wheels: Mapping[str, Path]) -> bytes:
    """Return a tar.gz of the program and the unpacked wheels; the same input gives the same bytes.

    Args:
        wheels: By folder in lib, and name.
    """
    packed = io.BytesIO()
    # No times: neither of the files nor in the header of gzip.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, data, mode in sorted(_members(wheels)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _members(wheels: Mapping[str, Path]) -> Iterator[tuple[str, bytes, int]]:
    yield PROGRAM, (FILES / PROGRAM).read_bytes(), 0o755
    yield START, (FILES / START).read_bytes(), 0o644
    for name in ("LICENSE", "NOTICE", "THIRD_PARTY.md"):
        yield name, (ROOT / name).read_bytes(), 0o644
    for place, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as files:
            for member in files.infolist():
                path = PurePosixPath(member.filename)
                if member.is_dir() or path.parts[0].endswith(".data"):
                    continue  # scripts and headers, which nothing here imports
                inside = f"lib/{place.partition('/')[0]}/{path}"
                yield inside, files.read(member), 0o644


def manifest(of_version: str, repository_url: str, archives: Mapping[Platform, bytes]) -> str:
    """Return the manifest of a release.

    Args:
        of_version: Without a "v".
        repository_url: Where the repository is; its releases have the archives.
        archives: By platform.
    """
    releases = f"{repository_url}/releases/download/v{of_version}"
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
            "uri": f"{releases}/{name_of(of_version, platform)}",
            "sha256": hashlib.sha256(data).hexdigest(),
            "bin": PROGRAM,
        }
        for platform, data in archives.items()
    ]
    added = {"version": f"v{of_version}", "homepage": repository_url, "platforms": platforms}
    # As text, since people read it in krew's index: the template keeps its layout.
    _, _, template = (FILES / MANIFEST).read_text(encoding="utf-8").partition("\n")
    return template + textwrap.indent(yaml.safe_dump(added, sort_keys=False, width=200), "  ")


def name_of(of_version: str, platform: Platform) -> str:
    """Return the name of an archive's file."""
    return f"kubectl-koord_queue-{of_version}-{platform.os}-{platform.arch}.tar.gz"


def build(
    output: Path,
    *,
    platforms: Sequence[Platform] = PLATFORMS,
    pythons: Sequence[str] | None = None,
    repository_url: str = REPOSITORY_URL,
) -> None:
    """Write an archive per platform, and the manifest, into a folder.

    Args:
        output: The folder; made if it is not there.
        platforms: The platforms of the manifest.
        pythons: Such as "3.13"; None: all supported ones.
        repository_url: See `manifest`.

    Raises:
        BinariesUnavailable: See `download`.
    """
    pythons = pythons or supported_pythons()
    output.mkdir(parents=True, exist_ok=True)
    lock = base_lock(LOCK.read_text(encoding="utf-8"), pythons)
    archives = {}
    with tempfile.TemporaryDirectory() as folder:
        own = own_wheel(Path(folder))
        for platform in platforms:
            to = Path(folder) / platform.os / platform.arch
            wheels = {
                python: [own, *download(lock, python, platform, to / python)] for python in pythons
            }
            archives[platform] = archive(layout(wheels))
            (output / name_of(version(), platform)).write_bytes(archives[platform])
    text = manifest(version(), repository_url, archives)
    (output / MANIFEST).write_text(text, encoding="utf-8")


def main() -> int:
    """Write archives and manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--repository-url", default=REPOSITORY_URL)
    arguments = parser.parse_args()
    build(arguments.output, repository_url=arguments.repository_url)
    return 0


if __name__ == "__main__":
    sys.exit(main())
