"""What would start a waiting unit: the order of the answers, and what waiting alone does."""

from __future__ import annotations

import pytest

from queue_insight.insight import trials
from queue_insight.insight.changes import find_changes
from tests.properties.engine_kit import build_queue, build_unit, changed
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster, of_kind, the


def test_changes_that_suffice_come_first() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    found = cluster.changes("new")
    assert [each.kind.value for each in found.found] == ["quotaMax", "unitsEnd", "request", "wait"]
    assert all(each.sufficient for each in found.found)
    assert found.are_complete


def test_waiting_suffices_where_the_end_of_others_does() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    wait = the(cluster.changes("new"), "wait")
    assert wait.sufficient
    assert wait.description == "It waits, and starts when 1 admitted unit has ended."


def test_waiting_does_not_help_a_unit_that_is_too_large() -> None:
    cluster = SmallCluster()
    cluster.wait("huge", cpu=5)
    wait = the(cluster.changes("huge"), "wait")
    assert not wait.sufficient
    assert wait.description.startswith("Waiting alone does not help")


def test_a_unit_in_backoff_is_tried_again() -> None:
    cluster = SmallCluster()
    assert cluster.apply(changed(build_unit("new", "a"), 2, "TimeoutBackoff")) == []
    wait = the(cluster.changes("new"), "wait")
    assert (wait.sufficient, wait.description) == (True, "It is tried again, and then starts.")


def test_a_unit_that_nothing_stops_starts_by_itself() -> None:
    cluster = SmallCluster()
    # The queue has not been asked yet.
    cluster.engine.on_queue_unit(build_unit("first", "a", cpu=1))
    cluster.engine.on_queue_unit(build_unit("second", "a", cpu=1, created=5))
    wait = the(cluster.changes("second"), "wait")
    assert wait.sufficient
    assert wait.description == "It starts by itself; nothing has to be changed."
    assert wait.also_starts == ("ns/first",)


@pytest.mark.parametrize("name", ["old", "unknown"])
def test_there_is_no_answer_for_a_unit_that_does_not_wait(name: str) -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    assert find_changes(cluster.engine.fork(), f"ns/{name}", WALL) is None


def test_a_question_changes_nothing() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    before = cluster.changes("new")
    cluster.engine.validate()
    assert [each.description for each in cluster.changes("new").found] == [
        each.description for each in before.found
    ]


@pytest.mark.parametrize(("limit", "most"), [("MAX_TRIALS", 4), ("MAX_DECISIONS", 5)])
def test_an_answer_that_costs_too_much_is_incomplete(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    cluster = SmallCluster(build_queue("b"))
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    complete = cluster.changes("new")
    monkeypatch.setattr(trials, limit, most)
    found = cluster.changes("new")
    assert not found.are_complete
    assert 0 < len(found.found) < len(complete.found)
    assert not of_kind(found, "request")


@pytest.mark.parametrize("times", [0, 3, 8])
def test_an_answer_that_is_late_ends_with_what_was_found(times: int) -> None:
    cluster = SmallCluster(build_queue("b"))
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2)
    asked = iter(range(times))
    found = find_changes(cluster.engine.fork(), "ns/new", WALL, lambda: next(asked, None) is None)
    assert found is not None
    assert not found.are_complete
    assert len(found.found) < len(cluster.changes("new").found)
