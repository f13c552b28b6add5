"""The judge of shares finds an order that use does not explain, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.engine import Engine
from queue_scheduler.preemption.borrowers import Borrowers
from queue_scheduler.queueing.turns import Turns
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.fair_use import FairUse
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import RECLAIM_POLICY, USER
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    wall_time,
)
from tests.properties.real_quotas import new_engine
from tests.simulation.share_judge import ShareJudge

pytestmark = pytest.mark.simulation


class Court:
    """An engine whose calls are judged: two quotas of eight cores below one, each with a queue."""

    def __init__(self) -> None:
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.queue_state.take_turns_by_use(600)
        self.judge = ShareJudge(self.engine)
        self.count = self.second = 0
        self.call(Engine.on_quota, build_quota("top", cpu=8))
        for name in ("a", "b"):
            self.call(Engine.on_quota, build_quota(name, cpu=8, parent="top"))
            self.call(Engine.on_queue, build_queue(name, "Fair"))
        self.pass_time(0)

    def pass_time(self, seconds: int) -> None:
        self.second += seconds
        self.call(Engine.on_time, self.now())

    def now(self) -> datetime:
        return wall_time(WALL + self.second)

    def call(self, fact: Callable[..., object], *args: object) -> object:
        self.count += 1
        call = EngineCall(self.count, WALL, fact.__name__, args)
        self.judge.before(call)
        answer = play(self.engine, call)
        assert not isinstance(answer, Exception), answer
        self.judge.after(call, answer)
        self.judge.check()
        return answer

    def ask(self, user: str, quota: str, cpu: int = 1) -> None:
        name, labels = f"{user}{self.count}", {USER: user}
        unit = build_unit(name, quota, created=self.count, labels=labels, cpu=cpu)
        self.call(Engine.on_queue_unit, unit)

    def start(self, queue: str) -> None:
        answer = self.decide(queue)
        assert isinstance(answer, Dequeue), answer

    def decide(self, queue: str) -> object:
        return self.call(Engine.decide_next, queue, float(self.second), self.now())

    def run(self, name: str, quota: str, cpu: int) -> None:
        """Add a unit that runs from now on."""
        unit = admitted(build_unit(name, quota, cpu=cpu), 1, "Running")
        since = rfc3339(self.now())
        self.call(Engine.on_queue_unit, changed(unit, 1, last_allocate_time=since))

    def reclaim(self) -> object:
        """Let a quota that has lent all of its min ask for a core.

        `old` is of the quota that has used the most; `new` has run the shortest.
        """
        for name, quota, seconds in (("old", "a", 3600), ("new", "b", 60)):
            self.run(name, quota, 4)
            self.pass_time(seconds)
        owner = build_quota("owner", cpu=8, guaranteed=4, parent="top")
        meta = with_fields(owner.metadata, annotations={RECLAIM_POLICY: "Any"})
        self.call(Engine.on_quota, with_fields(owner, metadata=meta))
        self.call(Engine.on_queue, build_queue("owner"))
        self.ask("ann", "owner")
        return self.decide("owner")


def test_accounts_that_go_by_use_are_right() -> None:
    court = Court()
    for user in ("ann", "ann", "bob"):
        court.ask(user, "a")
    court.start("a")
    court.start("a")


def test_accounts_that_stand_where_they_stood_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FairUse, "_note_moved", lambda *_: None)
    court = Court()
    for user in ("ann", "ann", "bob"):
        court.ask(user, "a")
    with pytest.raises(AssertionError, match="accounts: ns/bob"):
        court.start("a")


def test_queues_that_take_turns_by_use_are_right() -> None:
    court = Court()
    for quota in ("a", "a", "b", "b"):
        court.ask("ann", quota)
    for queue in ("a", "b"):
        court.start(queue)


def test_a_queue_that_goes_before_one_with_less_use_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turns, "_rank_of", lambda _turns, _name, turn: turn.rank)
    court = Court()
    for quota, cpu in (("a", 2), ("b", 1)):
        court.ask("ann", quota, cpu)
        court.start(quota)
    for quota in ("a", "b"):
        court.ask("ann", quota)
    with pytest.raises(AssertionError, match="turns: a goes before"):
        court.start("a")


def test_a_reclaim_from_the_quota_with_the_most_use_is_right() -> None:
    answer = Court().reclaim()
    assert isinstance(answer, Preempt)
    assert [each.unit for each in answer.victims] == ["ns/old"]


def test_a_reclaim_from_a_quota_with_less_use_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(borrowers: Borrowers, *args: Any) -> None:
        before(borrowers, *args)
        tiers = vars(borrowers)["_tiers"]
        vars(borrowers)["_tiers"] = [[each for tier in tiers for each in tier]]

    before = Borrowers.__init__
    monkeypatch.setattr(Borrowers, "__init__", begin)
    with pytest.raises(AssertionError, match="reclaims: ns/new goes, and not ns/old"):
        Court().reclaim()
