"""Shared by all tests: Hypothesis profiles, and the binaries of the real control plane."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from tests.controlplane.binaries import UnknownKubernetes, chosen_kubernetes, require_binaries
from tests.controlplane.tool_cache import BinariesUnavailable
from tests.required_tools import IN_CI, require

CLUSTER_FOLDERS = [Path(__file__).with_name(name) for name in ("cluster", "contracts")]
"""Folders in which the step `cluster` collects its tests; collecting all others takes longer."""

CLUSTER_TEST_SECONDS = 900
"""Timeout of a cluster test that sets none: enough for the start of its control plane on a slow and
busy machine, and for several long waits (`queue_world.PATIENCE_SECONDS`)."""

# deadline: timings on two cores shared by several processes say nothing about the code's speed;
# benchmarks do. In CI, runs are deterministic, so that a failure is caused by the change; elsewhere
# every run uses other examples.
settings.register_profile("home", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if IN_CI else "home"))


def pytest_configure() -> None:
    """Refuse a Kubernetes that is not known: skipping what needs it would look like a success.

    Raises:
        pytest.UsageError: It is not known; the message lists those that are.
    """
    try:
        chosen_kubernetes()
    except UnknownKubernetes as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Take what the collection leaves out of the garbage collector's sight.

    Tests and modules live as long as the process: in the step `unit`, they are a million objects,
    and a collection of all generations took longer than most tests. Programs under test ask for one
    when they start, and after answers that need much memory.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the binaries, and those next to them, before ``-m`` selects by marks.

    A cluster test without a timeout gets one.

    Raises:
        pytest.UsageError: Such a test is in a folder where no step would run it.
    """
    for item in items:
        asks = isinstance(item, pytest.Function) and "controlplane_binaries" in item.fixturenames
        # Helpers of cluster tests are tested in their step, as no other collects that folder.
        if asks or CLUSTER_FOLDERS[0] in item.path.parents:
            item.add_marker("cluster")
        elsewhere = not any(folder in item.path.parents for folder in CLUSTER_FOLDERS)
        if elsewhere and item.get_closest_marker("cluster"):
            names = " and ".join(folder.name for folder in CLUSTER_FOLDERS)
            raise pytest.UsageError(f"{item.nodeid}: cluster tests are in {names}")
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(CLUSTER_TEST_SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find or build the binaries before the first test, so that this counts for no test's timeout.

    Of several workers, one builds, and the others wait for it.
    """
    if session.config.option.collectonly:
        return
    if not any(item.get_closest_marker("cluster") for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None  # pytest's own
    # A build takes minutes and reports progress. Whoever needs the binaries reports that there are
    # none: the result is remembered, including a failure.
    with capture.global_and_fixture_disabled(), suppress(BinariesUnavailable):
        require_binaries()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per reason for skipping, for all tests with it; pytest has one per place."""
    reports: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    reasons = Counter(
        report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for report in reports
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"SKIPPED [{count}] {reason.removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def controlplane_binaries() -> Path:
    """The folder with etcd, kube-apiserver, and the others; without them, skip, or fail in CI."""
    return require(require_binaries, "the real control plane")
