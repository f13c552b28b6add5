"""The views over time: of the whole, a queue and a quota, from the first minute on."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from queue_insight.debug_api.insight_views import RecordView
from queue_insight.record.sample_tables import Reach, TimedSample
from queue_insight.record.samples import Sample, bin_of
from tests.page.test_views import assert_read_on_a_phone, assert_sound
from tests.page.window_kit import Window, opened
from tests.queue_insight.page.page_kit import LoginWorld, PageWorld, served_page
from tests.queue_scheduler.shell_kit import ShellKit

DRAWN_CHARTS = 2
KEEP_DRAWN_TEXTS = """
    window.drawnTexts = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        drawnTexts.push(text);
        fillText.call(this, text, ...rest);
    };
"""


def draw_sample(at: float, seconds: int) -> Sample:
    """Return what looks as a busy day does."""
    wave = math.sin(at / 7_000)
    pending = round(40 + 35 * wave)
    waits = {bin_of(60.0 * (2 + wave)): 8, bin_of(900.0 * (2 + wave)): 2}
    used = {"cpu": int(6_000 + 2_000 * wave), "memory": int((24 + 8 * wave) * 2**30)}
    return Sample(pending, round(12 + 4 * wave), used, waits if at % (7 * seconds) else {})


def samples_until(_of: str, reach: Reach, now: float) -> list[TimedSample]:
    """Return samples of the whole time, with a gap."""
    step = reach.levels[0].seconds
    last = int(now) // step * step
    times = range(last - reach.seconds + step, last + 1, step)
    found = [TimedSample(at, step, draw_sample(at, step)) for at in times]
    return found[:30] + found[34:]


@pytest.fixture(scope="module")
def world() -> PageWorld:
    kit = ShellKit()
    kit.add_quota("vision", 8)
    world = PageWorld(kit.shared, kit.clock)
    world.record = RecordView(state="recording", complete_from=kit.clock.now())
    world.samples = samples_until
    world.dashboards = "https://grafana.example.com/d/koord-queue"
    return world


@pytest.fixture(scope="module")
def url(world: PageWorld) -> Iterator[str]:
    with served_page(world) as url:
        yield url


@pytest.mark.parametrize(
    ("name", "path", "title"),
    [
        ("whole", "/over-time", "Over time"),
        ("queue", "/queues/vision/over-time?range=1d", "Queue vision over time"),
        ("quota", "/quotas/vision/over-time?range=7d&resource=memory", "Quota vision over time"),
    ],
)
def test_a_view_over_time_is_sound(window: Window, name: str, path: str, title: str) -> None:
    window.listen()
    window.open(path)
    window.has_title(title)
    expect(window.page.locator("canvas")).to_have_count(3)
    window.page.get_by_text("The same as a table").click()
    window.sees("Live")
    assert_read_on_a_phone(window, "Numbers over time")
    assert_sound(window, f"over-time-{name}")


def test_a_range_is_chosen_by_the_keyboard_and_stands_in_the_address(window: Window) -> None:
    window.open("/over-time")
    pressed = window.page.get_by_role("button", pressed=True)
    expect(pressed).to_have_text("1 hour")
    pressed.focus()
    window.page.keyboard.press("Tab")
    window.page.keyboard.press("Tab")
    window.page.keyboard.press("Enter")
    window.page.get_by_role("img", name="Units over the last 7 days: pending").wait_for()
    expect(pressed).to_have_text("7 days")
    assert window.page.url.endswith("/over-time?range=7d")


def test_charts_say_what_they_show_and_stand_in_a_table(window: Window) -> None:
    window.open("/queues/vision/over-time")
    image = window.page.get_by_role("img", name="Waits over the last 1 hour: p50 ")
    assert "; p90 " in (image.get_attribute("aria-label") or "")
    window.page.get_by_role("img", name="cpu over the last 1 hour: used ").wait_for()
    window.page.get_by_text("The same as a table").click()
    table = window.page.get_by_role("table").last
    heads = table.get_by_role("columnheader").all_text_contents()
    assert heads == ["Time", "Pending", "Admitted", "Wait p50", "Wait p90", "Used cpu"]
    assert 10 < table.get_by_role("row").count() <= 25
    window.page.get_by_label("Resource").select_option("memory")
    window.page.get_by_role("columnheader", name="Used memory").wait_for()
    assert "resource=memory" in window.page.url


def test_a_legend_has_the_last_numbers(window: Window) -> None:
    window.open("/over-time")
    expect(window.page.locator("canvas")).to_have_count(3)
    numbers = window.page.locator(".u-legend .u-value").all_text_contents()
    assert len(numbers) == 8
    assert "" not in numbers


def test_the_views_are_reached_from_where_their_objects_are(window: Window) -> None:
    for begin, want in (
        ("/", "/over-time"),
        ("/queues/vision", "/queues/vision/over-time"),
        ("/quotas/vision", "/quotas/vision/over-time"),
    ):
        window.open(begin)
        window.page.get_by_role("main").or_(window.page.locator("nav")).get_by_role(
            "link", name="Over time"
        ).last.click()
        window.page.get_by_role("button", name="7 days").wait_for()
        assert window.page.url.endswith(want)
    window.page.get_by_role("link", name="Quota vision now").click()
    window.page.get_by_role("heading", name="Quota vision").wait_for()
    assert window.complaints == []


def test_the_overview_has_the_last_hour(window: Window) -> None:
    window.open("/")
    window.page.get_by_role("img", name="Units over the last hour: pending ").wait_for()
    expect(window.page.locator("canvas")).to_have_count(1)
    assert_sound(window, "overview-last-hour")
    window.edit("/page/over-time", lambda body: body.update(times=[]))
    window.open("/")
    window.page.get_by_role("link", name="How busy it was over time").wait_for()
    assert window.page.locator("canvas").count() == 0


def test_the_overview_of_an_earlier_time_has_no_last_hour(window: Window) -> None:
    asked: list[str] = []
    window.open("/")
    now = window.page.evaluate("fetch('/page/overview').then((answer) => answer.json())")
    window.answer("/page/overview", now)
    window.page.on("request", lambda request: asked.append(request.url))
    window.open("/?at=2026-11-01T10:00:00Z")
    window.sees("How busy it was")
    assert not any("/page/over-time" in each for each in asked)


def test_dashboards_are_linked_to_where_they_are_set(window: Window, world: PageWorld) -> None:
    window.open("/over-time")
    link = window.page.get_by_role("link", name="Dashboards in Grafana")
    assert link.get_attribute("href") == world.dashboards
    window.edit("/page/over-time", lambda body: body.update(dashboards=""))
    window.open("/over-time")
    assert link.count() == 0


def test_the_first_minute_is_shown(window: Window) -> None:
    def first(body: dict[str, object]) -> None:
        lists = {key: each[-1:] for key, each in body.items() if isinstance(each, list)}
        body.update(lists, used={})

    window.edit("/page/over-time", first)
    window.page.add_init_script(KEEP_DRAWN_TEXTS)
    window.open("/over-time?range=7d")
    window.page.get_by_role("img", name="Units over the last 7 days: pending").wait_for()
    window.sees("Nothing was used.")
    drawn = window.page.evaluate("drawnTexts")
    # Once for each of the two charts, and not for each second of the minute.
    assert drawn.count("10:00") <= DRAWN_CHARTS
    assert_sound(window, "over-time-first")


@pytest.mark.parametrize(
    ("recorded", "text"), [(True, "Nothing is recorded yet."), (False, "No record is kept.")]
)
def test_without_numbers_it_says_why(window: Window, recorded: bool, text: str) -> None:
    window.edit("/page/over-time", lambda body: body.update(times=[], recorded=recorded))
    window.open("/over-time")
    window.sees(text)
    assert_sound(window, "over-time-empty")


def test_a_failure_is_told(window: Window) -> None:
    window.answer("/page/over-time", {"detail": "the record cannot be read: why"}, 503)
    for path in ("/over-time", "/"):
        window.open(path)
        window.page.get_by_role("alert").get_by_text("the record cannot be read: why").wait_for()


def test_what_is_hidden_is_said(browser: Browser, world: PageWorld) -> None:
    kit = ShellKit()
    hidden = LoginWorld(kit)
    hidden.login = None
    hidden.record, hidden.samples = world.record, world.samples
    with served_page(hidden) as url, opened(browser, url) as window:
        window.edit(
            "/page/over-time",
            lambda body: body.update(used={}, waitP50=[None] * len(body["times"]), sumsHidden=True),
        )
        window.open("/over-time")
        window.sees("Some numbers are not shown")
        window.sees("What was used is not shown.")
        window.page.get_by_role("img", name="no p50; p90").wait_for()
