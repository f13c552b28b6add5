"""One quota: its amounts, its last day, and who borrows."""

from __future__ import annotations

import re
from typing import Any

from tests.page.test_views import assert_sound
from tests.page.window_kit import Window


def test_the_last_day_is_a_chart(window: Window) -> None:
    hours = [1_793_491_200 + 3_600 * hour for hour in range(24)]

    def give_numbers(body: dict[str, Any]) -> None:
        used = [float(number % 9) for number in range(24)]
        body.update(times=hours, until=hours[-1] + 3_600, used={"cpu": used})
        body.update(dict.fromkeys(("pending", "admitted", "waitP50", "waitP90"), used))

    window.edit("/page/over-time", give_numbers)
    window.open("/quotas/org")
    name = "cpu used by org over the last day: used 5 last, at most 8; "
    window.page.get_by_role("img", name=name).wait_for()
    window.page.locator(".u-over").hover()
    # In the middle of the day, which is in the middle of the chart.
    legend = window.page.locator(".u-legend")
    legend.get_by_text(re.compile("^1[12]:00$")).wait_for()
    legend.get_by_text(re.compile("^[23]$")).wait_for()
    window.page.get_by_text("The same as a table").click()
    window.page.get_by_role("columnheader", name="Used cpu").wait_for()
    assert_sound(window, "quota-day")
    window.page.get_by_role("main").get_by_role("link", name="Over time").click()
    window.page.get_by_role("heading", name="Quota org over time").wait_for()


def test_an_earlier_time_has_no_last_day(window: Window) -> None:
    window.edit("/page/quotas/org", lambda _: None)
    window.page.route(
        "**/page/quotas/org?at=*",
        lambda route: route.continue_(url=window.url + "/page/quotas/org"),
    )
    window.open("/quotas/org?at=2026-11-01T00:00:00Z")
    window.sees("The use over the last day is shown only for now.")


def test_who_borrows_and_whose_it_is_said(window: Window) -> None:
    def lend(body: dict[str, Any]) -> None:
        body["children"][1]["scaledMin"] = {"cpu": "2"}

    window.edit("/page/quotas/org", lend)
    window.open("/quotas/org")
    window.sees("vision uses 4 cpu above what it is guaranteed.")
    window.sees("speech does not use 4 cpu of what it is guaranteed")
    window.page.get_by_role("link", name="What if it were different?").click()
    assert window.page.get_by_label("Name", exact=True).input_value() == "org"
