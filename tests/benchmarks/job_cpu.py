"""The controllers' CPU for a job of each kind, compared with a batch Job with as many pods.

A life: the job is created, reported as suspended by its operator, admitted, released, its pods are
created, bound, and run, and it ends. The number of writes by others is the same for each kind:
kinds differ only in the work of the controllers. All steps are called on one thread, with the fake
API server and the product's client without HTTP. The CPU of the server is subtracted: its calls are
timed. Many jobs live at the same time, so that the cost per step, as opposed to per job, is
negligible.

Jobs of kinds that do not end by themselves, and the Jobs compared with them, are measured until
they run.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from queue_controllers.configuration import Configuration, parse_flags
from queue_controllers.extension_list import find_extensions
from queue_controllers.wiring import build_controllers
from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.fake_api_server.watch_stream import FakeStream
from shared_api.leader_election import SoleLeader
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.benchmarks.cluster_world import CRDS
from tests.benchmarks.figures import Figure
from tests.benchmarks.job_mix import (
    PRIORITY_CLASS,
    MixedKind,
    batch_jobs,
    companions_of,
    gated_pods,
    job_body,
    kinds_of_objects,
    kinds_of_pods,
    open_crds,
    pods_of,
    status_of,
)
from tests.cluster.played_statuses import Stage
from tests.sample_jobs import SERVICE_ACCOUNTS
from tests.stepped_host import SteppedHost, settle

Json = dict[str, Any]
T = TypeVar("T")

JOBS: Final = 15
ROUNDS: Final = 12
NAMESPACE: Final = "team"
QUOTA: Final = "gold"
SETTLE_SECONDS: Final = 0.6
TICK_SECONDS: Final = 0.02
MICRO: Final = 1e6


def run(jobs: int = JOBS, rounds: int = ROUNDS) -> list[Figure]:
    """Compare every kind with Jobs of its size; for each step, the best round counts."""
    kinds = [*kinds_of_objects(), *kinds_of_pods()]
    return [_compare(each, jobs, rounds) for each in kinds if each.key != "job"]


def _compare(kind: MixedKind, jobs: int, rounds: int) -> Figure:
    """Measure a kind and Jobs of its size in turn; for each step, the best round counts."""
    control = batch_jobs(kind.pods, ends=kind.ends)
    of_kind, of_control = [], []
    for _ in range(rounds):
        of_control.append(measure(control, jobs))
        of_kind.append(measure(kind, jobs))
    return Figure(
        name=f"job_cpu_us_{kind.key}",
        value=_best(of_kind),
        unit="us/job",
        control=_best(of_control),
        note=f"{kind.pods} pods" + ("" if kind.ends else ", until they run"),
    )


def _best(rounds: list[list[float]]) -> float:
    """Return the sum of the steps, each from its fastest round.

    Other processes on the machine disturb every round somewhere.
    """
    return float(sum(min(step) for step in zip(*rounds, strict=True)))


def measure(kind: MixedKind, jobs: int) -> list[float]:
    """Return the CPU microseconds per step for the life of one job of a kind."""
    lives = _Lives(kind, jobs)
    gc.collect()
    gc.disable()  # it would mostly scan objects of the server
    try:
        lives.play()
    finally:
        gc.enable()
    return [each / jobs * MICRO for each in lives.used]


class _TimedStream:
    def __init__(self, stream: FakeStream, timed: Callable[..., Any]) -> None:
        self._stream, self._timed = stream, timed
        self.status, self.headers = stream.status, stream.headers

    def read_line(self, timeout_seconds: float) -> bytes | None:
        line: bytes | None = self._timed(self._stream.read_line, timeout_seconds)
        return line

    def close(self) -> None:
        self._stream.close()


class _TimedServer:
    """The fake API server as a transport that measures its CPU."""

    def __init__(self, server: FakeApiServer) -> None:
        self._server = server
        self.seconds = 0.0

    def send(self, request: Request, timeout_seconds: float) -> Response:
        return self._timed(self._server.send, request, timeout_seconds)

    def stream(self, request: Request, timeout_seconds: float) -> _TimedStream:
        stream = self._timed(self._server.stream, request, timeout_seconds)
        return _TimedStream(stream, self._timed)

    def close(self) -> None:
        self._server.close()

    def _timed(self, call: Callable[..., T], *arguments: Any) -> T:
        began = time.process_time()
        try:
            return call(*arguments)
        finally:
            self.seconds += time.process_time() - began


class _Lives:
    """Jobs of one kind in their own cluster, and controllers for only that kind."""

    def __init__(self, kind: MixedKind, jobs: int) -> None:
        self._kind = kind
        self._jobs = jobs
        self.used: list[float] = []
        """CPU seconds of the controllers in each step of the lives."""
        self._clock = VirtualClock()
        server = FakeApiServer(clock=self._clock, rng=random.Random(7), collects_garbage=False)
        self._direct = server.direct
        for path in CRDS:
            server.direct.create_from(path)
        server.direct.create_all(open_crds())
        for name in (NAMESPACE, QUOTA):
            server.direct.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        server.direct.create(PRIORITY_CLASS)
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        for name in SERVICE_ACCOUNTS:
            server.direct.create({**account, "metadata": {"name": name, "namespace": NAMESPACE}})
        self._transport = _TimedServer(server)
        host = SteppedHost(self._transport, self._clock, SoleLeader("test"))
        self._controllers = build_controllers(
            host,
            parse_flags((f"--enabled-extensions={kind.key}",)),
            Configuration(),
            find_extensions(),
            informer_wait_seconds=0.0,
        )
        self._settle()
        self.used.clear()

    def play(self) -> None:
        """Play the lives of the jobs."""
        if self._kind.row is None:
            self._play_pods()
        else:
            self._play_objects()

    def _play_objects(self) -> None:
        kind, names = self._kind, [f"job-{number}" for number in range(self._jobs)]
        for name in names:
            self._direct.create(job_body(kind, name, NAMESPACE, QUOTA, suspend=True))
        self._settle()
        for name in names:
            self._direct.create_all(companions_of(kind, self._body(name)))
            self._say(name, Stage.HELD)
        self._settle()
        self._admit_all()
        self._settle()
        pods = [pod for name in names for pod in pods_of(kind, self._body(name))]
        self._direct.create_all(pods)
        self._run(pods)
        for name in names:
            self._say(name, Stage.RUNNING)
        self._settle()
        self._expect("Running")
        if not kind.ends:
            return
        self._put_phase(pods, "Succeeded")
        for name in names:
            self._say(name, Stage.SUCCEEDED)
        self._settle()
        self._expect("Succeed")

    def _play_pods(self) -> None:
        pods = []
        for number in range(self._jobs):
            made = gated_pods(self._kind, f"job-{number}", NAMESPACE, QUOTA)
            self._direct.create_all(made)
            pods += [each for each in made if each["kind"] == "Pod"]
        self._settle()
        self._admit_all()
        self._settle()
        self._run(pods)
        self._settle()
        self._expect("Running")
        if not self._kind.ends:
            return
        self._put_phase(pods, "Succeeded")
        self._settle()
        self._expect("Succeed")

    # --- actions of others
    # -------------------------------------------------------------------------

    def _run(self, pods: Iterable[Json]) -> None:
        """Bind pods, and run them a moment later."""
        self._put_phase(pods, "Pending")
        self._settle(TICK_SECONDS)
        self._put_phase(pods, "Running")

    def _put_phase(self, pods: Iterable[Json], phase: str) -> None:
        condition = {"type": "PodScheduled", "status": "True"}
        status = {"status": {"phase": phase, "conditions": [condition]}}
        for pod in pods:
            name = pod["metadata"]["name"]
            self._direct.patch("pods", name, status, namespace=NAMESPACE, subresource="status")

    def _say(self, name: str, stage: Stage) -> None:
        status = {"status": status_of(self._kind, self._body(name), stage)}
        place = {"namespace": NAMESPACE, "subresource": "status"}
        self._direct.patch(self._kind.plural, name, status, **place)

    def _body(self, name: str) -> Json:
        return self._direct.get(self._kind.plural, name, NAMESPACE)

    def _admit_all(self) -> None:
        units = self._direct.list("queueunits")
        assert len(units) == self._jobs, f"{self._kind.key}: {len(units)} units"
        now = rfc3339(self._clock.now())
        for unit in units:
            admissions = [
                {"name": each["name"], "replicas": each["count"], "running": 0}
                for each in unit["spec"]["podSet"]
            ]
            status = {
                "phase": "Dequeued",
                "lastAllocateTime": now,
                "lastUpdateTime": now,
                "admissions": admissions,
            }
            self._direct.patch(
                "queueunits",
                unit["metadata"]["name"],
                {"status": status},
                namespace=NAMESPACE,
                subresource="status",
            )

    def _expect(self, phase: str) -> None:
        phases = {each["status"]["phase"] for each in self._direct.list("queueunits")}
        assert phases == {phase}, f"{self._kind.key}: {phases}, not {phase}"

    # --- the controllers ------------------------------------------------------------------------

    def _settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Call all steps while so much time passes; note the CPU seconds of the controllers."""
        server_before, began = self._transport.seconds, time.process_time()
        settle(self._controllers.steps, self._clock, seconds, tick=TICK_SECONDS)
        used = time.process_time() - began
        self.used.append(used - (self._transport.seconds - server_before))
