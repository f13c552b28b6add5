"""A narrow window: each view can be used, and what a row is about stands below its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.page.test_views import UNIT, VIEWS
from tests.page.window_kit import PATIENCE_MILLISECONDS, PHONE, Window, opened
from tests.queue_insight.page.page_kit import served_page
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import within

FINGERTIP = 40
"""Pixels; the style sheet has 44, less what borders and rounding take."""

SMALLEST_TEXT = 12
"""Pixels of a line of text in a picture."""

TEXT_BOTTOM = """(each) => {
    const text = document.createRange();
    text.selectNodeContents(each);
    return text.getBoundingClientRect().bottom;
}"""

LONG_QUOTA = f"{'q' * 40}-{'v' * 22}"
"""As long as a label may be."""
LONG_UNIT = f"{'u' * 62}." * 4

SMALL = """least => [...document.querySelectorAll("button, select, input:not([type=checkbox])")]
    .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < least)
    .map((each) => each.outerHTML.slice(0, 120))"""
CUT = """() => [...document.querySelectorAll("main table.cards td, main table.cards th")]
    .filter((each) => each.checkVisibility())
    .filter((each) => each.getBoundingClientRect().right > innerWidth)
    .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture
def phone(browser: Browser, url: str) -> Iterator[Window]:
    with opened(browser, url, size=PHONE) as window:
        yield window


@pytest.mark.parametrize("name", VIEWS)
def test_fingers_find_what_they_touch(phone: Window, name: str) -> None:
    phone.open(VIEWS[name])
    assert phone.page.evaluate(SMALL, FINGERTIP) == []
    assert phone.page.evaluate(CUT) == []
    assert not phone.is_wider_than_screen()


def test_the_pods_and_the_picture_of_a_unit_can_be_read(phone: Window) -> None:
    phone.open(UNIT)
    table = phone.page.get_by_role("group", name="Pods", exact=True)
    table.get_by_text("main").wait_for()
    assert table.evaluate("each => each.scrollWidth <= each.clientWidth")
    heights = phone.page.locator(".f-text").evaluate_all(
        "all => all.map((each) => each.getBoundingClientRect().height)"
    )
    assert len(heights) == 2
    assert min(heights) >= SMALLEST_TEXT


@pytest.fixture(scope="module")
def long_names() -> Iterator[str]:
    """The page of a cluster in which each name is as long as it may be."""
    kit = ShellKit()
    kit.add_quota(LONG_QUOTA, 8)
    for number in range(2):
        kit.add_unit(f"{LONG_UNIT}{number}", LONG_QUOTA, cpu=6)
    kit.decide(LONG_QUOTA)
    with served_page(kit) as url:
        yield url


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/jobs",
        f"/queues/{LONG_QUOTA}",
        f"/queues/{LONG_QUOTA}/over-time",
        f"/quotas/{LONG_QUOTA}",
        f"/units/default/{LONG_UNIT}1",
        f"/units/default/{LONG_UNIT}2",
        f"/what-if?quota={LONG_QUOTA}",
    ],
)
def test_long_names_do_not_widen_a_view(browser: Browser, long_names: str, path: str) -> None:
    with opened(browser, long_names, size=PHONE) as window:
        window.open(path)
        assert not window.is_wider_than_screen()
        assert window.page.evaluate(CUT) == []


def test_a_name_that_is_cut_says_so(browser: Browser, long_names: str) -> None:
    with opened(browser, long_names, size=PHONE) as window:
        window.open(f"/queues/{LONG_QUOTA}")
        link = window.page.locator("tbody .c-unit a").first
        style = link.evaluate("each => getComputedStyle(each).textOverflow")
        assert style == "ellipsis"
        assert link.evaluate("each => each.scrollWidth > each.clientWidth")


def test_the_reason_and_the_start_stand_below_the_name(phone: Window) -> None:
    phone.open("/queues/vision")
    row = phone.page.locator("tbody tr").first
    boxes = [row.locator(f".c-{key}").bounding_box() for key in ("unit", "reason", "start")]
    tops = [box["y"] for box in boxes if box]
    assert len(tops) == 3
    assert tops == sorted(set(tops))
    whole = row.bounding_box()
    # The wait is on one line with the name.
    name, wait = (row.locator(each).evaluate(TEXT_BOTTOM) for each in (".c-unit a", ".c-waits"))
    assert abs(name - wait) < SMALLEST_TEXT / 2
    last = boxes[-1]
    assert whole is not None
    assert last is not None
    assert last["y"] + last["height"] <= whole["y"] + whole["height"]
    is_cut = "each => each.scrollWidth > each.clientWidth"
    assert not row.locator(".c-start").evaluate(is_cut)
    phone.shoot("queue-phone-light")


def test_a_list_is_sorted_and_read_to_its_end(phone: Window) -> None:
    phone.open("/queues/vision")
    phone.page.get_by_role("button", name="Priority").click()
    phone.page.wait_for_url("**sort=priority")
    region = phone.page.get_by_role("group", name="Units of queue vision")
    region.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    last = phone.page.locator("tbody tr[aria-rowindex='301'] a")
    last.wait_for()
    box, frame = last.bounding_box(), region.bounding_box()
    assert box is not None
    assert frame is not None
    assert frame["y"] < box["y"] < frame["y"] + frame["height"]


def test_a_turned_phone_has_rows_of_the_right_height(phone: Window) -> None:
    def heights() -> tuple[float, float]:
        """Return the height of the list, and that of all its rows, if all are like the first."""
        tops = "all => all.slice(0, 2).map(each => each.getBoundingClientRect().top)"
        first, second = phone.page.locator("tbody tr").evaluate_all(tops)
        whole = phone.page.locator(".virtual .all").bounding_box()
        assert whole is not None
        return whole["height"], 301 * (second - first)

    def are_right() -> bool:
        whole, rows = heights()
        return whole == pytest.approx(rows, rel=0.01)

    phone.open("/queues/vision")
    for width in (900, PHONE[0]):
        phone.page.set_viewport_size({"width": width, "height": 844})
        # Rows are measured once they have been laid out anew.
        assert within(PATIENCE_MILLISECONDS / 1000, are_right), heights()


def test_a_reason_is_as_short_as_what_differs(phone: Window) -> None:
    def refuse(body: dict[str, Any]) -> None:
        numbers = {"missing": "4", "resource": "cpu", "quota": "philly"}
        body["units"][0]["refusal"] = {"message": "needs more cpu than " * 9, **numbers}

    phone.edit("/page/queues/vision", refuse)
    phone.open("/queues/vision")
    cell = phone.page.get_by_text("missing 4 cpu in philly")
    cell.wait_for()
    assert cell.get_attribute("title") == "needs more cpu than " * 9
