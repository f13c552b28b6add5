"""The view of who used how much: bars, the table below them, and links that keep the choice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from queue_scheduler.tenants.ledger import Ledger
from tests.page.test_views import assert_read_on_a_phone, assert_sound
from tests.page.window_kit import PHONE, Window, opened
from tests.queue_insight.page.page_kit import PageWorld, served_page
from tests.queue_insight.page.report_kit import TENANTS, PlayedUse
from tests.queue_scheduler.shell_kit import ShellKit

MANY = [TENANTS[0]._replace(user=f"user-{number:02}") for number in range(11)]


def world_with(use: PlayedUse | None, *, counts: bool = True) -> PageWorld:
    kit = ShellKit()
    kit.add_quota("vision", 8)
    if counts:
        kit.shared._engine.usage.ledger = Ledger()  # noqa: SLF001 - before its next call
    world = PageWorld(kit.shared, kit.clock)
    world.use = use
    return world


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_page(world_with(PlayedUse())) as url:
        yield url


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("day", "/report?range=1d"),
        ("week", "/report"),
        ("month", "/report?range=30d&by=quota&resource=cpu"),
    ],
)
def test_the_view_is_sound(window: Window, name: str, path: str) -> None:
    window.listen()
    window.open(path)
    window.has_title("Report")
    window.sees("Live")
    assert_read_on_a_phone(window, "Rows of the report")
    assert_sound(window, f"report-{name}")


def test_bars_say_what_they_show(window: Window) -> None:
    window.open("/report")
    image = window.page.get_by_role("img", name="nvidia.com/gpu over the last 7 days: ann ")
    label = image.get_attribute("aria-label") or ""
    assert "; bob " in label
    assert "; eve " in label
    expect(window.page.locator(".stack")).to_have_count(7)
    heights = [each.bounding_box() for each in window.page.locator(".stack .use-0").all()]
    assert all(each is not None and each["height"] > 5 for each in heights)
    table = window.page.get_by_role("table")
    heads = table.get_by_role("columnheader").all_text_contents()
    assert heads == ["User", "Used", "Wait p50", "Wait p90", "Evictions", "Lost"]
    expect(table.get_by_role("row")).to_have_count(4)
    window.sees("Jain's index:")


def test_the_choice_stands_in_the_address_and_a_link_keeps_it(window: Window) -> None:
    window.open("/report")
    window.page.get_by_role("button", name="1 day").click()
    window.page.get_by_label("By").select_option("quota")
    window.page.get_by_label("Resource").select_option("cpu")
    window.page.get_by_role("img", name="cpu over the last 1 day: vision ").wait_for()
    assert window.page.url.endswith("/report?range=1d&by=quota&resource=cpu")
    heads = window.page.get_by_role("columnheader").all_text_contents()
    assert heads[:4] == ["Quota", "Used", "Borrowed", "Lent"]
    link = window.page.get_by_role("link", name="Download as CSV").get_attribute("href")
    assert link == "/page/report.csv?range=1d&by=quota&resource=cpu"
    window.page.reload()
    window.page.get_by_role("img", name="cpu over the last 1 day: vision ").wait_for()
    expect(window.page.get_by_role("button", pressed=True)).to_have_text("1 day")
    window.page.get_by_role("link", name="vision").click()
    window.page.get_by_role("heading", name="Quota vision").wait_for()
    assert window.complaints == []


def test_it_is_reached_from_the_navigation(window: Window) -> None:
    window.open("/")
    window.page.locator("nav").get_by_role("link", name="Report").click()
    window.page.get_by_role("heading", name="Report").wait_for()
    here = window.page.locator("nav [aria-current]")
    expect(here).to_have_text("Report")


def test_what_is_hidden_and_what_is_missing_is_said(window: Window) -> None:
    def hide(body: dict[str, object]) -> None:
        body.update(
            others=[
                {"quota": "a", "used": {"nvidia.com/gpu": "12.5"}},
                {"quota": "b", "used": None},
            ],
            missingSeconds=5400,
            completeFrom="2026-10-31T10:00:00Z",
        )

    window.edit("/page/report", hide)
    window.open("/report")
    window.sees("Until the present hour they used: 12.5 h of a.")
    window.sees("would tell about one or two of them")
    window.sees("1h 30m of this time were not counted.")
    assert_sound(window, "report-hidden")


def test_many_rows(browser: Browser) -> None:
    with served_page(world_with(PlayedUse(MANY))) as url, opened(browser, url) as window:
        window.open("/report?range=30d")
        window.page.get_by_role("list", name="What the colors show").get_by_text(
            "all others"
        ).wait_for()
        expect(window.page.locator("tbody tr")).to_have_count(11)
        assert_sound(window, "report-many")


@pytest.mark.parametrize(
    ("use", "counts", "text"),
    [
        (None, False, "accounts.enabled"),
        (None, True, "--record-dir"),
        (PlayedUse([]), True, "Nothing was used in this time."),
    ],
)
def test_without_numbers_it_says_why(
    browser: Browser, use: PlayedUse | None, counts: bool, text: str
) -> None:
    with served_page(world_with(use, counts=counts)) as url, opened(browser, url) as window:
        window.open("/report")
        window.sees(text)
        assert_sound(window, "report-empty")


def test_long_names_do_not_widen_the_view(browser: Browser) -> None:
    tenants = [TENANTS[0]._replace(user="x" * 63, quota="q" * 63)]
    with (
        served_page(world_with(PlayedUse(tenants))) as url,
        opened(browser, url, size=PHONE) as window,
    ):
        for by in ("user", "quota"):
            window.open(f"/report?by={by}")
            assert not window.is_wider_than_screen()
