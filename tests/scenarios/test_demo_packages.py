"""The demo needs no package of the tests: `make demo` installs only what runs the programs.

The environment is made of links to this one, which has all packages.
"""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pytest

from tests.demo.demo_process import ROOT, demo_starter
from tests.tidy.dependency_locks import locked

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(600)]

LOCKS: Final = ("requirements.txt", "requirements-build.txt")
RUN_SECONDS: Final = 400.0


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with the packages of `LOCKS`, and this project."""
    folder = tmp_path_factory.mktemp("programs")
    venv.create(folder, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for lock in LOCKS:
        for name in locked((ROOT / lock).read_text(encoding="utf-8")):
            link_package(name, site)
    link_package("koord-queue", site)
    return str(folder / "bin" / "python")


def link_package(name: str, site: Path) -> None:
    """Link what an installed package has at the top of the packages' folder."""
    found = distribution(name)
    for top in {path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}:
        link = site / top
        if not link.exists():  # a folder may be of several packages
            link.symlink_to(str(found.locate_file(top)))


def test_it_runs_with_the_packages_of_the_programs_alone(python: str, tmp_path: Path) -> None:
    with demo_starter(tmp_path, python=python) as start:
        demo = start("--once", "--jobs", "2", "--submit-seconds", "1")
        assert demo.wait(RUN_SECONDS) == 0, demo.output
        assert "2 of 2 jobs completed" in demo.output


def test_there_is_no_other_package(python: str) -> None:
    for name, is_there in (("kubernetes", True), ("hatchling", True), ("pytest", False)):
        done = subprocess.run(
            [python, "-c", f"import {name}"], cwd=ROOT, check=False, stderr=subprocess.DEVNULL
        )
        assert (done.returncode == 0) == is_there, name
