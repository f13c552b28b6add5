"""Creates units, ends those that were started, and checks the quotas, in its own process.

    plan ──► creates, each at its time ──► API server ──► scheduler dequeues
                                              │
             ends, some time after   ◄────────┴── informer: Dequeued, Succeed

It is its own process so that its CPU is counted separately, and reads the API server through the
product's informer, which survives the end of a watch. It sees changes in their order, so it detects
any moment at which a quota is exceeded.

A bare plan needs no scheduler: each worker sends create, dequeue, and end, with the same bodies
over the same transport, while the informer watches. That is the maximum that the API server allows.
"""

from __future__ import annotations

import heapq
import multiprocessing
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from queue_scheduler.decision import Dequeue, Grant
from queue_scheduler.unit_writes.admission_patches import build_dequeue_patch
from shared_api.client.errors import AlreadyExists, ApiFailure
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import SystemClock
from shared_api.process.structured_logs import configure_logs
from shared_api.queue_unit_phases import Phase, Writer, status_of_move
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import QUOTA_NAME
from tests.benchmarks.cluster_world import ClusterWorld, connect
from tests.benchmarks.process_usage import Meter
from tests.waiting import within

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

NAMESPACE: Final = "default"
TICK_SECONDS: Final = 0.005
"""The precision of the times in the plan, in seconds."""
SYNC_SECONDS: Final = 60.0
PATIENCE_SECONDS: Final = 900.0
RETRY_SECONDS: Final = 0.5
MAX_STORIES: Final = 3
STORY_STARTS: Final = 12
STORY_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 1.5
"""Seconds after the last end; later writes (status of queues) count too."""


@dataclass(frozen=True, kw_only=True)
class PlannedUnit:
    """One unit: when it is created, its requests, and how long it runs.

    The units of one `group` together must not exceed the plan's limit; `kind` is the class by which
    waits are counted.
    """

    name: str
    quota: str
    group: str = ""
    kind: str = "small"
    cpu: int = 1
    priority: int = 0
    due_seconds: float = 0.0
    runs_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What to play. `workers` is the number of writing connections; `group_cpu` 0 is no limit."""

    units: tuple[PlannedUnit, ...]
    workers: int
    group_cpu: int = 0
    bare: bool = False


@dataclass
class LoadOutcome:
    """The results: seconds from the first create to the last end, waits by class, and more.

    `over_quota` counts the events at which a group exceeded its limit; `stories` describe the first
    of them.
    """

    wall_seconds: float = 0.0
    finished: int = 0
    over_quota: int = 0
    stories: list[str] = field(default_factory=list)
    retries: int = 0
    waits: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @property
    def units_per_second(self) -> float:
        """Return complete lives per second."""
        return self.finished / self.wall_seconds

    def cpu_ms_per_unit(self, process: str) -> float:
        """Return the CPU milliseconds of a process per unit."""
        return 1000 * self.cpu[process] / self.finished


def play(world: ClusterWorld, plan: LoadPlan, pids: dict[str, int] | None = None) -> LoadOutcome:
    """Play a plan to its end, and measure the CPU of the server, the player, and these processes.

    Raises:
        RuntimeError: Not all units ended in time, or the player died.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    player = context.Process(
        target=play_in_process, args=(str(world.plane.kubeconfig), plan, theirs), daemon=True
    )
    player.start()
    theirs.close()
    try:
        _expect(ours, "synced", SYNC_SECONDS)
        servers = {name: world.plane.pids[name] for name in ("kube-apiserver", "etcd")}
        assert player.pid is not None
        meter = Meter.start({**servers, "player": player.pid, **(pids or {})})
        ours.send("go")
        outcome: LoadOutcome = _expect(ours, None, PATIENCE_SECONDS)
        time.sleep(SETTLE_SECONDS)
        outcome.cpu = meter.read()
        if outcome.finished < len(plan.units):
            message = f"only {outcome.finished} of {len(plan.units)} units ended: {outcome}"
            raise RuntimeError(message)
        return outcome
    finally:
        ours.close()  # ends the player
        player.join(SYNC_SECONDS)


def _expect(pipe: Connection, word: str | None, seconds: float) -> Any:
    if not pipe.poll(seconds):
        message = f"the player did not answer within {seconds:g} s"
        raise RuntimeError(message)
    try:
        got = pipe.recv()
    except EOFError:
        message = "the player died"
        raise RuntimeError(message) from None
    assert word in (None, got), got
    return got


