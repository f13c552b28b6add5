"""How far waiting is followed, and what is proved by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queue_insight.insight import lookahead
from queue_insight.insight.explain import explain
from queue_insight.insight.lookahead import Course, Lookahead, look_ahead
from queue_insight.insight.question import Question
from queue_insight.insight.trials import Trials
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode
from tests.budget_world import BudgetWorld, budget
from tests.properties.engine_kit import (
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    declaring,
    running,
)
from tests.queue_insight.insight.changes_kit import (
    SINCE,
    WALL,
    SmallCluster,
    build_node,
    eight_of_sixteen,
    names,
)
from tests.reserved_world import build_reservation, build_spec, schedules_at


def ahead(cluster: SmallCluster, name: str) -> Lookahead:
    return ahead_at(WALL, cluster.engine, name)


def ahead_at(wall: datetime, engine: Engine, name: str) -> Lookahead:
    trials = Trials(engine.fork(), f"ns/{name}", wall)
    reader = trials.copy()
    record, got = reader.record(f"ns/{name}"), explain(reader, f"ns/{name}", wall)
    assert record is not None
    assert got is not None
    return look_ahead(Question(trials=trials, engine=reader, record=record, explanation=got))


@pytest.mark.parametrize(
    ("name", "admitted", "started"),
    [("big-3", 1, 0), ("big-4", 2, 0), ("big-5", 2, 1), ("big-6", 2, 2)],
)
def test_what_starts_ends_in_its_turn(name: str, admitted: int, started: int) -> None:
    found = ahead(eight_of_sixteen(), name)
    assert (found.course, found.admitted, found.started) == (Course.STARTS, admitted, started)
    assert found.ends == admitted + started


def test_what_starts_before_it_is_named_in_order() -> None:
    assert names(ahead(eight_of_sixteen(), "big-6").also) == ["big-3", "big-4", "big-5"]


def test_only_units_end_that_hold_what_is_short() -> None:
    cluster = SmallCluster(
        *(build_quota("top", cpu=9), build_queue("b"), build_queue("c")),
        *(build_quota("b", cpu=4, parent="top"), build_quota("c", cpu=5, parent="top")),
    )
    for number in range(5):
        cluster.run(f"c-{number}", "c", cpu=1)
    cluster.run("old", "b", cpu=3)
    cluster.wait("new", "b", cpu=2)
    assert ahead(cluster, "new").ends == 1


def test_units_that_declare_an_end_end_first() -> None:
    cluster = SmallCluster(cpu=6)
    cluster.run("a-first-by-name", cpu=4)
    cluster.apply(running(declaring(build_unit("soon", "a", cpu=2), 60), 2, since=SINCE))
    cluster.wait("new", cpu=2)
    assert ahead(cluster, "new").ends == 1
    cluster.wait("large", cpu=4, created=1)
    assert ahead(cluster, "large").ends == 2


def test_a_unit_behind_one_that_fits_later_starts_after_it() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, created=1)
    cluster.wait("new", cpu=1, created=2)
    found = ahead(cluster, "new")
    assert (found.course, found.admitted, found.started) == (Course.STARTS, 1, 1)


@pytest.mark.parametrize("name", ["huge", "behind"])
def test_neither_a_unit_above_its_max_starts_nor_what_waits_behind_it(name: str) -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("huge", cpu=5, created=1)
    cluster.wait("behind", cpu=1, created=2)
    assert ahead(cluster, name).course is Course.NEVER


def test_a_limit_that_others_do_not_use_is_never_enough() -> None:
    cluster = SmallCluster(build_quota("a", cpu=9, guaranteed=2), mode=QuotaMode.MIN)
    cluster.run("old", cpu=2)
    cluster.wait("new", cpu=3)
    assert ahead(cluster, "new").course is Course.NEVER


def test_a_unit_that_still_does_not_fit_when_all_have_ended_never_starts() -> None:
    cluster = SmallCluster(build_node("node", cpu=2), mode=QuotaMode.RUNTIME)
    cluster.run("old", cpu=1)
    cluster.wait("new", cpu=3)
    found = ahead(cluster, "new")
    assert (found.course, found.ends) == (Course.NEVER, 1)


def test_a_window_passes_without_an_end() -> None:
    cluster = SmallCluster()
    start = f"{WALL + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    reservation = build_reservation(spec=build_spec(start))
    cluster.engine.on_schedules(schedules_at(reservation, int(WALL.timestamp())))
    cluster.engine.on_reservation(reservation)
    cluster.wait("new", cpu=1)
    assert ahead(cluster, "new").course is Course.UNKNOWN


@pytest.mark.parametrize(
    ("period", "want"),
    [
        pytest.param("Month", Course.UNKNOWN, id="a budget that begins anew has more by time"),
        pytest.param("None", Course.NEVER, id="one without a period stays spent"),
    ],
)
def test_a_spent_budget_is_not_helped_by_ends(period: str, want: Course) -> None:
    world = BudgetWorld("2026-11-02T00:00")
    world.state(budget(10, period=period))
    world.use(9)
    assert world.ask("waits", 1, 4) == []
    wall = datetime.fromtimestamp(world.second, UTC)
    assert ahead_at(wall, world.engine, "waits").course is want


def test_a_unit_on_hold_is_not_helped_by_ends() -> None:
    cluster = SmallCluster()
    cluster.run("old", cpu=3)
    cluster.wait("new", cpu=2, active=False)
    assert ahead(cluster, "new").course is Course.HELD


def test_pods_of_no_unit_are_told_apart() -> None:
    cluster = SmallCluster(build_node("node", cpu=9), mode=QuotaMode.RUNTIME)
    cluster.run("old", cpu=1)
    cluster.workers.wake(cluster.engine.on_pod(build_pod("bare", cpu=2, quota="a")))
    cluster.wait("new", cpu=3)
    assert ahead(cluster, "new").course is Course.AFTER_OTHER_PODS


def test_a_bound_is_not_taken_for_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = eight_of_sixteen()
    monkeypatch.setattr(lookahead, "MAX_ENDS", 2)
    assert ahead(cluster, "big-4").course is Course.STARTS
    assert (ahead(cluster, "big-5").course, ahead(cluster, "big-5").ends) == (Course.TOO_FAR, 2)
    monkeypatch.setattr(lookahead, "MAX_ENDS", 9)
    monkeypatch.setattr(lookahead, "MAX_STEPS", 3)
    assert ahead(cluster, "big-6").course is Course.TOO_FAR


def test_more_classes_that_wait_shorten_what_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = eight_of_sixteen()
    monkeypatch.setattr(lookahead, "CLASSES_PER_STEP", 1)
    monkeypatch.setattr(lookahead, "MAX_STEPS", 3)
    assert ahead(cluster, "big-4").course is Course.TOO_FAR


def test_a_reason_that_may_pass_by_itself_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SmallCluster(build_quota("a", cpu=9, guaranteed=2), mode=QuotaMode.MIN)
    cluster.run("old", cpu=2)
    cluster.wait("new", cpu=2)
    monkeypatch.setattr(lookahead, "end", lambda _: lambda _: ())
    monkeypatch.setattr(lookahead, "_NOT_BY_ENDS", frozenset({Reason.OVER_MIN}))
    assert ahead(cluster, "new").course is Course.UNKNOWN


def test_nothing_is_changed_by_looking_ahead() -> None:
    cluster = eight_of_sixteen()
    before = ahead(cluster, "big-6")
    cluster.engine.validate()
    assert ahead(cluster, "big-6") == before
