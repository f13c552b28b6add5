"""What must be true when there is nothing to do: now and then during a run, and at its end.

The engine of the deciding scheduler is compared with the objects: it knows all of them, a second
engine that learns them in another order has the same state, and no unit waits that the quotas would
let start. At the end each job and its unit must fit together as well. Rules by their names:

- *no unit forgotten*: the engine has the newest version of every unit;
- *usage as the objects say*: what it has charged is what `account_judge.py` reads from the objects;
- *same after a restart*: an engine rebuilt from the objects has the same usage and queues;
- *no unit lost*: no unit waits that could start; and none could start behind a head if all were
  asked again;
- *budgets*: as `budget_judge.py` says;
- *user limits*: as `limit_judge.py` says;
- *nothing ownerless*: no unit and no booking without its job, unit or pods;
- *jobs fit their units*: as `faults_of` says;
- *given back is free*: at the end, no unit that its owner has given back is booked;
- *nothing overdue*: at the end no deadline of a unit has passed for longer than a shell rests,
  unless pods of it are alive;
- *rounds end*: at the end no room is kept for any unit, and no unit waits that an eviction would
  let start.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, Final

from queue_scheduler.cache.known_units import count_admitted, pending_units
from queue_scheduler.cache.pod_accounting import has_pods, is_charged_by_labels
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, Reason, Rest
from queue_scheduler.engine.deadlines import is_due, unit_timers
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.queueing.queue_options import read_options
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.queue_questions import refusal_of
from shared_api.resource_list import Amounts, add
from shared_api.well_known_labels import (
    ACTIVE,
    BACKOFF_LIMIT,
    DEFAULT_QUOTA,
    LIMIT_REACHED,
    QUEUE_NAME,
    QUOTA_NAME,
    RELATED_QUEUE_UNIT,
    RELEASED_PARALLELISM,
    TIME_EXCEEDED,
)
from tests.demo.unit_charge import controller_uid
from tests.object_states import is_living, is_true, occupies_quota
from tests.properties import engine_checks
from tests.properties.limited_world import check_nobody_could_start
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.simulation.account_judge import Broken
from tests.simulation.accounts import Account, job_uid
from tests.simulation.budget_judge import BUDGETS, JudgedBudgets
from tests.simulation.change_feed import Json
from tests.simulation.hand_made_actions import is_hand_made
from tests.simulation.job_actions import FOREIGN
from tests.simulation.limit_judge import USER_LIMITS, check_seats, check_sums, read_rules
from tests.simulation.stepped_programs import SteppedScheduler
from tests.simulation.world import World

KNOWS_ALL: Final = "no unit forgotten"
USAGE_AGREES: Final = "usage as the objects say"
SAME_AGAIN: Final = "same after a restart"
NOBODY_LOST: Final = "no unit lost"
OWNERLESS: Final = "nothing ownerless"
JOBS_FIT: Final = "jobs fit their units"

POLICIES: Final = frozenset({"", None, *(policy.name for policy in BUILT_IN_POLICIES)})
FREED: Final = "given back is free"
ROUNDS_END: Final = "rounds end"
NOT_OVERDUE: Final = "nothing overdue"

LONGEST_REST: Final = timedelta(seconds=60)
"""How long a shell rests that waits for the wall clock, which jumps."""


def deciding(world: World) -> SteppedScheduler | None:
    """Return the scheduler that decides, if one does."""
    return next((each for each in world.schedulers if each.is_deciding()), None)


def check_quiet(world: World) -> list[Broken]:
    """Return what is wrong while every cache is up to date and there is nothing to do."""
    scheduler = deciding(world)
    if scheduler is None:
        return []
    engine = scheduler.engine
    unknown = _unknown(world, engine)
    if unknown:
        return unknown
    return [
        *_nobody_lost(world, engine),
        *_limits_agree(world, engine),
        *_budgets_stop(world, scheduler),
        *_nobody_may_pass(world, engine),
        *_books_agree(world, engine),
        *_same_again(world, scheduler),
        *_ownerless(world, engine),
    ]


def check_end(world: World) -> list[Broken]:
    """Return what is wrong once everything is over."""
    broken = check_quiet(world) + _rounds_end(world) + _overdue(world)
    units = world.all("queueunits")
    uids = {job["metadata"]["uid"] for job in world.all("jobs").values()}
    for key, unit in units.items():
        if is_hand_made(unit):
            if occupies_quota(unit):
                broken.append(Broken(FREED, key, "its owner has given it back"))
        elif job_uid(unit) not in uids:
            broken.append(Broken(OWNERLESS, key, "the unit has no job"))
    for key, job in world.all("jobs").items():
        uid = job["metadata"]["uid"]
        own = [unit for unit in units.values() if job_uid(unit) == uid]
        broken += [Broken(JOBS_FIT, key, fault) for fault in faults_of(job, own)]
    return broken


# --- the engine ----------------------------------------------------------------------------------


def _unknown(world: World, engine: Engine) -> list[Broken]:
    there = {k: unit["metadata"]["resourceVersion"] for k, unit in world.all("queueunits").items()}
    known = {k: r.unit.metadata.resource_version for k, r in engine.units.records.items()}
    return [
        Broken(KNOWS_ALL, key, f"the engine has version {known.get(key)} of {there.get(key)}")
        for key in sorted(there.keys() | known.keys())
        if there.get(key) != known.get(key)
    ]


def _nobody_lost(world: World, engine: Engine) -> list[Broken]:
    quotas, now = JudgedBudgets(engine), world.clock.monotonic()
    rules = read_rules(world.all("quotapolicies").values())
    try:
        for line in engine.queues:
            if (engine.turns.backs_off_until(line.name) or 0.0) <= now:
                if rules:
                    check_nobody_could_start(engine, quotas, rules, line)
                else:
                    engine_checks.check_nobody_could_start(engine, quotas, line)
        engine_checks.check_held(engine)
    except AssertionError as error:
        return [Broken(NOBODY_LOST, _unit_in(error), str(error))]
    return []


def _limits_agree(world: World, engine: Engine) -> list[Broken]:
    policies = world.all("quotapolicies").values()
    try:
        check_sums(engine, policies)
        check_seats(engine, policies)
    except AssertionError as error:
        return [Broken(USER_LIMITS, _unit_in(error), str(error))]
    return []


def _budgets_stop(world: World, scheduler: SteppedScheduler) -> list[Broken]:
    try:
        scheduler.check_stopped(int(world.clock.now().timestamp()))
    except AssertionError as error:
        return [Broken(BUDGETS, _unit_in(error), str(error))]
    return []


def _nobody_may_pass(world: World, engine: Engine) -> list[Broken]:
    """Ask all units again, in a copy, where queues backfill and no room is kept."""
    if not any(line.rules.is_backfilling for line in engine.queues) or engine.nominations.by_key:
        return []
    now, wall = world.clock.monotonic(), world.clock.now()
    twin = engine.fork()
    engine_checks.wake_everybody(twin)
    for line in list(twin.queues):
        while not isinstance(decision := twin.decide_next(line.name, now, wall), Rest):
            if isinstance(decision, Dequeue):
                why = refusal_of_unit(engine, decision.unit)
                return [Broken(NOBODY_LOST, decision.unit, f"it waits and may start: {why}")]
    return []


def _rounds_end(world: World) -> list[Broken]:
    scheduler = deciding(world)
    if scheduler is None:
        return []
    engine, wall = scheduler.engine, world.clock.now()
    broken = []
    for line in engine.queues:
        for record in engine_checks.decidable(engine, line):
            assert record.info is not None
            if refusal_of(line, record.info).reason is Reason.ROOM_FOR_PREEMPTOR:
                broken.append(Broken(ROUNDS_END, record.key, "room is kept from it"))
            found = engine.admission.would_evict(line, record.info, wall)
            if found is not None and found.victims:
                who = [victim.unit for victim in found.victims]
                broken.append(Broken(ROUNDS_END, record.key, f"it could evict {who}"))
    return broken


def _overdue(world: World) -> list[Broken]:
    scheduler = deciding(world)
    if scheduler is None:
        return []
    engine, late = scheduler.engine, world.clock.now() - LONGEST_REST
    pods, records = engine.living_pods, engine.units.records
    return [
        Broken(NOT_OVERDUE, due.key, f"its time ({due.timer}) has been over since {due.at}")
        for due in unit_timers(engine, world.plan.timeouts, world.clock.now())
        if is_due(due.at, late) and not has_pods(pods, records[due.key].uid)
    ]


def _books_agree(world: World, engine: Engine) -> list[Broken]:
    """Compare sums by quota; not where an adopted unit does not say what it was granted.

    Nor where pods have lost the job that they were made for, or a job has two units that are both
    booked, as may happen with controllers without election.
    """
    adopted = [
        unit["metadata"]["name"]
        for unit in world.all("queueunits").values()
        if not unit["status"].get("admissions") and occupies_quota(unit)
    ]
    orphans = [pod for pod in _pods_of_jobs(world) if not controller_uid(pod)]
    twice = [key for key, account in world.judge.accounts.items() if len(account.units) > 1]
    if adopted or orphans or twice or _remembers(world, engine):
        return []
    want: dict[str, Amounts] = {}
    names = {quota["metadata"]["name"] for quota in world.all("elasticquotas").values()}
    for account in world.judge.accounts.values():
        if any(account.charge.values()):
            own = account.quota if _names_quota(account, names) else DEFAULT_QUOTA
            want[own] = add(want.get(own, {}), account.charge)
        for quota, amounts in account.elsewhere.items():
            name = quota if quota in names else DEFAULT_QUOTA
            want[name] = add(want.get(name, {}), amounts)
    got = _usage(engine)
    return [] if got == want else [Broken(USAGE_AGREES, "", f"booked {got}, should be {want}")]


def _names_quota(account: Account, names: set[str]) -> bool:
    """Return whether the unit of a job has a quota; else its pods are charged as their labels say.

    A unit whose label names a quota that does not exist is charged to that name.
    """
    unit = account.own_unit()
    return (
        unit is None
        or account.quota in names
        or QUOTA_NAME in (unit["metadata"].get("labels") or {})
    )


def _same_again(world: World, scheduler: SteppedScheduler) -> list[Broken]:
    """Compare with an engine that has just read the caches, in another order.

    Not where a queue names an unknown policy: it keeps the previous one. Nor where limits of users
    count along chains that the engine does not follow (`judged_quotas`).
    """
    if any(q["spec"].get("queuePolicy") not in POLICIES for q in world.all("queues").values()):
        return []
    engine = scheduler.engine
    if _has_writes_in_flight(engine) or _remembers(world, engine):
        return []
    twin = new_engine(world.plan.quota_settings, world.plan.strict)
    facts: list[tuple[Any, Any]] = []
    apply = {
        "queueunits": Engine.on_queue_unit,
        "queues": Engine.on_queue,
        "elasticquotas": Engine.on_quota,
        "pods": Engine.on_pod,
        "nodes": Engine.on_node,
        "quotapolicies": Engine.on_quota_policy,
    }
    for follower in scheduler.followers:
        if follower.plural == "namespaces":
            continue  # only for metrics
        facts += [(apply[follower.plural], each) for each in follower.informer.store.list()]
    random.Random(world.seed).shuffle(facts)
    for on_fact, each in facts:
        on_fact(twin, each)
    if world.all("quotapolicies") and _has_other_chains(world, engine, twin):
        return []
    want, got = _beliefs(engine), _beliefs(twin)
    return [
        Broken(SAME_AGAIN, "", f"{part}: {want[part]}, rebuilt {got[part]}")
        for part in want
        if want[part] != got[part]
    ]


def _has_other_chains(world: World, engine: Engine, twin: Engine) -> bool:
    """Return whether a quota is in another tree since its scheduler started, which it ignores."""
    names = [quota["metadata"]["name"] for quota in world.all("elasticquotas").values()]
    return any(engine.plugins.chain(name) != twin.plugins.chain(name) for name in names)


def _has_writes_in_flight(engine: Engine) -> bool:
    in_flight = {UnitState.ASSUMED, UnitState.CONFLICT}
    records = engine.units.records.values()
    return any(each.state in in_flight or each.granting is not None for each in records)


def _remembers(world: World, engine: Engine) -> bool:
    """Return whether the engine rightly knows what no object says any longer.

    Something is charged to a quota that a namespace had earlier; or there are unstamped pods of a
    deleted unit, or of a job that was deleted without them; or pods are charged to the quota of
    their deleted unit, and that quota is deleted as well, or they name another; or the ceiling of a
    queue is misspelled, so that the one before it counts.
    """
    quotas = RealQuotas(engine)
    charged = [r for r in engine.units.records.values() if engine.usage.charge_of(r.uid)]
    units = world.all("queueunits").values()
    jobs = {job_uid(unit) for unit in units}
    unstamped = [
        pod["metadata"]["name"]
        for pod in _pods_of_jobs(world)
        if controller_uid(pod) not in jobs
        and RELATED_QUEUE_UNIT not in (pod["metadata"].get("annotations") or {})
    ]
    names = {quota["metadata"]["name"] for quota in world.all("elasticquotas").values()}
    jobs_of = {f"{u['metadata']['namespace']}/{u['metadata']['name']}": job_uid(u) for u in units}
    left_behind = [
        pod["metadata"]["name"]
        for pod in _pods_of_jobs(world)
        if jobs_of.get(_named_unit(pod)) != controller_uid(pod)
        and (pod["metadata"].get("labels") or {}).get(QUOTA_NAME) not in names
    ]
    is_mapped = all(quotas.quota_names(record.unit) for record in charged)
    return (
        bool(unstamped or left_behind)
        or not is_mapped
        or _charges_elsewhere(engine, names)
        or any(
            queue.rules.options.max_priority != read_options(queue.rules.api_object).max_priority
            for queue in engine.queues
        )
    )


def _named_unit(pod: Json) -> str:
    """Return the unit that a pod names; another unit may have its name by now."""
    named: str = (pod["metadata"].get("annotations") or {}).get(RELATED_QUEUE_UNIT, "")
    return named


def _charges_elsewhere(engine: Engine, names: set[str]) -> bool:
    """Return whether pods of a deleted unit name another quota than its last, or none."""
    bookings, units = engine.usage, engine.units.records.values()
    for uid in set(bookings) - {record.uid for record in units}:
        charge = bookings.charge_of(uid)
        if charge is None or is_charged_by_labels(uid) or not bookings.pods.has_living(uid):
            continue
        _, labels = bookings.pods.labels_of(uid)
        if labels.get(QUOTA_NAME) != charge.quota or charge.quota not in names:
            return True
    return False


def _pods_of_jobs(world: World) -> list[Json]:
    """Return the living pods made by a job, whether it still exists or not."""
    pods = world.all("pods").values()
    return [p for p in pods if is_living(p) and not p["metadata"]["name"].startswith(FOREIGN)]


def _beliefs(engine: Engine) -> dict[str, Any]:
    names = sorted(line.name for line in engine.queues)
    return {
        "lines": {name: _line_of(engine, name) for name in names},
        "standings": {k: r.state.value for k, r in sorted(engine.units.records.items())},
        "usage": _usage(engine),
        "admitted": {name: count_admitted(engine.units, name) for name in names},
    }


def _line_of(engine: Engine, queue: str) -> list[str]:
    """Return the pending units in order; by name where that depends on what users have used."""
    keys = [record.key for record in pending_units(engine.units, queue)]
    line = engine.queues.find(queue)
    return keys if line is None or line.fair is None else sorted(keys)


def _usage(engine: Engine) -> dict[str, Amounts]:
    """Return what is booked by quota; pods of a deleted unit are known by its name only."""
    bookings, quotas = engine.usage, dict[str, Amounts]()
    for uid in sorted(bookings):
        charge = bookings.charge_of(uid)
        if charge is not None and any(charge.amounts.values()):
            quotas[charge.quota] = add(quotas.get(charge.quota, {}), charge.amounts)
    return quotas


def _ownerless(world: World, engine: Engine) -> list[Broken]:
    owners = {unit["metadata"]["uid"] for unit in world.all("queueunits").values()}
    pods = engine.living_pods
    return [
        Broken(OWNERLESS, str(uid), f"booked for no object: {engine.usage.charge_of(uid)}")
        for uid in sorted(engine.usage)
        if uid not in owners and not pods.has_living(uid)
    ]


def _unit_in(error: AssertionError) -> str:
    return str(error).partition(" ")[0]


# --- jobs ----------------------------------------------------------------------------------------


def faults_of(job: Json, units: list[Json]) -> list[str]:
    """Return what does not fit together about a job at rest."""
    if not units:
        return ["it has no unit"] if _names_a_place(job) and not _has_ended(job) else []
    if len(units) > 1:
        return ["it has two units"]
    (unit,) = units
    phase, suspended = unit["status"]["phase"], bool(job["spec"].get("suspend"))
    if _has_ended(job):
        wrong = {"its unit has not ended": phase not in {"Succeed", "Failed"}}
    elif phase in {"Dequeued", "Running"}:
        evicted = is_true(unit, "Evicted")
        runs = not suspended and job["spec"]["parallelism"] > 0
        wrong = {
            "its eviction is not carried out": evicted,
            "it is admitted and suspended": suspended and not evicted and _is_whole(unit),
            "it runs and its unit does not say so": runs and phase == "Dequeued",
        }
    else:
        wrong = {
            "it runs and is not admitted": not suspended,
            "its unit does not follow it": suspended and _is_out_of_step(job, unit),
        }
    ended = _has_ended(job)
    wrong["it is not as active as it should be"] = not ended and _is_wrongly_active(job, unit)
    return [fault for fault, there in wrong.items() if there]


def _is_whole(unit: Json) -> bool:
    """Return whether all pods were admitted; a partly admitted job is not resumed."""
    admitted = {each["name"]: each["replicas"] for each in unit["status"].get("admissions") or ()}
    sets = unit["spec"]["podSet"]
    return all(admitted.get(each["name"], each["count"]) >= each["count"] for each in sets)


def _names_a_place(job: Json) -> bool:
    meta = job["metadata"]
    return QUOTA_NAME in (meta.get("labels") or {}) or QUEUE_NAME in (meta.get("annotations") or {})


def _has_ended(job: Json) -> bool:
    return is_true(job, "Complete", "Failed")


def _is_out_of_step(job: Json, unit: Json) -> bool:
    named = [(each["metadata"].get("labels") or {}).get(QUOTA_NAME) for each in (job, unit)]
    parallelism, completions = wanted_pods(job), job["spec"].get("completions") or 2**31
    succeeded = job.get("status", {}).get("succeeded", 0)
    counts = {parallelism, min(parallelism, completions), min(parallelism, completions - succeeded)}
    # A grant stays: the demand of a reserved unit follows once it is released or free.
    follows = occupies_quota(unit) or unit["spec"]["podSet"][0]["count"] in counts
    return named[0] != named[1] or not follows


def wanted_pods(job: Json) -> int:
    """Return how many pods at a time a job wants; if fewer may run, an annotation says so."""
    parallelism: int = job["spec"]["parallelism"]
    note = (job["metadata"].get("annotations") or {}).get(RELEASED_PARALLELISM, "0/0")
    let_run, _, wanted = note.partition("/")
    return int(wanted) if int(let_run) == parallelism else parallelism


def _is_wrongly_active(job: Json, unit: Json) -> bool:
    """Return whether a unit at rest is active against its limit, or against its job."""
    active, annotations = unit["spec"].get("active"), job["metadata"].get("annotations") or {}
    reached = is_true(unit, "BackoffLimitReached")
    if TIME_EXCEEDED in unit["metadata"]["annotations"]:
        return active is not False
    if LIMIT_REACHED in unit["metadata"]["annotations"]:
        return active is not False or not (reached or is_true(unit, "Evicted"))
    limit, put_back = int(annotations.get(BACKOFF_LIMIT, 0)), unit["status"].get("requeueState")
    waits = unit["status"]["phase"] in {"Enqueued", "TimeoutBackoff"}
    if reached or (waits and 0 < limit <= (put_back or {}).get("count", 0)):
        return True
    said = annotations.get(ACTIVE)
    return said is not None and active is not (said == "true")
