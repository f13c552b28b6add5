"""The judge of shares finds an order that use does not explain, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.turns import Turns
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.fair_use import FairUse
from shared_api.well_known_labels import USER
from tests.properties.engine_kit import WALL, build_queue, build_quota, build_unit, wall_time
from tests.properties.real_quotas import new_engine
from tests.simulation.share_judge import ShareJudge

pytestmark = pytest.mark.simulation


class Court:
    """An engine whose calls are judged: two quotas of eight cores below one, each with a queue."""

    def __init__(self) -> None:
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.queue_state.take_turns_by_use(600)
        self.judge = ShareJudge(self.engine)
        self.count = 0
        self.call(Engine.on_quota, build_quota("top", cpu=8))
        for name in ("a", "b"):
            self.call(Engine.on_quota, build_quota(name, cpu=8, parent="top"))
            self.call(Engine.on_queue, build_queue(name, "Fair"))
        self.call(Engine.on_time, wall_time(WALL))

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
        answer = self.call(Engine.decide_next, queue, 0.0, wall_time(WALL))
        assert isinstance(answer, Dequeue), answer


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
