"""The log of decisions: filters, pages, and no repeated refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_insight.record.decision_log import LogKind
from queue_insight.record.log_query import LogPage, LogQuery, read_log
from queue_insight.record.record_file import read_store
from tests.properties.engine_kit import build_quota, build_unit
from tests.queue_insight.record.record_kit import Recorded


def recorded(path: Path) -> Recorded:
    """Return a record of a unit that starts, and of a larger one that is refused three times."""
    world = Recorded(path)
    world.call("on_queue_unit", build_unit("small", "a", cpu=1))
    world.call("on_queue_unit", build_unit("large", "a", cpu=2, created=1))
    for cores in (2, 2, 1):
        world.call("on_quota", build_quota("a", cpu=cores, guaranteed=world.number % 2))
        for _ in range(3):
            world.call("decide_next", "a", 0.0)
    world.writer.step()
    return world


def read(world: Recorded, query: LogQuery) -> LogPage:
    store = read_store(world.path)
    try:
        return read_log(store, query)
    finally:
        store.close()


@pytest.mark.parametrize(
    ("query", "want"),
    [
        pytest.param(LogQuery(), ["ExceedsQuota", "OverQuotaMax", ""], id="all, newest first"),
        pytest.param(LogQuery(unit="ns/small"), [""], id="of a unit"),
        pytest.param(LogQuery(queue="a", limit=1), ["ExceedsQuota"], id="of a queue"),
        pytest.param(LogQuery(queue="b"), [], id="of another queue"),
        pytest.param(LogQuery(reason="OverQuotaMax"), ["OverQuotaMax"], id="of a reason"),
        pytest.param(LogQuery(since=4e9), [], id="since a time"),
        pytest.param(LogQuery(until=0.0), [], id="until a time"),
    ],
)
def test_a_refusal_has_one_entry_however_often_it_is_repeated(
    tmp_path: Path, query: LogQuery, want: list[str]
) -> None:
    page = read(recorded(tmp_path / "record"), query)
    assert [entry.reason for entry in page.entries] == want


def test_pages_follow_each_other(tmp_path: Path) -> None:
    world = recorded(tmp_path / "record")
    kinds, cursor = [], None
    for _ in range(3):
        page = read(world, LogQuery(limit=1, cursor=cursor))
        kinds += [entry.kind for entry in page.entries]
        cursor = page.cursor
    assert kinds == [LogKind.REFUSED, LogKind.REFUSED, LogKind.ADMITTED]
    assert cursor is None
    assert read(world, LogQuery(limit=3)).cursor is None
