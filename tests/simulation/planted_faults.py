"""Breaks the programs on purpose: ``python -m tests.simulation.planted_faults``.

A simulation that finds nothing may be blind. Each fault here is a plausible mistake; the simulation
must find it within `MOST_SEEDS` runs, and `planted_faults.md` says where it did. That table is
written by ``make sim-faults``.

A new fault is a function that replaces something with `plant.replace(owner, name, by)`, with the
decorator that puts it into the table.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace as with_fields

from queue_controllers.decision import decide as decide_module
from queue_controllers.decision import eviction as eviction_module
from queue_controllers.decision.job_state import JobState, State
from queue_controllers.decision.job_view import Decision
from queue_controllers.decision.pending import suspend_job
from queue_controllers.extension_server import ExtensionServer
from queue_controllers.reconcile import reconciler as reconciler_module
from queue_controllers.reservations import decide as reservations
from queue_controllers.reservations.decide import Answer, ReservationResult
from queue_scheduler.cache import unit_cache, unit_state
from queue_scheduler.cache.pod_accounting import PodAccounting
from queue_scheduler.cache.unit_state import UnitState, makes_room
from queue_scheduler.cache.usage import Usage
from queue_scheduler.cycles import dequeue_cycle
from queue_scheduler.cycles.dequeue_cycle import DequeueCycle
from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.cycles.queue_worker import QueueWorkers
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine import engine, growth, unmanaged_units
from queue_scheduler.engine.backfill import Backfill, Reviewed
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.limit_changes import LimitChanges
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.preemption import preemption_rounds
from queue_scheduler.preemption.candidates import VictimCandidates
from queue_scheduler.preemption.eviction_rates import EvictionRates
from queue_scheduler.preemption.preemption_rounds import PreemptionRounds
from queue_scheduler.preemption.protection import Protection
from queue_scheduler.queueing import scheduling_queue
from queue_scheduler.queueing.queue_rules import QueueRules
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.queueing.turns import Turns
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.budget_waiters import BudgetWaiters
from queue_scheduler.tenants.budgets_in_chains import BudgetsInChains
from queue_scheduler.tenants.commitments import Commitments
from queue_scheduler.tenants.fair_use import FairUse
from queue_scheduler.tenants.limit_sums import LimitSums
from queue_scheduler.tenants.quota_use import QuotaUse
from queue_scheduler.tenants.rules_in_chains import RulesInChains
from queue_scheduler.tenants.user_limits import UserLimits
from queue_scheduler.unit_controllers import eviction, requeue, spent_budgets
from queue_scheduler.unit_controllers.requeue import BackoffRequeue
from shared_api.client.write_dispatcher import Unknown
from shared_api.evictions import is_given_back, is_losing_quota
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.reflector import Reflector
from shared_api.leader_election import LeaderElector
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from tests.simulation.simulated_run import Outcome, simulate

MOST_SEEDS: Final = 200
STEPS: Final = 300
TABLE: Final = Path(__file__).with_name("planted_faults.md")


class Plant:
    """Replaces attributes, and restores them."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, by: Any) -> Any:
        """Replace an attribute; return its previous value."""
        before = getattr(owner, name)
        self._before.append((owner, name, before))
        setattr(owner, name, by)
        return before

    def undo(self) -> None:
        """Restore all attributes."""
        while self._before:
            setattr(*self._before.pop())


@dataclass(frozen=True)
class Fault:
    """A mistake in the programs."""

    name: str
    what: str
    plant: Callable[[Plant], None]


FAULTS: Final[dict[str, Fault]] = {}