def play_in_process(kubeconfig: str, plan: LoadPlan, parent: Connection) -> None:
    """Run the player: report when synced, wait for the start, play, and send the results."""
    configure_logs(log_format="console", level="error", clock=SystemClock())
    client, close = connect(Path(kubeconfig))
    player = LoadPlayer(client, plan)
    try:
        player.sync()
        parent.send("synced")
        parent.recv()
        parent.send(player.run(parent))
        parent.poll(SYNC_SECONDS)  # the parent reads our CPU from /proc before it closes the pipe
    except (EOFError, BrokenPipeError):
        pass  # the parent has ended, so the results are not needed
    finally:
        player.stop()
        close()


@dataclass(frozen=True)
class Started:
    """A running unit, and its previous version."""

    planned: PlannedUnit
    moment: float
    unit: QueueUnit
    before: QueueUnit | None

    def story(self, now: float) -> str:
        """Return how it started, for units that should not have."""
        before = self.before
        was = "not seen" if before is None else f"{before.metadata.resource_version}"
        if before is not None and before.status.message:
            was += f" ({before.status.message})"
        return (
            f"{self.planned.name} of {self.planned.cpu} cpu {1000 * (now - self.moment):.0f} ms ago"
            f" at version {self.unit.metadata.resource_version}, before that {was}"
        )


