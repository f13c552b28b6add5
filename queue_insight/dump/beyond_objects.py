"""What an engine knows and no object says: read from one, and put into another. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from queue_insight.dump.contents import (
    AdmittedOn,
    AskedToLeave,
    Asleep,
    BeyondObjects,
    KeptRoom,
    LastQuota,
    TakenTokens,
    Turn,
)
from queue_scheduler.cache.known_units import occupying_units
from queue_scheduler.cache.recalled_units import (
    recall_admission,
    recall_quota,
    recall_turn,
    refresh_turn,
)
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.preemption.eviction_rates import Taken
from queue_scheduler.preemption.nomination import Nomination
from queue_scheduler.queueing.queue_questions import refused_classes
from queue_scheduler.quota_cache.admission_record import AdmissionRecord
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from shared_api.objects.meta import Uid
from shared_api.submitters import namespace_submitter

# --- read ---------------------------------------------------------------------------------------


def read_beyond_objects(engine: Engine) -> BeyondObjects:
    """Return what no object says; nothing may be in flight."""
    nominations, ledger = engine.nominations, engine.usage.ledger
    return BeyondObjects(
        turns=tuple(_read_turns(engine)),
        asleep=tuple(
            Asleep(unit=unit_key(head), refusal=refusal, at=at)
            for queue in engine.queues
            for head, refusal, at in refused_classes(queue)
        ),
        kept_rooms=tuple(_read_room(key, each) for key, each in nominations.by_key.items()),
        spent=tuple(nominations.spent),
        rests={str(uid): until for uid, until in engine.rounds.rests.items()},
        taken_tokens=tuple(
            TakenTokens(queue=queue, second=taken.second, missing=taken.missing)
            for queue, taken in engine.rounds.rates.copy().settled().items()
        ),
        last_quotas=tuple(_read_last_quotas(engine)),
        admitted_on=tuple(
            AdmittedOn(unit=record.key, record=record.admitted_on)
            for record in engine.units
            if isinstance(record.admitted_on, AdmissionRecord)
        ),
        accounts=_stored_accounts(engine),
        edges=() if ledger is None else ledger.edges,
        calendars=engine.policies.calendars.list_all(),
        schedules=engine.reservations.schedules.list_all(),
    )


def _read_turns(engine: Engine) -> Iterator[Turn]:
    for queue in engine.queues:
        _, generation, served, until = engine.turns.standing_of(queue.name)
        yield Turn(queue=queue.name, generation=generation, served=served, backs_off_until=until)


def _read_room(key: str, nomination: Nomination) -> KeptRoom:
    asked = nomination.asked.items()
    return KeptRoom(
        unit=key,
        until=nomination.until,
        asked=tuple(AskedToLeave(unit=unit, uid=uid, version=said) for (unit, uid), said in asked),
        failed=tuple(sorted(nomination.failed)),
        tries=nomination.tries,
    )


def _read_last_quotas(engine: Engine) -> Iterator[LastQuota]:
    """Yield the quotas of admitted units that are mapped to none now, and of living pods."""
    occupying = {each.uid: each for each in occupying_units(engine.units)}
    for uid in engine.usage:
        charge, record = engine.usage.charge_of(uid), occupying.get(uid)
        if charge is not None and (record is None or record.waits_for):
            yield LastQuota(
                uid=uid,
                quota=charge.quota,
                non_preemptible=charge.non_preemptible,
                account=charge.account,
            )


# --- put ----------------------------------------------------------------------------------------


def put_charges(engine: Engine, beyond: BeyondObjects) -> None:
    """Charge units and living pods as they were, whatever quota their objects say now."""
    units, usage = engine.units, engine.usage
    occupying = {each.uid: each for each in occupying_units(units)}
    for each in beyond.last_quotas:
        charge, record = engine.usage.charge_of(each.uid), occupying.get(each.uid)
        said = None if charge is None else (charge.quota, charge.non_preemptible)
        if record is not None:
            if said != (each.quota, each.non_preemptible):
                recall_quota(units, record, each.quota)
        elif engine.living_pods.has_living(each.uid):
            account = each.account or _account_of_namespace(engine, each)
            usage.charge_living(each.uid, account, non_preemptible=each.non_preemptible)


def _account_of_namespace(engine: Engine, last: LastQuota) -> Account:
    namespace, _ = engine.living_pods.labels_of(last.uid)
    user, group = namespace_submitter(namespace)
    return Account(last.quota, "", namespace, group, user)


def put_beyond_objects(engine: Engine, beyond: BeyondObjects, moment: Moment) -> None:
    """Put the rest into an engine that was told the objects.

    Args:
        engine: The engine.
        beyond: What no object says.
        moment: The time of the dump.
    """
    _put_turns(engine, beyond)
    rooms = {each.unit: _build_room(engine, each) for each in beyond.kept_rooms}
    known = {key: room for key, room in rooms.items() if room is not None}
    rests = {Uid(uid): until for uid, until in beyond.rests.items()}
    engine.rounds.resume(known, beyond.spent, rests)
    taken = {each.queue: Taken(each.second, each.missing) for each in beyond.taken_tokens}
    engine.rounds.rates.resume(taken)
    for on in beyond.admitted_on:
        recall_admission(engine.units, on.unit, on.record)
    for asleep in beyond.asleep:
        record = engine.record(asleep.unit)
        queue = None if record is None else engine.queues.find(record.queue_name)
        if record is None or record.info is None or queue is None:
            continue
        if record.info not in queue.pending:
            continue
        if engine.admission.let_sleep(queue, record.info, asleep.refusal, asleep.at, moment):
            refresh_turn(engine.units, queue.name)


def _put_turns(engine: Engine, beyond: BeyondObjects) -> None:
    for turn in beyond.turns:
        if turn.queue in engine.queues:
            recall_turn(
                engine.units, turn.queue, turn.generation, turn.served, turn.backs_off_until
            )


def _build_room(engine: Engine, room: KeptRoom) -> Nomination | None:
    record = engine.record(room.unit)
    if record is None or record.info is None:
        return None
    return Nomination(
        uid=record.uid,
        domains=engine.plugins.domains(record.info.quota),
        claim=(record.info.order_key, record.info.class_key),
        until=room.until,
        asked={(each.unit, each.uid): each.version for each in room.asked},
        failed=frozenset(room.failed),
        tries=room.tries,
    )


def _stored_accounts(engine: Engine) -> StoredAccounts | None:
    """Return what accounts have used; None: nothing is counted over time."""
    usage = engine.usage
    ledger, fair, of_quotas = usage.ledger, usage.fair, usage.quota_use
    if not engine.counts_time:
        return None
    second = fair.second if of_quotas is None else of_quotas.second
    stored = StoredAccounts(settled_at=second)
    if ledger is not None:
        stored = replace(ledger.stored(), budgets=engine.usage.budgets.accounts.stored())
    if fair.is_on or of_quotas is not None:
        stored = replace(stored, uses=StoredUses(second, usage.stored_uses(second)))
    return stored
