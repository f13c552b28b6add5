"""The window in a real Chromium, and what a test asks of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from tests.tidy.source_tree import ROOT

Json = dict[str, Any]
Scheme = Literal["light", "dark"]

PATIENCE_MILLISECONDS: Final = 30_000.0
LOOK_MILLISECONDS: Final = 50.0
SHOTS: Final = ROOT / "build" / "page"
"""Where pictures of the views are left, to be looked at."""
DESK: Final = (1280, 900)
PHONE: Final = (390, 844)

NO_NEWS: Final = "retry: 100\n\n"
_AXE: Final = ROOT / "tests" / "data" / "axe" / "axe.min.js"
# Best practices as well as the rules of WCAG.
_RUN_AXE: Final = """async () => {
    const { violations } = await axe.run(document);
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`);
}"""
_CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome-stable")


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """Start the Chromium of this machine, or skip the test."""
    try:
        found = find_chromium()
    except LookupError as error:
        pytest.skip(str(error))
    with launched_chromium(found) as browser:
        yield browser


def find_chromium() -> str:
    """Return the path of the Chromium of this machine.

    Raises:
        LookupError: There is none.
    """
    found = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if found is None:
        raise LookupError("no Chromium on PATH")
    return found


@contextmanager
def launched_chromium(path: str) -> Iterator[Browser]:
    """Start a Chromium; it ends with the block."""
    with sync_playwright() as playwright:
        # Where tests run as root its sandbox cannot be set up.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def wait_until(page: Page, expression: str) -> None:
    """Wait until a JavaScript expression is true.

    Playwright's `wait_for_function` asks a second time by `eval`, which the page's policy forbids.
    """
    left = PATIENCE_MILLISECONDS
    while not page.evaluate(expression):
        assert left > 0, f"still not true: {expression}"
        page.wait_for_timeout(LOOK_MILLISECONDS)
        left -= LOOK_MILLISECONDS


class Window:
    """A tab, and what it complained about.

    Args:
        page: The tab.
        url: Address of the server, without a slash at the end.
    """

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.url = url
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.send_events()

    def _hear(self, message: ConsoleMessage) -> None:
        # A violation of the Content-Security-Policy is an error here, too.
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def open(self, path: str) -> None:
        """Open a view, and wait until it has an answer."""
        self.page.goto(self.url + path)
        self.page.locator("h1").wait_for()
        self.page.locator(".loading").wait_for(state="detached")

    def answer(self, path: str, body: Json | list[Any], status: int = 200, **more: str) -> None:
        """Have requests of a path answered so, whatever the server knows."""

        def fulfill(route: Route) -> None:
            route.fulfill(status=status, json=body, headers=more or None)

        self.page.route(lambda url: _path_of(url) == path, fulfill)

    def edit(self, path: str, change: Callable[[Json], None]) -> None:
        """Change the server's answer to a path."""

        def fulfill(route: Route) -> None:
            response = route.fetch()
            body = response.json()
            change(body)
            route.fulfill(response=response, json=body)

        self.page.route(lambda url: _path_of(url) == path, fulfill)

    def send_events(self, *news: Json) -> None:
        """Answer the next request for events with these, and end the stream."""
        text = NO_NEWS + "".join(
            f"id: {number}\ndata: {json.dumps(each)}\n\n" for number, each in enumerate(news, 1)
        )

        def fulfill(route: Route) -> None:
            route.fulfill(content_type="text/event-stream", body=text)

        self.page.route("**/page/events", fulfill)

    def listen(self) -> None:
        """Let requests for events through to the server."""
        self.page.unroute("**/page/events")

    def sees(self, text: str) -> None:
        """Wait until a text is shown."""
        self.page.get_by_text(text).first.wait_for()

    def find_changes(self) -> None:
        """Have the changes looked for that would start the unit, whether some are known or not."""
        name = re.compile("Find (the smallest changes|them again)")
        self.page.get_by_role("button", name=name).click()

    def has_title(self, title: str) -> None:
        """Wait until the window has a title, which is set a moment after its view is shown."""
        whole = f"{title} \u00b7 Koord-Queue"
        expect(self.page).to_have_title(whole, timeout=PATIENCE_MILLISECONDS)

    def barriers(self) -> list[str]:
        """Return what axe finds: what keeps people with disabilities out."""
        # Evaluated by the debugger, which no Content-Security-Policy forbids.
        self.page.evaluate(_AXE.read_text(encoding="utf-8"))
        found: list[str] = self.page.evaluate(_RUN_AXE)
        return found

    def shoot(self, name: str) -> Path:
        """Leave a picture of all of the view."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.page.screenshot(path=path, full_page=True)
        return path

    def is_wider_than_screen(self) -> bool:
        """Return whether the page as a whole has to be scrolled sideways."""
        wide = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
        return bool(self.page.evaluate(wide))


def without_statuses(complaints: list[str], status: int) -> list[str]:
    """Return complaints without those of Chromium that an answer had a status."""
    got = f"the server responded with a status of {status} "
    return [each for each in complaints if got not in each]


def _path_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[2].partition("?")[0].join(("/", ""))


@contextmanager
def opened(
    browser: Browser,
    url: str,
    scheme: Scheme = "light",
    size: tuple[int, int] = DESK,
    *,
    takes_any_certificate: bool = False,
) -> Iterator[Window]:
    """Open a tab with a profile of its own.

    Args:
        browser: The browser.
        url: Address of the server.
        scheme: Of the colors.
        size: Of the tab, in pixels.
        takes_any_certificate: Whether this profile takes a certificate of an unknown authority.
    """
    width, height = size
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        timezone_id="UTC",
        ignore_https_errors=takes_any_certificate,
    )
    window = Window(context.new_page(), url)
    try:
        yield window
    finally:
        if not window.page.is_closed():
            # Answers may be on their way still.
            window.page.unroute_all(behavior="ignoreErrors")
        context.close()
