"""A round of evictions over the fake API server: its writes, and what happens if they fail."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.cycles import preemption_cycle
from queue_scheduler.cycles.preemption_cycle import PreemptionCycle
from queue_scheduler.decision import Dequeue, Notice, Preempt, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.preemption.nomination import read_for_whom
from tests.object_states import condition_of
from tests.queue_scheduler.fault_kit import PluginError, raise_once
from tests.queue_scheduler.shell_kit import Line, ShellKit

PREEMPTS = {"annotations": {"koord-queue/enable-queueunit-preemption": "true"}}


class Rounds:
    """A kit whose queue `both` preempts, with both cycles; a `PreemptionObserver`."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.line = Line(kit)
        self.notices: list[Notice] = []
        self.counted: list[tuple[str, str, int]] = []
        self.cycle = PreemptionCycle(
            kit.shared, kit.dispatcher, kit.note_written, self.notices.append, kit.clock, self
        )
        kit.direct.patch("queues", "team", {"metadata": PREEMPTS}, namespace="koord-queue")
        kit.learn_queue("team")

    def on_preempted(self, queue: str, reason: str, victims: int) -> None:
        self.counted.append((queue, reason, victims))

    def start(self, name: str, cpu: int = 2) -> None:
        self.kit.add_unit(name, cpu=cpu, priority=1)
        self.line.cycle.carry_out(self.kit.dequeue())
        self.kit.send()

    def preempt(self, name: str = "preemptor", cpu: int = 4) -> Preempt:
        self.kit.add_unit(name, cpu=cpu, priority=9)
        decision = self.kit.decide()
        assert isinstance(decision, Preempt), decision
        return decision

    def evicted(self, name: str) -> dict[str, Any]:
        return condition_of(self.kit.unit(name), "Evicted")


@pytest.fixture
def rounds(kit: ShellKit) -> Rounds:
    return Rounds(kit)


def test_a_victim_is_marked_and_stays_as_it_is(rounds: Rounds) -> None:
    rounds.start("victim", cpu=2)
    before = rounds.kit.unit("victim")["status"]
    rounds.cycle.carry_out(rounds.preempt())
    rounds.kit.send()
    status = rounds.kit.unit("victim")["status"]
    assert (status["phase"], rounds.kit.used()) == ("Dequeued", 2000)
    asked = {**before["admissions"][0], "reclaimState": {"replicas": 1}}
    assert status["admissions"] == [asked]
    evicted = rounds.evicted("victim")
    assert (evicted["status"], evicted["reason"]) == ("True", "Preempted")
    assert read_for_whom(evicted["message"]) == "default/preemptor"
    reported = [(each.key, each.reason, each.warning) for each in rounds.notices]
    assert reported == [
        ("default/victim", "Preempted", True),
        ("default/preemptor", "Preempting", False),
    ]
    assert rounds.counted == [("team", "Preempted", 1)]


def test_only_pods_that_do_not_run_are_reclaimed(rounds: Rounds) -> None:
    rounds.start("victim", cpu=2)
    some = {"name": "main", "replicas": 3, "running": 1, "resources": {"cpu": "2"}}
    rounds.kit.direct.patch(
        "queueunits", "victim", {"status": {"admissions": [some]}}, namespace="default",
        subresource="status",
    )  # fmt: skip
    rounds.kit.learn("victim")
    rounds.cycle.carry_out(rounds.preempt())
    rounds.kit.send()
    (got,) = rounds.kit.unit("victim")["status"]["admissions"]
    assert (got["running"], got["reclaimState"]) == (1, {"replicas": 2})


def test_after_a_conflict_the_choice_is_made_again(rounds: Rounds) -> None:
    rounds.start("one")
    rounds.start("two")
    decision = rounds.preempt(cpu=4)
    assert len(decision.victims) == 2
    rounds.kit.direct.patch(
        "queueunits", "one", {"metadata": {"labels": {"x": "y"}}}, namespace="default"
    )
    rounds.cycle.carry_out(decision)
    rounds.kit.send()
    assert (rounds.evicted("one"), rounds.evicted("two")["status"]) == ({}, "True")
    rounds.kit.learn("one")
    again = rounds.kit.decide()
    assert isinstance(again, Preempt)
    assert [victim.unit for victim in again.victims] == ["default/one"]
    rounds.cycle.carry_out(again)
    rounds.kit.send()
    assert rounds.evicted("one")["status"] == "True"
    assert [victims for _, _, victims in rounds.counted] == [1, 1]


