"""The lock files have all that an installation needs, with hashes, and agree with each other."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import metadata, requires
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.tidy.dependency_locks import (
    HEADERS,
    LARGEST,
    OLDEST_PYTHON,
    canonical,
    excluded,
    locked,
    locked_extras,
    missing,
    missing_extras,
    supported_pythons,
    unresolved_installs,
    wanted,
    wheel_trouble,
)
from tests.tidy.source_tree import ROOT, project_files

INSTALLERS = [
    ".github/workflows/build.yaml",
    "Makefile",
    "Dockerfile",
    "tests/controlplane/go_toolchain.py",
    "tests/controlplane/helm.py",
    "tests/release/krew.py",
]

TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in HEADERS}
LOCKS = {name: locked(text) for name, text in TEXTS.items()}


@pytest.mark.parametrize("name", HEADERS)
def test_every_wanted_package_is_locked(name: str) -> None:
    assert {canonical(row) for row in wanted(name)} - LOCKS[name].keys() == set()


def _metadata(package: str) -> list[str]:
    return requires(package) or []


@pytest.mark.parametrize("python", supported_pythons())
@pytest.mark.parametrize("name", HEADERS)
def test_the_locks_are_complete_for_every_supported_python(name: str, python: str) -> None:
    assert missing(wanted(name), LOCKS[name], python, _metadata) == set()


def test_no_package_excludes_a_supported_python() -> None:
    pythons = supported_pythons()
    assert pythons[0] == ".".join(map(str, OLDEST_PYTHON))
    assert excluded(LOCKS[LARGEST], pythons, _requires_python) == set()


def _requires_python(package: str) -> str:
    return str(metadata(package).json.get("requires_python", ""))


@pytest.mark.parametrize(
    ("says", "want"),
    [
        pytest.param("", set(), id="nothing"),
        pytest.param(">=3.9", set(), id="a lower bound"),
        pytest.param(">=3.12", {"a on 3.11"}, id="the oldest is too old"),
        pytest.param(">=3.9,<3.14", {"a on 3.14"}, id="the newest is too new"),
    ],
)
def test_a_package_that_excludes_a_python_is_found(says: str, want: set[str]) -> None:
    assert excluded(["a"], ["3.11", "3.14"], {"a": says}.__getitem__) == want


@pytest.mark.parametrize(
    ("tag", "troubled"),
    [
        pytest.param("py3-none-any", set(), id="pure"),
        pytest.param("cp311-none-any", {"3.14"}, id="for the oldest only"),
    ],
)
def test_a_pin_without_a_wheel_for_a_python_is_found(
    tmp_path: Path, tag: str, troubled: set[str]
) -> None:
    """The lock is checked in this way when it is written, since a test has no registry."""
    wheel = tmp_path / f"thing-1-{tag}.whl"
    said = "Metadata-Version: 2.1\nName: thing\nVersion: 1\n"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("thing-1.dist-info/METADATA", said)
        archive.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("thing-1.dist-info/RECORD", "")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"thing==1 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    here = ("--no-index", f"--find-links={tmp_path}")
    got = {python: wheel_trouble(lock, python, *here) for python in ("3.11", "3.14")}
    assert {python for python, trouble in got.items() if "thing==1" in trouble} == troubled
    assert {python for python, trouble in got.items() if trouble} == troubled


PACKAGES = {
    "coverage": ["tomli; python_version < '3.12' and extra == 'toml'"],
    "pytest-cov": ["coverage[toml]>=7"],
    "structlog": ["typing-extensions; python_version >= '3.14'"],
}


@pytest.mark.parametrize(
    ("rows", "python", "want"),
    [
        pytest.param(["httpx"], "3.11", {"httpx <- pyproject.toml"}, id="wanted itself"),
        pytest.param(["pytest-cov"], "3.11", {"tomli <- coverage"}, id="through an extra"),
        pytest.param(["pytest-cov"], "3.12", set(), id="not for this Python"),
        pytest.param(["coverage"], "3.11", set(), id="only with the extra"),
        pytest.param(["structlog"], "3.14", {"typing-extensions <- structlog"}, id="newer only"),
    ],
)
def test_an_incomplete_lock_is_found(rows: list[str], python: str, want: set[str]) -> None:
    assert missing(rows, PACKAGES, python, PACKAGES.__getitem__) == want


@pytest.mark.parametrize("python", supported_pythons())
@pytest.mark.parametrize("name", HEADERS)
def test_every_required_extra_is_locked(name: str, python: str) -> None:
    """An installation with resolving then finds its hashes, whatever is published later."""
    assert missing_extras(wanted(name), locked_extras(TEXTS[name]), python, _metadata) == set()


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param("coverage==7.1 \\", {"coverage[toml] <- pytest-cov"}, id="none is named"),
        pytest.param("coverage[x]==7.1", {"coverage[toml] <- pytest-cov"}, id="another"),
        pytest.param("coverage[toml,x]==7.1 \\", set(), id="it is named"),
    ],
)
def test_a_pin_without_its_extra_is_found(row: str, want: set[str]) -> None:
    extras = locked_extras(f"# header\n{row}\n    --hash=sha256:{'0' * 64}\npytest-cov==7\n")
    assert missing_extras(["pytest-cov"], extras, "3.11", PACKAGES.__getitem__) == want


@pytest.mark.parametrize("name", INSTALLERS)
def test_locked_installs_resolve_nothing(name: str) -> None:
    assert unresolved_installs((ROOT / name).read_text(encoding="utf-8")) == []


def test_every_file_that_installs_from_a_lock_is_checked() -> None:
    texts = {
        str(path): (ROOT / path).read_text(encoding="utf-8", errors="replace")
        for path in project_files()
        if path.suffix != ".md" and path.parts[:2] != ("tests", "tidy")
    }
    found = {name for name, text in texts.items() if "--require-hashes" in text}
    assert found - HEADERS.keys() == set(INSTALLERS)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Makefile", r"\$\(CHECK_PACKAGES\)"),
        ("Dockerfile", r"-m pip (?:--python \S+ )?check\b"),
    ],
)
def test_every_environment_from_a_lock_is_checked(name: str, check: str) -> None:
    """With --no-deps, pip does not report what is missing."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert len(re.findall(check, text)) == text.count("--require-hashes")


@pytest.mark.parametrize(
    "command",
    [
        "pip install --require-hashes -r requirements.txt",
        "pip install \\\n    --require-hashes -r requirements.txt",
        "pip install --no-deps x && pip install -r requirements.txt",
    ],
)
def test_a_resolving_install_is_found(command: str) -> None:
    assert unresolved_installs(f"RUN {command}\n")


@pytest.mark.parametrize("name", HEADERS)
def test_every_package_has_its_hashes(name: str) -> None:
    assert [package for package, (_, hashes) in LOCKS[name].items() if not hashes] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_smaller_locks_are_subsets_of_the_largest(name: str) -> None:
    assert LOCKS[name].items() - LOCKS["requirements-test.txt"].items() == set()


@pytest.mark.parametrize(
    "line",
    ["--index-url https://mirror.example", "-e .", "fastapi>=0.115", "fastapi", "./wheels/x.whl"],
)
def test_lines_that_lock_nothing_are_found(line: str) -> None:
    with pytest.raises(ValueError, match="neither a pin nor a hash"):
        locked(f"# header\n{line}\n")


def test_pins_without_hashes_are_counted() -> None:
    assert locked("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n") == {
        "a": ("1", 1),
        "b": ("2", 0),
    }
