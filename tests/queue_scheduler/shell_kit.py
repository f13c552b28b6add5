"""The shells of the scheduler over the fake API server, every step called on one thread.

`ShellKit` has what most shells are built on, and no thread: a server, a client, the dispatcher,
and the real engine with the real quota plugin in `max` mode. What a test creates on the server
it tells the engine itself (`learn`), as informers would.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, TypeVar

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.dequeue_cycle import DequeueCycle
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.client.errors import ApiError
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUE_UNITS, QUEUES
from shared_api.client.write_dispatcher import (
    Outcome,
    Rejected,
    Write,
    WriteDispatcher,
    Written,
)
from shared_api.client.writes import WriteSink
from shared_api.crds import QUEUE, QUEUE_RESERVATION, QUEUE_UNIT, QUOTA_POLICY
from shared_api.fake_api_server.direct_access import DirectAccess
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota_body, queue_body, queue_unit_body
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.work_queue import WorkQueue
from tests.object_states import condition_of
from tests.sample_jobs import QUOTA_CRD
from tests.stepped_host import exhaust

Json = dict[str, Any]
T = TypeVar("T")

QUEUE_NAMESPACE = "koord-queue"
UNIT_STATUS = Match(plural="queueunits", subresource="status")
QUEUE_STATUS = Match(plural="queues", subresource="status")


def new_server(clock: VirtualClock, *, quotas: bool = True, policies: bool = True) -> FakeApiServer:
    """Return a server with our CRDs and the queues' namespace; without those of some kinds."""
    server = FakeApiServer(clock=clock, rng=random.Random(7))
    crds = [QUEUE.body(), QUEUE_UNIT.body(), *([QUOTA_CRD] if quotas else [])]
    optional = [QUOTA_POLICY.body(), QUEUE_RESERVATION.body()]
    server.direct.create_all([*crds, *(optional if policies else [])])
    server.direct.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": QUEUE_NAMESPACE}}
    )
    return server


class SentEvents:
    """A `NoticeSink` that keeps what it gets: (kind, key, reason)."""

    def __init__(self) -> None:
        self.reported: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.warnings: list[bool] = []

    def record(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool
    ) -> None:
        self.reported.append((kind, key, reason))
        self.notes.append(note)
        self.warnings.append(warning)


class HeldWrites:
    """A `WriteSink` that keeps writes; the test says what becomes of each."""

    def __init__(self) -> None:
        self.writes: list[Write[Any]] = []
        self._told: list[Callable[[Outcome[Any]], None]] = []

    def submit(self, write: Write[Any], on_outcome: Callable[[Outcome[Any]], None]) -> None:
        self.writes.append(write)
        self._told.append(on_outcome)

    def settle(self, outcome: Outcome[Any]) -> None:
        """Say what became of the oldest write that is not settled."""
        self._told.pop(0)(outcome)


class ServedUnits:
    """The units that a server has, all in one namespace."""

    direct: DirectAccess

    def unit(self, name: str) -> Json:
        """Return a unit as the server has it."""
        return self.direct.get("queueunits", name, "default")

    def phase(self, name: str) -> str:
        """Return a unit's phase on the server."""
        return str(self.unit(name)["status"]["phase"])

    def reason(self, name: str) -> str:
        """Return the reason of QuotaReserved=False, "" where there is none."""
        found = condition_of(self.unit(name), "QuotaReserved")
        return str(found["reason"]) if found.get("status") == "False" else ""


