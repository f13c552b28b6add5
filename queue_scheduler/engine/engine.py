"""The scheduling core: facts in, decisions out. No thread, lock, clock, network or log.

The scheduler's whole state lives here. Shells feed it facts and carry out its decisions::

    on_queue, on_queue_unit, on_quota, on_pod, on_node, ...   each returns the queues to wake
    on_time(wall)                         the time, and what it alone changes; the same
    decide_next(queue, now, wall) -> Dequeue | Refused | Preempt | Rest  one unit decided, or none
    grow(unit) -> Growth | Refusal | None                     more pods for one that runs
    on_written(decision, unit), on_write_failed(decision, ...), on_preempted(decision, ...)
    set_aside(unit, ...), end_aside(unit, ...)                a unit that cannot be decided
    fork()                                                    a copy for what-if questions

How a decision is made: a unit's object arrives and is *placed* (`_place`): its phase is judged, its
quota and queue are looked up, its demand is read. The unit is then pending in its queue, admitted,
on hold with a reason, or it has ended. `decide_next` takes the next unit of a queue, asks the
filters, and charges the unit before another one can be asked: check and charge are one call. When
a charge is released, exactly the classes of units that it may help are woken.

Facts are level-triggered: each may arrive twice, late, or for a new object under an old name. Of
two versions of one object the newer counts, so an older watch event never overwrites what the
process itself has written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import needed_checks, phase_after
from queue_scheduler.cache.charge_times import date_charges
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_demand import build_grants
from queue_scheduler.cache.unit_repair import charge_left_anew, forget_anyhow, place_anew
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge, version_of
from queue_scheduler.decision import (
    BEGINNING,
    Decision,
    Dequeue,
    Growth,
    Moment,
    Notice,
    Preempt,
    Refusal,
    Rest,
    UndecidedError,
    Victim,
    WriteFailure,
)
from queue_scheduler.engine.account_restore import AccountRestore
from queue_scheduler.engine.admission import UnitAdmission
from queue_scheduler.engine.backfill import Backfill
from queue_scheduler.engine.budget_changes import BudgetChanges
from queue_scheduler.engine.cluster_objects import ClusterObjects
from queue_scheduler.engine.growth import Growths
from queue_scheduler.engine.limit_changes import LimitChanges
from queue_scheduler.engine.queue_state import QueueState
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.engine.window_changes import WindowChanges
from queue_scheduler.framework.extension_points import QuotaSource
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, unit_key
from queue_scheduler.preemption.preemption_rounds import PreemptionRounds
from queue_scheduler.queueing.queue_policies import QueuePolicy
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.strict_mode import NOT_STRICT, StrictMode
from queue_scheduler.reservations.schedules import Schedule
from queue_scheduler.tenants.calendars import Calendar
from queue_scheduler.tenants.fair_use import StoredUses
from queue_scheduler.tenants.ledger import Ledger, StoredAccounts
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.placement import as_admitted
from shared_api.queue_unit_phases import Phase
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE

MAX_NOTICES: Final = 10_000
"""Notices that wait to be taken; above it the oldest are lost, as in the event reporter."""


class _Parts(NamedTuple):
    """The parts that hold an engine's state; each is built on those before it."""

    plugins: PluginRunner
    units: UnitCache
    backfill: Backfill
    rounds: PreemptionRounds
    wake_up: WakeUp
    queue_state: QueueState

    def fork(self) -> _Parts:
        """Return independent parts with the same state."""
        plugins = self.plugins.fork()
        units = self.units.fork(plugins)
        backfill = self.backfill.fork(units, plugins)
        rounds = self.rounds.fork(units, plugins)
        wake_up = self.wake_up.fork(units, plugins, backfill, rounds)
        queue_state = self.queue_state.fork(units, plugins, wake_up)
        return _Parts(plugins, units, backfill, rounds, wake_up, queue_state)