def test_a_victim_changed_before_the_write_is_not_evicted(rounds: Rounds) -> None:
    rounds.start("victim")
    decision = rounds.preempt()
    delete(rounds, "victim")
    rounds.cycle.carry_out(decision)
    rounds.kit.send()
    assert rounds.counted == []
    assert isinstance(rounds.kit.decide(), Dequeue)


def delete(rounds: Rounds, name: str) -> None:
    """Delete a unit, and report that to the engine."""
    rounds.kit.direct.delete("queueunits", name, "default")
    gone = rounds.kit.engine.record(f"default/{name}")
    assert gone is not None
    rounds.kit.shared.apply(Engine.on_queue_unit_gone, gone.unit)


def test_a_preemptor_deleted_while_its_round_is_written_keeps_no_room(rounds: Rounds) -> None:
    """Evictions that were requested are not undone; the freed capacity is for any unit."""
    rounds.start("one")
    rounds.start("two")
    decision = rounds.preempt(cpu=4)
    rounds.cycle.carry_out(decision)
    delete(rounds, "preemptor")
    rounds.kit.send()
    rounds.kit.engine.validate()
    assert [rounds.evicted(name)["status"] for name in ("one", "two")] == ["True", "True"]
    assert rounds.kit.engine.nominations.by_key == {}
    for name in ("one", "two"):
        freed = {"phase": "Enqueued", "admissions": [], "conditions": []}
        rounds.kit.direct.patch(
            "queueunits", name, {"status": freed}, namespace="default", subresource="status"
        )
        rounds.kit.learn(name)
    assert isinstance(rounds.kit.decide(), Dequeue)


def test_a_victim_deleted_while_the_round_is_written_still_makes_room(
    rounds: Rounds,
) -> None:
    rounds.start("one")
    rounds.start("two")
    rounds.cycle.carry_out(rounds.preempt(cpu=4))
    delete(rounds, "one")
    rounds.kit.send()
    rounds.kit.engine.validate()
    assert rounds.evicted("two")["status"] == "True"
    assert [victims for _, _, victims in rounds.counted] == [1]
    assert not isinstance(rounds.kit.decide(), Preempt | Dequeue), "the other one already leaves"
    delete(rounds, "two")
    assert rounds.kit.dequeue().unit == "default/preemptor"


def test_a_unit_that_has_failed_five_times_rests_a_minute(rounds: Rounds) -> None:
    rounds.start("victim")
    decision = rounds.preempt()
    for _ in range(4):
        rounds.kit.shared.apply(Engine.on_preempted, decision, decision.victims)
        decision = rounds.kit.decide()
        assert isinstance(decision, Preempt)
    rounds.kit.shared.apply(Engine.on_preempted, decision, decision.victims)
    assert isinstance(rounds.kit.decide(), Refused)
    rounds.kit.clock.advance(61.0)
    assert isinstance(rounds.kit.decide(), Preempt)


# --- a plugin raises -----------------------------------------------------------------------------


def test_a_request_that_cannot_be_made_still_ends_the_round(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.start("one")
    rounds.start("two")
    decision = rounds.preempt(cpu=4)
    raise_once(monkeypatch, preemption_cycle, "build_eviction_status")
    with pytest.raises(PluginError):
        rounds.cycle.carry_out(decision)
    rounds.kit.send()
    asked = [name for name in ("one", "two") if rounds.evicted(name)]
    assert len(asked) == 1, "the other victim is asked"
    again = rounds.kit.decide()
    assert isinstance(again, Preempt), "the round has ended, and is repeated"
    rounds.cycle.carry_out(again)
    rounds.kit.send()
    assert all(rounds.evicted(name) for name in ("one", "two"))


def test_an_answer_whose_report_raises_still_ends_the_round(
    rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds.start("one")
    rounds.cycle.carry_out(rounds.preempt())
    raise_once(monkeypatch, rounds.kit.shared, "apply")
    rounds.kit.send()
    assert rounds.counted == [("team", "Preempted", 1)]


# --- messages ------------------------------------------------------------------------------------


def test_the_preemptor_learns_only_of_victims_that_were_asked(rounds: Rounds) -> None:
    """Another victim is deleted before it is asked."""
    rounds.start("one")
    rounds.start("two")
    decision = rounds.preempt(cpu=4)
    assert {victim.unit for victim in decision.victims} == {"default/one", "default/two"}
    delete(rounds, "one")
    rounds.cycle.carry_out(decision)
    rounds.kit.send()
    (reported,) = (each.note for each in rounds.notices if each.reason == "Preempting")
    assert reported == (
        "1 unit is evicted so that it can start, which it does when they have stopped: "
        "default/two (0 s of run time are lost)"
    )
