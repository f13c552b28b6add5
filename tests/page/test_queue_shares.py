"""What accounts of a queue with the policy Fair have used of their shares."""

from __future__ import annotations

from typing import Any, Final

from tests.page.test_views import assert_sound
from tests.page.window_kit import Window

ANN: Final = {
    "level": "user",
    "name": "ann",
    "group": "vision",
    "namespaces": ["default"],
    "weight": 3,
    "timesShare": 1.64,
    "pending": 12,
    "running": 4,
}


def test_who_has_used_how_much_of_its_share(window: Window) -> None:
    rows = [
        ANN | {"name": "cron", "weight": 0, "timesShare": None, "group": ""},
        ANN,
        ANN | {"name": "namespace:" + "n" * 63, "timesShare": 0.4, "group": ""},
        ANN | {"level": "group", "name": "", "timesShare": 0.0, "group": ""},
    ]

    def share(body: dict[str, Any]) -> None:
        body["accounts"] = {"total": 11, "items": rows, "others": 7}

    window.listen()
    window.edit("/page/queues/vision", share)
    window.open("/queues/vision")
    window.page.get_by_role("heading", name="Use of fair shares").wait_for()
    for row in (
        "cron 0 comes last 12 4",
        "ann of group vision 3 1.64 12 4",
        "no group 3 0.00 12 4",
    ):
        window.page.get_by_role("row", name=row).wait_for()
    window.sees("And 7 more: what they have used tells about units that you may not list")
    assert_sound(window, "queue-shares")


def test_another_policy_has_no_shares(window: Window) -> None:
    window.open("/queues/vision")
    window.page.get_by_role("link", name="default/train-4", exact=True).wait_for()
    assert window.page.get_by_role("heading", name="Use of fair shares").count() == 0
