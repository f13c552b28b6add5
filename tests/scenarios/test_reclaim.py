"""A quota reclaims what others borrow of its min, if its policy allows it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import running_world
from tests.scenarios.preemption_kit import Stage

MODES = pytest.mark.parametrize("mode", ["runtime", "max"])


@pytest.fixture
def stage() -> Iterator[Stage]:
    with running_world() as world:
        yield Stage(world)


def lend(stage: Stage, policy: str, mode: str, *, priority: int = 0, cpu: int = 2) -> None:
    """Give `lender` 6 of 10 CPUs, and let `borrower`, which owns 4, use all of them."""
    stage.share(10, {"lender": (6, 10, policy), "borrower": (4, 10, "")}, mode)
    for number in range(10 // cpu):
        stage.add(f"b{number}", priority, cpu=cpu, quota="borrower")
        stage.run(f"b{number}")


def evicted(stage: Stage) -> list[str]:
    names = [unit["metadata"]["name"] for unit in stage.world.direct.list("queueunits")]
    return sorted(name for name in names if stage.evicted(name) == ("True", "Reclaimed"))


@MODES
def test_a_quota_gets_back_its_min(stage: Stage, mode: str) -> None:
    lend(stage, "Any", mode)
    stage.add("owner", cpu=4, quota="lender")
    assert len(evicted(stage)) == 2
    assert stage.phase("owner") == "Enqueued"
    stage.add("taker", cpu=2, quota="borrower")
    for name in evicted(stage):
        assert stage.asked_back(name) == 1
        stage.stop(name)
    assert stage.phase("owner") == "Dequeued"
    assert stage.phase("taker") == "Enqueued"
    assert len(evicted(stage)) == 0


@pytest.mark.parametrize(
    ("policy", "priority", "cpu", "want"),
    [
        pytest.param("Any", 5, 4, 2, id="whatever their priority"),
        pytest.param("LowerPriority", 5, 4, 0, id="only a lower priority"),
        pytest.param("LowerPriority", -1, 4, 2, id="a lower priority"),
        pytest.param("Never", 0, 4, 0, id="never"),
        pytest.param("", 0, 4, 0, id="by default never"),
        pytest.param("Sometimes", 0, 4, 0, id="an unknown value"),
        pytest.param("Any", 0, 6, 3, id="all of its min"),
        pytest.param("Any", 0, 7, 0, id="more than its min"),
    ],
)
@MODES
def test_what_may_be_reclaimed(
    stage: Stage, mode: str, policy: str, priority: int, cpu: int, want: int
) -> None:
    lend(stage, policy, mode, priority=priority)
    stage.add("owner", cpu=cpu, quota="lender")
    assert len(evicted(stage)) == want
    stage.world.settle(2.0)
    got = ("lender", "UnknownReclaimPolicy") in stage.world.events()
    assert got is (policy == "Sometimes")


@MODES
def test_no_quota_falls_below_its_min(stage: Stage, mode: str) -> None:
    """Without one of its units, the borrower would have less than four CPUs."""
    lend(stage, "Any", mode, cpu=5)
    stage.add("owner", cpu=6, quota="lender")
    assert len(evicted(stage)) == 0
    stage.world.direct.delete("queueunits", "owner", "default")
    stage.add("modest", cpu=5, quota="lender")
    assert len(evicted(stage)) == 1


@MODES
def test_a_unit_that_is_not_preemptible_stays(stage: Stage, mode: str) -> None:
    labels = {"quota.scheduling.koordinator.sh/preemptible": "false"}
    stage.share(10, {"lender": (6, 10, "Any"), "borrower": (4, 10, "")}, mode)
    stage.add("firm", cpu=4, quota="borrower", metadata={"labels": labels})
    stage.add("soft", cpu=6, quota="borrower")
    stage.add("owner", cpu=6, quota="lender")
    assert evicted(stage) == ["soft"]


@MODES
def test_borrowing_between_children_of_one_parent_is_not_reclaimed(stage: Stage, mode: str) -> None:
    """`inner` uses more than its min, but its parent `house` does not."""
    stage.share(10, {"lender": (4, 10, "Any"), "house": (6, 10, ""), "third": (0, 10, "")}, mode)
    stage.world.direct.delete("elasticquotas", "house", "default")
    stage.world.add_quota("house", min={"cpu": 6}, max={"cpu": 10}, parent="org", is_parent=True)
    for name, least in (("inner", 1), ("outer", 5)):
        stage.world.add_quota(name, min={"cpu": least}, max={"cpu": 10}, parent="house")
    stage.world.settle()
    stage.add("inside", cpu=6, quota="inner")
    stage.add("lent", cpu=4, quota="third")
    stage.add("owner", cpu=4, quota="lender")
    assert evicted(stage) == ["lent"]


# --- messages -----------------------------------------------------------------------------------


@MODES
def test_events_on_victims_and_owner_name_units_and_amounts(stage: Stage, mode: str) -> None:
    """Of 10 CPUs, 8 are used; the owner requests 5, so 3 are missing and two units are evicted."""
    lend(stage, "Any", mode)
    stage.world.direct.delete("queueunits", "b0", "default")
    stage.world.settle(30.0)
    stage.add("owner", 3, cpu=5, quota="lender")
    stage.world.settle(3.0)
    assert evicted(stage) == ["b3", "b4"]
    why = (
        "made to leave for default/owner (priority 3, queue lender, quota lender), "
        "which lacks 3 of cpu"
    )
    for name in evicted(stage):
        assert stage.world.note(name, "Reclaimed") == why
        assert condition_of(stage.world.unit(name), "Evicted")["message"] == why
    got = stage.world.note("owner", "Preempting")
    names, _, rest = got.partition(" (")
    assert names == (
        "2 units are evicted so that it can start, which it does when they have stopped: "
        "default/b4, default/b3"
    )
    lost = re.fullmatch(r"([0-9]+) s of run time are lost\)", rest)
    assert lost is not None, got
    # Both have run for a little more than half a minute.
    assert 60 <= int(lost[1]) <= 80


@MODES
def test_of_many_victims_the_first_are_named(stage: Stage, mode: str) -> None:
    lend(stage, "Any", mode, cpu=1)
    stage.add("owner", cpu=6, quota="lender")
    stage.world.settle(3.0)
    assert len(evicted(stage)) == 6
    got = stage.world.note("owner", "Preempting")
    named = "default/b9, default/b8, default/b7, default/b6, default/b5, ... ("
    assert got.startswith("6 units are evicted so that it can start")
    assert named in got


@MODES
def test_borrowers_give_back_what_they_borrow_and_no_more(stage: Stage, mode: str) -> None:
    """64 units: 16, 24 and 24 are used, 32, 16 and 16 are guaranteed, and all want more.

    Eight of each borrower leave. With one more of either, its owner would be the next that takes
    back, and so on.
    """
    shares = {"a": (32, 64, "Any"), "b": (16, 64, "Any"), "c": (16, 64, "Any")}
    stage.share(64, shares, mode)
    for quota, number in (("a", 16), ("b", 24), ("c", 24)):
        for index in range(number):
            stage.add(f"{quota}{index:02}", quota=quota)
            stage.run(f"{quota}{index:02}")
    for quota in ("b", "c"):
        for index in range(4):
            stage.add(f"more-{quota}{index}", quota=quota)
    assert evicted(stage) == []

    for index in range(16):
        stage.add(f"owner{index:02}", quota="a")
    gone: list[str] = []
    while leaving := evicted(stage):
        gone += leaving
        assert len(gone) <= 16, "those who gave back take back in turn"
        for name in leaving:
            stage.stop(name)
        stage.world.settle()
    assert sorted(name[0] for name in gone) == ["b"] * 8 + ["c"] * 8
    assert {stage.phase(f"owner{index:02}") for index in range(16)} == {"Dequeued"}


@MODES
def test_a_unit_without_what_is_lacked_is_no_victim(stage: Stage, mode: str) -> None:
    """`lean` requests no CPU, so its eviction would give none back."""
    lend(stage, "Any", mode)
    stage.add("lean", cpu=0, quota="borrower")
    stage.run("lean")
    stage.add("owner", cpu=6, quota="lender")
    assert len(evicted(stage)) == 3
    assert "lean" not in evicted(stage)
