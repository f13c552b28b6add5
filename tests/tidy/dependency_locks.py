"""The hashed requirement files: ``python -m tests.tidy.dependency_locks [--upgrade]`` writes them.

pip-compile resolves. This module reads the groups of pyproject.toml, keeps the machine's settings
(registry, folders) out of the files, and keeps locked versions unless ``--upgrade`` is given. It
locks for the oldest supported Python, since newer ones mostly need fewer dependencies.

The files are installed with ``--no-deps``: pip then resolves nothing and requests only pinned
versions, so that a later release cannot break an installation. In return, the lock must be
complete: `missing` finds what a supported Python would lack. An installation without ``--no-deps``
works too, since pins have their extras: `missing_extras` finds pins without them.

Every locked package must be installable on every supported Python. `excluded` finds packages that
exclude one; whether there is a wheel for it is known only to the registry, so that is checked when
the files are written.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.tidy.source_tree import ROOT

HEADERS = {
    "requirements.txt": "What the programs need to run, locked.",
    "requirements-build.txt": "What building the package needs, locked.",
    "requirements-test.txt": "What development, tests and the programs need, locked.",
}
LARGEST = "requirements-test.txt"
"""The complete file; the others are subsets of it."""
OLDEST_PYTHON = (3, 11)
QUIET_OPTIONS = (
    "--quiet",
    "--generate-hashes",
    "--no-strip-extras",
    "--allow-unsafe",
    "--no-header",
    "--no-annotate",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-emit-trusted-host",
    "--no-emit-options",
)

_PIN = re.compile(
    r"(?P<name>[a-z0-9.-]+)(?:\[(?P<extras>[a-z0-9,.-]+)\])?==(?P<version>\S+)(?: ; .*)?(?: \\)?"
)


def pyproject() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def supported_pythons() -> list[str]:
    """Return the versions in pyproject.toml, such as "3.14"."""
    prefix = "Programming Language :: Python :: 3."
    rows: list[str] = pyproject()["project"]["classifiers"]
    return ["3." + row.removeprefix(prefix) for row in rows if row.startswith(prefix)]


def wanted(name: str) -> list[str]:
    """Return the requirements in pyproject.toml for one of the files."""
    settings = pyproject()
    project = settings["project"]
    runtime: list[str] = [*project["dependencies"], *project["optional-dependencies"]["server"]]
    groups: dict[str, list[str | dict[str, str]]] = settings["dependency-groups"]
    match name:
        case "requirements.txt":
            return runtime
        case "requirements-build.txt":
            return list(_group(groups, "build"))
        case _:
            return [*runtime, *_group(groups, "test")]


def _group(groups: dict[str, list[str | dict[str, str]]], name: str) -> Iterator[str]:
    for row in groups[name]:
        if isinstance(row, str):
            yield row
        else:
            yield from _group(groups, row["include-group"])


def locked(text: str) -> dict[str, tuple[str, int]]:
    """Return the packages of a requirement file, each with (version, number of hashes).

    Raises:
        ValueError: A line is neither a pinned package, a hash of one, nor a comment.
    """
    found: dict[str, tuple[str, int]] = {}
    name = ""
    for line in text.splitlines():
        if pin := _PIN.fullmatch(line):
            name = pin["name"]
            found[name] = (pin["version"], 0)
        elif name and re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line):
            version, hashes = found[name]
            found[name] = (version, hashes + 1)
        elif line and not line.startswith("#"):
            raise ValueError(f"neither a pin nor a hash: {line}")
    return found


def locked_extras(text: str) -> dict[str, frozenset[str]]:
    """Return the packages of a requirement file, each with its extras."""
    pins = filter(None, map(_PIN.fullmatch, text.splitlines()))
    return {pin["name"]: frozenset(filter(None, (pin["extras"] or "").split(","))) for pin in pins}


def canonical(requirement: str) -> str:
    """Return the name of a requirement as lock files spell it."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def missing(
    wanted: Iterable[str],
    locked: Iterable[str],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> set[str]:
    """Return packages that an installation without resolving would lack, as ``package <- parent``.

    Args:
        wanted: requirements, with their extras.
        locked: names of the packages in the lock, canonical.
        python: the version for which markers are evaluated: "3.14".
        requires: returns the requirements in the metadata of a locked package.
    """
    known = set(locked)
    found = needed(wanted, known, python, requires)
    names = ((canonical(requirement.name), by_whom) for requirement, by_whom in found)
    return {f"{name} <- {by_whom}" for name, by_whom in names if name not in known}


