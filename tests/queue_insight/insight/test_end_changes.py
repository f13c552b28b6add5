"""After the ends of which units another one starts."""

from __future__ import annotations

import pytest

from queue_insight.insight import end_changes
from tests.properties.engine_kit import build_queue, build_unit, declaring, running
from tests.queue_insight.insight.changes_kit import SINCE, SmallCluster, names, of_kind, the


def run_until(cluster: SmallCluster, name: str, seconds: int, cpu: int) -> None:
    unit = declaring(build_unit(name, "a", cpu=cpu), seconds)
    cluster.apply(running(unit, 2, since=SINCE))


def test_one_that_suffices_is_named_rather_than_two() -> None:
    cluster = SmallCluster(cpu=6)
    run_until(cluster, "small", 10, 1)
    run_until(cluster, "soon", 20, 1)
    run_until(cluster, "large", 999, 4)
    cluster.wait("new", cpu=2)
    change = the(cluster.changes("new"), "unitsEnd")
    assert (names(change.units), change.minimal) == (["large"], True)
    assert change.description == "It starts when 1 admitted unit has ended."


def test_of_as_few_those_that_end_first_are_named() -> None:
    cluster = SmallCluster()
    for name, seconds in (("late", 300), ("soon", 100), ("later", 900), ("next", 200)):
        run_until(cluster, name, seconds, 1)
    cluster.wait("new", cpu=2)
    change = the(cluster.changes("new"), "unitsEnd")
    assert (names(change.units), change.minimal) == (["soon", "next"], True)
    assert change.description == "It starts when 2 admitted units have ended."


def test_units_ahead_take_what_ends() -> None:
    cluster = SmallCluster()
    for name in ("w", "x", "y", "z"):
        cluster.run(name, cpu=1)
    cluster.wait("ahead", cpu=1, priority=1)
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "unitsEnd")
    assert (names(change.units), names(change.also_starts)) == (["w", "x"], ["ahead"])


def test_a_larger_set_is_found_but_not_known_to_be_the_smallest() -> None:
    cluster = SmallCluster(cpu=8)
    for number in range(8):
        run_until(cluster, f"run-{number}", 10 * number + 10, 1)
    cluster.wait("new", cpu=5)
    change = the(cluster.changes("new"), "unitsEnd")
    assert names(change.units) == [f"run-{number}" for number in range(5)]
    assert not change.minimal


def test_units_that_are_not_needed_are_left_out() -> None:
    cluster = SmallCluster(cpu=8)
    run_until(cluster, "tiny", 1, 1)
    for number in range(7):
        run_until(cluster, f"run-{number}", 10 * number + 10, 1)
    cluster.wait("new", cpu=4)
    assert len(the(cluster.changes("new"), "unitsEnd").units) == 4


def test_a_unit_in_flight_ends_for_one_that_waits_for_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = SmallCluster(
        build_queue("a", annotations={"koord-queue/wait-for-pods-running": "true"})
    )
    assert cluster.apply(build_unit("old", "a", cpu=1)) == ["old"]
    cluster.wait("new", cpu=1)
    assert names(the(cluster.changes("new"), "unitsEnd").units) == ["old"]
    monkeypatch.setattr(end_changes, "MAX_ENDS", 0)
    assert of_kind(cluster.changes("new"), "unitsEnd") == []
