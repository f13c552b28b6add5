"""Preemption as in upstream's test suites (P1 to P5), with the rules of this project.

Where upstream's job side lowers the victim's replicas, here the victim is Evicted first, its job is
stopped, and then it is Enqueued without admissions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest

from shared_api.testing.object_builders import pod_body
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import CHECKPOINTED_AT
from tests.queue_scheduler.scheduler_world import running_world
from tests.scenarios.preemption_kit import BOTH, PREEMPTS, PREEMPTS_RUNNING, WAITS, Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with running_world() as world:
        yield Stage(world)


def test_p1_a_refused_unit_evicts_one_that_does_not_run(stage: Stage) -> None:
    stage.open(2)
    assert BOTH.items() <= stage.world.queue()["metadata"]["annotations"].items()
    stage.add("victim", 10, cpu=2)
    assert stage.phase("victim") == "Dequeued"
    assert stage.status("victim")["admissions"][0]["replicas"] == 1
    assert stage.asked_back("victim") == 0
    stage.add("preemptor", 100, cpu=2)
    assert stage.asked_back("victim") == 1
    assert stage.evicted("victim") == ("True", "Preempted")
    assert stage.phase("victim") == "Dequeued"
    assert stage.phase("preemptor") == "Enqueued"
    stage.world.settle(2.0)
    assert {("victim", "Preempted"), ("preemptor", "Preempting")} <= stage.world.events()
    assert "default/preemptor (priority 100" in stage.world.note("victim", "Preempted")
    stage.stop("victim")
    assert (stage.phase("preemptor"), stage.phase("victim")) == ("Dequeued", "Enqueued")


@pytest.mark.parametrize("policy", ["Priority", "Block"])
def test_p2_p3_a_unit_that_fits_starts_at_once_instead_of_one_in_flight(
    stage: Stage, policy: str
) -> None:
    stage.open(4, policy=policy)
    assert stage.world.queue()["spec"]["queuePolicy"] == policy
    stage.add("victim", 10)
    assert stage.phase("victim") == "Dequeued"
    stage.add("preemptor", 100)
    assert stage.asked_back("victim") == 1
    assert stage.phase("preemptor") == "Dequeued"
    assert stage.status("preemptor")["admissions"][0]["replicas"] == 1
    assert stage.phase("victim") == "Dequeued"  # it has not been stopped


def test_p4_the_victim_starts_again_when_it_has_stopped(stage: Stage) -> None:
    stage.open(4)
    stage.add("victim", 10)
    stage.add("preemptor", 100)
    stage.run("preemptor")
    stage.stop("victim")
    assert stage.phase("victim") == "Dequeued"
    assert stage.status("victim")["admissions"][0]["replicas"] == 1
    assert stage.asked_back("victim") == 0
    assert stage.evicted("victim")[0] == "False"


def test_p5_the_order_after_a_preemption(stage: Stage) -> None:
    stage.open(4)
    stage.add("a", 1)
    stage.add("c", 100)
    assert (stage.phase("c"), stage.asked_back("a")) == ("Dequeued", 1)
    stage.add("b", 2)
    stage.world.settle(3.0)
    assert stage.phase("b") == "Enqueued"  # c is in flight
    stage.run("c")
    assert stage.phase("b") == "Dequeued"
    stage.world.settle(3.0)
    assert stage.evicted("a") == ("True", "Preempted")
    stage.run("b")
    stage.stop("a")
    assert stage.phase("a") == "Dequeued"
    assert stage.asked_back("a") == 0


@pytest.mark.parametrize(
    ("annotations", "policy", "victim", "evicts"),
    [
        pytest.param({PREEMPTS: "true"}, "Priority", {}, True, id="without waiting for pods"),
        pytest.param({PREEMPTS: "true"}, "Block", {}, True, id="Block"),
        pytest.param({PREEMPTS: "true"}, "FIFO", {}, False, id="never FIFO"),
        pytest.param({WAITS: "true"}, "Priority", {}, False, id="not enabled"),
        pytest.param({}, "Priority", {}, False, id="no annotation"),
        pytest.param({PREEMPTS: "true"}, "Priority", {"priority": 100}, False, id="equal priority"),
        pytest.param({PREEMPTS: "true"}, "Priority", {"firm": True}, False, id="not preemptible"),
        pytest.param({PREEMPTS: "true"}, "Priority", {"runs": True}, False, id="it runs"),
        pytest.param(
            {PREEMPTS: "true", PREEMPTS_RUNNING: "true"},
            "Priority",
            {"runs": True},
            True,
            id="it runs, which is allowed",
        ),
    ],
)
def test_which_units_may_be_evicted(
    stage: Stage, annotations: dict[str, str], policy: str, victim: dict[str, int], *, evicts: bool
) -> None:
    stage.open(2, policy=policy, annotations=annotations)
    labels = {"quota.scheduling.koordinator.sh/preemptible": "false"} if "firm" in victim else {}
    stage.add("victim", victim.get("priority", 10), cpu=2, metadata={"labels": labels})
    if "runs" in victim:
        stage.run("victim")
    stage.add("preemptor", 100, cpu=2)
    assert (stage.asked_back("victim") == 1) is evicts


def test_a_unit_is_not_evicted_shortly_after_its_admission(stage: Stage) -> None:
    stage.open(2, protect="5m")
    stage.add("victim", 10, cpu=2)
    stage.add("preemptor", 100, cpu=2)
    stage.world.settle(200.0)
    assert stage.asked_back("victim") == 0
    stage.world.settle(110.0)
    assert stage.asked_back("victim") == 1


def test_no_unit_is_evicted_if_all_together_do_not_free_enough(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    stage.add("high", 200, cpu=2)
    stage.add("preemptor", 100, cpu=3)
    assert stage.asked_back("low") == 0


def test_freed_capacity_is_reserved_for_the_preemptor(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=3)
    stage.add("preemptor", 100, cpu=3)
    assert stage.asked_back("low") == 1
    stage.add("small", 50, cpu=1)
    assert stage.phase("small") == "Dequeued"  # it fits in addition to the preemptor
    stage.add("taker", 50, cpu=1)
    stage.stop("low")
    assert stage.phase("preemptor") == "Dequeued"
    assert stage.phase("taker") == "Enqueued"


def test_capacity_is_reserved_while_victims_are_not_gone(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    stage.add("preemptor", 100, cpu=4)
    stage.add("taker", 50, cpu=2)
    stage.world.settle(4.0)
    assert stage.phase("taker") == "Enqueued"
    assert stage.world.reason("taker") == "RoomForPreemptor"
    stage.world.direct.delete("queueunits", "preemptor", "default")
    stage.world.settle()
    assert stage.phase("taker") == "Dequeued"
    assert stage.evicted("low") == ("True", "Preempted")  # the eviction is announced


def test_capacity_stays_reserved_after_a_restart_without_a_second_round(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    stage.add("other", 2, cpu=1)
    stage.add("preemptor", 100, cpu=3)
    assert (stage.asked_back("low"), stage.asked_back("other")) == (1, 0)
    stage.world.start()
    stage.add("taker", 50, cpu=1)
    stage.add("second", 90, cpu=2)
    assert stage.phase("taker") == "Enqueued"
    assert stage.asked_back("other") == 0
    stage.stop("low")
    assert stage.phase("preemptor") == "Dequeued"


def test_a_second_round_starts_when_the_first_is_over(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    stage.add("other", 2, cpu=2)
    stage.add("preemptor", 100, cpu=2)
    assert (stage.asked_back("low"), stage.asked_back("other")) == (1, 0)
    stage.add("second", 90, cpu=2)
    assert stage.asked_back("other") == 0
    stage.stop("low")
    assert (stage.phase("preemptor"), stage.asked_back("other")) == ("Dequeued", 1)


def test_capacity_is_reserved_until_the_pods_of_a_victim_are_gone(stage: Stage) -> None:
    """The victim's unit is released before the end of its pods is observed."""
    stage.open(2, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    pod = pod_body("low-0", requests={"cpu": 2})
    pod["metadata"]["annotations"] = {"koord-queue/related-queueunit": "default/low"}
    pod["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/name": "team"}
    stage.world.direct.create(pod)
    stage.add("preemptor", 100, cpu=2)
    assert stage.asked_back("low") == 1
    stage.stop("low")
    stage.add("taker", 200, cpu=1, quota="team")
    stage.world.direct.delete("queueunits", "taker", "default")
    stage.world.settle()
    assert stage.phase("preemptor") == "Enqueued"
    stage.world.direct.delete("pods", "low-0", "default")
    stage.world.settle()
    assert stage.phase("preemptor") == "Dequeued"


def test_no_round_starts_while_victims_of_a_deleted_preemptor_stop(stage: Stage) -> None:
    stage.open(4, annotations={PREEMPTS: "true"})
    stage.add("low", 1, cpu=2)
    stage.add("other", 2, cpu=2)
    stage.add("preemptor", 100, cpu=2)
    stage.world.direct.delete("queueunits", "preemptor", "default")
    stage.add("second", 90, cpu=4)
    assert (stage.asked_back("low"), stage.asked_back("other")) == (1, 0)
    stage.stop("low")
    assert stage.asked_back("other") == 1


def test_events_on_victim_and_preemptor_name_units_and_amounts(stage: Stage) -> None:
    """Of 3 CPUs, 1 is free."""
    stage.open(3, annotations={PREEMPTS: "true"})
    stage.add("victim", 10, cpu=2)
    stage.add("preemptor", 100, cpu=3)
    stage.world.settle(2.0)
    why = (
        "made to leave for default/preemptor (priority 100, queue team, quota team), "
        "which lacks 2 of cpu"
    )
    assert stage.world.note("victim", "Preempted") == why
    got = stage.world.note("preemptor", "Preempting")
    assert got.startswith(
        "1 unit is evicted so that it can start, which it does when they have stopped: "
        "default/victim ("
    )


@pytest.mark.parametrize(
    ("saved", "want"),
    [
        pytest.param(None, "late", id="none: the shortest run"),
        pytest.param(290.0, "early", id="what runs since then is shorter"),
        pytest.param(100.0, "late", id="what runs since then is longer"),
        pytest.param(-60.0, "late", id="from before its start"),
        pytest.param(900.0, "late", id="in the future"),
    ],
)
def test_an_eviction_loses_what_was_not_saved(stage: Stage, saved: float | None, want: str) -> None:
    """`early` runs since 0, `late` since 200, and at 300 one of them has to leave."""
    stage.open(2, annotations={PREEMPTS: "true", PREEMPTS_RUNNING: "true"})
    begin = stage.world.clock.now()
    marks = {} if saved is None else {CHECKPOINTED_AT: rfc3339(begin + timedelta(seconds=saved))}
    stage.add("early", 1, metadata={"annotations": marks})
    stage.run("early")
    stage.world.settle(200.0)
    stage.add("late", 1)
    stage.run("late")
    stage.world.settle(100.0)
    stage.add("urgent", 9)
    assert [name for name in ("early", "late") if stage.evicted(name)[0] == "True"] == [want]
    found = re.search(r"\((\d+) s of run time are lost\)", stage.world.note("urgent", "Preempting"))
    assert found is not None
    least = {"late": 100, "early": 10}[want]
    assert int(found[1]) in range(least, least + 5), "the world settles in some seconds"
