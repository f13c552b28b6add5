"""The window and the server together, with nothing between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from queue_scheduler.engine.engine import Engine
from tests.page.window_kit import Window, opened
from tests.queue_insight.page.page_kit import PageWorld, served_page
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def kit() -> ShellKit:
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.add_unit("first", cpu=4)
    kit.dequeue()
    kit.add_unit("second", cpu=2)
    kit.decide()
    return kit


@pytest.fixture
def live(kit: ShellKit, browser: Browser) -> Iterator[Window]:
    world = PageWorld(kit.shared, kit.clock)
    world.past[kit.clock.now()] = kit.shared
    with served_page(world) as url, opened(browser, url) as window:
        window.listen()
        yield window
        assert window.complaints == []


def test_what_changes_is_shown_without_asking(live: Window, kit: ShellKit) -> None:
    live.open("/")
    live.page.get_by_role("status").get_by_text("Live").wait_for()
    live.page.get_by_role("row", name="team Active 1 1").wait_for()
    kit.add_unit("third", cpu=2)
    live.page.get_by_role("row", name="team Active 2 1").wait_for()


def test_a_unit_that_starts_is_seen_to_start(live: Window, kit: ShellKit) -> None:
    live.open("/units/default/second")
    live.sees("What keeps it from starting")
    live.page.get_by_role("status").get_by_text("Live").wait_for()
    kit.shared.apply(Engine.on_queue_unit_gone, kit.learn("first"))
    kit.dequeue()
    live.sees("It is starting: queue team, quota team.")


def test_the_overview_of_an_earlier_moment_stays_in_it(live: Window, kit: ShellKit) -> None:
    then = kit.clock.now().isoformat().replace("+00:00", "Z")
    live.open(f"/?at={then}")
    live.sees("This is how it was at ")
    queues = live.page.get_by_role("group", name="Queues")
    queues.get_by_role("link", name="team", exact=True).click()
    live.page.get_by_role("heading", name="Queue team").wait_for()
    assert f"at={then}" in live.page.url.replace("%3A", ":")
    live.page.get_by_role("link", name="Overview").click()
    live.page.get_by_role("button", name="Show how it is now").click()
    live.page.get_by_role("status").get_by_text("Live").wait_for()


def test_a_question_is_answered(live: Window) -> None:
    live.open("/what-if?quota=team")
    live.page.get_by_label("New amount").fill("6")
    live.page.get_by_role("button", name="Show what would change").click()
    live.sees("Start: 1")
    live.page.get_by_role("link", name="default/second").click()
    live.page.get_by_role("heading", name="default/second").wait_for()


def test_the_units_of_a_queue_can_be_downloaded(live: Window, tmp_path: Path) -> None:
    live.open("/queues/team")
    with live.page.expect_download() as download:
        live.page.get_by_role("link", name="Download as CSV").click()
    download.value.save_as(tmp_path / "team.csv")
    assert "second" in (tmp_path / "team.csv").read_text(encoding="utf-8")


def test_an_earlier_moment_is_shown_as_such(live: Window, kit: ShellKit) -> None:
    live.open(f"/units/default/second?at={kit.clock.now():%Y-%m-%dT%H:%M:%SZ}")
    live.sees("This is how it was at")
    live.sees("What keeps it from starting")
    assert live.page.get_by_role("button", name="Find the smallest changes").count() == 0
    live.page.get_by_role("link", name="team").first.click()
    live.page.wait_for_url("**/queues/team?at=*")
    live.page.get_by_role("link", name="default/second").wait_for()