def missing_extras(
    wanted: Iterable[str],
    locked: Mapping[str, frozenset[str]],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> set[str]:
    """Return required extras that are missing in the lock, as ``package[extra] <- parent``.

    If pip resolves, a pin without its extra is not the required one: pip then takes the newest
    version, for which the lock has no hash.

    Args:
        wanted: requirements, with their extras.
        locked: the extras in the lock, by package.
        python: the version for which markers are evaluated: "3.14".
        requires: returns the requirements in the metadata of a locked package.
    """
    return {
        f"{name}[{extra}] <- {by_whom}"
        for requirement, by_whom in needed(wanted, locked, python, requires)
        for name in (canonical(requirement.name),)
        for extra in requirement.extras - locked.get(name, frozenset())
    }


def needed(
    wanted: Iterable[str],
    known: Container[str],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> Iterator[tuple[Requirement, str]]:
    """Yield the wanted requirements and those of known packages, each with its parent.

    Args:
        wanted: requirements, with their extras.
        known: names of packages, canonical; what others require is not asked for.
        python: the version for which markers are evaluated: "3.14".
        requires: returns the requirements in the metadata of a known package.
    """
    environment = {key: str(value) for key, value in default_environment().items()}
    environment |= {"python_version": python, "python_full_version": f"{python}.0"}
    seen: set[tuple[str, str]] = set()
    todo = [(row, "", "pyproject.toml") for row in wanted]
    while todo:
        row, extra, by_whom = todo.pop()
        requirement = Requirement(row)
        if requirement.marker and not requirement.marker.evaluate({**environment, "extra": extra}):
            continue
        yield requirement, by_whom
        name = canonical(row)
        if name not in known:
            continue
        for each in {("", name), *((extra, name) for extra in requirement.extras)} - seen:
            seen.add(each)
            todo.extend((row, each[0], name) for row in requires(name))


def excluded(
    locked: Iterable[str], pythons: Iterable[str], requires_python: Callable[[str], str]
) -> set[str]:
    """Return the packages that exclude a Python by their metadata, as ``package on 3.14``.

    Args:
        locked: names of packages.
        pythons: versions: "3.14".
        requires_python: returns the field of a package's metadata, such as ">=3.9,<3.14"; "" for
            any.
    """
    return {
        f"{name} on {python}"
        for python in pythons
        for name in locked
        if not SpecifierSet(requires_python(name)).contains(f"{python}.0")
    }


def wheel_trouble(path: Path, python: str, *options: str) -> str:
    """Return pip's error if a package has no wheel with a locked hash for a Python, else "".

    Nothing is installed, and that Python need not be available.

    Args:
        path: a requirement file.
        python: the version: "3.14".
        options: further options for pip.
    """
    with tempfile.TemporaryDirectory() as folder:
        # For another Python, pip requires a target and no sources.
        where = ["--only-binary=:all:", f"--python-version={python}", f"--target={folder}"]
        what = ["--no-deps", "--require-hashes", f"--requirement={path}", *options]
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", *where, *what],
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stderr.strip() if done.returncode else ""


def unresolved_installs(text: str) -> list[str]:
    """Return the commands of a file that install a requirement file without ``--no-deps``."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [
        line.strip()
        for line in joined.splitlines()
        for command in re.split(r"&&|;", line)
        if re.search(r"--require-hashes|-r requirements", command) and "--no-deps" not in command
    ]


def write_lock(name: str, *, upgrade: bool, constraints: Path | None) -> None:
    """Resolve one file and write it."""
    target = ROOT / name
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder, "wanted.in"), Path(folder, "locked.txt")
        source.write_text("".join(f"{line}\n" for line in wanted(name)), encoding="utf-8")
        if target.exists() and not upgrade:
            result.write_text(target.read_text(encoding="utf-8"), encoding="utf-8")
        limits = ["--constraint", str(constraints)] if constraints else []
        files = [f"--output-file={result}", str(source)]
        subprocess.run(
            [sys.executable, "-m", "piptools", "compile", *QUIET_OPTIONS, *limits, *files],
            check=True,
        )
        header = f"# {HEADERS[name]} Written by `make lock`; do not edit.\n"
        target.write_text(header + result.read_text(encoding="utf-8"), encoding="utf-8")


def main() -> int:
    """Write all three, the largest first; return 1 if a supported Python cannot install them."""
    if sys.version_info[:2] != OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        print(f"lock: run this with Python {oldest}, for instance make lock PYTHON=python{oldest}")
        return 1
    upgrade = "--upgrade" in sys.argv[1:]
    write_lock(LARGEST, upgrade=upgrade, constraints=None)
    for name in HEADERS:
        if name != LARGEST:
            write_lock(name, upgrade=upgrade, constraints=ROOT / LARGEST)
    status = 0
    for python in supported_pythons():
        if trouble := wheel_trouble(ROOT / LARGEST, python):
            print(f"lock: Python {python} cannot install it:\n{trouble}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
