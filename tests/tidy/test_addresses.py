"""No file names paths of one machine or addresses of package registries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.tidy.source_tree import ROOT, Finding, project_files

# Folders of one user or one build machine; a path in a URL has something before it.
MACHINE_PATH = re.compile(r"(?<![\w.$~%-])/(?:work|root|home/\w+|Users/\w+)/")
# The package registry is a setting of the machine, which may have mirrors and caches.
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|registry\.npmjs\.org|proxy\.golang\.org|sum\.golang\.org)\b"
)
REGISTRY_OPTION = re.compile(
    r"--(?:extra-)?index-url|--trusted-host|--find-links|\bPIP_INDEX_URL\b|\bGOPROXY=(?!off)"
)

# Files that must name what they search for.
EXCEPTIONS = {
    "tests/data/crds/mpijobs-v2beta1.yaml": "a default of that kind is a path in containers",
    "tests/tidy/test_addresses.py": "the rule itself",
    "tests/tidy/test_dependency_locks.py": "a planted option that the lock files may not hold",
    "tests/tidy/dependency_locks.py": "tells pip-compile to omit these options",
}


def addresses(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Yield lines that name a machine's folders, a package registry, or an option that sets one."""
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, message in (
            (MACHINE_PATH, "the path of one machine"),
            (REGISTRY_HOST, "the address of a package registry"),
            (REGISTRY_OPTION, "where packages come from is the machine's setting"),
        ):
            if found := pattern.search(line):
                yield Finding(path, number, f"{found.group()}: {message}")


def _texts() -> Iterator[tuple[PurePosixPath, str]]:
    for path in project_files():
        if str(path) in EXCEPTIONS:
            continue
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a compressed trace or another binary


def test_files_have_no_addresses() -> None:
    findings = (finding for path, text in _texts() for finding in addresses(path, text))
    assert "\n".join(map(str, findings)) == ""


@pytest.mark.parametrize(
    "line",
    [
        "see /work/shared for more",
        "cache = '/root/.cache'",
        "/home/ada/koord-queue/bin",
        "--hash from https://pypi.org/simple",
        "https://files.pythonhosted.org/packages/x.whl",
        "--index-url https://mirror.example/simple",
        "ENV GOPROXY=https://mirror.example",
    ],
)
def test_addresses_are_found(line: str) -> None:
    assert list(addresses(PurePosixPath("README.md"), line))


@pytest.mark.parametrize(
    "line",
    [
        "GET /apis/batch/v1/work/status",
        "$HOME/root/cache",
        "pip takes the packages from PyPI",
        "https://kubernetes.io/docs/work/",
    ],
)
def test_other_text_is_no_finding(line: str) -> None:
    assert not list(addresses(PurePosixPath("README.md"), line))
