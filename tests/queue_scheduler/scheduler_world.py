"""The whole scheduler over the fake API server in virtual time, every step on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from queue_scheduler.configuration import KoordQueueConfiguration, parse_flags
from queue_scheduler.engine.engine import Engine
from queue_scheduler.wiring import Scheduler, build_scheduler
from shared_api.leader_election import Leadership, SoleLeader
from shared_api.metrics import SharedMetrics
from shared_api.process.loop_thread import Step
from shared_api.program import Program
from shared_api.testing.object_builders import elastic_quota_body, node_body, queue_unit_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json, ServedUnits, new_server
from tests.stepped_host import MOST_CALLS, SteppedHost, settle

MAX_MODE = KoordQueueConfiguration(plugin_configs={"ElasticQuotaV2": {"mode": "max"}})
TICK_SECONDS = 0.05
AnswerT = TypeVar("AnswerT")


class SchedulerWorld(ServedUnits):
    """A cluster, and what a test does in it. `stop` must be called (`running_world` does)."""

    def __init__(self, *, quotas: bool = True, policies: bool = True) -> None:
        self.clock = VirtualClock()
        self.server = new_server(self.clock, quotas=quotas, policies=policies)
        self.direct = self.server.direct
        self.direct.create(node_body("node"))
        self._host: SteppedHost | None = None
        self.scheduler: Scheduler | None = None

    def start(
        self,
        *more_flags: str,
        leadership: Leadership | None = None,
        configuration: KoordQueueConfiguration = MAX_MODE,
        settle_seconds: float = 2.0,
        arguments: Sequence[str] = (),
    ) -> None:
        """Start a scheduler, in place of the one before."""
        self.stop()
        leads = leadership or SoleLeader("test")
        self._host = SteppedHost(self.server, self.clock, leads, component="koord-queue-scheduler")
        own_flags = (f"--queue-namespace={QUEUE_NAMESPACE}", "--debug-address=127.0.0.1:0")
        flags = parse_flags([*own_flags, *more_flags])
        program = cast("Program", self._host)
        self.scheduler = build_scheduler(program, flags, configuration)
        self.settle(settle_seconds)

    def stop(self) -> None:
        """Stop the scheduler, if one runs."""
        if self.scheduler is not None and self._host is not None:
            self._host.unblock()
            self.scheduler.stop()
            self.scheduler = None

    def settle(self, seconds: float = 1.0, most: int = MOST_CALLS) -> None:
        """Call all steps, again and again, while so much time passes."""
        settle(self._steps, self.clock, seconds, tick=TICK_SECONDS, most=most)

    def _steps(self) -> Iterator[Step]:
        assert self._host is not None
        yield self._step_informers
        for thread in [each for each in self._host.threads if not each.is_stopped]:
            yield thread.step

    def _step_informers(self) -> float:
        """Do what their own threads do, which the host does not have; they rest in the watch."""
        assert self.scheduler is not None
        for informer in self.scheduler.informers:
            for _ in range(3):
                informer.step()
        return TICK_SECONDS

    # --- what people do -----------------------------------------------------------------------

    def add_quota(self, name: str = "team", cpu: int | str = 4, **more: Any) -> None:
        """Create a quota whose min is its max."""
        amounts = {"cpu": cpu}
        self.direct.create(elastic_quota_body(name, **{"min": amounts, "max": amounts, **more}))

    def add_unit(self, name: str, quota: str = "team", *, cpu: int | str = 1, **more: Any) -> None:
        """Create a unit."""
        self.direct.create(queue_unit_body(name, quota=quota, requests={"cpu": cpu}, **more))

    def finish(self, name: str) -> None:
        """End a unit, as a job side would."""
        ended = {"status": {"phase": "Succeed", "admissions": []}}
        self.direct.patch("queueunits", name, ended, namespace="default", subresource="status")

    # --- what there is ------------------------------------------------------------------------

    @property
    def metrics(self) -> SharedMetrics:
        """What the scheduler counts."""
        assert self._host is not None
        return self._host.metrics

    def ask(self, question: Callable[[Engine], AnswerT]) -> AnswerT:
        """Return the engine's answer to a question that no object answers."""
        assert self.scheduler is not None
        return self.scheduler._shared.ask(question)  # noqa: SLF001 - what it knows, not what it does

    def queue(self, name: str = "team") -> Json:
        return self.direct.get("queues", name, QUEUE_NAMESPACE)

    def events(self) -> set[tuple[str, str]]:
        """Return (name, reason) of all events."""
        events = self.direct.list("events.events.k8s.io")
        return {(event["regarding"]["name"], event["reason"]) for event in events}

    def note(self, name: str, reason: str) -> str:
        """Return the words of an event."""
        for event in self.direct.list("events.events.k8s.io"):
            if (event["regarding"]["name"], event["reason"]) == (name, reason):
                return str(event["note"])
        raise AssertionError(f"no event {reason} on {name}: {sorted(self.events())}")


@contextmanager
def running_world(*, quotas: bool = True, policies: bool = True) -> Iterator[SchedulerWorld]:
    """Give a world, and stop its scheduler afterwards."""
    world = SchedulerWorld(quotas=quotas, policies=policies)
    try:
        yield world
    finally:
        world.stop()


TOLD_SECONDS = 10.0
"""Within this time, reason, condition, and event are written: two seconds and one sweep."""

Logs = list[MutableMapping[str, Any]]


def assert_all_else_goes_on(world: SchedulerWorld) -> None:
    """Check that a unit of another quota starts at once."""
    world.add_quota("good", cpu=1)
    world.add_unit("good-unit", "good")
    world.settle(1.0)
    assert world.phase("good-unit") == "Dequeued"


def warning_of(logs: Logs, name: str, reason: str) -> str:
    """Return the message of the only warning with this reason about an object."""
    (line,) = [
        line
        for line in logs
        if line["log_level"] == "warning"
        and str(line.get("object", "")).rpartition("/")[2] == name
        and line["reason"] == reason
    ]
    return str(line["note"])


def warnings_of(logs: Logs, event: str) -> list[str]:
    """Return the errors of the warnings of one kind."""
    found = [line for line in logs if line["event"] == event and line["log_level"] == "warning"]
    return [str(line["error"]) for line in found]
