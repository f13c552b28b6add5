"""What all tests share: Hypothesis profiles, and the real control plane's binaries."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.controlplane.binaries import require_binaries
from tests.controlplane.tool_cache import BinariesUnavailable

CLUSTER_FOLDERS = [Path(__file__).with_name(name) for name in ("cluster", "contracts")]
"""Where the step `cluster` looks for its tests: collecting all others takes longer."""

CLUSTER_TEST_SECONDS = 900
"""Of a cluster test that sets no limit: on a slow and busy machine its control plane starts within
it, and several waits (`queue_world.PATIENCE_SECONDS`) may be long."""

IN_CI = os.environ.get("CI", "").lower() == "true"

# deadline: two cores shared by several processes say nothing about the code's speed; benchmarks
# do. In CI a run repeats the one before it, so that a red run is the change's doing; at home every
# run looks somewhere else.
settings.register_profile("home", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "home"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that ask for the binaries, and those beside them, before ``-m`` selects by marks.

    A cluster test that sets no time limit gets one.

    Raises:
        pytest.UsageError: such a test is where no step would run it.
    """
    for item in items:
        asks = isinstance(item, pytest.Function) and "controlplane_binaries" in item.fixturenames
        # What only the cluster tests use is tested in their step: no other looks into that folder.
        if asks or CLUSTER_FOLDERS[0] in item.path.parents:
            item.add_marker("cluster")
        elsewhere = not any(folder in item.path.parents for folder in CLUSTER_FOLDERS)
        if elsewhere and item.get_closest_marker("cluster"):
            names = " and ".join(folder.name for folder in CLUSTER_FOLDERS)
            raise pytest.UsageError(f"{item.nodeid}: cluster tests are in {names}")
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CLUSTER_TEST_SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the binaries before the first test: no test's time limit should pay for it.

    Of several workers one builds, and the others wait for it.
    """
    if session.config.option.collectonly:
        return
    if not any(item.get_closest_marker("cluster") for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None  # pytest's own
    with capture.global_and_fixture_disabled():  # a build takes minutes and says so
        _binaries_or_reason()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per reason to skip, however many tests share it; pytest has one per place."""
    reports: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in reports
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"SKIPPED [{count}] {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def controlplane_binaries() -> Path:
    """The folder with etcd, kube-apiserver and the others; skips, or fails in CI, without them."""
    found = _binaries_or_reason()
    if isinstance(found, Path):
        return found
    if IN_CI:
        pytest.fail(f"the control plane is not optional in CI: {found}", pytrace=False)
    pytest.skip(f"needs the real control plane: {found}")


def _binaries_or_reason() -> Path | str:
    try:
        return require_binaries()  # remembers its answer, a failure too
    except BinariesUnavailable as error:
        return str(error)
