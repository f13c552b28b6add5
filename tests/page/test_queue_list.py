"""The list of a queue: only what is seen is asked for, filtered and sorted by the server."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.page.conftest import WAITING
from tests.page.window_kit import Window, wait_until

ROWS = "tbody tr"


def first_unit(page: Page) -> str:
    """Return the unit of the first row."""
    return page.locator(f"{ROWS} a").first.inner_text()


def test_few_rows_exist_and_all_can_be_reached(window: Window) -> None:
    asked: list[str] = []
    window.page.on("request", lambda request: asked.append(request.url))
    window.open("/queues/vision")
    region = window.page.get_by_role("group", name="Units of queue vision")
    assert window.page.locator(ROWS).count() < 60
    assert window.page.locator("table").get_attribute("aria-rowcount") == str(WAITING + 1)
    assert not [each for each in asked if "offset=200" in each]
    region.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    last = window.page.locator(f"{ROWS}[aria-rowindex='{WAITING + 1}'] a")
    last.wait_for()
    assert last.is_visible()
    assert [each for each in asked if "offset=200" in each]


def test_a_hundred_thousand_units_are_as_few_rows(window: Window) -> None:
    window.edit("/page/queues/vision", lambda body: body.update(total=100_000))
    window.open("/queues/vision")
    region = window.page.get_by_role("group", name="Units of queue vision")
    with window.page.expect_request(lambda request: "offset=99800" in request.url):
        region.evaluate("element => { element.scrollTop = element.scrollHeight; }")
    window.page.locator(f"{ROWS}[aria-rowindex='100001']").wait_for()
    assert window.page.locator(ROWS).count() < 60


def test_the_filter_is_in_the_address(window: Window) -> None:
    window.open("/queues/vision")
    window.page.get_by_role("searchbox").fill("train-300")
    window.page.wait_for_url("**/queues/vision?filter=train-300")
    window.sees("1 unit")
    assert first_unit(window.page) == "default/train-300"
    window.page.reload()
    window.page.get_by_role("link", name="default/train-300").wait_for()
    assert window.page.get_by_role("searchbox").input_value() == "train-300"
    window.page.get_by_role("searchbox").fill("nothing-like-it")
    window.sees("No unit matches the filter.")


def test_a_column_sorts_both_ways(window: Window) -> None:
    window.open("/queues/vision")
    heading = window.page.get_by_role("button", name="Priority")
    heading.click()
    window.page.locator("th[aria-sort=ascending]", has_text="Priority").wait_for()
    window.page.locator(f"{ROWS}:first-child td:nth-child(3)", has_text="0").wait_for()
    heading.click()
    window.page.locator("th[aria-sort=descending]", has_text="Priority").wait_for()
    window.page.locator(f"{ROWS}:first-child td:nth-child(3)", has_text="4").wait_for()
    assert window.page.url.endswith("?sort=-priority")


def test_the_keyboard_alone_reaches_a_unit(window: Window) -> None:
    window.open("/queues/vision")
    window.page.get_by_role("group", name="Units of queue vision").focus()
    window.page.keyboard.press("PageDown")
    wait_until(window.page, "document.querySelector('.virtual').scrollTop > 0")
    # The last one that was seen before is still there.
    link = window.page.locator(f"{ROWS}[aria-rowindex='16'] a")
    unit = link.inner_text()
    link.focus()
    window.page.keyboard.press("Enter")
    window.page.wait_for_url(f"**/units/{unit}")
    # The address changes first; what is focused, when the new view is drawn.
    wait_until(window.page, "document.activeElement.id === 'content'")
    window.has_title(unit)
