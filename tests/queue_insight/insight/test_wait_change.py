"""What is said of waiting."""

from __future__ import annotations

from typing import Any, Final

import pytest

from queue_insight.insight import lookahead
from queue_scheduler.quota.quota_settings import QuotaMode
from tests.properties.engine_kit import build_pod, build_unit, changed
from tests.queue_insight.insight.changes_kit import (
    SmallCluster,
    build_node,
    eight_of_sixteen,
    names,
    the,
)

_TWO: Final = "ended: 2 admitted now"


@pytest.mark.parametrize(
    ("name", "ends", "want"),
    [
        ("big-3", 1, "It waits, and starts when 1 admitted unit has ended."),
        ("big-4", 2, "It waits, and starts when 2 admitted units have ended."),
        ("big-5", 3, f"It waits, and starts when 3 units have {_TWO}, 1 that starts before it."),
        ("big-6", 4, f"It waits, and starts when 4 units have {_TWO}, 2 that start before it."),
    ],
)
def test_it_is_said_after_how_many_ends_a_unit_starts(name: str, ends: int, want: str) -> None:
    wait = the(eight_of_sixteen().changes(name), "wait")
    assert (wait.description, wait.ends, wait.sufficient, wait.verified) == (want, ends, True, True)


def test_what_starts_before_it_is_named() -> None:
    wait = the(eight_of_sixteen().changes("big-5"), "wait")
    assert names(wait.also_starts) == ["big-3", "big-4"]


def test_what_a_bound_cut_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookahead, "MAX_ENDS", 2)
    wait = the(eight_of_sixteen().changes("big-6"), "wait")
    assert wait.description == (
        "It waits for more than 2 units to end; it was not tried what follows then."
    )
    assert (wait.sufficient, wait.verified, wait.ends) == (False, False, 2)


def test_it_is_said_that_nothing_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookahead, "MAX_STEPS", 0)
    wait = the(eight_of_sixteen().changes("big-3"), "wait")
    assert wait.description.endswith("there was no time to try it.")
    assert (wait.sufficient, wait.verified) == (False, False)


def test_a_unit_in_backoff_may_have_to_wait_after_it() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    assert cluster.apply(changed(build_unit("new", "a", cpu=2), 2, "TimeoutBackoff")) == []
    wait = the(cluster.changes("new"), "wait")
    want = "It is tried again, and starts when 1 admitted unit has ended."
    assert (wait.sufficient, wait.description) == (True, want)


def test_nothing_is_proved_while_pods_of_no_unit_are_in_the_way() -> None:
    cluster = SmallCluster(build_node("node", cpu=9), mode=QuotaMode.RUNTIME)
    cluster.workers.wake(cluster.engine.on_pod(build_pod("bare", cpu=2, quota="a")))
    cluster.wait("new", cpu=3)
    wait = the(cluster.changes("new"), "wait")
    assert wait.description.startswith("Waiting for admitted units alone does not help: pods ")
    assert (wait.sufficient, wait.verified) == (False, True)


@pytest.mark.parametrize(
    ("nodes", "more", "want"),
    [
        (2, {"cpu": 3}, "it would not start if all units had ended that are admitted, or "),
        (9, {"cpu": 5}, "no end of a unit changes what keeps it waiting."),
        (9, {"cpu": 1, "active": False}, "it is on hold, which no end of a unit changes."),
    ],
    ids=["more than there is", "more than its max", "on hold"],
)
def test_that_waiting_does_not_help_is_said_where_it_is_proved(
    nodes: int, more: dict[str, Any], want: str
) -> None:
    cluster = SmallCluster(build_node("node", cpu=nodes), mode=QuotaMode.RUNTIME)
    cluster.run("old", cpu=1)
    cluster.wait("new", **more)
    wait = the(cluster.changes("new"), "wait")
    assert wait.description.startswith(f"Waiting alone does not help: {want}")
    assert (wait.sufficient, wait.verified) == (False, True)
