"""Both programs as they are wired in production, with threads that are given their turns.

A `SteppedProgram` is one process. Its threads rest as real ones do, until the rest that their step
asked for is over or they are woken, so a forgotten wake-up stays forgotten. What a step raises is
not caught. After a crash the steps are no longer called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final, TypeVar, cast

from queue_controllers.configuration import Configuration
from queue_controllers.configuration import Flags as ControllerFlags
from queue_controllers.extension_list import find_extensions
from queue_controllers.watches.informers import InformerFactory
from queue_controllers.wiring import Controllers
from queue_scheduler.configuration import Flags, KoordQueueConfiguration
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.queue_worker import QueueWorker
from queue_scheduler.debug_api.additions import NoAdditions
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.audit import Kind
from queue_scheduler.engine.engine import Engine
from queue_scheduler.setup.additions import SchedulerParts
from queue_scheduler.setup.plugin_handle import PluginHandle
from queue_scheduler.wiring import Scheduler
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.transport import Transport
from shared_api.client.write_dispatcher import OnOutcome, WriteDispatcher
from shared_api.client.writes import Write
from shared_api.debug_api.server import DebugServer
from shared_api.evictions import BUDGET_SPENT
from shared_api.informer.indexed_store import ApiObject
from shared_api.informer.shared_informer import SharedInformer
from shared_api.leader_election import LeaderElector, LeaseSettings, SoleLeader
from shared_api.leader_warmup import LeaderWarmup
from shared_api.lease_lock import ApiLeaseLock
from shared_api.process.connection_gate import Spawn
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.program import Program
from shared_api.queue_unit_phases import EVICTED, is_being_evicted
from shared_api.testing.virtual_clock import VirtualClock
from tests.simulation.replayed_engine import ReplayedEngine
from tests.simulation.world_plan import QUEUE_NAMESPACE
from tests.stepped_host import HostParts

LEASE: Final = LeaseSettings(
    lease_seconds=45, renew_deadline_seconds=30.0, retry_seconds=9.0, settle_seconds=4.0
)
"""Three times the defaults, to have fewer renewals to play."""
BLIND_SECONDS: Final = 3.0
"""How long an informer rests that found nothing, where no object of its kind has changed: for the
bookmarks, and the end, of its watch."""
ObjectT = TypeVar("ObjectT", bound=ApiObject)


class _NoDebugServer(DebugServer):
    """Listens to nothing."""

    def __init__(self) -> None:
        pass

    def threads(self, spawn: Spawn) -> list[LoopThread]:
        return []

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass


class SteppedThread(LoopThread):
    """A thread that rests as a real one does, and is run by its holder."""

    def __init__(self, name: str, step: Step, clock: VirtualClock) -> None:
        super().__init__(name, step, clock)
        self.step = step
        self.clock = clock
        self.due = inf
        """When its step may next be called; infinite until it is woken."""
        self._is_started = False
        self._is_running = False
        self._was_woken = False

    def start(self) -> None:
        self._is_started = True
        self.due = self.clock.monotonic()

    def wake(self) -> None:
        self._was_woken = True
        if self._is_started:
            self.due = min(self.due, self.clock.monotonic())

    def request_stop(self) -> None:
        self._is_started = False
        self.due = inf

    def stop(self, timeout_seconds: float = 0.0) -> bool:
        self.request_stop()
        return True

    def is_alive(self) -> bool:
        return self._is_started

    @property
    def is_resting(self) -> bool:
        return not self._is_running

    def run_once(self) -> None:
        """Run one step, and rest as it says."""
        self._was_woken = False
        self._is_running = True
        rest = self.step()
        self._is_running = False
        if self._is_started:
            now = self.clock.monotonic()
            self.due = now if self._was_woken else inf if rest is None else now + rest


class Host(HostParts):
    """What a process is around its work."""

    def __init__(
        self, component: str, identity: str, wire: Transport, clock: VirtualClock, seed: int
    ) -> None:
        leader = SoleLeader(identity)
        super().__init__(wire, clock, leader, component=component, identity=identity, seed=seed)
        self.threads: list[SteppedThread] = []

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        thread = SteppedThread(name, step, self.clock)
        self.threads.append(thread)
        return thread


class Follower:
    """Gives an informer its turns: when an object of its kind has changed, or its rest is over.

    Attributes:
        due: when its step may next be called.
    """

    def __init__(self, informer: SharedInformer[Any], plural: str, clock: VirtualClock) -> None:
        self.informer = informer
        self.plural = plural
        self.name = f"informer-{plural}"
        self.due = -inf
        self._clock = clock

    @property
    def seen(self) -> int:
        """The version up to which its handlers have seen every change; 0: nothing yet."""
        return int(self.informer.last_resource_version or 0)

    def wake(self) -> None:
        """Look at the watch: there may be a change."""
        self.due = -inf

    def run_once(self) -> None:
        """Run one step of the informer."""
        before = self.informer.last_resource_version
        rest = self.informer.step()
        if self.informer.last_resource_version == before and not 0 < rest < BLIND_SECONDS:
            # Nothing came: it is woken for the next change of its stream, and waits for the rest.
            rest = BLIND_SECONDS
        self.due = self._clock.monotonic() + rest


class SteppedWork:
    """What the two programs share here.

    Attributes:
        followers: the caches, as threads.
    """

    _warmup: LeaderWarmup
    _dispatcher: WriteDispatcher

    def __init__(self, host: Host) -> None:
        self.followers: list[Follower] = []
        self._stepped_host = host

    def is_deciding(self) -> bool:
        """Return whether it leads and has taken over."""
        return self._warmup.may_write()

    def is_writing(self) -> bool:
        """Return whether a write is pending or in flight. The controllers' writes are events."""
        return any(self._dispatcher.counts())

    def validate(self) -> None:
        """Recompute derived values; raise AssertionError where they differ."""
        self._dispatcher.validate()

    def follow(
        self, informer: SharedInformer[ObjectT], resource_type: ResourceType[ObjectT]
    ) -> SharedInformer[ObjectT]:
        """Give an informer its turns from now on; return it."""
        clock = self._stepped_host.clock
        self.followers.append(Follower(informer, resource_type.plural, clock))
        return informer


