"""A scheduler or both programs with a fake API server, and their logs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from tests.queue_scheduler.scheduler_world import Logs, SchedulerWorld, running_world
from tests.scenarios.town import Town


@pytest.fixture
def logs() -> Iterator[Logs]:
    """The logs of the scheduler during the test."""
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


@pytest.fixture
def town() -> Iterator[Town]:
    """Both programs, the scheduler in `max` mode, and a quota `gold` of 2 cpu."""
    with running_world() as scheduling:
        yield Town(scheduling)


@pytest.fixture
def bare_town() -> Iterator[Town]:
    """Both programs, the scheduler in `max` mode, without a quota."""
    with running_world() as scheduling:
        yield Town(scheduling, cpu=None)


@pytest.fixture
def strict_town() -> Iterator[Town]:
    """Both programs in strict mode, without a quota; the test plays koord-scheduler."""
    with running_world() as scheduling:
        yield Town(scheduling, cpu=None, is_strict=True)
