"""Keys lead to the filter, through rows and to their help, and take nothing from who types."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.page.window_kit import Window, wait_until

FOCUSED = "document.activeElement.textContent"


def focused(page: Page) -> str:
    """Return the text of what has the focus."""
    text: str = page.evaluate(FOCUSED)
    return text.strip()


def is_help_open(page: Page) -> bool:
    return page.get_by_role("dialog", name="Keys").is_visible()


def test_slash_leads_to_the_filter_and_escape_out_of_it(window: Window) -> None:
    window.open("/queues/vision")
    page, field = window.page, window.page.get_by_role("searchbox")
    page.keyboard.press("/")
    wait_until(page, "document.activeElement.type === 'search'")
    page.keyboard.type("j/k?")
    assert field.input_value() == "j/k?"
    assert not is_help_open(page)
    page.keyboard.press("Escape")
    wait_until(page, "document.activeElement.id === 'content'")
    assert field.input_value() == "j/k?"


def test_rows_are_gone_through_and_opened(window: Window) -> None:
    window.open("/queues/vision")
    page = window.page
    seen = []
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
        seen.append(focused(page))
    assert seen == [f"default/train-{number}" for number in (4, 9, 14, 9)]
    page.keyboard.press("Enter")
    page.wait_for_url("**/units/default/train-9")


def test_a_long_list_scrolls_along(window: Window) -> None:
    window.open("/queues/vision")
    for _ in range(30):
        window.page.keyboard.press("j")
    wait_until(window.page, "document.querySelector('.virtual').scrollTop > 0")
    is_seen = """() => {
        const list = document.querySelector(".virtual").getBoundingClientRect();
        const row = document.activeElement.getBoundingClientRect();
        return row.top > list.top && row.bottom <= list.bottom;
    }"""
    wait_until(window.page, f"({is_seen})()")
    row = window.page.evaluate("document.activeElement.closest('tr').ariaRowIndex")
    assert row == "31"


def test_rows_of_all_tables_are_one_list(window: Window) -> None:
    window.open("/")
    page = window.page
    seen = []
    for _ in range(5):
        page.keyboard.press("j")
        seen.append(focused(page))
    assert seen == ["org", "org", "speech", "vision", "org"]
    page.keyboard.press("Escape")
    wait_until(page, "document.activeElement.id === 'content'")


@pytest.mark.parametrize("key", ["Control+j", "Alt+j", "Meta+j", "Alt+/", "Alt+?"])
def test_a_key_with_a_modifier_is_of_the_browser(window: Window, key: str) -> None:
    window.open("/queues/vision")
    window.page.keyboard.press(key)
    assert window.page.evaluate("document.activeElement.tagName") in {"BODY", "MAIN"}
    assert not is_help_open(window.page)


def test_the_help_is_found_and_left(window: Window) -> None:
    window.open("/")
    page = window.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    dialog.get_by_text("Go to the next row").wait_for()
    window.shoot("help-light")
    assert window.barriers() == []
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.get_by_role("button", name="Keys").click()
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="hidden")
    assert window.complaints == []


def test_keys_work_at_once_after_the_help_is_left(window: Window) -> None:
    """The event "close" of a dialog comes a moment after it is closed: a key may come between."""
    window.open("/")
    page = window.page
    page.keyboard.press("?")
    # Within one task, nothing can come between: neither an event nor what is drawn.
    page.evaluate("""() => {
        document.querySelector("dialog").close();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
    }""")
    assert focused(page) == "org"


def test_keys_can_be_turned_off_for_good(window: Window) -> None:
    window.open("/")
    page = window.page
    page.keyboard.press("?")
    page.get_by_role("checkbox", name="Use these keys").uncheck()
    page.keyboard.press("Escape")
    for _ in range(2):
        page.keyboard.press("?")
        page.keyboard.press("j")
        assert not is_help_open(page)
        assert page.evaluate("document.activeElement.closest('tr')") is None
        page.reload()
        page.get_by_role("link", name="vision").first.wait_for()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("checkbox", name="Use these keys").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused(page) == "org"
