"""A scheduler's engine with its feed, and the engine that follows it, stepped on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from queue_insight.insight_feed.feed import InsightFeed, Replica
from queue_insight.insight_feed.feed_metrics import FeedMetrics
from queue_insight.insight_feed.messages import (
    FEED_SOCKET,
    PROTOCOL,
    Checkpoint,
    Hello,
    describe_interpreter,
)
from queue_insight.insight_program.feed_server import FeedServer
from queue_insight.insight_program.follow_metrics import FollowMetrics
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.record.digest import digest
from queue_scheduler.cycles.call_log import MAX_WAITING, CallLog
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import SystemClock
from shared_api.process.local_socket import listen_at
from shared_api.testing.object_builders import (
    elastic_quota,
    queue,
    queue_unit,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.version import VERSION

HELLO = Hello(
    protocol=PROTOCOL,
    version=VERSION,
    interpreter=describe_interpreter(),
    identity="replica-1",
    queue_namespace="koord-queue",
)


def new_engine() -> Engine:
    plugins: list[Plugin] = [ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()]
    return Engine(PluginRunner(plugins), BUILT_IN_POLICIES)


class Received(NamedTuple):
    """A recorder that remembers."""

    hellos: list[Hello]
    checkpoints: list[Checkpoint]
    calls: list[EngineCall]
    answers: list[object]

    def on_hello(self, hello: Hello) -> None:
        self.hellos.append(hello)

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        self.checkpoints.append(checkpoint)

    def on_call(self, call: EngineCall, encoded: bytes, answer: object) -> None:
        assert encoded
        self.calls.append(call)
        self.answers.append(answer)


class Sender:
    """A scheduler's engine with the quota and queue `team` of 4 CPUs, and its feed."""

    def __init__(self, folder: Path, *, hello: Hello = HELLO, most: int = MAX_WAITING) -> None:
        self.clock = VirtualClock()
        self.registry = CollectorRegistry()
        self.is_ready = True
        self.is_leader = True
        self.calls = CallLog(self.clock.now, most)
        self.shared = SharedEngine(new_engine(), lambda _: None, self.calls)
        replica = Replica(hello, lambda: self.is_leader, lambda: self.is_ready)
        metrics = FeedMetrics(self.registry)
        self.feed = InsightFeed(self.shared, self.calls, folder, replica, self.clock, metrics)
        self.shared.apply(Engine.on_quota, elastic_quota("team", max={"cpu": 4}))
        self.shared.apply(Engine.on_queue, queue("team"))

    def add_unit(self, name: str, *, cpu: int = 1) -> None:
        meta = {
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "creationTimestamp": "2026-11-01T10:00:00Z",
        }
        unit = queue_unit(name, quota="team", requests={"cpu": cpu}, metadata=meta)
        self.shared.apply(Engine.on_queue_unit, unit)

    def apply_phase(self, name: str, phase: str, *, version: int) -> None:
        meta = {"uid": f"uid-{name}", "resourceVersion": str(version)}
        body = with_status(queue_unit_body(name, quota="team", metadata=meta), phase=phase)
        self.shared.apply(Engine.on_queue_unit, to_struct(QueueUnit, body))

    def use_real_time(self) -> None:
        """Set the wall clock to the real time, which the program that follows has."""
        behind = SystemClock().now() - self.clock.now()
        self.clock.jump_wall_clock(behind.total_seconds())

    def start_next(self) -> None:
        now = self.clock
        assert isinstance(self.shared.decide_next("team", now.monotonic(), now.now()), Dequeue)

    def metric(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(f"koord_queue_insight_feed_{name}", labels)
        assert found is not None, name
        return found


@contextmanager
def sending(folder: Path) -> Iterator[Sender]:
    """Yield a scheduler's engine with its feed, which a test steps, and close its connection."""
    sender = Sender(folder)
    try:
        yield sender
    finally:
        sender.feed.close()


class Receiver:
    """The engine that follows, and its socket."""

    def __init__(self, folder: Path) -> None:
        self.registry = CollectorRegistry()
        self.received = Received([], [], [], [])
        self.engine = FollowedEngine()
        metrics = FollowMetrics(self.registry)
        listener = listen_at(folder / FEED_SOCKET)
        self.server = FeedServer(listener, self.engine, (self.received,), metrics)
        metrics.connected.set_function(lambda: float(self.server.is_connected))

    def metric(self, name: str) -> float:
        found = self.registry.get_sample_value(f"koord_queue_insight_{name}")
        assert found is not None, name
        return found


class Pair:
    """Both, in one folder."""

    def __init__(self, folder: Path, *, most: int = MAX_WAITING) -> None:
        self.folder = folder
        self.sender = Sender(folder, most=most)
        self.receiver = Receiver(folder)

    def run(self, steps: int = 10) -> None:
        """Let both step in turn; what is sent in between is small enough for the kernel."""
        for _ in range(steps):
            self.sender.feed.step()
            self.receiver.server.step()

    def is_same(self) -> bool:
        """Return whether both engines are in the same state."""
        return digest(self.sender.shared.fork()) == digest(self.receiver.engine.fork())


@contextmanager
def paired(folder: Path, *, most: int = MAX_WAITING) -> Iterator[Pair]:
    """Yield both, and close their sockets."""
    pair = Pair(folder, most=most)
    try:
        yield pair
    finally:
        pair.sender.feed.close()
        pair.receiver.server.close()
