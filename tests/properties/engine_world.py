"""A cluster in miniature around an engine: objects with versions, watches, writes that fail.

Every act takes two numbers and maps them to what is possible at that moment, so any list of acts is
a story and shrinks to a short one. What the engine is told lags behind: each kind has its own
watch, in order; across kinds any order is possible. Writes are applied, and answered, later than
they were sent; an answer may come before or after the watch event of the same write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from queue_scheduler.decision import Dequeue, WriteFailure
from queue_scheduler.engine.engine import Engine
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit, ReclaimablePod
from shared_api.well_known_labels import (
    BACKFILL,
    BLOCK_FOR_TEST,
    JOB_CREATED_AT,
    MANAGED_BY,
    MAX_DEPTH,
    MAX_PRIORITY,
    PRIORITY_THRESHOLD,
    QUOTA_NAME,
    RELATED_QUEUE_UNIT,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
    read_quota_name,
)
from tests.properties import engine_checks as checks
from tests.properties.engine_checks import QUEUES, QUOTAS, Quotas
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
    condition,
    declaring,
    moment,
    new_engine,
    some_pods,
)

POLICIES = ("Priority", "Block", "FIFO", "Intelligent", "Fair") * 3 + ("Nonsense",)
NAMESPACES = ("ns", "space")
STARTED = ("Dequeued", "SchedReady", "SchedSucceed", "SchedFailed", "Running")
NAMES = 12

T = TypeVar("T")

Story = list[tuple[str, int, int]]


class World:
    """The objects, the part of them that the engine knows, and the writes in flight.

    Args:
        build: Returns the engine and its quotas.
        judges: Whether the rules of `engine_checks` are checked at each fact, decision and answer.
            It takes more than half of the time of a story; `test_engine_with_quotas` does so for
            the stories of tests that only need a state.
    """

    def __init__(
        self, build: Callable[[], tuple[Engine, Quotas]] = new_engine, *, judges: bool = True
    ) -> None:
        self._build = build
        self._judges = judges
        self.engine, self.plugin = build()
        self.workers = Workers(self.engine, choose=self._choose, validates=judges)
        self.units: dict[str, QueueUnit] = {}
        self.queues: dict[str, Queue] = {}
        self.quotas: dict[str, ElasticQuota] = {}
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.log: list[str] = []
        self.freed: Counter[str] = Counter()  # how often a decision was undone
        self._version = 0
        self._events: dict[str, list[tuple[str, Any]]] = {}
        self._history: list[QueueUnit] = []
        self._applied: dict[tuple[str, str], Any] = {}
        self._sent: list[Dequeue] = []
        self._answers: list[Callable[[], tuple[str, ...]]] = []
        self._pick = 0

    # --- acts on objects ------------------------------------------------------------------------

    def create_unit(self, a: int, b: int) -> None:
        namespace = NAMESPACES[b % 5 == 0]
        key = f"{namespace}/u{a % NAMES}"
        if key in self.units:
            return
        written: dict[str, str] = {JOB_CREATED_AT: moment(a % 5)}
        if a % 3:
            written[MANAGED_BY] = "koord-queue-controllers"
        if a % 17 == 3:
            written["koord-queue/adopted"] = "true"  # which proves nothing
        unit = build_unit(
            f"u{a % NAMES}",
            "" if b % 10 == 0 else QUOTAS[b % 3],
            namespace=namespace,
            uid=f"uid-{self._next_version()}",
            cpu=None if b % 29 == 0 else a % 4,
            pods=some_pods(a, b) if b % 3 == 1 else (),
            queue="shared" if b % 4 == 0 else "",
            priority=b % 3,
            created=self._version,
            annotations=written,
        )
        self.put_unit(declaring(unit, (None, 5, 50, 500)[b % 4]))

    def delete_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a)
        if unit is None or self._has_pods(unit, of_others=True):
            return
        del self.units[unit.metadata.key]
        self._emit("unit gone", unit)

    def edit_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a)
        if unit is None:
            return
        meta, spec = unit.metadata, unit.spec
        match b % 6:
            case 0:
                spec = replace(spec, priority=a % 4)
            case 1:
                spec = replace(spec, request={"cpu": b % 4}, pod_set=())
            case 2 if not self._has_pods(unit):
                meta = replace(meta, labels={QUOTA_NAME: QUOTAS[a % 3]})
            case 3:
                spec = replace(spec, active=spec.active is False)
            case 4:
                blocked = meta.annotations.get(BLOCK_FOR_TEST) == "true"
                written = {**meta.annotations, BLOCK_FOR_TEST: "false" if blocked else "true"}
                meta = replace(meta, annotations=written)
            case _:
                spec = replace(spec, queue="" if spec.queue else "shared")
        self.put_unit(replace(unit, metadata=meta, spec=spec))

    def touch_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a)
        if unit is not None:
            self.put_unit(changed(unit, 0, message=f"note {b}"))

    def run_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, "Dequeued", "SchedSucceed")
        if unit is not None:
            self.put_unit(changed(unit, 0, "Running"))

    def finish_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, *STARTED)
        if unit is not None:
            self.put_unit(changed(unit, 0, "Failed" if b % 2 else "Succeed", admissions=()))

    def evict_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, *STARTED)
        if unit is None:
            return
        asked = changed(unit, 0, conditions=(condition("Evicted", "True"),))
        self.put_unit(asked)
        if b % 3 == 0:
            return
        over = condition("Evicted", "True" if b % 2 else "False")
        phase = "TimeoutBackoff" if b % 2 else "Enqueued"
        self.put_unit(changed(asked, 0, phase, conditions=(over,), admissions=()))
        self.freed[unit.metadata.uid] += 1

    def requeue_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, "TimeoutBackoff")
        if unit is not None:
            self.put_unit(changed(unit, 0, "Enqueued", conditions=(condition("Evicted", "False"),)))

    def reclaim_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, "Running")
        if unit is not None:
            self.put_unit(changed(unit, 0, reclaimable_pods=(ReclaimablePod("main", b % 3),)))

    def put_queue(self, a: int, b: int) -> None:
        name = QUEUES[a % len(QUEUES)]
        written = {}
        if b % 6 == 1:
            written[MAX_DEPTH] = str(b // 6 % 4)
        written[PRIORITY_THRESHOLD] = str(b % 3)  # units have priorities from 0 to 3
        if b % 7 in (4, 5):
            written[MAX_PRIORITY] = str(b // 7 % 3)
        if b % 2:
            written[BACKFILL] = "true"
        if b % 11 == 3:
            written[STOP_POLICY] = ("Hold", "HoldAndDrain", "Nonsense", "None")[b // 11 % 4]
        if b % 5 == 2:
            written[WAIT_FOR_PODS_RUNNING] = "true"
        queue = build_queue(
            name,
            POLICIES[b % len(POLICIES)],
            priority=b % 2,
            takes=("*", "a,b", "*", "")[b % 4] if name == "shared" else "",
            annotations=written,
        )
        self.queues[name] = queue
        self._emit("queue", queue)

    def delete_queue(self, a: int, b: int) -> None:
        queue = self.queues.pop(QUEUES[a % len(QUEUES)], None)
        if queue is not None:
            self._emit("queue gone", queue)

    def put_quota(self, a: int, b: int) -> None:
        name = QUOTAS[a % len(QUOTAS)]
        quota = build_quota(
            name,
            cpu=(b % 7) if name != "top" else 4 + b % 7,
            guaranteed=b % 3,
            parent="top" if b % 3 and name != "top" else "",
            namespaces='["space"]' if b % 4 == 1 else "",
        )
        self.quotas[name] = quota
        self._emit("quota", quota)

    def delete_quota(self, a: int, b: int) -> None:
        quota = self.quotas.pop(QUOTAS[a % len(QUOTAS)], None)
        if quota is not None:
            self._emit("quota gone", quota)

    def put_pod(self, a: int, b: int) -> None:
        unit = self.some_unit(b)
        if unit is None:
            return
        # Mostly stamped; where not, only the unit says which quota it is charged to.
        quota = "" if b % 3 == 0 else read_quota_name(unit.metadata.labels)
        namespace = unit.metadata.namespace
        key = f"{namespace}/p{a % 6}"
        if key not in self.pods:
            pod = build_pod(
                f"p{a % 6}",
                namespace=namespace,
                unit=unit.metadata.key,
                quota=quota,
                cpu=a % 3,
                uid=f"pod-{self._next_version()}",
                created=self._version,
            )
        else:
            phase = ("Running", "Succeeded", "Pending")[b % 3]
            old = self.pods[key]
            pod = replace(old, status=replace(old.status, phase=phase))
        self.pods[key] = pod
        self._emit("pod", pod)

    def delete_pod(self, a: int, b: int) -> None:
        key = _nth(sorted(self.pods), a)
        if key is not None:
            self._emit("pod gone", self.pods.pop(key))

    def put_node(self, a: int, b: int) -> None:
        name = f"node-{a % 3}"
        node = Node(
            metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": 2 + b % 9})
        )
        self.nodes[name] = node
        self._emit("node", node)

    def delete_node(self, a: int, b: int) -> None:
        node = self.nodes.pop(f"node-{a % 3}", None)
        if node is not None:
            self._emit("node gone", node)

    # --- what the engine is told ----------------------------------------------------------------

    def deliver(self, a: int, b: int) -> None:
        """Deliver the next event of some kind; some are delivered twice."""
        kind = _nth([kind for kind, events in sorted(self._events.items()) if events], a)
        if kind is None:
            return
        what, thing = self._events[kind].pop(0)
        self._apply_fact(what, thing)
        self._check_state()
        if b % 4 == 0:
            self._repeat_fact(what, thing)

    def deliver_all(self, a: int = 0, b: int = 0) -> None:
        while any(self._events.values()):
            self.deliver(a, b)

    def repeat_old_unit(self, a: int, b: int) -> None:
        """Deliver an old version of a unit late."""
        unit = _nth(self._history, a)
        if unit is None or any(thing is unit for _, thing in self._events.get("unit", ())):
            return
        with self._no_change("old news"):
            assert self.engine.on_queue_unit(unit) == (), "old news wakes"

    def resync(self, a: int, b: int) -> None:
        """Deliver a known object again, as a resync does."""
        key = _nth(sorted(self._applied), a)
        if key is None:
            return
        self._repeat_fact(key[0], self._applied[key])

    def _repeat_fact(self, what: str, thing: Any) -> None:
        """Apply a fact that is known; the state behind what is compared is judged at the next."""
        with self._no_change(f"{what} delivered again"):
            assert self._apply_fact(what, thing) == (), f"{what} delivered again wakes"

    @contextmanager
    def _no_change(self, act: str) -> Iterator[None]:
        before = self.digest() if self._judges else None
        yield
        assert before is None or self.digest() == before, f"{act} changes something"

    def _apply_fact(self, what: str, thing: Any) -> tuple[str, ...]:
        engine = self.engine
        facts: dict[str, Callable[[Any], tuple[str, ...]]] = {
            "unit": engine.on_queue_unit,
            "unit gone": engine.on_queue_unit_gone,
            "queue": engine.on_queue,
            "queue gone": lambda queue: engine.on_queue_gone(queue.metadata.name),
            "quota": engine.on_quota,
            "quota gone": engine.on_quota_gone,
            "pod": engine.on_pod,
            "pod gone": engine.on_pod_gone,
            "node": engine.on_node,
            "node gone": lambda node: engine.on_node_gone(node.metadata.name),
        }
        key = (what.removesuffix(" gone"), thing.metadata.key)
        if what == key[0]:
            self._applied[key] = thing
        else:
            self._applied.pop(key, None)
        if what == "unit":
            self._history = [*self._history[-30:], thing]
        if what == "queue" and thing.metadata.name not in engine.queues:
            self.workers.wake([thing.metadata.name])
        woken = facts[what](thing)
        self.workers.wake(woken)
        return woken

    def _check_state(self) -> None:
        if self._judges:
            self.engine.validate()
            self.plugin.validate()
            on_the_way = {unit.metadata.key for _, unit in self._events.get("unit", ())}
            checks.check_audit(self.engine, self._applied, self.units.keys() | on_the_way)

    @contextmanager
    def judged_at_the_end(self) -> Iterator[None]:
        """Judge the state after several facts, and not between them."""
        judges, self._judges = self._judges, False
        yield
        self._judges = judges
        self._check_state()

    # --- decisions and writes -------------------------------------------------------------------

    def ask(self, a: int, b: int) -> None:
        """Let some worker ask once."""
        if self.workers.is_quiet():
            return
        self._pick = a
        in_line = checks.in_line(self.engine) if self._judges else {}
        decision = self.workers.step()
        if isinstance(decision, Dequeue):
            if self._judges:
                checks.check_order(self.engine, decision, in_line[decision.queue])
                checks.check_limits(self.engine, self.plugin, decision)
                checks.check_nodes(self.engine, decision)
            self.log.append(f"{decision.unit} {decision.uid} {decision.queue} {decision.quota}")
            self._sent.append(decision)
        if self._judges:
            self.plugin.validate()

    def ask_all(self, a: int = 0, b: int = 0) -> None:
        while not self.workers.is_quiet():
            self.ask(a, b)

    def ring(self, a: int, b: int) -> None:
        self.workers.ring()

    def write(self, a: int, b: int) -> None:
        """Let a write reach the server, and choose what its writer learns of it."""
        decision = _nth(self._sent, a)
        if decision is None:
            return
        self._sent.remove(decision)
        match b % 8:
            case 0:
                answer = self._failed(decision, WriteFailure.REJECTED)
            case 1:  # lost on the way; read afterwards
                self.freed[decision.uid] += 1
                answer = self._read(decision)
            case 2:  # applied, but the answer was lost; read afterwards
                self._apply(decision)
                answer = self._read(decision)
            case _:
                answer = self._apply(decision)
        self._answers.append(answer)

    def answer(self, a: int, b: int) -> None:
        answer = _nth(self._answers, a)
        if answer is not None:
            self._answers.remove(answer)
            self.workers.wake(answer())
            if self._judges:
                self.engine.validate()

    def _apply(self, decision: Dequeue) -> Callable[[], tuple[str, ...]]:
        unit = self.units.get(decision.unit)
        if unit is None:
            return self._failed(decision, WriteFailure.GONE)
        if unit.metadata.resource_version != decision.resource_version:
            self.freed[decision.uid] += 1
            return self._failed(decision, WriteFailure.CONFLICT)
        written = self.put_unit(admitted(unit, 0, decision.to.value, decision.grants))
        return lambda: self.engine.on_written(decision, written)

    def _failed(self, decision: Dequeue, how: WriteFailure) -> Callable[[], tuple[str, ...]]:
        retry_at = self.workers.now + 5.0
        self.freed[decision.uid] += 1
        return lambda: self.engine.on_write_failed(decision, how, retry_at=retry_at)

    def _read(self, decision: Dequeue) -> Callable[[], tuple[str, ...]]:
        def read() -> tuple[str, ...]:
            unit = self.units.get(decision.unit)
            if unit is None:
                return self.engine.on_write_failed(decision, WriteFailure.GONE)
            return self.engine.on_written(decision, unit)

        return read

    # --- how it ends ----------------------------------------------------------------------------

    def play(self, story: Story) -> None:
        """Play the acts one by one."""
        for name, a, b in story:
            getattr(self, name)(a, b)

    def come_to_rest(self) -> None:
        """Deliver, ask, write and answer until nothing is left to do."""
        for _ in range(1000):
            self.deliver_all()
            self.ask_all()
            if self._sent:
                self.write(0, 7)
            elif self._answers:
                self.answer(0, 0)
            elif self.workers.alarms:
                self.workers.ring()
            elif not any(self._events.values()):
                return
        raise AssertionError("no rest")

    def rebuilt(self, shuffle: Callable[[list[Any]], object]) -> World:
        """Return a world whose engine has just read the same objects, in some order."""
        twin: World = self.new_twin()
        facts: list[tuple[str, Any]] = [
            *(("unit", unit) for unit in self.units.values()),
            *(("queue", queue) for queue in self.queues.values()),
            *(("quota", quota) for quota in self.quotas.values()),
            *(("pod", pod) for pod in self.pods.values()),
            *(("node", node) for node in self.nodes.values()),
        ]
        shuffle(facts)
        for what, thing in facts:
            twin._apply_fact(what, thing)
            twin._check_state()
        return twin

    def new_twin(self) -> World:
        """Return a world of the same kind without objects."""
        return World(self._build)

    def digest(self) -> dict[str, Any]:
        """Return what a repeated fact, or a restart, must not change."""
        return checks.digest(self.engine, self.plugin)

    def check_rest(self) -> None:
        """Come to rest, and check the rules that hold at rest."""
        self.come_to_rest()
        self._check_state()
        checks.check_units_are_known(self.engine, self.units)
        checks.check_nobody_is_lost(self.engine, self.plugin)
        checks.check_quotas(self.engine, self.plugin)

    def remembers_a_quota_that_no_object_tells(self) -> bool:
        """Return whether something is charged to a previous quota of a namespace."""
        engine = self.engine
        charged = [r for r in engine.units.records.values() if engine.usage.charge_of(r.uid)]
        return not all(self.plugin.quota_names(record.unit) for record in charged)

    # --- inside ---------------------------------------------------------------------------------

    def _choose(self, going: list[str]) -> str:
        return sorted(going)[self._pick % len(going)]

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def put_unit(self, unit: QueueUnit) -> QueueUnit:
        version = str(self._next_version())
        unit = replace(unit, metadata=replace(unit.metadata, resource_version=version))
        self.units[unit.metadata.key] = unit
        self._emit("unit", unit)
        return unit

    def _emit(self, what: str, thing: Any) -> None:
        self._events.setdefault(what.removesuffix(" gone"), []).append((what, thing))

    def some_unit(self, a: int, *phases: str) -> QueueUnit | None:
        units = [unit for _, unit in sorted(self.units.items())]
        return _nth([u for u in units if not phases or u.status.phase in phases], a)

    def _has_pods(self, unit: QueueUnit, *, of_others: bool = False) -> bool:
        """Return whether pods name the unit; `of_others`: without naming its quota.

        When the unit is deleted, only the pods' label says which quota they are charged to.
        """
        meta = unit.metadata
        labels = [p.metadata.labels for p in self.pods.values() if _names(p, meta.key)]
        quota = read_quota_name(meta.labels)
        return any(not of_others or read_quota_name(each) != (quota or None) for each in labels)


def _names(pod: Pod, key: str) -> bool:
    return pod.metadata.annotations.get(RELATED_QUEUE_UNIT) == key


def _nth(things: Sequence[T], n: int) -> T | None:
    return things[n % len(things)] if things else None
