"""A server that cannot be reached: the page says so, fades, and goes on by itself."""

from __future__ import annotations

import pytest

from tests.page.window_kit import Window

GONE = "The server has not been reachable since"
EVENTS = "**/page/events"


def complaints_of(window: Window) -> list[str]:
    """Return complaints but those of Chromium that requests were cut off or refused."""
    return [each for each in window.complaints if "Failed to load" not in each]


@pytest.mark.parametrize("path", ["/", "/queues/vision", "/what-if"])
def test_the_whole_page_says_that_the_server_is_gone(window: Window, path: str) -> None:
    window.open(path)
    window.page.route("**/page/**", lambda route: route.abort())
    window.page.get_by_role("alert").get_by_text(GONE).wait_for()
    window.sees("Not connected")
    opacity = window.page.evaluate("getComputedStyle(document.querySelector('main')).opacity")
    assert float(opacity) < 1
    name = path.strip("/").partition("/")[0] or "overview"
    for scheme in ("light", "dark"):
        window.page.emulate_media(color_scheme=scheme)
        window.shoot(f"{name}-gone-{scheme}")
        assert window.barriers() == [], scheme
    assert complaints_of(window) == []


def test_the_page_goes_on_when_the_server_is_back(window: Window) -> None:
    window.open("/")
    window.page.route("**/page/**", lambda route: route.abort())
    alert = window.page.get_by_role("alert").get_by_text(GONE)
    alert.wait_for()
    # What was missed is asked for, though no news tell of it. The page may try the stream again
    # between two steps here, so the request is expected before anything is reachable.
    with window.page.expect_request("**/page/overview"):
        window.page.unroute("**/page/**")
        window.listen()
    alert.wait_for(state="detached")
    window.sees("Live")
    assert window.page.locator("main.gone").count() == 0
    assert complaints_of(window) == []


def test_a_short_gap_is_no_alarm(window: Window) -> None:
    window.open("/")
    window.page.route(EVENTS, lambda route: route.abort())
    window.sees("Connecting…")
    window.listen()
    window.sees("Live")
    assert window.page.get_by_text(GONE).count() == 0


def test_a_server_that_refuses_news_is_not_gone(window: Window) -> None:
    window.answer("/page/events", {"detail": "too many pages are open"}, 503)
    window.open("/")
    window.sees("Not live")
    window.page.wait_for_timeout(6000)
    assert window.page.get_by_text(GONE).count() == 0
    assert window.barriers() == []
    assert complaints_of(window) == []


def test_a_page_that_opens_too_early_begins_by_itself(window: Window) -> None:
    window.page.route("**/page/session", lambda route: route.abort())
    window.page.goto(window.url)
    window.page.get_by_role("alert").get_by_text("The server cannot be reached.").wait_for()
    window.page.unroute("**/page/session")
    window.page.get_by_role("link", name="vision").first.wait_for()
    assert window.page.get_by_role("alert").count() == 0
