"""Answers about now have a share for each user: one who asks for many holds up no other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from queue_insight.debug_api.answer_turns import NOW
from queue_insight.debug_api.insight_views import LogView
from queue_insight.page.caller_bound import OWN_REQUESTS
from tests.queue_insight.page.page_kit import (
    PATIENCE_SECONDS,
    ROOT,
    TENANT,
    Browser,
    LoginWorld,
    served_page,
)
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import until

FLOOD = OWN_REQUESTS + 20
"""More than may be in progress."""
OWN = NOW.own_places or 0


class SlowUnit(LoginWorld):
    """A world in which the view of one unit takes long.

    Attributes:
        reading: How many threads are about it.
        may_end: Set once they may be done.
    """

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit)
        self.reading = 0
        self.may_end = Event()

    def _read_log(self, unit: str) -> LogView:
        if unit == "default/slow":
            self.reading += 1
            assert self.may_end.wait(PATIENCE_SECONDS)
        return super()._read_log(unit)


@pytest.fixture
def world(kit: ShellKit) -> SlowUnit:
    for name in ("slow", "other"):
        kit.add_unit(name)
    return SlowUnit(kit)


def test_a_flood_of_one_user_leaves_places_to_others(world: SlowUnit) -> None:
    with (
        served_page(world, limit=FLOOD + 8) as url,
        Browser(url) as ann,
        Browser(url) as root,
        ThreadPoolExecutor(FLOOD) as threads,
    ):
        ann.log_in(TENANT)
        try:
            flood = [threads.submit(ann.get, "/page/units/default/slow") for _ in range(FLOOD)]
            until(lambda: sum(each.done() for each in flood) == FLOOD - OWN_REQUESTS)
            assert world.reading == OWN
            root.log_in(ROOT)
            for path in ("overview", "queues/team", "units/default/other", "queues/team.csv"):
                assert root.get(f"/page/{path}").status_code == 200, path
        finally:
            world.may_end.set()
        answers = [each.result(PATIENCE_SECONDS) for each in flood]
        refused = [each for each in answers if each.status_code == 429]
        assert {each.status_code for each in answers} == {200, 429}
        assert all(int(each.headers["retry-after"]) >= 1 for each in refused)