class RecordedCalls:
    """Has the scheduler log the calls of its engine.

    Attributes:
        calls: The log; None until the scheduler is built.
    """

    records_calls = True
    other_program = None

    def __init__(self) -> None:
        self.calls: CallLog | None = None

    def attach(self, parts: SchedulerParts) -> RecordedCalls:
        """Take the log."""
        self.calls = parts.calls
        return self

    def end(self) -> None:
        """There is nothing to end."""

    def close(self) -> None:
        """There is nothing to close."""

    def debug_additions(self, _state: StateAnswers) -> NoAdditions:
        """Add nothing to the debug API."""
        return NoAdditions()


class SteppedScheduler(SteppedWork, Scheduler):
    """The scheduler without its debug API, which listens on a socket; its parts can be inspected.

    Attributes:
        on_turn: called before each turn of a queue's worker.
        on_decision: called with each decision to start or evict units, before it is written.
        knew: what the caches had seen when a write of an object was last requested, by its key.
        differences: what its self-audit has found, which repairs it.
    """

    def __init__(self, host: Host, flags: Flags, configuration: KoordQueueConfiguration) -> None:
        SteppedWork.__init__(self, host)
        self.on_turn: Callable[[], None] = lambda: None
        self.on_decision: Callable[[Dequeue | Preempt], None] = lambda _decision: None
        recorded = RecordedCalls()
        Scheduler.__init__(self, cast("Program", host), flags, configuration, (recorded,))
        self.knew: dict[str, dict[str, int]] = {}
        self.differences: list[Kind] = []
        assert recorded.calls is not None, "it is attached"
        self._replayed = ReplayedEngine(self._shared, recorded.calls)
        self._wrong_stops: list[str] = []

        def count(kind: Kind) -> None:
            self.differences.append(kind)

        self._metrics.on_audit_difference = count  # type: ignore[method-assign] # sees what is found
        submit = self._dispatcher.submit

        def note(write: Write[Any], on_outcome: OnOutcome) -> None:
            seen = {each.plural: each.seen for each in self.followers}
            self.knew[f"{write.namespace}/{write.name}"] = seen
            if _is_stop(write):
                self._judge_stop(f"{write.namespace}/{write.name}")
            submit(write, on_outcome)

        self._dispatcher.submit = note  # type: ignore[method-assign] # sees the writes of all users

    @property
    def engine(self) -> Engine:
        """Its engine."""
        return self._shared.ask(lambda engine: engine)

    def is_writing(self) -> bool:
        """Return whether a write is pending or in flight, or its outcome is not known yet."""
        granted = (record.granting for record in self.engine.units.records.values())
        return super().is_writing() or any(each is not None for each in granted)

    def validate(self) -> None:
        """Recompute derived values; raise AssertionError if they differ, or the audit found any."""
        self.engine.validate()
        assert not self.differences, f"the self-audit found {self.differences}"
        assert not self._wrong_stops, self._wrong_stops[0]
        self._replayed.check()
        super().validate()

    def check_stopped(self, wall: int) -> None:
        """Raise AssertionError if a unit runs on whose budget was spent long ago."""
        self._replayed.check_stopped(wall)

    def _judge_stop(self, key: str) -> None:
        record = self.engine.record(key)
        if record is None or is_being_evicted(record.unit):
            return  # what is written repeats it
        try:
            self._replayed.check_stop(key)
        except AssertionError as error:
            self._wrong_stops.append(str(error))

    def _informer(
        self, resource_type: ResourceType[ObjectT], *args: Any, **settings: Any
    ) -> SharedInformer[ObjectT]:
        return self.follow(super()._informer(resource_type, *args, **settings), resource_type)

    def _build_debug(self, flags: Flags, handle: PluginHandle) -> DebugServer:
        return _NoDebugServer()

    def _carry_out(self, decision: Dequeue | Preempt) -> None:
        self._replayed.on_decision(decision)
        self.on_decision(decision)
        super()._carry_out(decision)

    def _start_worker(self, queue: str, worker: QueueWorker) -> LoopThread:
        def turn() -> float | None:
            self.on_turn()
            return worker.step()

        thread = self._program.spawn(f"queue/{queue}", turn)
        thread.start()
        return thread


