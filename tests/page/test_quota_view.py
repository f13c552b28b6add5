"""One quota: its amounts, its last day, and who borrows."""

from __future__ import annotations

import re
from typing import Any

from tests.page.test_views import assert_sound
from tests.page.window_kit import Window


def test_the_last_day_is_a_chart_and_a_table(window: Window) -> None:
    def add_history(body: dict[str, Any]) -> None:
        hours = [f"2026-11-01T{hour:02}:00:00Z" for hour in range(24)]
        body["history"] = [
            {"time": time, "used": {"cpu": str(number % 9)}} for number, time in enumerate(hours)
        ]

    window.edit("/page/quotas/org", add_history)
    window.open("/quotas/org")
    window.page.get_by_role("img", name="cpu used by org over the last day: at most 8").wait_for()
    window.page.locator(".u-over").hover()
    # In the middle of the day, which is in the middle of the chart.
    legend = window.page.locator(".u-legend")
    legend.get_by_text(re.compile("^1[12]:00$")).wait_for()
    legend.get_by_text(re.compile("^[23]$")).wait_for()
    window.page.get_by_text("The same as a table").click()
    window.page.get_by_role("row", name="Nov 1, 08:00:00 8").wait_for()
    assert_sound(window, "quota-history")


def test_of_a_young_record_its_use_until_now_is_shown(window: Window) -> None:
    """The record of this cluster has just begun."""
    window.open("/quotas/vision")
    name = "cpu used by vision over the last day: at most 6"
    window.page.get_by_role("img", name=name).wait_for()
    assert window.page.get_by_text("No use is recorded").count() == 0


def test_who_borrows_and_whose_it_is_said(window: Window) -> None:
    def lend(body: dict[str, Any]) -> None:
        body["children"][1]["scaledMin"] = {"cpu": "2"}

    window.edit("/page/quotas/org", lend)
    window.open("/quotas/org")
    window.sees("vision uses 4 cpu above what it is guaranteed.")
    window.sees("speech does not use 4 cpu of what it is guaranteed")
    window.page.get_by_role("link", name="What if it were different?").click()
    assert window.page.get_by_label("Name", exact=True).input_value() == "org"