def fault(what: str) -> Callable[[Callable[[Plant], None]], None]:
    """Put a function that plants a fault into the table."""

    def add(plant: Callable[[Plant], None]) -> None:
        FAULTS[plant.__name__] = Fault(plant.__name__, what, plant)

    return add


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Run a block with a fault."""
    plant = Plant()
    FAULTS[name].plant(plant)
    try:
        yield
    finally:
        plant.undo()


def find(name: str) -> Outcome | None:
    """Return the first run that finds a fault; None where none of `MOST_SEEDS` runs does.

    A run finds it if it breaks a rule with the fault, and none without.
    """
    for seed in range(MOST_SEEDS):
        with planted(name):
            outcome = simulate(seed, STEPS)
        if outcome.broken is not None and simulate(seed, STEPS).broken is None:
            return outcome
    return None


# === the scheduler =============================================================================


@fault("a unit that ends wakes no queue")
def no_wake_after_release(plant: Plant) -> None:
    def apply(shared: SharedEngine, fact: Any, *args: Any, **more: Any) -> None:
        if fact is not Engine.on_queue_unit:
            original(shared, fact, *args, **more)
            return
        workers, shared._wake = shared._wake, lambda _names: None  # noqa: SLF001 - breaks it
        original(shared, fact, *args, **more)
        shared._wake = workers  # noqa: SLF001 - fixes it

    original = plant.replace(SharedEngine, "apply", apply)


@fault("a decision is not charged")
def no_booking_at_decision(plant: Plant) -> None:
    plant.replace(ElasticQuotaPlugin, "reserve", lambda _plugin, _info: None)


@fault("released usage is released twice")
def double_release(plant: Plant) -> None:
    def release(quotas: QuotaCache, owner: str) -> None:
        booked = quotas.charge_of(owner)
        original(quotas, owner)
        if booked is not None:
            quotas.trees.charge_unit(*booked, -1)
            quotas.ledger.account(booked[0]).units.add(booked[1], -1)

    original = plant.replace(QuotaCache, "release", release)


@fault("living pods of an ended unit are released with it")
def pods_released_with_unit(plant: Plant) -> None:
    plant.replace(Usage, "charge_living", lambda usage, uid, *_, **__: usage.release(uid))


@fault("usage that has been given back is charged again")
def reclaimable_ignored(plant: Plant) -> None:
    def admitted(unit: Any, demand: Any) -> Any:
        kept = with_fields(unit.status, reclaimable_pods=())
        return original(with_fields(unit, status=kept), demand)

    original = plant.replace(unit_state, "granted_by", admitted)
    plant.replace(unit_cache, "granted_by", admitted)


@fault("the admission is written without the guard of a version")
def no_guard(plant: Plant) -> None:
    def build(unit: Any, decision: Dequeue, now: Any) -> dict[str, Any]:
        body: dict[str, Any] = original(unit, decision, now)
        return {**body, "metadata": {}}

    original = plant.replace(dequeue_cycle, "build_dequeue_patch", build)


@fault("a conflict is taken for success")
def conflict_is_success(plant: Plant) -> None:
    plant.replace(DequeueCycle, "_take_back", lambda _cycle, _decision, _error: None)


@fault("a write of unknown outcome is forgotten")
def unknown_is_dropped(plant: Plant) -> None:
    def on_outcome(cycle: DequeueCycle, decision: Dequeue, outcome: Any) -> None:
        if not isinstance(outcome, Unknown):
            original(cycle, decision, outcome)

    original = plant.replace(DequeueCycle, "_on_outcome", on_outcome)


@fault("units of a created or edited quota are not placed again")
def no_placing_after_quota_edit(plant: Plant) -> None:
    plant.replace(Engine, "_on_quotas_changed", lambda _engine, _names: ())


@fault("a scheduler that is not the leader decides too")
def followers_decide(plant: Plant) -> None:
    plant.replace(LeaderElector, "writable_seconds", lambda _elector: 100.0)


@fault("an admitted unit counts as pending after its scheduler has restarted")
def admitted_twice(plant: Plant) -> None:
    def judge(unit: Any) -> Any:
        state = original(unit)
        return UnitState.WAITING if state is UnitState.ADMITTED else state

    original = plant.replace(engine, "judge", judge)
    plant.replace(unit_cache, "judge", judge)


@fault("a unit that claims to be adopted is charged for that")
def annotation_believed(plant: Plant) -> None:
    def judge(unit: Any) -> Any:
        marked = unit.metadata.annotations.get("koord-queue/adopted") == "true"
        state = original(unit)
        return UnitState.ADMITTED if marked and state is UnitState.WAITING else state

    original = plant.replace(engine, "judge", judge)
    plant.replace(unit_cache, "judge", judge)


@fault("a unit in backoff is requeued at once")
def backoff_ignored(plant: Plant) -> None:
    plant.replace(requeue, "backoff_ends_at", lambda _unit: None)


@fault("a unit in backoff is never requeued")
def backoff_never_ends(plant: Plant) -> None:
    plant.replace(BackoffRequeue, "_reconcile", lambda _requeue, _key: None)


@fault("Block and FIFO hold no unit back")
def nobody_held_back(plant: Plant) -> None:
    def offer_of(queue: SchedulingQueue, quota: str) -> Any:
        of_quota = queue.pending.by_quota.get(quota)
        return None if of_quota is None else of_quota.first_awake()

    plant.replace(SchedulingQueue, "_offer_of", offer_of)


@fault("deleted pods stay charged")
def gone_pods_stay(plant: Plant) -> None:
    plant.replace(PodAccounting, "on_pod_gone", lambda _pods, _pod: None)


@fault("a new queue gets no worker")
def no_worker(plant: Plant) -> None:
    def run_for(workers: QueueWorkers, queue: str) -> None:
        if queue != "shared":
            original(workers, queue)

    original = plant.replace(QueueWorkers, "run_for", run_for)


@fault("a deleted unit is not reported to the engine")
def gone_unit_not_told(plant: Plant) -> None:
    def on_unit(handlers: EventHandlers, old: Any, new: Any) -> None:
        if new is not None:
            original(handlers, old, new)

    original = plant.replace(EventHandlers, "on_queue_unit", on_unit)


# --- evictions, stops, and unmanaged units -------------------------------------------------------


@fault("a victim's usage is released when it is asked to leave")
def victims_free_at_once(plant: Plant) -> None:
    def judge(unit: Any) -> Any:
        return UnitState.ENDED if makes_room(unit) and occupies_quota(unit) else original(unit)

    original = plant.replace(engine, "judge", judge)
    plant.replace(unit_cache, "judge", judge)


@fault("no room is kept for a preemptor")
def preemptor_forgotten(plant: Plant) -> None:
    plant.replace(PreemptionRounds, "_keep_room", lambda *_: None)


@fault("units that are leaving are not counted when others are evicted")
def evicts_again(plant: Plant) -> None:
    plant.replace(VictimCandidates, "leaving", lambda *_: [])
    plant.replace(PreemptionRounds, "_has_to_wait", lambda *_: False)


@fault("units are evicted before the time that their queue or quota states")
def spared_for_nothing(plant: Plant) -> None:
    plant.replace(Protection, "_is_spared", lambda *_: False)


@fault("units evict others before their queue's delay is over")
def delay_ignored(plant: Plant) -> None:
    plant.replace(preemption_rounds, "find_delay", lambda *_: None)


@fault("evictions take no tokens")
def no_tokens_taken(plant: Plant) -> None:
    plant.replace(EvictionRates, "take", lambda *_: None)


@fault("a stopped queue starts units")
def stops_ignored(plant: Plant) -> None:
    def build(*args: Any) -> QueueRules:
        rules: QueueRules = original(*args)
        return with_fields(rules, is_stopped=False)

    original = plant.replace(scheduling_queue, "build_rules", build)


@fault("an admission that its owner has given back is taken for growth")
def given_back_grows(plant: Plant) -> None:
    def is_losing(unit: QueueUnit) -> bool:
        return is_losing_quota(unit) and not is_given_back(unit)

    plant.replace(growth, "is_losing_quota", is_losing)
    plant.replace(eviction, "is_given_back", lambda _unit: False)
    plant.replace(unmanaged_units, "is_given_back", lambda _unit: False)


@fault("a unit that may not pass a head is not asked again")
def passing_forgotten(plant: Plant) -> None:
    def review(backfill: Backfill, *_: Any) -> Reviewed:
        backfill.unreviewed.clear()
        return Reviewed([], [])

    plant.replace(Backfill, "review", review)


@fault("a head is passed by any unit that fits")
def heads_passed(plant: Plant) -> None:
    plant.replace(Backfill, "check", lambda *_: None)


@fault("what a user has does not count in the ancestors of a quota")
def parents_not_limited(plant: Plant) -> None:
    def find_levels(rules: RulesInChains, quota: str) -> Any:
        return before(rules, quota)[:1]

    before = plant.replace(RulesInChains, "_find_levels", find_levels)


@fault("a unit keeps its seat among the pending ones when it leaves")
def seats_kept(plant: Plant) -> None:
    plant.replace(UserLimits, "unseat", lambda *_: None)


@fault("units that waited for a limit stay so when it is removed")
def removal_wakes_nobody(plant: Plant) -> None:
    plant.replace(LimitChanges, "_is_other", lambda *_: False)


@fault("what a unit gives back while it runs still counts for its user")
def less_is_not_counted(plant: Plant) -> None:
    def on_charge(limits: UserLimits, uid: Any, old: Any, new: Any) -> None:
        if old is not None and new is not None and old.account == new.account:
            kept = {key: max(n, old.amounts.get(key, 0)) for key, n in new.amounts.items()}
            new = with_fields(new, amounts=kept)
        before(limits, uid, old, new)

    before = plant.replace(UserLimits, "on_charge", on_charge)


@fault("limits are in force before all that runs is counted by them")
def in_force_too_early(plant: Plant) -> None:
    def count_left(sums: LimitSums, *_: Any) -> int:
        sums.left.clear()
        return 0

    plant.replace(LimitSums, "count_left", count_left)


# --- budgets -------------------------------------------------------------------------------------


@fault("what running units may still use of a budget does not count")
def promises_not_counted(plant: Plant) -> None:
    plant.replace(Commitments, "add", lambda *_: None)


@fault("budgets do not count for what is below their quota")
def no_budgets_above(plant: Plant) -> None:
    def in_chain(chains: BudgetsInChains, quota: str) -> Any:
        return (each for each in before(chains, quota) if each[0] == quota)

    before = plant.replace(BudgetsInChains, "_in_chain", in_chain)


@fault("what was used yesterday counts today")
def days_do_not_end(plant: Plant) -> None:
    def close(account: BudgetAccount, end: int) -> None:
        used = account._before  # noqa: SLF001 - breaks it
        before(account, end)
        account._before = used  # noqa: SLF001 - breaks it

    before = plant.replace(BudgetAccount, "_close", close)


@fault("units that waited for a budget stay so when it has more left")
def budgets_wake_nobody(plant: Plant) -> None:
    plant.replace(BudgetWaiters, "follow", lambda *_: None)
    plant.replace(BudgetWaiters, "ask_anew", lambda *_: None)


@fault("Stop evicts nobody")
def stop_stops_nobody(plant: Plant) -> None:
    plant.replace(spent_budgets, "find_units", lambda *_: ())


# --- shares --------------------------------------------------------------------------------------


@fault("queues take turns by service alone, though their quotas' use is to decide")
def turns_not_by_use(plant: Plant) -> None:
    plant.replace(Turns, "_rank_of", lambda _turns, _name, turn: turn.rank)


@fault("what a quota is guaranteed counts as used")
def min_counts(plant: Plant) -> None:
    def rate(use: QuotaUse, name: str, used: Any) -> int:
        terms = use._terms_of(name)  # noqa: SLF001 - breaks it
        use._terms[name] = with_fields(terms, mins={})  # noqa: SLF001 - breaks it
        found: int = before(use, name, used)
        return found

    before = plant.replace(QuotaUse, "_rate", rate)


@fault("accounts stand where they stood before one of them was charged")
def ranks_stay(plant: Plant) -> None:
    plant.replace(FairUse, "_note_moved", lambda *_: None)


# === the controllers ===========================================================================


@fault("a job is resumed while pods of its last run are still terminating")
def resumed_too_early(plant: Plant) -> None:
    _plant_impatience(plant, JobState(state=State.RELEASED, stopped=True, resumable=True))


@fault("usage is released before the pods have stopped")
def freed_too_early(plant: Plant) -> None:
    _plant_impatience(plant, JobState(state=State.HELD, stopped=True, resumable=True))


def _plant_impatience(plant: Plant, instead: JobState) -> None:
    """Take a job for stopped as soon as it is suspended."""
    when_admitted = instead.state is State.RELEASED

    def judge(*args: Any, admitted: bool, believed: bool) -> JobState:
        state: JobState = original(*args, admitted=admitted, believed=believed)
        return instead if state.state is State.STOPPING and admitted is when_admitted else state

    original = plant.replace(decide_module, "judge_job", judge)


@fault("a job is suspended without an eviction on its unit")
def eviction_not_announced(plant: Plant) -> None:
    def announce(view: Any, _unit: Any, *_: Any) -> Any:
        return Decision(actions=(suspend_job(view, view.job),), memory=view.memory)

    plant.replace(eviction_module, "announce_eviction", announce)


@fault("units of deleted jobs stay")
def orphans_stay(plant: Plant) -> None:
    plant.replace(reconciler_module.JobReconciler, "_delete_orphan", lambda *_: None)


@fault("a job is not reconciled when its unit has changed")
def unit_news_lost(plant: Plant) -> None:
    plant.replace(ExtensionServer, "on_unit", lambda *_: None)


@fault("a job of a strict queue is released without a verdict")
def verdict_not_awaited(plant: Plant) -> None:
    plant.replace(reservations, "judge_reservations", lambda *_: ReservationResult(Answer.GRANTED))


# === what both programs use ====================================================================


@fault("objects that are missing from a list stay in the store")
def vanished_stay(plant: Plant) -> None:
    plant.replace(IndexedStore, "remove_vanished", lambda *_, **__: ())


@fault("a watch that is too old goes on without a list")
def no_list_after_gone(plant: Plant) -> None:
    def on_expired(reflector: Reflector[Any], _gone: Any) -> None:
        reflector._end_watch("expired")  # noqa: SLF001 - breaks it
        reflector._resource_version = ""  # noqa: SLF001 - from now on

    plant.replace(Reflector, "_on_expired", on_expired)


# === the table =================================================================================


def row_of(name: str, outcome: Outcome | None) -> str:
    """Return the row of a fault, as Markdown."""
    return f"| {FAULTS[name].what} | `{name}` | {_told(outcome)} |"


def table_of(rows: Mapping[str, str]) -> str:
    """Return the table, as Markdown; a fault that was not looked for has no row."""
    head = (
        "# Planted faults\n\n"
        "Written by `make sim-faults` (`tests/simulation/planted_faults.py`): how soon the\n"
        f"simulation finds what is broken on purpose, with runs of {STEPS} steps.\n\n"
        "| fault | name | found with seed | in step | by the rule |\n"
        "|---|---|---|---|---|\n"
    )
    return head + "".join(f"{rows[name]}\n" for name in FAULTS if name in rows)


def rows_in(table: str) -> dict[str, str]:
    """Return the rows of a table by the name of the fault."""
    found = re.findall(r"^\|.*\| `(\w+)` \|.*$", table, re.MULTILINE)
    queues = re.findall(r"^\|.*\| `\w+` \|.*$", table, re.MULTILINE)
    return dict(zip(found, queues, strict=True))


def _told(outcome: Outcome | None) -> str:
    if outcome is None or outcome.broken is None:
        return f"not within {MOST_SEEDS} | |"
    return f"{outcome.seed} | {outcome.steps} | {outcome.broken.rule}"


def main(arguments: Sequence[str]) -> int:
    """Look for the faults, print and write the table; exit status 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="planted_faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these; the other rows stay as they are")
    parser.add_argument("--jobs", type=int, default=1)
    got = parser.parse_args(arguments)
    names = got.names or list(FAULTS)
    all_found = True
    with ProcessPoolExecutor(got.jobs) as pool:
        for name, outcome in zip(names, pool.map(find, names), strict=True):
            all_found = all_found and outcome is not None
            print(f"{name}: {_told(outcome)}", flush=True)
            before = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
            rows = {**rows_in(before), name: row_of(name, outcome)}
            TABLE.write_text(table_of(rows), encoding="utf-8")
    return 0 if all_found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
