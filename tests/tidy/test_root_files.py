"""The files in the root are consistent."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import Any

import pytest

from tests.tidy.source_tree import ROOT


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _settings() -> dict[str, Any]:
    return tomllib.loads(_text("pyproject.toml"))


def undocumented_targets(makefile: str) -> set[str]:
    """Return phony targets that ``make help`` does not list."""
    phony = set(re.findall(r"^\.PHONY: (\S+)$", makefile, re.MULTILINE))
    return phony - set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def test_make_help_lists_every_target() -> None:
    assert undocumented_targets(_text("Makefile")) == set()


def test_an_unlisted_target_is_found() -> None:
    makefile = ".PHONY: lint\nlint: ## ruff\n.PHONY: secret\nsecret:\n"
    assert undocumented_targets(makefile) == {"secret"}


def test_the_variables_of_targets_are_not_variables_of_make() -> None:
    """Make gives these a value itself: `AS` is its assembler."""
    got = re.findall(r"^[a-z-]+:.*## (.*)$", _text("Makefile"), re.MULTILINE)
    ours = {name for line in got for name in re.findall(r"\b([A-Z]+)=", line)}
    assert {"SECONDS", "SEEDS"} <= ours
    command = ["make", "--print-data-base", "--file=/dev/null"]
    # It ends with 2, as there is no target, after it has printed.
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    theirs = set(re.findall(r"^([A-Z]+) :?=", printed, re.MULTILINE))
    assert "CC" in theirs
    assert ours & theirs == set()


def test_steps_are_targets() -> None:
    steps = re.search(r"^TEST_STEPS := (.*)$", _text("Makefile"), re.MULTILINE)
    assert steps is not None
    targets = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
    assert set(re.split(r"[ +]", steps.group(1))) - targets == set()


def test_ci_runs_the_tests_and_nothing_else() -> None:
    commands = [line for line in _text(".ci/run").splitlines() if line and line[0] != "#"]
    assert commands[0] == "set -euo pipefail"
    assert commands[1].startswith("cd ")
    assert commands[2:] == ["exec make test"]


def test_supported_pythons_agree() -> None:
    project = _settings()["project"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    oldest = project["requires-python"].removeprefix(">=")
    assert named[0] == oldest
    assert _settings()["tool"]["mypy"]["python_version"] == oldest
    assert _settings()["tool"]["ruff"]["target-version"] == "py" + oldest.replace(".", "")
    for version in named:
        assert f"python{version} " in _text("Makefile")


@pytest.mark.parametrize(
    "script",
    # The names that kubectl wants are of programs that have one already.
    [
        script
        for name, script in _settings()["project"]["scripts"].items()
        if not name.startswith("kubectl")
    ],
)
def test_programs_can_be_run_as_modules(script: str) -> None:
    module, _, function = script.partition(":")
    assert (module.rpartition(".")[2], function) == ("__main__", "main")


def test_the_changelog_has_a_section_for_the_next_change() -> None:
    assert "\n## Unreleased\n" in _text("CHANGELOG.md")
