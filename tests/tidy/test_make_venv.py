"""`.venv` gets the packages that a target needs, once, in whichever order targets are made.

The Python is a script that writes down what pip is asked to install.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tidy.source_tree import ROOT

LOCKS = ("requirements.txt", "requirements-build.txt", "requirements-test.txt")
PROGRAMS = "-r requirements.txt -r requirements-build.txt"
OURS = "--editable ."
TESTS = "-r requirements-test.txt"
OPTIONS = re.compile(r"--(?:no|require)-\S+ ")
PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"pip install "*) echo "${*#*--disable-pip-version-check }" >> asked.txt ;;
  *"pip check"*) echo check >> asked.txt ;;
  "-m tests.demo") echo demo >> asked.txt ;;
esac
"""


class Clone:
    """A copy of what the rules read, in a folder with a space in its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "a clone"
        self.folder.mkdir()
        self._now = 1_000_000_000
        python = folder / "python"
        python.write_text(PYTHON, encoding="utf-8")
        python.chmod(0o755)
        for name in ("Makefile", "pyproject.toml", *LOCKS):
            shutil.copy(ROOT / name, self.folder / name)
            self.change(name)

    def change(self, name: str) -> None:
        """Give a file a newer time than all others have."""
        self._now += 10
        os.utime(self.folder / name, (self._now, self._now))

    def make(self, target: str) -> list[str]:
        """Make a target, and return what was installed, checked and run, without options."""
        asked = self.folder / "asked.txt"
        asked.write_text("")
        subprocess.run(
            ["make", f"PYTHON={self.folder.parent}/python", target],
            cwd=self.folder,
            env={**os.environ, "MAKEFLAGS": "", "MAKELEVEL": ""},
            check=True,
            capture_output=True,
        )
        for stamp in (self.folder / ".venv").glob(".koord-queue-*"):
            if stamp.stat().st_mtime > self._now:  # it was made just now
                self.change(str(stamp.relative_to(self.folder)))
        return [OPTIONS.sub("", line) for line in asked.read_text().splitlines()]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_the_demo_installs_what_the_programs_need(clone: Clone) -> None:
    assert clone.make("demo") == [PROGRAMS, OURS, "check", "demo"]
    assert clone.make("demo") == ["demo"]


def test_a_developer_adds_the_rest_to_it(clone: Clone) -> None:
    clone.make("demo")
    assert clone.make("venv") == [TESTS, "check"]
    assert clone.make("venv") == []
    assert clone.make("demo") == ["demo"]


def test_the_other_order(clone: Clone) -> None:
    assert clone.make("venv") == [PROGRAMS, OURS, "check", TESTS, "check"]
    assert clone.make("demo") == ["demo"]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt", "pyproject.toml"])
def test_what_the_programs_need_has_changed(clone: Clone, name: str) -> None:
    clone.make("venv")
    clone.change(name)
    # The packages of the tests are still those of the older lock: a check would compare the two.
    assert clone.make("demo") == [PROGRAMS, OURS, "demo"]
    assert clone.make("venv") == [TESTS, "check"]
    assert clone.make("venv") == []


def test_what_only_the_tests_need_has_changed(clone: Clone) -> None:
    clone.make("venv")
    clone.change("requirements-test.txt")
    assert clone.make("demo") == ["demo"]
    assert clone.make("venv") == [TESTS, "check"]