class LoadPlayer:
    """Creates, ends, and observes the units of one plan."""

    def __init__(self, client: ResourceClient, plan: LoadPlan) -> None:
        self._client = client
        self._plan = plan
        self._clock = SystemClock()
        self._units = {unit.name: unit for unit in plan.units}
        self._outcome = LoadOutcome(waits={unit.kind: [] for unit in plan.units})
        self._started = 0.0
        self._created_at: dict[str, float] = {}
        # Only the informer's thread uses these two.
        self._running: dict[str, Started] = {}
        self._group_cpu = dict.fromkeys((unit.group for unit in plan.units), 0)
        self._lock = threading.Lock()  # guards the next two
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        # Ends go before creates, else the quota that they release would come last.
        self._urgent: deque[Callable[[], None]] = deque()
        self._creates: deque[Callable[[], None]] = deque()
        self._tasks = threading.Semaphore(0)
        self._over = threading.Event()
        self._informer: SharedInformer[QueueUnit] = SharedInformer(
            client,
            QUEUE_UNITS,
            clock=self._clock,
            rng=random.Random(),
            settings=InformerSettings(resync_seconds=0),
        )

    def sync(self) -> None:
        """Return when the informer has the first list, so that later units are seen."""
        self._informer.add_handler(self._on_change)
        self._informer.start()
        assert within(SYNC_SECONDS, self._informer.has_synced), self._informer.check_synced()

    def run(self, parent: Connection) -> LoadOutcome:
        """Play to the end, or until the parent ends."""
        self._started = time.monotonic()
        for _ in range(self._plan.workers):
            threading.Thread(target=self._work, daemon=True).start()
        units = sorted(self._plan.units, key=lambda unit: unit.due_seconds)
        upcoming = iter([*units, None])
        following = next(upcoming)
        while not self._over.is_set() and not parent.poll():
            elapsed = time.monotonic() - self._started
            while following is not None and following.due_seconds <= elapsed:
                self._hand_over(self._creates, self._task_of(following))
                following = next(upcoming)
            self._hand_over_due()
            self._over.wait(TICK_SECONDS)
        self._outcome.wall_seconds = time.monotonic() - self._started
        return self._outcome

    def stop(self) -> None:
        """End the threads."""
        self._over.set()
        for _ in range(self._plan.workers):
            self._tasks.release()
        self._informer.stop()

    # --- what is written --------------------------------------------------------------------

    def _task_of(self, unit: PlannedUnit) -> Callable[[], None]:
        if self._plan.bare:
            return lambda: self._live_bare(unit)
        return lambda: self._create(unit)

    def _create(self, unit: PlannedUnit) -> None:
        self._created_at.setdefault(unit.name, time.monotonic())
        try:
            self._client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))
        except AlreadyExists:
            pass  # an earlier try was processed, and its answer lost
        except ApiFailure:
            self._again(lambda: self._create(unit))

    def _end(self, unit: QueueUnit) -> None:
        try:
            self._client.patch(
                QUEUE_UNITS,
                NAMESPACE,
                unit.metadata.name,
                self._end_body(unit),
                subresource="status",
            )
        except ApiFailure:
            self._again(lambda: self._end(unit))

    def _live_bare(self, planned: PlannedUnit) -> None:
        """Write one complete life; any refusal of the API server ends the run."""
        self._created_at[planned.name] = time.monotonic()
        unit = self._client.create(QUEUE_UNITS, NAMESPACE, unit_body(planned))
        body = dequeue_patch(unit, planned, rfc3339(self._clock.now()))
        unit = self._client.patch(QUEUE_UNITS, NAMESPACE, planned.name, body, subresource="status")
        self._end(unit)

    def _end_body(self, unit: QueueUnit) -> dict[str, Any]:
        status = end_status(unit, rfc3339(self._clock.now()))
        return {"metadata": {"uid": unit.metadata.uid}, "status": status}

    # --- when it is written -----------------------------------------------------------------

    def _work(self) -> None:
        while True:
            self._tasks.acquire()
            if self._over.is_set():
                return
            try:
                task = self._urgent.popleft()
            except IndexError:
                task = self._creates.popleft()
            try:
                task()
            except BaseException:
                self._over.set()  # a unit is lost, so the run cannot complete
                raise

    def _hand_over(self, line: deque[Callable[[], None]], task: Callable[[], None]) -> None:
        line.append(task)
        self._tasks.release()

    def _at(self, moment: float, task: Callable[[], None]) -> None:
        with self._lock:
            self._number += 1
            heapq.heappush(self._later, (moment, self._number, task))

    def _again(self, task: Callable[[], None]) -> None:
        self._outcome.retries += 1
        self._at(time.monotonic() + RETRY_SECONDS, task)

    def _hand_over_due(self) -> None:
        due = []
        now = time.monotonic()
        with self._lock:
            while self._later and self._later[0][0] <= now:
                due.append(heapq.heappop(self._later)[2])
        for task in due:
            self._hand_over(self._urgent, task)

    # --- what is seen -----------------------------------------------------------------------

    def _on_change(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        planned = self._units.get(new.metadata.name) if new is not None else None
        if planned is None or new is None:
            return
        phase = new.status.phase
        if old is not None and old.status.phase == phase:
            return
        if phase == Phase.DEQUEUED:
            self._on_started(Started(planned, time.monotonic(), new, old))
        elif phase == Phase.SUCCEED:
            self._on_ended(planned)

    def _on_started(self, started: Started) -> None:
        planned, now = started.planned, started.moment
        self._outcome.waits[planned.kind].append(now - self._created_at[planned.name])
        self._running[planned.name] = started
        self._group_cpu[planned.group] += planned.cpu
        if 0 < self._plan.group_cpu < self._group_cpu[planned.group]:
            self._on_over_quota(planned.group, now)
        if self._plan.bare:
            return
        if planned.runs_seconds:
            self._at(now + planned.runs_seconds, lambda: self._end(started.unit))
        else:
            self._hand_over(self._urgent, lambda: self._end(started.unit))

    def _on_over_quota(self, group: str, now: float) -> None:
        self._outcome.over_quota += 1
        if len(self._outcome.stories) < MAX_STORIES:
            recent = [
                started.story(now)
                for started in self._running.values()
                if started.planned.group == group and now - started.moment < STORY_SECONDS
            ]
            head = f"{group} has {self._group_cpu[group]} cpu; the last starts: "
            self._outcome.stories.append(head + "; ".join(recent[-STORY_STARTS:]))

    def _on_ended(self, planned: PlannedUnit) -> None:
        if self._running.pop(planned.name, None) is not None:
            self._group_cpu[planned.group] -= planned.cpu
        self._outcome.finished += 1
        if self._outcome.finished == len(self._units):
            self._over.set()


def dequeue_patch(unit: QueueUnit, planned: PlannedUnit, now: Timestamp) -> dict[str, Any]:
    """Return the patch with which the scheduler admits a unit."""
    decision = Dequeue(
        unit=unit.metadata.key,
        uid=unit.metadata.uid,
        resource_version=unit.metadata.resource_version,
        queue=planned.quota,
        quota=planned.quota,
        grants=(Grant("main", 1, {"cpu": 1000 * planned.cpu}),),
    )
    return build_dequeue_patch(unit, decision, now)


def end_status(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the status that the controllers write when a job has succeeded."""
    # The scheduler is the writer for units without a controller.
    return status_of_move(
        unit, Phase.SUCCEED, writer=Writer.SCHEDULER, now=now, message="Succeeded"
    )


def unit_body(unit: PlannedUnit) -> dict[str, Any]:
    """Return a unit as a user would write it: one pod with only resources."""
    container = {"name": "main", "resources": {"requests": {"cpu": str(unit.cpu)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": QUEUE_UNITS.api_version,
        "kind": QUEUE_UNITS.kind,
        "metadata": {
            "name": unit.name,
            "namespace": NAMESPACE,
            "labels": {QUOTA_NAME: unit.quota},
        },
        "spec": {"priority": unit.priority, "podSet": [pod_set]},
    }