class ShellKit(ServedUnits):
    """Server, client, dispatcher and engine, and what tests do with them."""

    def __init__(self, *, strict: StrictMode = NOT_STRICT) -> None:
        self.clock = VirtualClock()
        self.server = new_server(self.clock)
        self.direct = self.server.direct
        flow = FlowControl(0, 1, self.clock)
        rng = random.Random(3)
        self.client = ResourceClient(self.server, flow=flow, clock=self.clock, rng=rng)
        self.leads = True
        self.dispatcher = WriteDispatcher(
            self.client,
            flow=flow,
            clock=self.clock,
            writable_seconds=lambda: inf if self.leads else 0.0,
        )
        self._writer = self.dispatcher.new_worker()
        plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
        self.engine = Engine(PluginRunner([plugin, Priority()]), BUILT_IN_POLICIES, strict)
        self.woken: list[str] = []
        self.shared = SharedEngine(self.engine, self._on_wake)
        self.noted: list[Any] = []
        self.reported: list[Notice] = []
        self.unreadable: set[str] = set()

    def work_queue(self) -> WorkQueue[Any]:
        """Return a queue of keys whose retries come after a second."""
        return WorkQueue(self.clock, backoff=lambda _attempt: 1.0)

    def may_write(self) -> bool:
        """Return whether this replica leads."""
        return self.leads

    def note_written(self, written: object) -> None:
        """Take the answer to a write, as an informer would."""
        self.noted.append(written)

    def is_readable(self, key: str) -> bool:
        """Return whether an object can be read, as an informer would."""
        return key not in self.unreadable

    def send(self) -> None:
        """Send all that was submitted."""
        exhaust(self._writer.step)

    def _on_wake(self, queues: Iterable[str]) -> None:
        self.woken.extend(queues)

    # --- arranging ----------------------------------------------------------------------------

    def add_quota(self, name: str, cpu: int, **more: Any) -> None:
        """Create a quota of so many cpu, and a queue of its name, and tell the engine."""
        body = elastic_quota_body(name, max={"cpu": cpu}, min={"cpu": cpu}, **more)
        self.direct.create(body)
        self.shared.apply(
            Engine.on_quota, self.client.get(ELASTIC_QUOTAS, body["metadata"]["namespace"], name)
        )
        self.add_queue(name)

    def add_queue(self, name: str, policy: str = "Priority", **more: Any) -> None:
        """Create a queue and tell the engine."""
        self.direct.create(queue_body(name, policy=policy, **more))
        self.learn_queue(name)

    def add_unit(self, name: str, quota: str = "team", *, cpu: int = 1, **more: Any) -> QueueUnit:
        """Create a unit, tell the engine, and return it."""
        self.direct.create(queue_unit_body(name, quota=quota, requests={"cpu": cpu}, **more))
        return self.learn(name)

    def learn(self, name: str) -> QueueUnit:
        """Tell the engine of a unit as the server has it now."""
        unit = self.client.get(QUEUE_UNITS, "default", name)
        self.shared.apply(Engine.on_queue_unit, unit)
        return unit

    def learn_queue(self, name: str) -> None:
        """Tell the engine of a queue as the server has it now."""
        self.shared.apply(Engine.on_queue, self.client.get(QUEUES, QUEUE_NAMESPACE, name))

    def decide(self, queue: str = "team") -> Any:
        """Ask for the next decision of a queue."""
        return self.shared.decide_next(queue, self.clock.monotonic())

    def dequeue(self, queue: str = "team") -> Dequeue:
        """Ask for a decision that must be a Dequeue."""
        decision = self.decide(queue)
        assert isinstance(decision, Dequeue), decision
        return decision

    # --- looking ------------------------------------------------------------------------------

    def queue_status(self, name: str) -> Json:
        """Return the status of a queue on the server."""
        status: Json = self.direct.get("queues", name, QUEUE_NAMESPACE).get("status", {})
        return status

    def used(self, quota: str = "team") -> int:
        """Return what the engine has booked of a quota's cpu, in milli."""
        plugin = next(iter(self.engine.plugins))
        assert isinstance(plugin, ElasticQuotaPlugin)
        view = plugin.quotas.view(quota)
        assert view is not None
        return view.used.get("cpu", 0)

    def writes(self, plural: str = "queueunits") -> int:
        """Return how many writes of a kind the server has seen."""
        return sum(
            entry.info.is_write and entry.info.plural == plural for entry in self.server.journal
        )


def rejected(error: ApiError, *, after_retry: bool = False) -> Rejected:
    """Return an outcome: the server said no."""
    error.after_retry = after_retry
    return Rejected(error)


def written(thing: T) -> Written[T]:
    """Return an outcome: done."""
    return Written(thing)


def busy_kit() -> ShellKit:
    """Return one with a quota of four cores, of which three are used and two are waited for."""
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    return kit


class Admissions:
    """An `AdmissionObserver` that keeps what it gets."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        self.seen.append((queue, waited_seconds))


class Line:
    """A kit with its cycle, and the outcomes of its decisions."""

    def __init__(self, kit: ShellKit, writes: WriteSink | None = None) -> None:
        self.kit = kit
        self.observer = Admissions()
        self.unsettled = kit.work_queue()
        self.cycle = DequeueCycle(
            kit.shared,
            writes or kit.dispatcher,
            lambda namespace, name: kit.client.get(QUEUE_UNITS, namespace, name),
            kit.note_written,
            kit.clock,
            self.unsettled,
            self.observer,
        )

    def state(self, name: str) -> UnitState:
        record = self.kit.engine.record(f"default/{name}")
        assert record is not None
        return record.state

    def start(self, name: str = "a") -> Dequeue:
        """Create a unit of one CPU, decide it, and hand the decision over."""
        self.kit.add_unit(name)
        decision = self.kit.dequeue()
        self.cycle.carry_out(decision)
        return decision
