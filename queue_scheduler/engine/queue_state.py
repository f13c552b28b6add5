"""The state of queues: which policy and options are in force, and which units move. Pure.

A queue names a policy, options and admission checks. A value that cannot be read leaves the last
valid one in force, and a notice reports it. If a change may place units differently, they are
placed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import lists_check
from queue_scheduler.cache.charge_times import date_charges
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Notice
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, unit_key
from queue_scheduler.preemption.eviction_rates import ALL
from queue_scheduler.queueing.queue_options import (
    MAX_SHOWN,
    QueueOptions,
    places_differently,
    read_options,
    recorded_options,
)
from queue_scheduler.queueing.queue_policies import PRIORITY, QueuePolicy
from queue_scheduler.queueing.queue_rules import boosted_priority
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.tenants.quota_use import QuotaUse
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.queue import Queue
from shared_api.queue_unit_phases import Phase
from shared_api.well_known_labels import MAX_BOOST, MAX_PRIORITY, PRIORITY_BOOST, read_boost


class QueueState:
    """Takes the facts about queues.

    Attributes:
        strict: Which queues are strict.
    """

    def __init__(
        self,
        units: UnitCache,
        plugins: PluginRunner,
        wake_up: WakeUp,
        policies: Iterable[QueuePolicy],
        strict: StrictMode,
    ) -> None:
        self.strict = strict
        self._units = units
        self._plugins = plugins
        self._wake_up = wake_up
        self._policies: Mapping[str, QueuePolicy] = {policy.name: policy for policy in policies}
        self._notices: list[Notice] = []

    def put(self, queue: Queue) -> None:
        """Take a new or changed queue."""
        name = queue.metadata.name
        answered = self._plugins.facts.on_queue(queue)
        current = self._units.queues.find(name)
        policy = self._policy_for(queue, current)
        again: list[str] = []
        is_new = current is None or current.rules.policy is not policy
        if is_new or (current is not None and places_differently(current.rules.api_object, queue)):
            waiting = self._units.pull_out(current) if current is not None else []
            again = [*waiting, *self._units.fact_waits.keys(f"queue/{name}")]
        rank = self._plugins.placing.rank(queue)
        if current is not None and self._units.queues.turns.rank(name) != rank:
            self._wake_up.wake_all(current)  # waiters are ordered by the rank of their queue
        options = self._read_options(queue, current)
        before = None if current is None else current.rules.options.preempt_min_seconds
        if before != options.preempt_min_seconds:
            self._wake_up.on_run_times_changed()  # queues below it may have that from it
        self._wake_up.limit_evictions(name, options.evictions_per_hour)
        current = self._units.queues.put(queue, policy, rank)
        self._units.set_options(current, options)
        self._track_use(current)
        self._units.changed_queues[name] = None
        self._units.place_again(again)
        self._units.place_again_for(sorted(answered))

    def drop(self, name: str) -> bool:
        """Forget a queue; return whether it was known."""
        queue = self._units.queues.find(name)
        if queue is None:
            return False
        answered = self._plugins.facts.on_queue_gone(name)
        waiting = self._units.pull_out(queue)
        if queue.rules.options.preempt_min_seconds is not None:
            self._wake_up.on_run_times_changed()
        self._wake_up.limit_evictions(name, None)
        self._units.queues.remove(name)
        self._units.usage.fair.track(name, None, ())
        self._units.bound_again(name)
        self._units.changed_queues.pop(name, None)
        self._units.place_again([*waiting, *self._units.fact_waits.keys(f"queue/{name}")])
        self._units.place_again_for(sorted(answered))
        return True

    def _track_use(self, queue: SchedulingQueue) -> None:
        """Count what accounts use in a queue whose policy asks for it."""
        fair = self._units.usage.fair
        if fair.is_on or queue.rules.fair is not None:
            fair.track(queue.name, queue.rules.fair, date_charges(self._units, fair.second))

    def take_turns_by_use(self, half_life: int) -> None:
        """Let queues of equal rank go by what their quotas have used; before any fact.

        Args:
            half_life: Seconds in which use decays by half.
        """
        usage = self._units.usage
        usage.quota_use = QuotaUse(self._plugins, half_life)
        self._units.queues.turns.go_by_use(usage.quota_use.ranks)

    def limit_evictions(self, per_hour: int) -> None:
        """Limit how many units may be evicted in an hour, for all queues; 0: any number."""
        self._wake_up.limit_evictions(ALL, per_hour or None)

    def phase_when_admitted(self, info: QueueUnitInfo) -> Phase:
        """Return the phase that follows once a unit has its quota and all checks are ready."""
        return self.strict.next_phase(info.queue, info.demand.total)

    def put_check(self, check: AdmissionCheck) -> None:
        """Take a new or changed AdmissionCheck."""
        if self._units.checks.put(check):
            self._place_again_for(check.metadata.name)

    def drop_check(self, name: str) -> None:
        """Forget an AdmissionCheck."""
        if self._units.checks.drop(name):
            self._place_again_for(name)

    def set_checks_served(self, *, are_served: bool) -> None:
        """Take whether the cluster serves AdmissionChecks; without the kind there are none."""
        self._units.checks.are_served = are_served
        for name in () if are_served else self._units.checks.names():
            self.drop_check(name)

    def _place_again_for(self, check: str) -> None:
        again: list[str] = []
        for queue in self._units.queues:
            if lists_check(queue.rules.api_object, check):
                again += [unit_key(key) for key in queue.pending.in_order()]
                again += self._units.fact_waits.keys(f"queue/{queue.name}")
        self._units.place_again(again)

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events on queues, and on units of them."""
        notices, self._notices = self._notices, []
        lowered, self._units.lowered_lately = self._units.lowered_lately, {}
        for key in lowered:
            record = self._units.records[key]
            if record.is_lowered:
                notices.append(_build_lowered_notice(record))
            if read_boost(record.unit.metadata.annotations) is None:
                notices.append(_build_boost_notice(record))
        return notices

    def fork(self, units: UnitCache, plugins: PluginRunner, wake_up: WakeUp) -> QueueState:
        """Return a copy over forked parts, without the pending notices."""
        return QueueState(units, plugins, wake_up, self._policies.values(), self.strict)

    def _policy_for(self, queue: Queue, current: SchedulingQueue | None) -> QueuePolicy:
        """Return the policy that the queue names; an unknown name keeps the last valid one."""
        name = queue.spec.queue_policy
        policy = self._policies.get(name) if name else PRIORITY
        if policy is not None:
            return policy
        # After a restart, the status says which policy the previous process had in force.
        recorded = self._policies.get(queue.status.policy_in_force, PRIORITY)
        last_good = current.rules.policy if current is not None else recorded
        if current is None or current.rules.api_object.spec.queue_policy != name:
            note = f"queue policy {name!r} is unknown; {last_good.name} stays in force"
            self._notice(queue, "UnknownPolicy", note)
        return last_good

    def _read_options(self, queue: Queue, current: SchedulingQueue | None) -> QueueOptions:
        """Return what the queue asks for; values that cannot be read keep their last valid ones."""
        before = current.rules.options if current is not None else recorded_options(queue)
        options = read_options(queue, before)
        for problem in options.problems:
            if problem not in before.problems:
                self._notice(queue, "UnreadableAnnotation", problem)
        if options.fair_problem not in {"", before.fair_problem}:
            self._notice(queue, "UnreadableFairShare", options.fair_problem)
        return replace(options, is_strict=self.strict.covers(queue.metadata.name))

    def _notice(self, queue: Queue, reason: str, note: str) -> None:
        meta = queue.metadata
        notice = Notice(kind="Queue", key=meta.key, uid=meta.uid, reason=reason, note=note)
        self._notices.append(notice)


def _build_boost_notice(record: CachedUnit) -> Notice:
    text = record.unit.metadata.annotations[PRIORITY_BOOST]
    shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    bounds = f"a whole number from {-MAX_BOOST} to {MAX_BOOST}"
    return Notice(
        kind="QueueUnit",
        key=record.key,
        uid=record.uid,
        reason="IgnoredAnnotation",
        note=f"annotation {PRIORITY_BOOST}: {shown!r} is not {bounds}; it is ignored",
    )


def _build_lowered_notice(record: CachedUnit) -> Notice:
    assert record.info is not None, f"{record.key} is lowered, and has no queue"
    number, queue = boosted_priority(record.unit), record.info.queue
    most = f"the {MAX_PRIORITY} of queue {queue}"
    note = f"priority {number} counts as {record.priority}, which is {most}"
    return Notice(
        kind="QueueUnit", key=record.key, uid=record.uid, reason="IgnoredAnnotation", note=note
    )
