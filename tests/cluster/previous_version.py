"""The files of the version before this one, from the history of the repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.program_process import ROOT

PREVIOUS: Final = "f0dcde3c006066fa53790bf9e79c055fc2b972d9"
"""Stands for the version before while no commit has a tag: main of 2026-11-21.

It is about the oldest whose chart installs both programs. Since then the CRDs, the roles, the
policies, the flags, and what the status of a unit says have changed, so an upgrade has to cope with
all of that.
"""
GIT_SECONDS: Final = 60.0


def unpack_previous_version(folder: Path) -> Path:
    """Unpack the files of the newest tag before this commit, or of `PREVIOUS`; return the folder.

    Ends the test if the history is not there: a clone may have only its last commits.
    """
    tag = _git("describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").decode().strip()
    archive = _git("archive", "--format=tar", tag or PREVIOUS)
    if not archive:
        pytest.skip("needs the history of this repository: git fetch --unshallow --tags")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(folder, filter="data")
        else:  # Python 3.11.2, which Debian 12 has
            tar.extractall(folder)  # noqa: S202 - an archive of this repository's own history
    return folder


def _git(*arguments: str) -> bytes:
    """Return what git says, nothing if it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except OSError:
        return b""
    return done.stdout if done.returncode == 0 else b""
