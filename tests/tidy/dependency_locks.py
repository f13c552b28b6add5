"""The hashed requirement files: ``python -m tests.tidy.dependency_locks [--upgrade]`` writes them.

pip-compile does the work. Around it: the groups of pyproject.toml are read, nothing of the machine
(registry, folders) gets into the files, and the versions already locked stay unless ``--upgrade``
is given. It locks for the oldest supported Python, since markers of dependencies mostly take
packages away as Python grows newer.

The files are installed with ``--no-deps``: pip then resolves nothing and asks the registry only for
what is pinned, so that nothing published later can break an installation. In return the lock has to
be complete: `missing` finds what a supported Python would lack. An installation without
``--no-deps`` works as well, since pins name their extras: `missing_extras` finds one that does not.

What is locked has to be installable on every supported Python. Whether a package excludes one,
`excluded` says; whether it has a wheel for it, only the registry knows, so that is asked when the
files are written.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path

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
"""The others are cuts of it."""
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


def supported_pythons() -> list[str]:
    """The versions that pyproject.toml names, such as "3.14"."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    prefix = "Programming Language :: Python :: 3."
    rows: list[str] = settings["project"]["classifiers"]
    return ["3." + row.removeprefix(prefix) for row in rows if row.startswith(prefix)]


def wanted(name: str) -> list[str]:
    """The requirements that pyproject.toml states for one of the files."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime: list[str] = settings["project"]["dependencies"]
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
    """Package -> (version, number of hashes) of a requirement file.

    Raises:
        ValueError: a line is neither a pinned package, a hash of one, nor a comment.
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
    """Package -> the extras that a requirement file names of it."""
    pins = filter(None, map(_PIN.fullmatch, text.splitlines()))
    return {pin["name"]: frozenset(filter(None, (pin["extras"] or "").split(","))) for pin in pins}


def canonical(requirement: str) -> str:
    """The name of a requirement as lock files spell it."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def missing(
    wanted: Iterable[str],
    locked: Iterable[str],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> set[str]:
    """The packages that an installation without resolving would lack, as ``package <- by whom``.

    Args:
        wanted: requirements, with their extras.
        locked: names of the packages in the lock, canonical.
        python: the version for which markers are judged: "3.14".
        requires: the requirements of a locked package, as its metadata states them.
    """
    known = set(locked)
    needed = _needed(wanted, known, python, requires)
    names = ((canonical(requirement.name), by_whom) for requirement, by_whom in needed)
    return {f"{name} <- {by_whom}" for name, by_whom in names if name not in known}


def missing_extras(
    wanted: Iterable[str],
    locked: Mapping[str, frozenset[str]],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> set[str]:
    """The extras that are asked for and not named in the lock, as ``package[extra] <- by whom``.

    Where pip resolves, a pin without its extra is another requirement than the one that is asked
    for: pip then takes the newest version, for which the lock has no hash.

    Args:
        wanted: requirements, with their extras.
        locked: the extras in the lock, by package.
        python: the version for which markers are judged: "3.14".
        requires: the requirements of a locked package, as its metadata states them.
    """
    return {
        f"{name}[{extra}] <- {by_whom}"
        for requirement, by_whom in _needed(wanted, locked, python, requires)
        for name in (canonical(requirement.name),)
        for extra in requirement.extras - locked.get(name, frozenset())
    }


def _needed(
    wanted: Iterable[str],
    known: Container[str],
    python: str,
    requires: Callable[[str], Iterable[str]],
) -> Iterator[tuple[Requirement, str]]:
    """Walk through what is wanted and what the known packages of that require, with by whom."""
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
            todo.extend((needed, each[0], name) for needed in requires(name))


def excluded(
    locked: Iterable[str], pythons: Iterable[str], requires_python: Callable[[str], str]
) -> set[str]:
    """The packages that say themselves that a Python is not for them, as ``package on 3.14``.

    Args:
        locked: names of packages.
        pythons: versions: "3.14".
        requires_python: what the metadata of a package says, such as ">=3.9,<3.14"; "" for any.
    """
    return {
        f"{name} on {python}"
        for python in pythons
        for name in locked
        if not SpecifierSet(requires_python(name)).contains(f"{python}.0")
    }


def wheel_trouble(path: Path, python: str, *options: str) -> str:
    """What pip says where a Python finds no wheel, with a locked hash, of a package; else "".

    Nothing is installed, and that Python need not be here.

    Args:
        path: a requirement file.
        python: the version: "3.14".
        options: further ones for pip.
    """
    with tempfile.TemporaryDirectory() as folder:
        # For another Python pip insists on a target, and on taking no sources.
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
    """The commands of a file that install a requirement file and let pip resolve, one line each."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [
        line.strip()
        for line in joined.splitlines()
        for command in re.split(r"&&|;", line)
        if re.search(r"--require-hashes|-r requirements", command) and "--no-deps" not in command
    ]


def write_lock(name: str, *, upgrade: bool, constraints: Path | None) -> None:
    """Resolve one file anew and write it."""
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
    """Write all three, the largest first; 1 where a supported Python cannot install them."""
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
