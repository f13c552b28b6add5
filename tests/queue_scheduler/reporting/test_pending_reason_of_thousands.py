"""Twenty thousand arrivals at once cost few writes, and no admission waits for one."""

from __future__ import annotations

import random
from typing import Final

import pytest

from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.decision import Dequeue, Notice
from queue_scheduler.reporting.pending_reason import (
    FIRST_UNITS,
    LATER_AT_ONCE,
    LATER_PER_SECOND,
    PendingReasonWriter,
)
from shared_api.client.flow_control import DEFAULT_BURST, DEFAULT_QPS, FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.client.write_dispatcher import WriteDispatcher
from shared_api.process.loop_thread import Step
from shared_api.testing.object_builders import queue_unit_body
from tests.queue_scheduler.shell_kit import Line, ShellKit
from tests.stepped_host import exhaust

ARRIVALS: Final = 20_000
QUEUES: Final = 4
SECONDS: Final = 20


class Crowd:
    """Units of some full queues arrive at once; the client's rate limit is the default one.

    Attributes:
        names: Of the units, by queue, in order.
    """

    def __init__(self, arrivals: int) -> None:
        self.kit = kit = ShellKit()
        flow = FlowControl(DEFAULT_QPS, DEFAULT_BURST, kit.clock)
        client = ResourceClient(kit.server, flow=flow, clock=kit.clock, rng=random.Random(3))
        dispatcher = WriteDispatcher(
            client, flow=flow, clock=kit.clock, writable_seconds=lambda: 60.0
        )
        self.send: Step = dispatcher.new_worker().step
        got: list[Notice] = []
        self.reporter = PendingReasonWriter(
            kit.shared, dispatcher, kit, got.append, kit.may_write, kit.clock, kit.work_queue()
        )
        self.cycle = Line(kit, dispatcher).cycle
        for queue in range(QUEUES):
            kit.add_quota(f"q{queue}", 4)
            kit.add_unit(f"runs-{queue}", quota=f"q{queue}", cpu=4)
            self.decide(f"q{queue}")
        exhaust(self.send)
        self.writes_before = self.writes()
        self.names = {
            f"q{queue}": self.arrive(queue, arrivals // QUEUES) for queue in range(QUEUES)
        }

    def writes(self) -> int:
        """Return how many writes of units the server has seen."""
        return self.kit.server.counts["patch", "queueunits", "status"]

    def arrive(self, queue: int, count: int) -> list[str]:
        names = [f"u{queue}-{number:05}" for number in range(count)]
        quota = f"q{queue}"
        self.kit.direct.create_all(
            [queue_unit_body(name, quota=quota, requests={"cpu": 1}) for name in names]
        )
        for name in names:
            self.reporter.on_unit_seen(self.kit.learn(name).metadata.key)
        return names

    def decide(self, queue: str) -> bool:
        decision = self.kit.decide(queue)
        if isinstance(decision, Dequeue):
            self.cycle.carry_out(decision)
        return isinstance(decision, Dequeue)

    def pass_time(self, seconds: float) -> None:
        until = self.kit.clock.monotonic() + seconds
        while self.kit.clock.monotonic() < until:
            for queue in self.names:
                while self.decide(queue):
                    pass
            exhaust(self.reporter.step, most=1000)
            exhaust(self.send, most=1000)
            self.kit.clock.advance(0.1)


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    crowd = Crowd(ARRIVALS)
    crowd.pass_time(SECONDS)
    return crowd


def test_few_reasons_are_written_and_those_are_the_first(crowd: Crowd) -> None:
    writes = crowd.writes() - crowd.writes_before
    assert writes <= QUEUES * FIRST_UNITS + LATER_AT_ONCE + SECONDS * LATER_PER_SECOND
    for names in crowd.names.values():
        assert all(crowd.kit.reason(name) == "OverQuotaMax" for name in names[:FIRST_UNITS])


def test_an_unwritten_reason_reads_waiting_and_the_debug_api_knows_why(crowd: Crowd) -> None:
    last = crowd.names["q0"][-1]
    assert crowd.kit.unit(last)["status"]["message"] == "Waiting"
    facts = Snapshots(crowd.kit.shared, crowd.kit.clock.now).unit(f"default/{last}")
    assert facts is not None
    assert facts.refusal is not None
    assert facts.refusal.reason.value == "OverQuotaMax"


def test_pending_reports_are_keys_and_no_more_than_units(crowd: Crowd) -> None:
    assert 0 < crowd.reporter.count_waiting() < ARRIVALS


def test_an_admission_passes_all_of_them(crowd: Crowd) -> None:
    """The server sees it before any further reason, although thousands of reports are pending."""
    kit = crowd.kit
    kit.clock.advance(LATER_AT_ONCE / LATER_PER_SECOND)
    crowd.reporter.step()
    seen = crowd.writes()
    ended = {"status": {"phase": "Succeed", "admissions": []}}
    kit.direct.patch("queueunits", "runs-0", ended, namespace="default", subresource="status")
    kit.learn("runs-0")
    while crowd.decide("q0"):
        pass
    exhaust(crowd.send)
    writes = [each.info.name for each in kit.server.journal if each.info.is_write]
    written = writes[seen - crowd.writes() :]
    assert written[:4] == crowd.names["q0"][:4]
    assert len(written) > 4, "no report was pending"
    assert kit.phase(crowd.names["q0"][0]) == "Dequeued"
