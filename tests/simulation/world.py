"""A cluster with both programs in it, on one thread, in virtual time, from a seed.

Threads of the programs and the cluster's own side get turns. Chance picks who of those that have
something to do is next, so that anything may come before or after anything else. When nobody has
anything to do, time jumps to when somebody has.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from typing import Any, Final, Protocol

from shared_api.client.errors import ApiFailure, ConnectionLost
from shared_api.client.transport import Request, Response, ResponseStream
from shared_api.crds import QUEUE, QUEUE_UNIT, QUOTA_POLICY
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.object_builders import namespace_body, node_body, priority_class_body
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import parse_time
from tests.sample_jobs import QUOTA_CRD, crd
from tests.simulation.account_judge import AccountJudge
from tests.simulation.change_feed import ChangeEvent, ChangeFeed, Json
from tests.simulation.cluster_side import USER_AGENT, ClusterSide
from tests.simulation.reservation_side import ReservationSide
from tests.simulation.stepped_programs import (
    Host,
    Process,
    SteppedControllers,
    SteppedScheduler,
)
from tests.simulation.world_plan import BUDGETED, GUARDED, LIMITED, QUEUE_NAMESPACE, SHARED, Plan

NAMESPACES: Final = ("team", "other")
CLASSES: Final = {"low": -5, "high": 10}
TURN_SECONDS: Final = 0.0005
"""What every turn takes: whoever is busy all the time must not keep time from passing."""
SECONDS_OF_FIRST_DAY: Final = 300.0
"""After which a day ends in worlds with budgets."""


class CrashError(BaseException):
    """A process ends here and now; not an Exception, so that nobody handles it."""


def _is_in(seed: int, which: tuple[int, int]) -> bool:
    return seed % which[0] == which[1]


def _until_day_ends(clock: VirtualClock) -> float:
    now = clock.now()
    day = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    return (day - now).total_seconds()


class Turn(Protocol):
    """Whoever gets turns."""

    name: str

    @property
    def due(self) -> float:
        """From when on."""

    def run_once(self) -> None:
        """Do a bounded piece of work."""


class Wire:
    """A process's way to the API server: it can be cut, and a process may die with a write on it.

    Attributes:
        dies_with_a_write: at its next write the process crashes, and that write arrives later.
    """

    def __init__(self, server: FakeApiServer, late: Callable[[Request], None]) -> None:
        self.is_cut = False
        self.dies_with_a_write = False
        self._server = server
        self._late = late

    def send(self, request: Request, timeout_seconds: float) -> Response:
        self._check()
        if self.dies_with_a_write and request.method == "PATCH":
            self._late(request)
            raise CrashError
        return self._server.send(request, timeout_seconds)

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        self._check()
        return self._server.stream(request, timeout_seconds)

    def close(self) -> None:
        """Nothing is kept open."""

    def _check(self) -> None:
        if self.is_cut:
            raise ConnectionLost("the network is cut", sent=False)


@dataclass
class _Place:
    """Where a process runs; it is started again there when it ends."""

    name: str
    starts: int = 0
    process: Process | None = None
    wire: Wire | None = None
    starts_at: float = 0.0


@dataclass(order=True)
class _Late:
    at: float
    number: int
    actor: str = field(compare=False)
    request: Request = field(compare=False)


class World:
    """The objects, the clock, and everybody who acts.

    Attributes:
        rng: the chance of everything that the simulation itself decides.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        drawn, has_guards = Plan.draw(self.rng), _is_in(seed, GUARDED)
        self.plan = replace(
            drawn,
            evicts=drawn.evicts or has_guards,
            has_limits=_is_in(seed, LIMITED),
            has_budgets=_is_in(seed, BUDGETED),
            has_guards=has_guards,
            has_shares=_is_in(seed, SHARED),
        )
        self.clock = VirtualClock()
        if self.plan.has_budgets:
            self.clock.jump_wall_clock(_until_day_ends(self.clock) - SECONDS_OF_FIRST_DAY)
        self.feed = ChangeFeed(self.clock)
        self.server = FakeApiServer(
            clock=self.clock, rng=random.Random(seed + 1), collects_garbage=False
        )
        self.direct = self.server.direct
        self.server.add_observer(self.feed.on_change)
        self._everybody: dict[str, Process] = {}
        self.judge = AccountJudge(
            self._everybody,
            self.clock.now,
            strict=self.plan.strict,
            is_min_the_limit=self.plan.mode == "min",
            has_trees=self.plan.has_trees,
            may_be_twice=self.plan.controllers > 1 and not self.plan.elects,
        )
        self.feed.listen(self.judge.take)
        self.feed.listen(self._wake_followers)
        self.cluster = ClusterSide(self.server, self.feed, self.clock, self.rng)
        self.reservations = ReservationSide(self.server, self.feed, self.cluster.after, self.rng)
        self.on_turn: Callable[[SteppedScheduler], None] = lambda _scheduler: None
        self.on_decision: Callable[[Process, Any], None] = lambda _process, _decision: None
        self._held: dict[int, float] = {}
        self._late: list[_Late] = []
        self.turns = 0
        self._comings = 0
        """How often a process has started or ended."""
        self._all_turns: tuple[tuple[int, int], list[tuple[Process | None, Turn]]] = ((0, 0), [])
        names = [f"scheduler-{n}" for n in range(self.plan.schedulers)]
        names += [f"controllers-{n}" for n in range(self.plan.controllers)]
        self._places = {name: _Place(name) for name in names}
        self._set_up()

    def _wake_followers(self, event: ChangeEvent) -> None:
        for process in self.processes:
            for follower in process.work.followers:
                if follower.plural == event.plural:
                    follower.wake()

    def _set_up(self) -> None:
        self.direct.create_all([QUEUE.body(), QUEUE_UNIT.body(), QUOTA_CRD])
        if self.plan.is_strict:
            self.direct.create(crd("reservations"))
        if self.plan.has_limits or self.plan.has_budgets:
            self.direct.create(QUOTA_POLICY.body())
        self.direct.create_all(namespace_body(name) for name in (QUEUE_NAMESPACE, *NAMESPACES))
        self.direct.create_all(priority_class_body(name, n) for name, n in CLASSES.items())
        self.direct.create_all(node_body(f"node-{n}", allocatable={"cpu": "5"}) for n in range(2))

    # --- processes ----------------------------------------------------------------------------

    @property
    def processes(self) -> list[Process]:
        """Those that run now."""
        return [each.process for each in self._places.values() if each.process is not None]

    @property
    def schedulers(self) -> list[SteppedScheduler]:
        """The schedulers that run now."""
        return [each.scheduler for each in self.processes if each.scheduler is not None]

    def places(self) -> list[str]:
        """Return the names under which processes are started again."""
        return list(self._places)

    def wire_of(self, place: str) -> Wire | None:
        """Return the connection of the process in a place, if one runs there."""
        return self._places[place].wire

    def crash(self, place: str, *, down_seconds: float = 0.0) -> None:
        """End a process without a word, and start it again after a while."""
        self._end(self._places[place], down_seconds)

    def stop(self, place: str) -> None:
        """End a process in order, and start it again."""
        where = self._places[place]
        if where.process is not None:
            with contextlib.suppress(CrashError):  # while it gives the lease up
                self._acting(where.process.name, where.process.stop)
        self._end(where, 0.0)

    def start_all(self) -> None:
        """Let those that are down come up at once."""
        for place in self._places.values():
            place.starts_at = self.clock.monotonic()

    def restart_without_election(self) -> None:
        """Leave one process of each program, and let it work without a lease."""
        self.plan = self.plan.alone()
        for place in self._places.values():
            self._end(place, 0.0)
        self._places = {each: _Place(each, 100) for each in ("scheduler-0", "controllers-0")}

    def _end(self, place: _Place, down_seconds: float) -> None:
        if place.process is not None:
            self.feed.actor = place.process.name
            self.feed.say("ends")
            for follower in place.process.work.followers:
                follower.informer.stop(0.0)
        place.process = place.wire = None
        self._comings += 1
        place.starts_at = self.clock.monotonic() + down_seconds

    def _start_due(self) -> None:
        for place in self._places.values():
            if place.process is not None and place.process.has_lost_lease:
                self._end(place, 0.0)
            if place.process is None and place.starts_at <= self.clock.monotonic():
                self._start(place)

    def _start(self, place: _Place) -> None:
        place.starts += 1
        self._comings += 1
        identity = f"{place.name}.{place.starts}"
        wire = Wire(self.server, lambda request: self._arrive_later(identity, request))
        program = place.name.partition("-")[0]
        seed = self.rng.getrandbits(32)
        host = Host(f"koord-queue-{program}", identity, wire, self.clock, seed)
        lease = f"koord-queue-{program}" if self.plan.elects else ""
        build = self._build_scheduler if program == "scheduler" else self._build_controllers
        self.feed.actor = identity
        self.feed.say("starts")
        place.wire = wire
        place.process = process = Process(host, build, lease=lease)
        self._everybody[identity] = process
        scheduler = process.scheduler
        if scheduler is not None:
            scheduler.on_turn = lambda: self.on_turn(scheduler)
            scheduler.on_decision = lambda decision: self.on_decision(process, decision)

    def _build_scheduler(self, host: Host) -> SteppedScheduler:
        return SteppedScheduler(host, self.plan.scheduler_flags, self.plan.scheduler_configuration)

    def _build_controllers(self, host: Host) -> SteppedControllers:
        return SteppedControllers(
            host, self.plan.controller_flags, self.plan.controller_configuration
        )

    def _arrive_later(self, actor: str, request: Request) -> None:
        at = self.clock.monotonic() + self.rng.uniform(0.1, 3.5)
        self._late.append(_Late(at, len(self._late), actor, request))
        self.feed.say("dies with a write on its way")

    def _deliver_late(self) -> None:
        for late in sorted(self._late):
            if late.at <= self.clock.monotonic():
                self._late.remove(late)
                self.feed.actor = late.actor
                with contextlib.suppress(ApiFailure):  # nobody hears of it
                    self.server.send(late.request, 10.0)

    # --- turns --------------------------------------------------------------------------------

    def hold(self, seconds: float) -> str:
        """Let some thread get no turn for so long; return which."""
        threads = [(p, turn) for p in self.processes for turn in p.turns()]
        if not threads:
            return "nobody"
        process, turn = self.rng.choice(threads)
        self._held[id(turn)] = self.clock.monotonic() + seconds
        return f"{process.name} {turn.name}"

    def release_held(self) -> None:
        """Let all threads have their turns again."""
        self._held.clear()

    def touch_watches(self) -> None:
        """Let every informer look at its watch: something has happened to it."""
        for process in self.processes:
            for follower in process.work.followers:
                follower.wake()

    def run(self, turns: int, seconds: float) -> int:
        """Give so many turns, or let so much time pass, whatever comes first.

        Returns how many turns were taken.
        """
        until = self.clock.monotonic() + seconds
        for taken in range(turns):
            now = self.clock.monotonic()
            self._start_due()
            if self._late:
                self._deliver_late()
            ready, soonest = self._look(now)
            if ready:
                self._give(*self.rng.choice(ready))
                continue
            soonest = max(min(soonest, until), now)
            self.clock.advance(soonest - now)
            if soonest >= until:
                return taken
        return turns

    def _look(self, now: float) -> tuple[list[tuple[Process | None, Turn]], float]:
        """Return who has something to do now, and else from when on somebody has."""
        ready: list[tuple[Process | None, Turn]] = []
        soonest = inf
        held = self._held
        for pair in self._turns():
            due = pair[1].due
            if held and due < held.get(id(pair[1]), -inf):
                due = held[id(pair[1])]
            if due <= now:
                ready.append(pair)
            elif due < soonest:
                soonest = due
        for late in self._late:
            soonest = min(soonest, late.at)
        for place in self._places.values():
            if place.process is None:
                soonest = min(soonest, place.starts_at)
        return ready, soonest

    def _turns(self) -> list[tuple[Process | None, Turn]]:
        """Return everybody, in an order that repeats; made anew when somebody has come or gone."""
        processes = self.processes
        count = sum(len(each.host.threads) + len(each.work.followers) for each in processes)
        made_of = (self._comings, count)
        if self._all_turns[0] != made_of:
            everybody: list[tuple[Process | None, Turn]] = [(None, self.cluster)]
            everybody += [(process, turn) for process in processes for turn in process.turns()]
            self._all_turns = (made_of, everybody)
        return self._all_turns[1]

    def _give(self, process: Process | None, turn: Turn) -> None:
        self.turns += 1
        self.clock.advance(TURN_SECONDS)
        try:
            self._acting("cluster" if process is None else process.name, turn.run_once)
        except CrashError:
            place = next(each for each in self._places.values() if each.process is process)
            self._end(place, 0.0)

    def _acting(self, actor: str, do: Callable[[], object]) -> None:
        self.feed.actor = actor
        do()

    # --- what there is ------------------------------------------------------------------------

    def all(self, plural: str) -> dict[str, Json]:
        """Return all objects of a kind by their keys."""
        return self.feed.all(plural)

    def seconds_since(self, timestamp: str) -> float:
        """Return how long ago a time of an object was."""
        return (self.clock.now() - parse_time(timestamp)).total_seconds()

    def is_quiet(self) -> bool:
        """Return whether every cache is up to date, and no write is under way."""
        for process in self.processes:
            behind = any(
                self.feed.last_change(each.plural) > each.seen for each in process.work.followers
            )
            if behind or process.work.is_writing():
                return False
        return True


def is_program(info: RequestInfo) -> bool:
    """Return whether a request is one of the programs'; for faults."""
    return info.user_agent != USER_AGENT
