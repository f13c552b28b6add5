"""A scheduler over the fake API server, and what it logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.scenarios.bad_input_kit import Logs


@pytest.fixture
def logs() -> Iterator[Logs]:
    """What the scheduler logs while the test runs."""
    with capture_logs() as logs:
        yield logs


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    """A scheduler in `max` mode, and a quota `team` of 4 cpu."""
    with running_world() as world:
        world.start()
        world.add_quota()
        world.settle()
        yield world
