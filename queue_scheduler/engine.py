"""The brain: facts in, decisions out. No thread, no lock, no clock, no network, no log.

Everything that the scheduler believes lives here. Shells feed it and carry its decisions out::

    on_queue, on_queue_unit, on_quota, on_pod, on_node, ...   each returns the queues to wake
    decide_next(queue, now) -> Dequeue | Refused | Rest       one unit decided, or none
    on_written(decision, unit), on_write_failed(decision, ...)
    fork()                                                    a copy to put questions to

The story of one decision: a unit's object arrives and is *placed* (`_place`): judged from its
own phase, mapped to quota and queue, its demand read. It then waits in line, is booked, is
held with a reason, or has ended. `decide_next` takes the unit whose turn it is, asks the
filters, and books it before anybody else can be asked: check and book are one call. What the
books release wakes exactly the classes of units that it may help.

Facts are levels, not edges: each may be told twice, late, or of a new object under an old
name. Of two versions of one object the newer counts, so what the process itself has written is
never overwritten by an older watch event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from queue_scheduler.bookings import Charge
from queue_scheduler.decision import (
    Decision,
    Dequeue,
    Notice,
    Reason,
    Refusal,
    Refused,
    Rest,
    WriteFailure,
)
from queue_scheduler.framework.extension_points import Plugin, WakingInTurn
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo, unit_key
from queue_scheduler.queueing.queue_policies import NOT_SERVED_POLICIES, PRIORITY, QueuePolicy
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.unit_demand import build_grants
from queue_scheduler.unit_record import Standing, UnitRecord, judge, version_of
from queue_scheduler.unit_registry import UnitRegistry
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    MAX_DEPTH,
    WAIT_FOR_PODS_RUNNING,
    read_annotation,
    read_int32,
)


class Engine:
    """The scheduler's beliefs and decisions. Not thread-safe; `shared_engine` holds its lock."""

    def __init__(self, plugins: PluginRunner, policies: Iterable[QueuePolicy]) -> None:
        self._plugins = plugins
        self._policies: Mapping[str, QueuePolicy] = {policy.name: policy for policy in policies}
        self._units = UnitRegistry(plugins)
        self._notices: list[Notice] = []
        self._protected: dict[str, QueueUnitInfo] = {}

    # === facts ================================================================================

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        """Take a new or changed queue."""
        name = queue.metadata.name
        line = self._units.queues.line(name)
        policy = self._policy_for(queue, line)
        again: list[str] = []
        if line is None or _places_differently(line, queue, policy):
            waiting = self._units.pull_out(line) if line is not None else []
            again = [*waiting, *self._units.held_for(f"queue/{name}")]
        rank = self._plugins.rank(queue)
        if line is not None and self._units.queues.rank(name) != rank:
            self._wake_all(line)  # they wait in their queue's place
        line = self._units.queues.put(queue, policy, rank)
        annotations = queue.metadata.annotations
        line.max_depth = _read_depth(read_annotation(annotations, MAX_DEPTH), line.max_depth)
        waits = read_annotation(annotations, WAIT_FOR_PODS_RUNNING) == "true"
        self._units.set_waits_for_pods(line, waits=waits)
        self._units.changed_lines[name] = None
        self._units.place_again(again)
        return self._settle()

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted queue; its units are held until one of that name is there again."""
        line = self._units.queues.line(name)
        if line is None:
            return ()
        waiting = self._units.pull_out(line)
        self._units.queues.remove(name)
        self._units.changed_lines.pop(name, None)
        self._units.place_again([*waiting, *self._units.held_for(f"queue/{name}")])
        return self._settle()

    def on_queue_unit(self, unit: QueueUnit, *, is_rewound: bool = False) -> tuple[str, ...]:
        """Take a new or changed unit.

        Args:
            unit: The object.
            is_rewound: The server's history was replaced (restored from a backup): what is known
                of the unit is void, whatever the versions say.
        """
        units = self._units
        uid = unit.metadata.uid
        if is_rewound:
            units.revive(uid)
        elif units.is_gone(uid):
            return ()
        version = version_of(unit)
        record = units.records.get(unit.metadata.key)
        if record is not None and 0 < version <= record.version and not is_rewound:
            return ()
        if record is not None and record.unit.metadata.uid != uid:
            units.forget(record)
            record = None
        self._put(unit, version, record)
        return self._settle()

    def _put(self, unit: QueueUnit, version: int, record: UnitRecord | None) -> None:
        units = self._units
        units.bookings.pods.on_unit(unit, None if record is None else record.unit)
        verdict = judge(unit)
        if record is None or not units.can_stay(record, unit, version, verdict):
            units.leave(record)
            units.place(unit, version, verdict, record)

    def on_queue_unit_gone(self, unit: QueueUnit) -> tuple[str, ...]:
        """Take a deleted unit; its living pods stay charged until they are gone."""
        record = self._units.records.get(unit.metadata.key)
        if record is None or record.uid != unit.metadata.uid:
            return ()
        self._units.forget(record)
        return self._settle()

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a new or changed quota."""
        return self._on_quotas_changed(self._plugins.on_quota(quota))

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a deleted quota; bookings stay under its name, its waiting units are held."""
        return self._on_quotas_changed(self._plugins.on_quota_gone(quota))

    def _on_quotas_changed(self, names: set[str]) -> tuple[str, ...]:
        self._units.place_again_for(sorted(names))
        self._units.queues.on_limits_changed(self._plugins.domains)
        return self._settle()

    def on_pod(self, pod: Pod) -> tuple[str, ...]:
        """Take a new or changed pod."""
        problem = self._units.bookings.pods.on_pod(pod)
        if problem is not None:
            self._notice("Pod", pod.metadata.key, pod.metadata.uid, "InvalidRequests", problem)
        return self._settle()

    def on_pod_gone(self, pod: Pod) -> tuple[str, ...]:
        """Take a deleted pod."""
        self._units.bookings.pods.on_pod_gone(pod)
        return self._settle()

    def on_node(self, node: Node) -> tuple[str, ...]:
        """Take a new or changed node."""
        self._plugins.on_node(node)
        return self._settle()

    def on_node_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted node."""
        self._plugins.on_node_gone(name)
        return self._settle()

    # === decisions ============================================================================

    def decide_next(self, queue_name: str, now: float) -> Decision:
        """Decide the next unit of a queue, if it is the queue's turn.

        Args:
            queue_name: The queue whose worker asks.
            now: The worker's clock, in seconds; only compared with `retry_at` of failed writes.

        Returns:
            Dequeue: booked; write it, then call `on_written` or `on_write_failed`.
            Refused: nothing to do; ask again at once.
            Rest: ask again when woken, or at `until`.
        """
        line = self._units.queues.line(queue_name)
        if line is None:
            return Rest()
        if line.not_before > now:
            return Rest(until=line.not_before)
        if line.not_before:
            line.not_before = 0.0
            self._units.queues.refresh(line, self._plugins.domains)
        ahead = self._units.queues.queue_ahead_of(queue_name)
        if ahead is None:
            return Rest(wake=self._units.queues.take_wakes())
        if ahead:
            return Rest(behind=ahead, wake=(ahead,))
        return self._decide(line)

    def _decide(self, line: SchedulingQueue) -> Decision:
        key = line.next_key()
        assert key is not None, f"queue {line.name} is movable and has nothing to decide"
        record = self._units.records[unit_key(key)]
        info = record.info
        assert info is not None, f"{record.key} is in line without a demand"
        self._units.changed_lines[line.name] = None
        refusal = self._plugins.check(info) or self._plugins.reserve(info)
        if refusal is not None:
            return self._refuse(line, info, *refusal)
        # Who is asked in vain keeps his turn.
        self._units.queues.served(line)
        return self._start(line, record, info)

    def _refuse(
        self, line: SchedulingQueue, info: QueueUnitInfo, refusal: Refusal, by: Plugin
    ) -> Refused:
        number = line.refuse(info, refusal)
        self._plugins.wait((line.name, number), info, refusal, by)
        # Nothing is booked and nobody's head has changed: it is only somebody else's turn.
        return Refused(unit=info.key, queue=line.name, refusal=refusal, wake=self._pass_on())

    def _start(self, line: SchedulingQueue, record: UnitRecord, info: QueueUnitInfo) -> Dequeue:
        units, unit = self._units, record.unit
        units.leave(record)
        units.bookings.note_reserved(info)
        units.enter(
            UnitRecord(unit=unit, version=record.version, standing=Standing.DECIDED, info=info)
        )
        return Dequeue(
            unit=info.key,
            uid=info.uid,
            resource_version=unit.metadata.resource_version,
            queue=info.queue,
            quota=info.quota,
            grants=build_grants(info.demand),
            is_waited_for=line.waits_for_pods,
            wake=self._settle(is_news=False),
        )

    def on_written(self, decision: Dequeue, unit: QueueUnit) -> tuple[str, ...]:
        """Take what the server holds after the write, or after an outcome that was unknown.

        If the unit is booked by it the decision stands, otherwise it is taken back and the unit
        decided again.
        """
        record = self.open_record(decision)
        if record is None or unit.metadata.uid != decision.uid:
            # Decided meanwhile by newer news, or made again under the same name.
            return self.on_queue_unit(unit)
        self._put(unit, version_of(unit), record)
        return self._settle()

    def on_write_failed(
        self,
        decision: Dequeue,
        failure: WriteFailure,
        *,
        retry_at: float = 0.0,
        why: str = "",
    ) -> tuple[str, ...]:
        """Take the booking back.

        Args:
            decision: What could not be written.
            failure: What became of it. After REJECTED, which may follow another, the unit is in
                line again; after all others it waits for its fresh object (one that had come
                already would have ended the decision).
            retry_at: Until when the queue rests, in the worker's clock; 0: it goes on.
            why: After REFUSED, the server's words.
        """
        record = self.open_record(decision)
        if record is None:
            return ()
        if failure is WriteFailure.REFUSED:
            self._notice("QueueUnit", decision.unit, decision.uid, "AdmissionRefused", why)
        self._units.leave(record)
        line = self._units.queues.line(decision.queue)
        if retry_at and line is not None:
            self._units.queues.back_off(line, retry_at)
            self._units.changed_lines[line.name] = None
        if failure is WriteFailure.REJECTED:
            self._units.place(record.unit, record.version, judge(record.unit), record)
        else:
            stale = replace(record, standing=Standing.STALE)
            self._units.enter(stale)
            self._units.charge_living(stale)
        return self._settle()

    # === questions ============================================================================

    @property
    def queues(self) -> QueueSet:
        """The queues and their lines; for reading."""
        return self._units.queues

    @property
    def units(self) -> UnitRegistry:
        """The units, where they stand, and the counts of queues; for reading."""
        return self._units

    @property
    def plugins(self) -> PluginRunner:
        """The plugins; for reading."""
        return self._plugins

    def record(self, key: str) -> UnitRecord | None:
        """Return what is known of a unit."""
        return self._units.records.get(key)

    def open_record(self, decision: Dequeue) -> UnitRecord | None:
        """Return the unit of a decision about which nothing newer is known, or None."""
        record = self._units.records.get(decision.unit)
        if record is None or record.standing not in {Standing.DECIDED, Standing.STALE}:
            return None
        # The same unit may have been decided again, from a newer version.
        known = record.unit.metadata
        this_one = (known.uid, known.resource_version) == (decision.uid, decision.resource_version)
        return record if this_one else None

    def refusal_of(self, key: str) -> Refusal | None:
        """Return why a unit waits; None where it does not."""
        record = self._units.records.get(key)
        if record is None:
            return None
        if record.hold is not None:
            return record.hold
        line = self._units.queues.line(record.info.queue) if record.info else None
        if record.standing is Standing.STALE:
            return Refusal(reason=Reason.WRITE_FAILED, detail="its admission was not written")
        if record.standing is not Standing.WAITING or line is None or record.info is None:
            return None
        return line.refusal_of(record.info)

    def waiting(self, queue_name: str) -> Iterator[UnitRecord]:
        """Iterate lazily over the units in a queue's line, in order."""
        line = self._units.queues.line(queue_name)
        keys: Iterable[OrderKey] = line.in_order() if line is not None else ()
        return (self._units.records[unit_key(key)] for key in keys)

    def charge_of(self, uid: Uid) -> Charge | None:
        """Return what is booked for a uid."""
        return self._units.bookings.charge_of(uid)

    def take_notices(self) -> list[Notice]:
        """Return, once, what users should read as events."""
        notices = [*self._notices, *self._plugins.take_notices()]
        self._notices.clear()
        return notices

    def fork(self) -> Engine:
        """Return an independent engine with the same beliefs; copies containers, not units."""
        plugins = self._plugins.fork()
        twin = Engine(plugins, self._policies.values())
        twin._units = self._units.fork(plugins)
        twin._protected = dict(self._protected)
        if plugins.without_fork:
            twin._forget_refusals()
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        self._units.validate()

    # === afterwards ===========================================================================

    def _settle(self, *, is_news: bool = True) -> tuple[str, ...]:
        """After a change: book what pods ask for, wake whom it helps; return the queues to ask.

        A decision of our own is no news: it makes no room, so it wakes nobody whose plugin can
        not say what would help.
        """
        units, queues = self._units, self._units.queues
        if units.bookings.pods.has_changed:
            units.charge_changed_pods()
        if queues.changed_heads and self._plugins.has_guarantees:
            self._protect_first_units()
        for name, number in self._plugins.take_woken(anything_changed=is_news):
            line = queues.line(name)
            if line is not None and line.wake(number):
                units.changed_lines[name] = None
        return self._pass_on()

    def _pass_on(self) -> tuple[str, ...]:
        """Bring the turns up to date, offer what room there is; return the queues to ask."""
        units, queues = self._units, self._units.queues
        if units.changed_lines:
            for name in units.changed_lines:
                line = queues.line(name)
                if line is not None:
                    queues.refresh(line, self._plugins.domains)
            units.changed_lines.clear()
        for plugin in self._plugins.waking_in_turn:
            for domain in plugin.stirred_domains():
                self._offer(plugin, domain)
        return queues.take_wakes()

    def _offer(self, plugin: WakingInTurn, domain: str) -> None:
        """Wake classes of a domain in turn, until a queue that comes before the next can move.

        One that is woken is not always movable: its queue may be backing off, or wait for pods, or
        somebody stands before it. So it is not enough to wake the first.
        """
        queues = self._units.queues
        ahead = queues.first_place(domain)
        while (first := plugin.first_woken(domain, queues.place_of, ahead)) is not None:
            place, waiter = first
            if ahead is not None and ahead < place:
                return
            plugin.stop_waiting(waiter)
            line = queues.line(waiter[0])
            if line is not None and line.wake(waiter[1]):
                queues.refresh(line, self._plugins.domains)
                ahead = queues.first_place(domain)
                if ahead is not None and ahead <= place:
                    return  # nobody who is offered next comes before

    def _protect_first_units(self) -> None:
        """Tell who keeps guarantees which unit of each quota waits first."""
        queues, records = self._units.queues, self._units.records
        changed = sorted(queues.changed_heads)
        queues.changed_heads.clear()
        for quota in changed:
            key = queues.first_waiting(quota)
            info = records[unit_key(key)].info if key is not None else None
            if self._protected.get(quota) is info:
                continue
            if info is None:
                del self._protected[quota]
            else:
                self._protected[quota] = info
            self._plugins.protect(quota, info)

    def _forget_refusals(self) -> None:
        """A copy without some plugins: what they refused is asked again."""
        for line in self._units.queues:
            self._wake_all(line)
        self._units.queues.on_limits_changed(self._plugins.domains)
        self._settle()

    def _wake_all(self, line: SchedulingQueue) -> None:
        for number in line.wake_all():
            self._plugins.stop_waiting((line.name, number))
        self._units.changed_lines[line.name] = None

    def _policy_for(self, queue: Queue, line: SchedulingQueue | None) -> QueuePolicy:
        """Return the policy that the queue names; an unknown name keeps the last good one."""
        name = queue.spec.queue_policy
        policy = self._policies.get(name) if name else PRIORITY
        if policy is not None:
            return policy
        # What a scheduler before this one had in force is in the status.
        recorded = self._policies.get(queue.status.policy_in_force, PRIORITY)
        last_good = line.policy if line is not None else recorded
        is_new = line is None or line.queue.spec.queue_policy != name
        if is_new and name not in NOT_SERVED_POLICIES:
            note = f"queue policy {name!r} is unknown; {last_good.name} stays in force"
            self._notice("Queue", queue.metadata.key, queue.metadata.uid, "UnknownPolicy", note)
        return last_good

    def _notice(self, kind: str, key: str, uid: Uid, reason: str, note: str) -> None:
        self._notices.append(Notice(kind=kind, key=key, uid=uid, reason=reason, note=note))


def _places_differently(line: SchedulingQueue, queue: Queue, policy: QueuePolicy) -> bool:
    """Say whether units of the queue must be placed again: order, checks or quotas changed."""
    old, new = line.queue, queue
    return (
        line.policy is not policy
        or old.spec.queue_policy != new.spec.queue_policy
        or old.spec.admission_checks != new.spec.admission_checks
        or old.metadata.annotations != new.metadata.annotations
        or old.metadata.labels != new.metadata.labels
    )


def _read_depth(text: str | None, before: int | None) -> int | None:
    """Return `koord-queue/max-depth`; removed or negative is no limit, nonsense changes nothing."""
    if text is None:
        return None
    depth = read_int32(text, before)
    return depth if depth is None or depth >= 0 else None
