"""The workflows of .github/ do what they say with the rights they need, and run what was reviewed.

They run on GitHub, not here; two linters and the rules below are what can be known before.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.go_tools import ACTIONLINT, require_tool
from tests.controlplane.tool_cache import BinariesUnavailable
from tests.tidy.dependency_locks import supported_pythons
from tests.tidy.source_tree import ROOT, Finding

FOLDER: Final = ROOT / ".github" / "workflows"
TEXTS: Final = {
    PurePosixPath(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted(FOLDER.iterdir())
}
WORKFLOWS: Final[dict[str, Any]] = {
    # YAML 1.1 reads the key "on" as true.
    path.stem: yaml.safe_load(text.replace("\non:", "\n'on':"))
    for path, text in TEXTS.items()
}
USES: Final = re.compile(r"\buses: +(?P<action>\S+?)(?:@(?P<ref>\S+))?(?: +# (?P<version>\S+))?$")
ZIZMOR: Final = Path(sys.executable).with_name("zizmor")
LINTER_SECONDS: Final = 60.0


def unpinned(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Yield the actions that are not named by commit, with their version as a comment."""
    for number, line in enumerate(text.splitlines(), start=1):
        used = USES.search(line)
        if used is None or used["action"].startswith("./"):
            continue
        if not re.fullmatch(r"[0-9a-f]{40}", used["ref"] or ""):
            yield Finding(path, number, f"{used['action']}: whoever moves the tag runs here")
        elif not re.fullmatch(r"v\d+\.\d+\.\d+", used["version"] or ""):
            yield Finding(path, number, f"{used['action']}: which version is this commit?")


def test_actions_are_pinned() -> None:
    found = [str(each) for path, text in TEXTS.items() for each in unpinned(path, text)]
    assert "\n".join(found) == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        pytest.param(f"- uses: a/b@{'0' * 40} # v1.2.3", 0, id="commit and version"),
        pytest.param("uses: ./.github/workflows/test.yaml", 0, id="a workflow of this commit"),
        pytest.param("- uses: a/b@v1", 1, id="a tag"),
        pytest.param("- uses: a/b", 1, id="nothing"),
        pytest.param(f"- uses: a/b@{'0' * 39} # v1.2.3", 1, id="an abbreviated commit"),
        pytest.param(f"- uses: a/b@{'0' * 40}", 1, id="no version"),
        pytest.param(f"- uses: a/b@{'0' * 40} # v1", 1, id="a version that moves"),
    ],
)
def test_an_unpinned_action_is_found(line: str, found: int) -> None:
    assert len([*unpinned(PurePosixPath("x.yaml"), line)]) == found


def test_an_action_has_one_version() -> None:
    pins = defaultdict(set)
    for text in TEXTS.values():
        for line in text.splitlines():
            if used := USES.search(line):
                pins[used["action"]].add((used["ref"], used["version"]))
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


def test_every_supported_python_is_tested() -> None:
    tested = WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == supported_pythons()


def test_a_release_publishes_only_what_was_tested_and_built() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    for name in ("test", "build"):
        assert jobs[name]["uses"] == f"./.github/workflows/{name}.yaml"
    publishing = {
        name for name, job in jobs.items() if {"packages", "id-token"} & {*job["permissions"]}
    }
    assert publishing == {"image", "chart", "index", "release"}
    for name in publishing:
        assert {"versions", "test", "build"} <= _before(name, jobs), name
        assert jobs[name]["environment"] == "release", name


def _before(name: str, jobs: dict[str, Any]) -> set[str]:
    """Return the jobs that must have succeeded before one starts."""
    needs = jobs[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else {*needs}
    return direct.union(*(_before(each, jobs) for each in direct))


def test_workflows_call_targets_and_modules_that_exist() -> None:
    text = "\n".join(TEXTS.values())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"\bmake ([a-z-]+)", re.sub(r"#.*", "", text)))
    assert targets - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()
    modules = set(re.findall(r"python -m (tests\.[a-z_.]+)", text))
    assert {each for each in modules if not _is_module(each)} == set()
    assert targets
    assert modules


def _is_module(name: str) -> bool:
    return (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()


def zizmor(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Run zizmor with its strictest rules; it asks nobody."""
    return subprocess.run(
        [ZIZMOR, "--offline", "--no-config", "--persona=pedantic", "--quiet", *paths],
        capture_output=True,
        text=True,
        timeout=LINTER_SECONDS,
        check=False,
    )


def test_zizmor_finds_nothing() -> None:
    done = zizmor(ROOT / ".github")
    assert done.returncode == 0, done.stdout + done.stderr


INJECTED: Final = """\
name: Test
on: pull_request
permissions: {}
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - run: echo "${{ github.event.pull_request.title }}"
"""


def test_an_injection_is_found_by_zizmor(tmp_path: Path) -> None:
    path = tmp_path / ".github" / "workflows" / "test.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(INJECTED, encoding="utf-8")
    done = zizmor(path)
    assert done.returncode != 0
    assert "template-injection" in done.stdout + done.stderr


@pytest.fixture(scope="module")
def actionlint() -> Path:
    """The linter, built the first time."""
    try:
        return require_tool(ACTIONLINT)
    except BinariesUnavailable as error:
        pytest.skip(f"needs actionlint: {error}")


def lint(actionlint: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Run actionlint without the linters of shell and Python, which a machine may have or not."""
    return subprocess.run(
        [actionlint, "-no-color", "-shellcheck=", "-pyflakes=", *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LINTER_SECONDS,
        check=False,
    )


@pytest.mark.timeout(1800)  # for the build
def test_actionlint_finds_nothing(actionlint: Path) -> None:
    done = lint(actionlint, *sorted(FOLDER.iterdir()))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.timeout(1800)
def test_an_unknown_output_is_found_by_actionlint(actionlint: Path, tmp_path: Path) -> None:
    path = tmp_path / "release.yaml"
    text = TEXTS[PurePosixPath(".github/workflows/release.yaml")]
    path.write_text(text.replace("needs.image.outputs.digest", "needs.image.outputs.sha"))
    done = lint(actionlint, path)
    assert done.returncode != 0
    assert 'property "sha" is not defined' in done.stdout
