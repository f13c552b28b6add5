"""`make image` succeeds only if an image was built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source_tree import ROOT


def make_image(folder: Path, docker: str) -> subprocess.CompletedProcess[str]:
    """Run the target with a `docker` that is this script."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{docker}\n", encoding="utf-8")
    program.chmod(0o755)
    # What .venv is made of is not the question, and the Python of this test has all packages.
    flags = [
        "--no-print-directory",
        "--assume-old=.venv/.koord-queue-installed",
        f"PY={sys.executable}",
    ]
    return subprocess.run(
        ["make", *flags, "image"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("docker", "is_built"),
    [
        pytest.param("exit 1", False, id="no engine answers"),
        pytest.param('[ "$1" = info ]', False, id="the build fails"),
        pytest.param("exit 0", True, id="it is built"),
    ],
)
def test_the_exit_code_says_whether_an_image_was_built(
    tmp_path: Path, docker: str, *, is_built: bool
) -> None:
    made = make_image(tmp_path, docker)
    assert (made.returncode == 0) == is_built, made.stderr


def test_without_an_engine_it_says_that_nothing_was_built(tmp_path: Path) -> None:
    want = "image: nothing was built: no container engine answers to `docker info`"
    assert want in make_image(tmp_path, "exit 1").stderr


def test_the_image_has_the_version_as_its_tag(tmp_path: Path) -> None:
    made = make_image(tmp_path, '[ "$1" = info ] || echo "$@"')
    assert made.stdout.startswith("build --build-arg VERSION=")
    assert made.stdout.rstrip().endswith(" .")