def _is_stop(write: Write[Any]) -> bool:
    """Return whether a write evicts a unit since a budget is spent."""
    conditions = write.body.get("status", {}).get("conditions") or ()
    wanted = (EVICTED, "True", BUDGET_SPENT)
    return any((each["type"], each["status"], each.get("reason")) == wanted for each in conditions)


class SteppedControllers(SteppedWork, Controllers):
    """The controllers."""

    def __init__(self, host: Host, flags: ControllerFlags, configuration: Configuration) -> None:
        SteppedWork.__init__(self, host)
        informers = _FollowedInformers(host, self)
        found = find_extensions()
        Controllers.__init__(
            self, host, flags, configuration, found, informers, makers=found.values()
        )


class _FollowedInformers(InformerFactory):
    """Makes informers that are woken by changes of their kind."""

    def __init__(self, host: Host, work: SteppedWork) -> None:
        super().__init__(host, 0.0)
        self._work = work

    def make(
        self, resource_type: ResourceType[ObjectT], *args: Any, **settings: Any
    ) -> SharedInformer[ObjectT]:
        return self._work.follow(super().make(resource_type, *args, **settings), resource_type)


Work = SteppedScheduler | SteppedControllers


class Process:
    """A program from its start to its end.

    Attributes:
        decided: what its caches had seen when it last decided on a unit, by the unit's key.
        decided_queue: the queue in which it last decided on a unit, by the unit's key.
        has_lost_lease: whether it led, and must end.
    """

    def __init__(self, host: Host, build: Callable[[Host], Work], *, lease: str = "") -> None:
        """Start it; with the name of a lease it works once it has won that lease."""
        self.host = host
        self.name = host.identity
        self.decided: dict[str, dict[str, int]] = {}
        self.decided_queue: dict[str, str] = {}
        self.has_lost_lease = False
        self._elector = self._build_elector(lease) if lease else None
        if self._elector is not None:
            host.leadership = self._elector
            host.spawn("leader-election", self._elector.step)
        self.work = build(host)
        for thread in host.threads:
            thread.start()

    @property
    def elects(self) -> bool:
        """Whether another process takes over only when this one's lease has expired."""
        return self._elector is not None

    @property
    def scheduler(self) -> SteppedScheduler | None:
        """Its work, if it is a scheduler."""
        return self.work if isinstance(self.work, SteppedScheduler) else None

    def turns(self) -> Iterator[SteppedThread | Follower]:
        """Iterate over what can be given a turn, in a reproducible order."""
        yield from self.work.followers
        yield from self.host.threads

    def seen(self) -> dict[str, int]:
        """Return how far each cache is, by plural."""
        return {each.plural: each.seen for each in self.work.followers}

    def stop(self) -> None:
        """End in order: writes in flight end, and the lease is given up."""
        self.work.stop()
        if self._elector is not None:
            self._elector.release()

    def _build_elector(self, lease: str) -> LeaderElector:
        host = self.host
        flow = FlowControl(0, 1, host.clock, can_be_held=False)
        client = ResourceClient(
            host.wire, flow=flow, clock=host.clock, rng=host.rng, request_timeout_seconds=4.0
        )
        return LeaderElector(
            ApiLeaseLock(client, QUEUE_NAMESPACE, lease),
            host.identity,
            LEASE,
            clock=host.clock,
            rng=host.rng,
            on_started_leading=lambda: self.work.on_started_leading(),  # noqa: PLW0108 - made later
            on_stopped_leading=self._on_stopped_leading,
        )

    def _on_stopped_leading(self, _reason: str) -> None:
        self.has_lost_lease = True
