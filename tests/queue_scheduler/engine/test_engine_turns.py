"""Room that many wait for is offered in turn: the first is asked, the others only after it."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, Refused, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import WAIT_FOR_PODS_RUNNING
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
)

TEAMS = "abcd"


class Contest:
    """Four teams under one quota of four cores, each with a running unit and waiting ones."""

    def __init__(self) -> None:
        quotas = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
        self.engine = Engine(PluginRunner([quotas, Priority()]), BUILT_IN_POLICIES)
        self.workers = Workers(self.engine)
        self.engine.on_quota(build_quota("top", cpu=4))
        for number, team in enumerate(TEAMS):
            self.engine.on_quota(build_quota(team, cpu=9, parent="top"))
            self.workers.wake(self.engine.on_queue(build_queue(team)))
            self.add(build_unit(f"{team}-runs", team, created=number))
        self.running = {d.unit: d for d in self.run()}
        assert len(self.running) == len(TEAMS)
        for number in range(3):
            self.add(*(build_unit(f"{team}{number}", team, created=number) for team in TEAMS))
        self.run()

    def add(self, *units: QueueUnit) -> None:
        for unit in units:
            self.workers.wake(self.engine.on_queue_unit(unit))

    def run(self) -> list[Dequeue]:
        self.workers.decided.clear()
        started = [each for each in self.workers.run() if isinstance(each, Dequeue)]
        self.engine.validate()
        return started

    def end(self, unit: str) -> list[str]:
        """Let a unit end; return the units that start then, each written at once."""
        decision = self.running.pop(f"ns/{unit}")
        record = self.engine.record(decision.unit)
        assert record is not None
        if record.state is UnitState.ASSUMED:
            written = admitted(record.unit, record.version + 1)
            self.workers.wake(self.engine.on_written(decision, written))
            record = self.engine.record(decision.unit)
            assert record is not None
        ended = changed(record.unit, record.version + 1, "Succeed")
        self.workers.wake(self.engine.on_queue_unit(ended))
        return self.go_on()

    def go_on(self) -> list[str]:
        started = self.run()
        self.running.update((decision.unit, decision) for decision in started)
        return [decision.unit.removeprefix("ns/") for decision in started]

    @property
    def refused(self) -> list[str]:
        """Return the queues that were asked in vain."""
        return [each.queue for each in self.workers.decided if isinstance(each, Refused)]


@pytest.fixture
def contest() -> Contest:
    return Contest()


def test_room_for_one_is_offered_to_one(contest: Contest) -> None:
    turns = []
    for team in TEAMS:
        turns += contest.end(f"{team}-runs")
        # Only the queue that has just started a unit asks on, for its next unit.
        assert contest.refused == [turns[-1][0]]
    assert turns == ["a0", "b0", "c0", "d0"]
    assert contest.end("c0") == ["a1"]


def start_wide(contest: Contest) -> None:
    """Two cores come free, and the first of a takes both: the others of a are another class."""
    contest.add(build_unit("wide", "a", cpu=2, priority=9))
    contest.run()
    turns = [contest.end(f"{team}-runs") for team in TEAMS]
    assert turns == [["a0"], ["b0"], ["c0"], ["d0"]], "a unit that needs more keeps its turn"
    decision = contest.running.pop("ns/b0")
    record = contest.engine.record(decision.unit)
    assert record is not None
    # No queue has been asked yet when there is room for two.
    contest.workers.wake(contest.engine.on_queue_unit_gone(record.unit))
    assert contest.end("c0") == ["wide"]


def test_a_queue_that_backs_off_holds_no_other_up(contest: Contest) -> None:
    start_wide(contest)
    decision = contest.running.pop("ns/wide")
    failed = contest.engine.on_write_failed(decision, WriteFailure.REJECTED, retry_at=5.0)
    contest.workers.wake(failed)
    assert contest.go_on() == ["b1", "c1"]


def test_a_queue_that_waits_for_pods_holds_no_other_up(contest: Contest) -> None:
    waits = build_queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    contest.workers.wake(contest.engine.on_queue(waits))
    running = admitted(contest.engine.units.records["ns/a-runs"].unit, 50, "Running")
    contest.add(running)
    assert contest.go_on() == []
    # Another writer starts one of a, so the others of it wait for its pods, asleep as they are.
    contest.add(admitted(build_unit("theirs", "a", cpu=1), 51))
    assert contest.end("b-runs") == []
    assert contest.end("c-runs") == ["b0"]


def test_a_queue_of_raised_priority_is_offered_room_first(contest: Contest) -> None:
    contest.workers.wake(contest.engine.on_queue(build_queue("d", priority=1)))
    contest.run()
    assert [contest.end("a-runs"), contest.end("b-runs")] == [["d0"], ["d1"]]


def test_a_unit_that_precedes_sleeping_ones_is_started_first(contest: Contest) -> None:
    contest.add(build_unit("urgent", "a", priority=9))
    contest.run()
    assert contest.end("b-runs") == ["urgent"]


def test_a_fork_offers_independently(contest: Contest) -> None:
    twin = Workers(contest.engine.fork())
    ended = changed(contest.engine.units.records["ns/a-runs"].unit, 99, "Succeed")
    twin.wake(twin.engine.on_queue_unit(ended))
    [decision] = (each for each in twin.run() if isinstance(each, Dequeue))
    assert decision.unit == "ns/a0"
    assert contest.go_on() == []
