"""Questions about earlier times hold up nobody: not those about now, and not other users."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event

import httpx
import pytest

from queue_insight.debug_api.insight_views import RecordView
from queue_insight.insight_program.sources import Source
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

FLOOD = OWN_REQUESTS - 8
"""What is left is for questions about now."""


class SlowPast(LoginWorld):
    """A world whose record takes long to restore an engine.

    Attributes:
        restoring: The times that threads are about.
        may_end: Set once they may be done.
    """

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit)
        self.restoring: list[datetime] = []
        self.may_end = Event()
        self.record = RecordView(state="recording", complete_from=datetime(2020, 1, 1, tzinfo=UTC))

    def _at(self, moment: datetime | None) -> Source:
        if moment is None:
            return super()._at(None)
        self.restoring.append(moment)
        assert self.may_end.wait(PATIENCE_SECONDS)
        return Source(self.shared, moment, True, lambda: moment)  # noqa: FBT003 - a tuple


@pytest.fixture
def world(kit: ShellKit) -> SlowPast:
    kit.add_unit("a")
    return SlowPast(kit)


@contextmanager
def browsers(world: SlowPast) -> Iterator[tuple[Browser, Browser, ThreadPoolExecutor]]:
    """Yield a user without rights, an administrator, and threads to ask from."""
    with (
        served_page(world) as url,
        Browser(url) as ann,
        Browser(url) as root,
        ThreadPoolExecutor(FLOOD + 8) as threads,
    ):
        ann.log_in(TENANT)
        root.log_in(ROOT)
        try:
            yield ann, root, threads
        finally:
            world.may_end.set()


def ask_at(client: Browser, threads: ThreadPoolExecutor, second: int) -> Future[httpx.Response]:
    return threads.submit(client.get, f"/page/overview?at=2026-01-01T00:00:{second:02}Z")


def test_a_flood_of_moments_holds_up_nobody(world: SlowPast) -> None:
    with browsers(world) as (ann, root, threads):
        flood = [ask_at(ann, threads, number) for number in range(FLOOD)]
        until(lambda: bool(world.restoring))
        for path in ("overview", "queues/team", "units/default/a", "quotas/team", "unqueued"):
            assert root.get(f"/page/{path}").status_code == 200, path
            assert ann.get(f"/page/{path}").status_code == 200, path
        assert not world.may_end.is_set()
        asked = ask_at(root, threads, 59)
        # In its own share, while ann's go on.
        until(lambda: datetime(2026, 1, 1, 0, 0, 59, tzinfo=UTC) in world.restoring)
        world.may_end.set()
        assert asked.result(PATIENCE_SECONDS).status_code == 200
        assert {each.result(PATIENCE_SECONDS).status_code for each in flood} == {200}
