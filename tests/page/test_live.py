"""News: what is shown follows them, by one stream for all tabs that are seen."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page, Request, Route

from tests.page.window_kit import Window, wait_until

RESET = {"reset": True}
NEWS = {"number": 2, "stateAt": "2026-11-01T10:00:00Z", "queues": [], "quotas": [], "units": []}
COUNT_STREAMS = """
    window.streams = [];
    window.EventSource = class extends EventSource {
        constructor(url) { super(url); streams.push(this); }
    };
"""
OPEN = "() => streams.filter((each) => each.readyState !== EventSource.CLOSED).length"


def asked_for(page: Page, part: str) -> list[str]:
    """Return a list that grows with each request for an answer."""
    asked: list[str] = []

    def note(request: Request) -> None:
        if part in request.url:
            asked.append(request.url)

    page.on("request", note)
    return asked


def hear_news(window: Window) -> None:
    """Wait until the tab has read what the stream says now."""
    for _ in range(2):  # the first may have been on its way before
        with window.page.expect_event(
            "requestfinished", lambda request: request.url.endswith("/page/events")
        ):
            pass


def test_news_about_a_queue_refresh_its_view_and_no_other(window: Window) -> None:
    asked = asked_for(window.page, "/page/queues/vision")
    window.send_events({**NEWS, "queues": ["speech"]})
    window.open("/queues/vision")
    hear_news(window)
    before = len(asked)
    hear_news(window)
    assert len(asked) == before
    with window.page.expect_request("**/page/queues/vision**"):
        window.send_events({**NEWS, "queues": ["vision"]})


def test_news_about_the_queue_of_a_unit_refresh_the_unit(window: Window) -> None:
    window.open("/units/default/train-1")
    hear_news(window)
    with window.page.expect_request("**/page/units/default/train-1"):
        window.send_events({**NEWS, "queues": ["vision"]})


def test_news_during_a_slow_answer_are_asked_about_after_it(window: Window) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    window.open("/quotas/org")
    hear_news(window)
    window.page.route("**/page/quotas/org", hold)
    window.send_events({**NEWS, "quotas": ["org"]})
    for _ in range(3):
        hear_news(window)
    assert len(held) == 1
    window.send_events()
    hear_news(window)
    window.page.unroute("**/page/quotas/org")
    with window.page.expect_request("**/page/quotas/org"):
        held[0].continue_()


def test_the_overview_shows_what_changed(window: Window) -> None:
    window.open("/")
    window.page.get_by_role("row", name="vision Active 300").wait_for()
    window.edit("/page/overview", lambda body: body["queues"][-1].update(pending=1234))
    window.send_events({**NEWS, "queues": ["vision"]})
    window.page.get_by_role("row", name="vision Active 1,234").wait_for()


def test_after_a_gap_everything_is_asked_for(window: Window) -> None:
    window.open("/quotas/org")
    with window.page.expect_request("**/page/quotas/org"):
        window.send_events(RESET)


def test_an_earlier_moment_does_not_follow_the_news(window: Window) -> None:
    window.answer("/page/units/default/train-1", {"detail": "not recorded"}, 503)
    window.send_events({**NEWS, "units": ["default/train-1"], "queues": ["vision"]})
    asked = asked_for(window.page, "/page/units/")
    window.open("/units/default/train-1?at=2026-11-01T10:00:00Z")
    hear_news(window)
    assert len(asked) == 1


def _open_tab(context: BrowserContext, window: Window) -> Page:
    page = context.new_page()
    page.add_init_script(COUNT_STREAMS)
    page.route(
        "**/page/events",
        lambda route: route.fulfill(content_type="text/event-stream", body="retry: 60000\n\n"),
    )
    page.goto(window.page.url)
    page.locator("h1").wait_for()
    return page


def test_tabs_share_one_stream_and_hidden_ones_have_none(window: Window) -> None:
    window.open("/what-if")
    context = window.page.context
    window.page.goto("about:blank")
    window.page.goto(f"{window.url}/what-if")
    window.page.close()
    first, second = _open_tab(context, window), _open_tab(context, window)
    wait_until(first, f"({OPEN})() === 1")
    assert second.evaluate(OPEN) == 0
    _hide(first)
    wait_until(second, f"({OPEN})() === 1")
    assert first.evaluate(OPEN) == 0


def _hide(page: Page) -> None:
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
