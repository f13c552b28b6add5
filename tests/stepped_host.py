"""The process around a program's work, without a process: whoever has it calls all steps."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from math import floor, inf

from shared_api.authorization.authorizer import Authorizer
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.client.transport import Transport
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.leader_election import Leadership
from shared_api.metrics import SharedMetrics
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.program import READERS
from shared_api.testing.virtual_clock import VirtualClock


class SteppedThread(LoopThread):
    """A thread that a test runs, step by step."""

    def __init__(self, name: str, step: Step, clock: VirtualClock) -> None:
        super().__init__(name, step, clock)
        self.step = step
        self.is_started = False
        self.is_stopped = False

    def start(self) -> None:
        self.is_started = True

    def wake(self) -> None:
        """Nothing rests here."""

    def stop(self, timeout_seconds: float = 0.0) -> bool:
        self.is_stopped = True
        return True


class HostParts:
    """What a process has around its work, and no threads.

    With `spawn` it stands for `shared_api.program.Program`.

    Args:
        wire: The way to the API server.
        clock: What the work goes by.
        leadership: Whether it leads.
        component: Name of the program.
        identity: Name of the process.
        seed: Of its random numbers.
    """

    def __init__(
        self,
        wire: Transport,
        clock: VirtualClock,
        leadership: Leadership,
        *,
        component: str = "test",
        identity: str = "test",
        seed: int = 1,
    ) -> None:
        self.wire = wire
        self.clock = clock
        self.rng = random.Random(seed)
        self.flow = FlowControl(0, 1, clock)
        self.metrics = SharedMetrics(component=component, version="0", python_version="3")
        self.client = ResourceClient(
            wire, flow=self.flow, clock=clock, rng=self.rng, observer=self.metrics.rest_client
        )
        self.authorizer = Authorizer(self.client, clock, READERS)
        self.leadership = leadership
        self.identity = identity
        self.component = component
        self.port_shares = {"debug": 8}

    def on_prepared(self, seconds: float) -> None:
        self.metrics.process.on_prepared(seconds)


class SteppedHost(HostParts):
    """A host whose threads a test steps.

    Attributes:
        threads: Those that can be stepped.
        unblock: Ends what a thread that cannot be stepped, since it listens on a socket, does.
    """

    def __init__(
        self,
        wire: Transport,
        clock: VirtualClock,
        leadership: Leadership,
        *,
        component: str = "test",
    ) -> None:
        super().__init__(wire, clock, leadership, component=component)
        self.threads: list[SteppedThread] = []
        self.unblock: Callable[[], None] = lambda: None

    def spawn(
        self, name: str, step: Step, *, unblock: Callable[[], None] | None = None
    ) -> LoopThread:
        thread = SteppedThread(name, step, self.clock)
        if unblock is None:
            self.threads.append(thread)
        else:
            self.unblock = unblock
        return thread


MOST_CALLS = 200
"""Calls after which a step counts as restless: a test has few objects."""

QUIET_ROUNDS = 3
"""Rounds in which all steps rest, before `settle` believes it: a step that works in one call, and
then rests, may have woken another."""


def exhaust(step: Step, most: int = MOST_CALLS) -> float:
    """Call a step until it has nothing more to do now.

    Returns:
        Seconds from now on without work: 0.0 if the first call had some, inf until it is woken.

    Raises:
        AssertionError: It still had something to do after `most` calls.
    """
    for calls in range(most):
        rest = step()
        if rest != 0.0:
            return 0.0 if calls else inf if rest is None else rest
    raise AssertionError(f"{step} does not come to rest")


def settle(
    steps: Callable[[], Iterable[Step]],
    clock: VirtualClock,
    seconds: float,
    *,
    tick: float,
    most: int = MOST_CALLS,
    skips: bool = False,
) -> None:
    """Call all steps, again and again, while so much time passes.

    Args:
        steps: Returns those there are now; called at each tick, as threads come and go.
        clock: What the steps go by.
        seconds: How much time passes.
        tick: Seconds between two rounds.
        most: Calls of one step in a round after which it counts as restless.
        skips: Whether rounds are left out in which all steps rest, by what they have returned.
    """
    until = clock.monotonic() + seconds
    quiet = 0
    while (now := clock.monotonic()) < until:
        rest = min((exhaust(step, most) for step in steps()), default=inf)
        quiet = quiet + 1 if rest > 0.0 else 0
        ticks = 1
        if skips and quiet >= QUIET_ROUNDS:
            ticks = max(1, floor(min(rest, until - now) / tick))
        clock.advance(ticks * tick)


def writes_to(server: FakeApiServer) -> list[str]:
    """Return the writes that came in as requests, in order, events left out.

    Each as the verb, the plural and the subresource: "patch queueunits/status".
    """
    return [
        f"{entry.info.verb} {entry.info.plural}/{entry.info.subresource}".rstrip("/")
        for entry in server.journal
        if entry.info.is_write and entry.info.plural != "events"
    ]