class Engine:
    """The scheduler's state and decisions. Not thread-safe; `shared_engine` holds its lock.

    The attributes are its parts, for questions: only its methods change them.

    Attributes:
        queues: The queues, with their pending units.
        turns: Whose turn is next, and which queues back off.
        queue_state: Which policy and options are in force in each queue.
        units: The units and their states; `cache.known_units` has questions about them.
        usage: What is charged, by uid.
        policies: The QuotaPolicies, with what is in force for each quota.
        reservations: The QueueReservations, with what of each is in force.
        pods: All pods, the held ones included.
        living_pods: The living ones, by unit.
        plugins: The plugins, with the quotas; questions are in `framework.plugin_questions`.
        placing: Where the plugins place a unit, and what they require of it.
        objects: The quotas and nodes as last seen.
        admission: Whether a pending unit may start now.
        limit_rules: Which limits of users and groups quotas have.
        budget_rules: Which budgets quotas have.
        window_rules: When units must not run.
        account_restore: Takes what was kept of accounts.
        backfill: Which heads others must not delay, and until when.
        growths: The running units that have grown.
        rounds: The eviction rounds.
        nominations: The units for which rounds keep room.
        candidates: Which units may be evicted for another.
    """

    def __init__(
        self,
        plugins: PluginRunner,
        policies: Iterable[QueuePolicy],
        strict: StrictMode = NOT_STRICT,
        protect_seconds: float = 0.0,
        queue_namespace: str = DEFAULT_QUEUE_NAMESPACE,
        *,
        names_are_proved: bool = False,
        ledger: Ledger | None = None,
    ) -> None:
        """Start with no facts.

        Args:
            plugins: The plugins.
            policies: How queues may order their units.
            strict: In which queues nodes are requested before a unit may start.
            protect_seconds: How long after its admission a unit is not evicted for another.
            queue_namespace: The namespace of the queues, for events on them.
            names_are_proved: Whether the API server proves who submits jobs.
            ledger: An empty one; None: accounts are not kept.
        """
        units = UnitCache(plugins, queue_namespace)
        units.usage.ledger = ledger
        units.usage.are_names_proved = names_are_proved
        backfill = Backfill(units, plugins)
        rounds = PreemptionRounds(units, plugins, protect_seconds)
        wake_up = WakeUp(units, plugins, backfill, rounds)
        queue_state = QueueState(units, plugins, wake_up, policies, strict)
        self._take_over(_Parts(plugins, units, backfill, rounds, wake_up, queue_state))

    def _take_over(self, parts: _Parts) -> None:
        """Replace the state by these parts."""
        self._parts = parts
        self.plugins, self.units, self._wake_up = parts.plugins, parts.units, parts.wake_up
        self.placing = self.plugins.placing
        self.queues, self.usage = self.units.queues, self.units.usage
        self.policies, self.reservations = self.units.policies, self.units.reservations
        self.turns, self.pods = self.queues.turns, self.usage.known
        self.living_pods = self.pods.of_units
        self.backfill, self.rounds = parts.backfill, parts.rounds
        self.candidates, self.nominations = self.rounds.search, self.rounds.nominations
        self.queue_state = parts.queue_state
        self.objects = ClusterObjects()
        self.growths = Growths(self.units, self.plugins)
        self.admission = UnitAdmission(
            self.units, self.plugins, self.backfill, self.rounds, self._wake_up
        )
        self.limit_rules = LimitChanges(self.units, self.plugins, self._wake_up)
        self.budget_rules = BudgetChanges(self.units, self.plugins, self._wake_up)
        self.window_rules = WindowChanges(self.units, self._wake_up)
        self.account_restore = AccountRestore(self.units, self.budget_rules)
        # Those of a replica that does not lead are never taken, and users cause them.
        self._notices: deque[Notice] = deque(maxlen=MAX_NOTICES)
        # The end of the second up to which time has passed for accounts.
        self._counted_until = BEGINNING

    # === facts ================================================================================

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        """Take a new or changed queue."""
        self.account_restore.finish()
        self._counted_until = BEGINNING  # a queue may be the first that orders accounts
        self.queue_state.put(queue)
        return self._wake_up.wake_affected()

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted queue; its units are on hold until a queue of that name exists again."""
        self.account_restore.finish()
        if not self.queue_state.drop(name):
            return ()
        self.rounds.waiters.forget_queue(name)
        return self._wake_up.wake_affected()

    def on_queue_unit(self, unit: QueueUnit, *, is_rewound: bool = False) -> tuple[str, ...]:
        """Take a new or changed unit.

        Args:
            unit: The object.
            is_rewound: The server's history was replaced (restored from a backup): what is known of
                the unit is void, whatever the versions say.
        """
        units = self.units
        uid = unit.metadata.uid
        if is_rewound:
            units.gone.revive(uid)
        elif uid in units.gone:
            return ()
        version = version_of(unit)
        record = units.records.get(unit.metadata.key)
        if record is not None and 0 < version <= record.version and not is_rewound:
            return ()
        if record is not None and record.unit.metadata.uid != uid:
            units.forget(record)
            record = None
        self._put(unit, version, record)
        return self._wake_up.wake_affected()

    def _put(self, unit: QueueUnit, version: int, record: CachedUnit | None) -> None:
        units = self.units
        unit = as_admitted(unit)
        self.pods.on_unit(unit, None if record is None else record.unit)
        if self.rounds.rates.is_on:
            self.rounds.rates.follow(None if record is None else record.unit, unit)
        verdict = judge(unit)
        if record is None or not units.can_stay(record, unit, version, verdict):
            units.leave(record)
            units.place(unit, version, verdict, record)

    def on_queue_unit_gone(self, unit: QueueUnit) -> tuple[str, ...]:
        """Take a deleted unit; its living pods stay charged until they are gone."""
        record = self.units.records.get(unit.metadata.key)
        if record is None or record.uid != unit.metadata.uid:
            return ()
        self.units.forget(record)
        return self._wake_up.wake_affected()

    def place_anew(self, key: str, unit: QueueUnit | None) -> tuple[str, ...]:
        """Place a unit from its newest object and charge it, whatever was kept of it; for audits.

        Args:
            key: `namespace/name` of the unit.
            unit: The object; None if there is none.
        """
        units = self.units
        record = units.records.get(key)
        if record is not None and (unit is None or record.uid != unit.metadata.uid):
            forget_anyhow(units, record)
            record = None
        if unit is not None:
            units.gone.revive(unit.metadata.uid)
            place_anew(units, as_admitted(unit), version_of(unit), record)
        return self._wake_up.wake_affected()

    def forget_pod(self, key: str) -> tuple[str, ...]:
        """Forget what is counted under the name of a pod that is gone; for audits and forks."""
        pods = self.living_pods
        facts = pods.find(key, None).facts
        if facts is not None:
            meta = ObjectMeta(name=key.partition("/")[2], namespace=facts.namespace, uid=facts.uid)
            pods.on_pod_gone(Pod(metadata=meta))
        self.pods.held.forget(key)
        self.plugins.facts.on_foreign_pod(key, None)
        self._note_limits(changed=True)
        return self._wake_up.wake_affected()

    def charge_anew(self, uid: Uid) -> tuple[str, ...]:
        """Charge living pods whose unit does not exist, whatever was charged; for audits."""
        charge_left_anew(self.usage, uid)
        return self._wake_up.wake_affected()

    def on_quota(self, quota: ElasticQuota | QuotaSource) -> tuple[str, ...]:
        """Take a new or changed quota, or another object that quotas come from."""
        self.account_restore.finish()
        self._note_limits(changed=self.objects.put(quota))
        return self._on_quotas_changed(self.plugins.facts.on_quota(quota))

    def on_quota_gone(self, quota: ElasticQuota | QuotaSource) -> tuple[str, ...]:
        """Take a deleted quota; charges stay under its name, and its pending units go on hold."""
        self.account_restore.finish()
        self._note_limits(changed=self.objects.drop(type(quota), quota.metadata.key))
        return self._on_quotas_changed(self.plugins.facts.on_quota_gone(quota))

    def _on_quotas_changed(self, names: set[str]) -> tuple[str, ...]:
        self.usage.fair.on_quotas_changed(self.usage.charges)
        if self.usage.quota_use is not None:
            self.usage.quota_use.on_quotas_changed()
        self.limit_rules.on_quotas_changed()
        self.budget_rules.on_quotas_changed()
        self.window_rules.on_quotas_changed()
        self.units.place_again_for(sorted(names))
        self._wake_up.on_limits_changed()
        return self._wake_up.wake_affected()

    def _note_limits(self, *, changed: bool) -> None:
        if changed:
            self.backfill.other_changes += 1

    def on_pod(self, pod: Pod) -> tuple[str, ...]:
        """Take a new or changed pod."""
        problem = self.pods.on_pod(pod)
        if problem is not None:
            self._notice("Pod", pod.metadata.key, pod.metadata.uid, "InvalidRequests", problem)
        return self._wake_up.wake_affected()

    def on_pod_gone(self, pod: Pod) -> tuple[str, ...]:
        """Take a deleted pod."""
        self.pods.on_pod_gone(pod)
        return self._wake_up.wake_affected()

    def on_time(self, wall: datetime) -> tuple[str, ...]:
        """Take the wall time; only time makes a pod stuck that no scheduler tries to bind.

        Where accounts are kept, what is charged from now on counts from this second on.
        """
        if self.account_restore.is_behind:
            self.account_restore.advance(int(wall.timestamp()))
            is_renewed = False
        else:
            is_renewed = self._advance(wall)
        if not (self.usage.on_time(wall) or is_renewed):
            return ()
        return self._wake_up.wake_affected()

    @property
    def counts_time(self) -> bool:
        """Whether anything is counted over time: then `on_time` is to be called each second."""
        usage = self.usage
        return usage.ledger is not None or usage.fair.is_on or usage.quota_use is not None

    def _advance(self, wall: datetime) -> bool:
        """Let time pass; return whether accounts are ordered anew, or budgets have room."""
        if self.usage.held is not None:
            self.account_restore.finish()
        elif wall <= self._counted_until:
            return False
        if not self.counts_time:
            return False
        ledger, fair, budgets = self.usage.ledger, self.usage.fair, self.usage.budgets.accounts
        self._counted_until = wall.replace(microsecond=999_999)
        second = int(wall.timestamp())
        if ledger is not None:
            ledger.advance(second)
            budgets.advance(second)
        is_other = bool(budgets.eased or budgets.tightened) or self._advance_turns(second)
        if not fair.is_on:
            return is_other
        is_first = not fair.second
        fair.advance(second)
        if is_first and fair.second:
            # What was charged before the time was known counts since it was, not since 1970.
            fair.restart(date_charges(self.units, second))
        if not fair.moved:
            return is_other
        self._wake_up.renew_ranks()
        return True

    def _advance_turns(self, second: int) -> bool:
        """Let time pass for the use of quotas; return whether turns may have changed."""
        use = self.usage.quota_use
        if use is None:
            return False
        is_first = not use.second
        use.advance(second)
        if is_first and use.second:
            use.restart(date_charges(self.units, second), StoredUses())
        if not use.moved:
            return False
        self._wake_up.follow_use()
        return True

    def on_accounts(self, stored: StoredAccounts, *, in_slices: bool = False) -> tuple[str, ...]:
        """Take the accounts that were kept by the leader before this one.

        What is charged now counts from when it was charged, not from when this process saw it, in
        queues that order accounts as well. Of what this engine does not count, nothing is taken.

        Args:
            stored: The accounts.
            in_slices: Whether the caller calls `go_on_with_accounts` while
                `account_restore.is_behind`; the next decision does all that is left.
        """
        if not self.counts_time:
            return ()
        self.account_restore.begin(stored)
        if not in_slices:
            self.account_restore.finish()
        return self._wake_up.wake_affected()

    def go_on_with_accounts(self) -> tuple[str, ...]:
        """Do the next slice of what `on_accounts` has begun."""
        self.account_restore.go_on()
        return self._wake_up.wake_affected()

    def on_edges(self, edges: tuple[int, ...]) -> tuple[str, ...]:
        """Take the seconds at which the periods of accounts begin and end."""
        self.account_restore.finish()
        if self.usage.ledger is not None:
            self.usage.ledger.set_edges(edges)
        return ()

    def on_calendars(self, calendars: tuple[Calendar, ...]) -> tuple[str, ...]:
        """Take when the periods of budgets begin; before the policies that name them."""
        self.account_restore.finish()
        return self.budget_rules.take_calendars(calendars)

    def on_node(self, node: Node) -> tuple[str, ...]:
        """Take a new or changed node."""
        self.plugins.facts.on_node(node)
        self._note_limits(changed=self.objects.put(node))
        return self._wake_up.wake_affected()

    def on_node_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted node."""
        self.plugins.facts.on_node_gone(name)
        self._note_limits(changed=self.objects.drop(Node, name))
        return self._wake_up.wake_affected()

    def on_admission_check(self, check: AdmissionCheck) -> tuple[str, ...]:
        """Take a new or changed AdmissionCheck; units that need an inactive one are on hold."""
        self.queue_state.put_check(check)
        return self._wake_up.wake_affected()

    def on_admission_check_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted AdmissionCheck."""
        self.queue_state.drop_check(name)
        return self._wake_up.wake_affected()

    def on_admission_checks_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Record whether the cluster serves AdmissionChecks; without the kind there are none."""
        self.queue_state.set_checks_served(are_served=are_served)
        return self._wake_up.wake_affected()

    def on_quota_policy(self, policy: QuotaPolicy, *, in_slices: bool = False) -> tuple[str, ...]:
        """Take a new or changed QuotaPolicy; one outside the namespace of queues does not count.

        Args:
            policy: The object.
            in_slices: Whether the caller calls `go_on_with_limits` while `limit_rules.is_behind`.
        """
        return self._on_policies_changed(self.policies.put(policy), in_slices=in_slices)

    def on_quota_policy_gone(self, name: str, *, in_slices: bool = False) -> tuple[str, ...]:
        """Take a deleted QuotaPolicy; for its quotas the next older policy counts, if any.

        `in_slices` as in `on_quota_policy`.
        """
        return self._on_policies_changed(self.policies.drop(name), in_slices=in_slices)

    def on_quota_policies_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Record whether the cluster serves QuotaPolicies; without the kind there are none."""
        quotas = self.policies.set_served(are_served=are_served)
        return self._on_policies_changed(quotas, in_slices=False)

    def _on_policies_changed(self, quotas: tuple[str, ...], *, in_slices: bool) -> tuple[str, ...]:
        self.account_restore.finish()
        self._note_limits(changed=bool(quotas))
        limits = {quota: self.policies.limits_of(quota).rules for quota in quotas}
        wake = self.limit_rules.set_rules(limits, in_slices=in_slices)
        return tuple(dict.fromkeys((*wake, *self.budget_rules.renew(quotas))))

    def on_schedules(self, schedules: tuple[Schedule, ...]) -> tuple[str, ...]:
        """Take when the windows of reservations are; before the reservations that name them."""
        self.account_restore.finish()
        return self.window_rules.put_schedules(schedules)

    def on_reservation(self, reservation: QueueReservation) -> tuple[str, ...]:
        """Take a new or changed QueueReservation; one outside the namespace of queues is none."""
        self.account_restore.finish()
        return self.window_rules.put(reservation)

    def on_reservation_gone(self, name: str) -> tuple[str, ...]:
        """Take a deleted QueueReservation."""
        self.account_restore.finish()
        return self.window_rules.drop(name)

    def on_reservations_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Record whether the cluster serves QueueReservations; without the kind there are none."""
        self.account_restore.finish()
        return self.window_rules.set_served(are_served=are_served)

    def go_on_with_limits(self) -> tuple[str, ...]:
        """Do the next slice of a change of limits; see `limit_changes`."""
        return self.limit_rules.go_on()

    def check_limits(self, *, repairs: bool) -> tuple[str, ...]:
        """Do the next slice of a check of what users and groups have; for audits.

        Args:
            repairs: Whether sums that are wrong are replaced.
        """
        return self.limit_rules.check_sums(repairs=repairs)

    def recount_tenants(self) -> tuple[str, ...]:
        """Sum up anew what budgets are charged, and seat pending units anew; for audits."""
        self.account_restore.finish()
        self.budget_rules.recount()
        self.limit_rules.seat_anew()
        return self._wake_up.wake_affected()

    # === decisions ============================================================================

    def decide_next(self, queue_name: str, now: float, wall: datetime = BEGINNING) -> Decision:
        """Decide the next unit of a queue, if it is the queue's turn.

        Args:
            queue_name: The queue whose worker asks.
            now: Seconds of the worker's monotonic clock; compared with `retry_at` of failed writes
                and with the times of eviction rounds.
            wall: Wall time, for the times in objects: since when units are admitted and run.
                Without it no unit's protection ends, and in a queue that backfills no unit passes a
                head.

        Returns:
            Dequeue: the unit is charged; write it, then call `on_written` or `on_write_failed`.
            Preempt: request these evictions, then call `on_preempted`; ask again at once.
            Refused: nothing to do; ask again at once.
            Rest: ask again when woken, or at `until`.

        Raises:
            UndecidedError: Something raised about the next unit; call `set_aside`.
        """
        queue = self.queues.find(queue_name)
        if queue is None:
            return Rest()
        self._advance(wall)
        if self.usage.limits.lagging and self.limit_rules.follow_next(queue):
            # Other units may be next by now, in other queues, too.
            return Rest(wake=(queue_name, *self._wake_up.wake_affected()))
        turns = self.turns
        until = turns.backs_off_until(queue_name)
        if until is not None:
            if until > now:
                return Rest(until=until)
            turns.end_back_off(queue, self.plugins.domains)
        if self.backfill.unreviewed:
            self._wake_up.review(queue_name, Moment(now, wall))
        if not self.rounds.is_idle:
            for waiter in self.rounds.on_time(queue_name, now):
                self._wake_up.wake(waiter)
        ahead = turns.queue_ahead_of(queue_name)
        if ahead is None:
            until = self.rounds.next_time(queue_name)
            return Rest(until=until, wake=turns.take_wakes())
        if ahead:
            # The rest of this queue may just have ended, which can change other queues' turns.
            wake = (ahead, *turns.take_wakes())
            until = self.rounds.next_time(queue_name)
            return Rest(until=until, behind=ahead, wake=tuple(dict.fromkeys(wake)))
        return self._decide(queue, Moment(now, wall))

    def _decide(self, queue: SchedulingQueue, moment: Moment) -> Decision:
        key = queue.next_key()
        assert key is not None, f"queue {queue.name} is movable and has nothing to decide"
        record = self.units.records[unit_key(key)]
        info = record.info
        assert info is not None, f"{record.key} is pending without a demand"
        self.units.changed_queues[queue.name] = None
        try:
            answer = self.admission.try_admit(queue, info, moment)
            if isinstance(answer, QueueUnitInfo):
                return self._start(queue, record, answer)
        except Exception as error:
            raise UndecidedError(record.key) from error
        return answer

    def _start(self, queue: SchedulingQueue, record: CachedUnit, wanted: QueueUnitInfo) -> Dequeue:
        units, unit, info = self.units, record.unit, record.info
        assert info is not None, f"{record.key} is decided without a demand"
        # A queue that was offered a turn and refused keeps its place; only a start counts.
        self.turns.served(queue.name)
        checks = needed_checks(queue.rules.api_object, unit)
        strict = queue.rules.options.is_strict
        to = phase_after(
            checks, self.queue_state.phase_when_admitted(info) if strict else Phase.DEQUEUED
        )
        decided = CachedUnit(
            unit=unit,
            version=record.version,
            state=UnitState.ASSUMED,
            info=info,
            to=to,
            admitted_on=self.plugins.noted,
        )
        if wanted is not info:
            decided = replace(decided, granting=wanted.demand.granted)
        try:
            self.usage.note_reserved(wanted)
            unrequested = self.placing.find_unrequested(wanted)
            units.leave(record)
            units.enter(decided)
            wake = self._wake_up.wake_affected(is_news=False)
        except BaseException:
            self._undo_start(queue, record)
            raise
        return Dequeue(
            unit=info.key,
            uid=info.uid,
            resource_version=unit.metadata.resource_version,
            queue=info.queue,
            quota=info.quota,
            grants=build_grants(wanted.demand),
            to=to,
            checks=checks,
            is_waited_for=queue.rules.options.waits_for_pods,
            unrequested=unrequested,
            wake=wake,
        )

    def _undo_start(self, queue: SchedulingQueue, before: CachedUnit) -> None:
        """Take back a decision that was never returned, since a plugin raised while it was made."""
        units = self.units
        record = units.records[before.key]
        if record is not before:
            units.leave(record)
        units.place(before.unit, before.version, judge(before.unit), before)
        # The caller asks again, perhaps before another change would refresh the turns.
        self.turns.refresh(queue, self.plugins.domains)

    def set_aside(self, key: str, *, why: str = "") -> tuple[str, ...]:
        """Set a pending unit aside that cannot be decided: others are decided first.

        It waits until `end_aside`, or until its object changes. `why` becomes an event on it, ""
        for none.
        """
        record = self.units.records.get(key)
        if record is None or record.state is not UnitState.WAITING:
            return ()
        if why:
            self._notice("QueueUnit", key, record.unit.metadata.uid, "DecisionFailed", why)
        self.rounds.on_refused(key)
        self.units.leave(record)
        self._set_conflict(record)
        return self._wake_up.wake_affected()

    def end_aside(self, key: str, resource_version: str) -> tuple[str, ...]:
        """Let a unit that was set aside in this version be decided again."""
        record = self.units.records.get(key)
        if record is None or record.state is not UnitState.CONFLICT:
            return ()
        if record.unit.metadata.resource_version != resource_version:
            return ()
        self.units.leave(record)
        self.units.place(record.unit, record.version, judge(record.unit), record)
        return self._wake_up.wake_affected()

    def _set_conflict(self, record: CachedUnit) -> None:
        """Keep a unit that has left its state from being decided until its object changes."""
        stale = replace(record, state=UnitState.CONFLICT, admitted_on=None)
        self.units.enter(stale)
        self.units.charges.charge_living(stale)

    def on_written(self, decision: Dequeue, unit: QueueUnit) -> tuple[str, ...]:
        """Take what the server holds after the write, or after a write with an unknown outcome.

        If the object says that the unit is admitted the decision stands; otherwise it is taken back
        and the unit is decided again.
        """
        record = self.open_record(decision)
        if record is None or unit.metadata.uid != decision.uid:
            # A newer object has decided it meanwhile, or it was recreated under the same name.
            return self.on_queue_unit(unit)
        self._put(unit, version_of(unit), record)
        return self._wake_up.wake_affected()

    def on_write_failed(
        self,
        decision: Dequeue,
        failure: WriteFailure,
        *,
        retry_at: float = 0.0,
        why: str = "",
    ) -> tuple[str, ...]:
        """Release the charge of a unit whose write failed.

        Args:
            decision: What could not be written.
            failure: The outcome. After REJECTED, which may follow another outcome, the unit is
                pending again; after all others it waits for its fresh object (one that had arrived
                before would have ended the decision).
            retry_at: Until when the queue rests, in the worker's clock; 0: it does not rest.
            why: After REFUSED, the server's message.
        """
        record = self.open_record(decision)
        if record is None:
            # If its object says that it is admitted, another process has done that.
            self.units.forget_admission(decision.unit, decision.uid)
            return ()
        if failure is WriteFailure.REFUSED:
            self._notice("QueueUnit", decision.unit, decision.uid, "AdmissionRefused", why)
            self.rounds.on_refused(decision.unit)
        self.units.leave(record)
        queue = self.queues.find(decision.queue)
        if retry_at and queue is not None:
            self.turns.back_off(queue.name, retry_at)
            self.units.changed_queues[queue.name] = None
        if failure is WriteFailure.REJECTED:
            self.units.place(record.unit, record.version, judge(record.unit), record)
        else:
            self._set_conflict(record)
        return self._wake_up.wake_affected()

    def on_preempted(self, decision: Preempt, failed: tuple[Victim, ...] = ()) -> tuple[str, ...]:
        """Take the outcome of the requested evictions; victims' objects arrive as any others do.

        Args:
            decision: The round.
            failed: Victims whose request was not written: the victims are chosen again.
        """
        self.rounds.on_written(decision, failed)
        return self._wake_up.wake_affected()

    # === growth ===============================================================================

    def grow(self, key: str) -> Growth | Refusal | None:
        """Grant a running unit the pods that it has grown by, if there is room for them.

        Returns:
            Growth: the pods are charged; write it.
            Refusal: why not. Pods that live are charged all the same.
            None if the unit has not grown, or gives its place back.
        """
        self.account_restore.finish()
        answer = self.growths.grow(key)
        if not isinstance(answer, Growth):
            return answer
        try:
            wake = self._wake_up.wake_affected(is_news=False)
        except BaseException:
            self.growths.take_back(answer)
            raise
        return replace(answer, wake=wake)

    def on_growth_failed(self, growth: Growth) -> tuple[str, ...]:
        """Take back the charge of a growth that was not written."""
        self.growths.take_back(growth)
        return self._wake_up.wake_affected()

    # === questions ============================================================================

    def record(self, key: str) -> CachedUnit | None:
        """Return the record of a unit by `namespace/name`, or None."""
        return self.units.records.get(key)

    def open_record(self, decision: Dequeue) -> CachedUnit | None:
        """Return the unit of a decision if nothing newer is known of it, or None."""
        record = self.units.records.get(decision.unit)
        if record is None or record.state not in {UnitState.ASSUMED, UnitState.CONFLICT}:
            return None
        # The same unit may have been decided again, from a newer version.
        known = record.unit.metadata
        this_one = (known.uid, known.resource_version) == (decision.uid, decision.resource_version)
        return record if this_one else None

    def take_notices(self) -> list[Notice]:
        """Return, once, the notices to write as events; see `MAX_NOTICES`."""
        notices = [
            *self._notices,
            *self.queue_state.take_notices(),
            *self.policies.take_notices(),
            *self.reservations.take_notices(),
            *self.plugins.facts.take_notices(),
        ]
        self._notices.clear()
        return notices

    def fork(self) -> Engine:
        """Return an independent engine with the same state; copies containers, not units."""
        parts = self._parts.fork()
        twin = Engine(parts.plugins, ())
        twin._take_over(parts)
        twin.objects = self.objects.copy()
        if self.account_restore.is_behind:
            twin.account_restore.finish_as(self.account_restore)
            parts.wake_up.wake_affected()
        if parts.plugins.without_fork:
            parts.wake_up.forget_refusals()
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError if it differs."""
        self.units.validate()
        self.rounds.validate()

    def _notice(self, kind: str, key: str, uid: Uid, reason: str, note: str) -> None:
        self._notices.append(Notice(kind=kind, key=key, uid=uid, reason=reason, note=note))
