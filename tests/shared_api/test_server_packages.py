"""A program that is started without its packages says which, and how to install them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from typing import Final

import pytest
import rich

from shared_api.server_packages import PACKAGES, needed
from tests.tidy.source_tree import ROOT

SCRIPT: Final = """
import sys
sys.modules["prometheus_client"] = None  # importing it is a ModuleNotFoundError
import {module}
"""
PROGRAMS: Final = (
    "queue_controllers.__main__",
    "queue_scheduler.__main__",
    "queue_admission_checks.__main__",
    "queue_insight.insight_program.__main__",
)


@pytest.mark.parametrize("module", PROGRAMS)
def test_a_program_without_its_packages(module: str) -> None:
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "needs the packages of the server, and prometheus_client is missing" in done.stderr
    assert done.stderr.endswith("Install them: pip install 'koord-queue[server]'\n")


@pytest.mark.parametrize("module", PROGRAMS)
def test_no_program_loads_what_writes_to_a_terminal(module: str) -> None:
    code = f"import sys, {module}; print(set(sys.modules) & {{'rich', 'pygments'}}); import rich"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_is_loaded_already_stays() -> None:
    with needed():
        assert sys.modules["rich"] is rich


def test_all_packages_of_the_extra_are_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {row.partition(">")[0].replace("-", "_") for row in
             project["optional-dependencies"]["server"]}  # fmt: skip
    assert named == PACKAGES
