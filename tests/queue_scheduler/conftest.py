"""Fixtures shared by the tests of the scheduler's shells."""

from __future__ import annotations

import pytest

from tests.queue_scheduler.shell_kit import Line, ShellKit


@pytest.fixture
def kit() -> ShellKit:
    """Server, dispatcher and engine, with quota and queue `team` of 4 CPUs."""
    kit = ShellKit()
    kit.add_quota("team", 4)
    return kit


@pytest.fixture
def line(kit: ShellKit) -> Line:
    """The kit with its dequeue cycle."""
    return Line(kit)
