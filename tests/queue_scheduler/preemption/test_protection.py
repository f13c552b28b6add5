"""How long units are spared after their admission, by what quotas and queues state."""

from __future__ import annotations

import pytest

from queue_insight.insight.admitted import describe_admitted
from queue_insight.insight.explain import explain
from queue_scheduler.decision import Reason
from queue_scheduler.refusal_texts import stable_message
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    PREEMPT_MIN_RUNTIME,
    QUOTA_PARENT,
    RECLAIM_MIN_RUNTIME,
    ROOT_QUOTA,
)
from tests.properties.engine_kit import WALL, build_queue, wall_time
from tests.queue_scheduler.round_kit import BEGIN, LONG, PREEMPTS, TAKES_ALL, Times

UNITS = ("u1", "u2", "u3", "u4")
TREE = {"top": ("", 0), "mid": ("top", 6), "a": ("mid", 2), "b": ("mid", 0), "far": ("top", 2)}
"""Quotas with their parents and guarantees."""


def spares(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {RECLAIM_MIN_RUNTIME: f"{seconds}s"}


def at(second: float) -> str:
    """Return a second of the workers' clock as it stands in objects."""
    return rfc3339(wall_time(WALL + int(second)))


def first(times: Times) -> tuple[float, str]:
    """Let time pass, and return what happens first; victims do not stop, so there may be more."""
    return times.wait(LONG)[0]


def state(times: Times, name: str, seconds: int | None) -> None:
    """Write a quota of the tree, or the root, with a run time or none."""
    parent, least = TREE.get(name, ("", 0))
    is_parent = name in {"top", "mid"}
    times.quota(name, 8, parent, least, said=spares(seconds), is_parent=is_parent)


def lend(**stated: int | None) -> Times:
    """Let units of quota `b` borrow what `a` owns; both are below `mid`, and that is below `top`.

    Quota `far`, beside `mid`, owns a part as well. `stated` are run times in seconds.
    """
    times = Times()
    for name in (ROOT_QUOTA, *TREE) if ROOT_QUOTA in stated else TREE:
        state(times, name, stated.get(name))
    times.queue("q", TAKES_ALL)
    for name in UNITS:
        times.comes(name, "b", 2)
    assert times.wait(0.0) == [(BEGIN, f"{name} starts") for name in UNITS]
    return times


def test_min_runtime() -> None:
    """Units start at second 10 and are spared for 600 s; the owner comes at second 50."""
    times = lend(mid=600)
    assert times.wait(40.0) == []
    times.comes("owner", "a", 2)
    explanation = explain(times.engine, "ns/owner", wall_time(WALL + 50))
    assert explanation is not None
    assert explanation.blockers[0].reason is Reason.OVER_PARENT_MAX
    assert explanation.blockers[-1].reason is Reason.MIN_RUNTIME
    assert stable_message(explanation.blockers[-1]) == (
        "may evict others, which mid spares for a time after their admission: the first of them "
        f"until {at(610)}"
    )
    assert first(times) == (610.0, "owner evicts u4")


@pytest.mark.parametrize(
    ("taker", "stated", "want"),
    [
        pytest.param("a", {}, 50, id="no time"),
        pytest.param("a", {"mid": 300}, 310, id="siblings: their parent's"),
        pytest.param("a", {"mid": 300, "top": 900}, 310, id="the lowest comes first"),
        pytest.param("a", {"mid": 900, "top": 300}, 910, id="also if it is longer"),
        pytest.param("a", {"top": 700}, 710, id="the parent inherits"),
        pytest.param("a", {ROOT_QUOTA: 500}, 510, id="from the root last"),
        pytest.param("a", {"top": 700, ROOT_QUOTA: 500}, 710, id="before the root"),
        pytest.param("a", {"b": 300}, 50, id="the victim's own is of no account"),
        pytest.param("a", {"a": 300}, 50, id="nor is the taker's"),
        pytest.param("a", {"mid": 0, "top": 700}, 50, id="zero"),
        pytest.param("far", {"mid": 900}, 50, id="a parent of the victim alone is of no account"),
        pytest.param("far", {"mid": 300, "top": 700}, 710, id="what both have above them"),
    ],
)
def test_the_time_of_the_lowest_quota_above_taker_and_victim_counts(
    taker: str, stated: dict[str, int], want: int
) -> None:
    times = lend(**stated)
    times.wait(40.0)
    times.comes("owner", taker, 2)
    assert first(times) == (float(want), "owner evicts u4")


@pytest.mark.parametrize("name", ["b", "mid"])
def test_a_time_that_has_no_effect_is_told(name: str) -> None:
    times = lend(**{name: 300})
    found = [
        each.note for each in times.engine.take_notices() if each.reason == "AttributeWithoutEffect"
    ]
    assert len(found) == (name == "b")
    assert all("set it on the quota above" in each for each in found)


def test_an_unreadable_time_of_the_root_is_told() -> None:
    times = lend()
    times.quota(ROOT_QUOTA, 8, said={RECLAIM_MIN_RUNTIME: "a while"})
    assert sum("a while" in each.note for each in times.engine.take_notices()) == 1


@pytest.mark.parametrize(("protect", "want"), [(300.0, 610.0), (900.0, 910.0)])
def test_the_longer_of_two_times_counts(protect: float, want: float) -> None:
    times = lend(mid=600)
    times.engine.candidates.protect_seconds = protect
    times.comes("owner", "a", 2)
    assert first(times) == (want, "owner evicts u4")


@pytest.mark.parametrize("edited", ["mid", "top", ROOT_QUOTA])
def test_a_shorter_time_wakes(edited: str) -> None:
    times = lend(**{edited: 600})
    times.comes("owner", "a", 2)
    assert times.wait(90.0) == []
    state(times, edited, 60)
    times.ask()
    assert times.wait(0.0) == [(100.0, "owner evicts u4")]


def test_an_unreadable_time_leaves_the_last_one_in_force() -> None:
    times = lend(mid=600)
    times.quota("mid", 8, "top", 6, said={RECLAIM_MIN_RUNTIME: "a while"}, is_parent=True)
    times.comes("owner", "a", 2)
    assert first(times) == (610.0, "owner evicts u4")
    (notice,) = [each for each in times.engine.take_notices() if "a while" in each.note]
    assert (notice.kind, notice.reason) == ("ElasticQuota", "UnreadableAnnotation")
    assert notice.note.endswith("what was in force stays: 600s")


def test_who_may_evict_an_admitted_unit_and_from_when() -> None:
    times = lend(mid=600)
    admitted = describe_admitted(times.engine, "ns/u4", wall_time(WALL + 50))
    assert admitted is not None
    assert {name: rfc3339(until) for name, until in admitted.reclaimed_from.items()} == {
        "a": at(610)
    }
    assert admitted.is_possible_victim, "quota far spares nothing"
    admitted = describe_admitted(times.engine, "ns/u4", wall_time(WALL + 610))
    assert admitted is not None
    assert admitted.reclaimed_from == {}


# --- queues ---------------------------------------------------------------------------------------


def preempting(**stated: int) -> Times:
    """Let `low` run in queue `q`, below queue `above`; `stated` are run times in seconds."""
    times = Times()
    times.quota("top", 4)
    for name in ("above", "q"):
        said = {PREEMPT_MIN_RUNTIME: f"{stated[name]}s"} if name in stated else {}
        put_queue(times, name, said)
    times.comes("low", "top", 4, priority=1)
    assert times.wait(0.0) == [(BEGIN, "low starts")]
    return times


def put_queue(times: Times, name: str, said: dict[str, str]) -> None:
    """Write a queue; `q` stands below `above`."""
    queue = build_queue(name, annotations=PREEMPTS | said)
    queue.metadata.labels.update({QUOTA_PARENT: "above"} if name == "q" else {})
    times.workers.wake([*times.engine.on_queue(queue), name])


@pytest.mark.parametrize(
    ("stated", "want"),
    [
        pytest.param({}, 50, id="no time"),
        pytest.param({"q": 120}, 130, id="its own"),
        pytest.param({"above": 240}, 250, id="that of the queue above"),
        pytest.param({"q": 120, "above": 240}, 130, id="its own comes first"),
    ],
)
def test_a_unit_of_a_queue_is_not_preempted_before_its_time(
    stated: dict[str, int], want: int
) -> None:
    times = preempting(**stated)
    times.wait(40.0)
    times.comes("high", "top", 4, priority=9)
    assert first(times) == (float(want), "high evicts low")


def test_a_shorter_time_of_the_queue_above_wakes() -> None:
    times = preempting(above=600)
    times.comes("high", "top", 4, priority=9)
    assert times.wait(90.0) == []
    put_queue(times, "above", {PREEMPT_MIN_RUNTIME: "30"})
    times.ask()
    assert times.wait(0.0) == [(100.0, "high evicts low")]


def test_queues_in_a_circle_have_no_time() -> None:
    times = preempting()
    queue = build_queue("above", annotations=PREEMPTS)
    queue.metadata.labels.update({QUOTA_PARENT: "q"})
    times.engine.on_queue(queue)
    times.comes("high", "top", 4, priority=9)
    assert first(times) == (BEGIN, "high evicts low")


def test_when_the_queue_of_an_admitted_unit_lets_others_evict_it() -> None:
    times = preempting(above=240)
    admitted = describe_admitted(times.engine, "ns/low", wall_time(WALL + 50))
    assert admitted is not None
    assert admitted.queue_spares_until == wall_time(WALL + 250)
    assert admitted.is_in_reach
    assert not admitted.is_possible_victim
