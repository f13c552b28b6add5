"""Of what has changed, the unit tests are found by their paths and names."""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath

import pytest

from tests.changed_tests import changed_since, find_tests
from tests.tidy.source_tree import project_files

PRESENT = [
    PurePosixPath(name)
    for name in (
        "queue_scheduler/quota/quota_tree.py",
        "tests/cluster/test_quota_tree.py",
        "tests/queue_scheduler/quota/quota_kit.py",
        "tests/queue_scheduler/quota/test_quota_tree.py",
        "tests/queue_scheduler/quota/test_quota_tree_of_many.py",
        "tests/queue_scheduler/quota/test_quota.py",
        "tests/test_run_steps.py",
    )
]
OF_THE_TREE = [PRESENT[3], PRESENT[4]]


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        pytest.param("queue_scheduler/quota/quota_tree.py", OF_THE_TREE, id="a module"),
        pytest.param(str(PRESENT[4]), [PRESENT[4]], id="a test"),
        pytest.param("tests/test_run_steps.py", [PRESENT[6]], id="a test of the tests"),
        pytest.param("queue_scheduler/cache/quota_tree.py", [], id="the same name elsewhere"),
        pytest.param("tests/cluster/test_quota_tree.py", [], id="a step of its own"),
        pytest.param("docs/quotas.md", [], id="no module"),
        pytest.param("tests/queue_scheduler/quota/quota_kit.py", [], id="no test"),
    ],
)
def test_tests_have_the_paths_of_modules(changed: str, want: list[PurePosixPath]) -> None:
    assert list(find_tests([PurePosixPath(changed)], PRESENT, ["cluster"])) == want


def test_all_of_the_project_is_found() -> None:
    found = set(find_tests(project_files(), project_files()))
    assert PurePosixPath("tests/test_changed_tests.py") in found
    assert len(found) > 500


def test_a_commit_that_is_not_there_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        changed_since("no-such-commit")
