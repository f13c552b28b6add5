"""One Chromium per process, and a busy cluster to look at, which no test changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from queue_insight.debug_api.insight_views import LogEntryView, RecordView
from tests.page.window_kit import Window, opened, started_chromium
from tests.queue_insight.page.page_kit import PageWorld, served_page
from tests.queue_scheduler.shell_kit import ShellKit

WAITING = 300
"""More than one page of the list."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with started_chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def world() -> PageWorld:
    """Quotas `vision` and `speech` below `org`: one borrows, many wait, one can never start."""
    kit = ShellKit()
    kit.add_quota("org", 16, is_parent=True)
    kit.add_quota("vision", 8, parent="org")
    kit.add_quota("speech", 4, parent="org")
    kit.add_unit("train-0", "vision", cpu=6)
    kit.dequeue("vision")
    for number in range(1, WAITING + 1):
        kit.add_unit(f"train-{number}", "vision", cpu=3 + number % 2, priority=number % 5)
        kit.clock.advance(7)
    kit.add_unit("huge", "speech", cpu=64)
    kit.add_unit("lost", "not-there")
    kit.decide("vision")
    kit.decide("speech")
    world = PageWorld(kit.shared, kit.clock)
    world.rates = {"org": 0.0, "speech": 2.5, "vision": 42.0}
    now = kit.clock.now()
    world.record = RecordView(state="recording", complete_from=now)
    while world.forecasts.age_seconds() is None:
        world.forecasts.step()
    world.log = [
        LogEntryView(
            time=now,
            number=9,
            kind="Refused",
            unit="default/train-1",
            queue="vision",
            quota="vision",
            reason="OverQuotaMax",
            message="needs more cpu than the max of quota vision leaves",
            victims=[],
        )
    ]
    return world


@pytest.fixture(scope="session")
def url(world: PageWorld) -> Iterator[str]:
    with served_page(world) as url:
        yield url


@pytest.fixture
def window(browser: Browser, url: str) -> Iterator[Window]:
    with opened(browser, url) as window:
        yield window
