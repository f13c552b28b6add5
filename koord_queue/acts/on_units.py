"""Acts on one unit. Pure.

A unit follows its job: what is written on the unit alone is undone by the next reconcile, so the
job is changed, and the controllers carry it over. This takes no right on units. A unit without
controllers, or whose job is no object that could say it, is changed itself, guarded by the version
that was read: no act decides by an old state.

`hold` uses the annotation that upstream has for tests. It is carried over while a unit waits, and
never evicts one that has started; `active: false` evicts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from koord_queue.acts.change import Already, AnyObject, Change, Json, On, Target
from koord_queue.acts.on_queues import takes_quota
from koord_queue.errors import CommandError
from shared_api.evictions import REQUEUE_REQUESTED
from shared_api.objects.meta import Condition
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    EVICTED,
    condition_body,
    is_being_evicted,
    is_final,
    is_managed_by_controllers,
    occupies_quota,
    phase_of,
    with_condition,
)
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    ACTIVE,
    AVAILABLE_QUOTA,
    BLOCK_FOR_TEST,
    DEACTIVATION_MARKS,
    FALSE_TEXTS,
    PRIORITY,
    QUEUE_NAME,
    TRUE_TEXTS,
    read_annotation,
    read_int32,
    read_queue_name,
    read_quota_name,
    spellings,
)

MADE_OF_PODS: Final = frozenset({"PodGroup", "StatefulSet", "LeaderWorkerSet"})
"""Kinds of jobs whose labels and annotations are those of their pods."""

ASKED: Final = "Evicted because a user has requeued it"
HELD: Final = "true"
_INT32: Final = range(-(2**31), 2**31)

Answer = Change | Already


# --- priority and queue ---------------------------------------------------------------------------


def set_priority(target: Target, number: int | None) -> Answer:
    """Return how a unit gets a priority; None: that of its PriorityClass again.

    Raises:
        CommandError: It has ended, or its pods say the priority, or the number is no int32.
    """
    if number is not None and number not in _INT32:
        raise CommandError(f"priority {number} is no whole number of 32 bits")
    job, unit = _writable(target, "priority"), target.unit
    if job is None:
        return _set_priority_of_unit(target, number)
    annotation = job.metadata.annotations.get(PRIORITY)
    before = read_int32(annotation, None)
    wanted = None if number is None else str(number)
    undo = _again("priority", target, ("--reset",) if before is None else ("--to", str(before)))
    if annotation == wanted and (number is None or unit.spec.priority == number):
        return Already(outcome="already so")
    if number is None:
        edit: Json = {"patch": {}}  # what the PriorityClass says, the controllers know
        text = "priority reset"
    else:
        edit = {"patch": {"spec": {"priority": number}}}
        text = f"priority set to {number}"
    return Change(
        on=On.JOB,
        patch={"metadata": {"annotations": {PRIORITY: wanted}}},
        outcome=text,
        undo=undo,
        edit=edit,
        counts=None if number is None else lambda now: now.spec.priority == number,
    )


def _set_priority_of_unit(target: Target, number: int | None) -> Answer:
    before = target.unit.spec.priority
    if number is None:
        raise CommandError(
            f"{target.named} has no job whose PriorityClass could count",
            "Name a priority with --to.",
        )
    if before == number:
        return Already(outcome="already so")
    patch: Json = {"spec": {"priority": number}}
    return Change(
        on=On.UNIT,
        patch=patch,
        outcome=f"priority set to {number}",
        undo=_again("priority", target, ("--to", str(before))),
        edit={"patch": patch},
        is_guarded=True,
    )


def move(target: Target, queue: str, known: Queue | None = None) -> Answer:
    """Return how a unit gets into another queue.

    Args:
        target: The unit.
        queue: Name of the queue.
        known: The queue, if it may be read: whether it takes the unit's quota.

    Raises:
        CommandError: It has ended, or its pods name the queue.
    """
    job, unit = _writable(target, "queue"), target.unit
    before = unit.spec.queue
    labeled = job if job is not None else AnyObject(metadata=unit.metadata)
    named = read_queue_name(labeled.metadata.labels, labeled.metadata.annotations)
    if named == queue and before == queue:
        return Already(outcome=f"already in queue {queue}")
    label: Json = {"metadata": {"labels": {QUEUE_NAME: queue}}}
    whole: Json = {"spec": {"queue": queue}, **label}
    outcome, note = f"moved to queue {queue}", ""
    if occupies_quota(unit):
        outcome = f"labeled for queue {queue}"
        note = f"{target.named} keeps its place in {before}, and moves when it waits again"
    elif known is not None and not takes_quota(known, read_quota_name(unit.metadata.labels)):
        note = (
            f"queue {queue} does not take the quota of {target.named}, so it waits there in vain:"
            f" the annotation {AVAILABLE_QUOTA[0]} of the queue lists the quotas"
        )
    return Change(
        on=On.UNIT if job is None else On.JOB,
        patch=whole if job is None else label,
        outcome=outcome,
        undo=_again("move", target, ("--to", before)) if before else (),
        edit={"patch": whole},
        note=note,
        is_guarded=job is None,
        counts=None if job is None or occupies_quota(unit) else lambda now: now.spec.queue == queue,
    )


# --- hold and release -----------------------------------------------------------------------------


def hold(target: Target) -> Answer:
    """Return how a waiting unit is kept from starting.

    Raises:
        CommandError: It has started or ended, or its pods would have to say it.
    """
    job, unit = _writable(target, "hold"), target.unit
    if occupies_quota(unit):
        raise CommandError(
            f"{target.named} has been admitted, and hold only keeps from that what waits",
            "`requeue` has it wait again; `deactivate` stops it until it is activated.",
        )
    on_unit = is_held(unit)
    if on_unit and (job is None or _is_marked_held(job)):
        return Already(outcome="already on hold")
    patch: Json = {"metadata": {"annotations": {BLOCK_FOR_TEST: HELD}}}
    return Change(
        on=On.UNIT if job is None else On.JOB,
        patch=patch,
        outcome="on hold",
        undo=_again("release", target),
        edit={"patch": patch},
        is_guarded=job is None,
        counts=None if job is None else is_held,
    )


def release(target: Target) -> Answer:
    """Return how a unit that is on hold may start again.

    Raises:
        CommandError: It has ended, or its pods say it.
    """
    job, unit = _writable(target, "hold"), target.unit
    meta = unit.metadata if job is None else job.metadata
    keys = [key for key in spellings(BLOCK_FOR_TEST) if key in meta.annotations]
    if not keys:
        return Already(outcome="not on hold")
    patch: Json = {"metadata": {"annotations": dict.fromkeys(keys)}}
    # After its start, a unit keeps its annotations until it waits again.
    follows = job is not None and not occupies_quota(unit)
    return Change(
        on=On.UNIT if job is None else On.JOB,
        patch=patch,
        outcome="released",
        undo=_again("hold", target),
        edit={"patch": {"metadata": {"annotations": dict.fromkeys(spellings(BLOCK_FOR_TEST))}}},
        is_guarded=job is None,
        counts=(lambda now: not is_held(now)) if follows else None,
    )


def is_held(unit: QueueUnit) -> bool:
    """Return whether a unit is kept from starting."""
    return read_annotation(unit.metadata.annotations, BLOCK_FOR_TEST) == HELD


def _is_marked_held(job: AnyObject) -> bool:
    return read_annotation(job.metadata.annotations, BLOCK_FOR_TEST) == HELD


# --- active or not --------------------------------------------------------------------------------


def deactivate(target: Target) -> Answer:
    """Return how a unit is stopped, and kept from waiting.

    Raises:
        CommandError: It has ended.
    """
    _check_living(target)
    unit, job = target.unit, _followed_job(target)
    wants = None if job is None else _wants_active(job)
    if unit.spec.active is False and (wants is not True or _mark_of(unit) is not None):
        return Already(outcome="already inactive")
    note = ""
    if occupies_quota(unit):
        note = f"{target.named} is evicted: its pods are stopped"
    return _set_active(target, job, "false", outcome="deactivated", undo="activate", note=note)


def activate(target: Target) -> Answer:
    """Return how an inactive unit waits for its turn again.

    Raises:
        CommandError: It has ended.
    """
    _check_living(target)
    unit, job = target.unit, _followed_job(target)
    wants = None if job is None else _wants_active(job)
    if unit.spec.active is not False and wants is not False:
        return Already(outcome="already active")
    # Where the controllers have deactivated it, only another value than that of then counts.
    text = "True" if _mark_of(unit) == "true" else "true"
    return _set_active(target, job, text, outcome="activated", undo="deactivate")


def _set_active(
    target: Target, job: AnyObject | None, text: str, *, outcome: str, undo: str, note: str = ""
) -> Change:
    is_active = text in TRUE_TEXTS
    spec: Json = {"spec": {"active": is_active}}
    return Change(
        on=On.UNIT if job is None else On.JOB,
        patch=spec if job is None else {"metadata": {"annotations": {ACTIVE: text}}},
        outcome=outcome,
        undo=_again(undo, target),
        edit={"patch": spec},
        note=note,
        is_guarded=job is None,
        counts=None if job is None else lambda now: (now.spec.active is not False) is is_active,
    )


def _wants_active(job: AnyObject) -> bool | None:
    text = job.metadata.annotations.get(ACTIVE, "")
    return True if text in TRUE_TEXTS else False if text in FALSE_TEXTS else None


def _mark_of(unit: QueueUnit) -> str | None:
    """Return what the job's annotation said when the controllers deactivated the unit, or None."""
    marks = (unit.metadata.annotations.get(mark) for mark in DEACTIVATION_MARKS)
    return next((each for each in marks if each is not None), None)


# --- back to waiting ------------------------------------------------------------------------------


def requeue(target: Target, now: datetime) -> Answer:
    """Return how an admitted unit gives its quota back, and waits again: as any eviction.

    Raises:
        CommandError: It has ended.
    """
    _check_living(target)
    unit = target.unit
    if not occupies_quota(unit):
        return Already(outcome=f"already waits ({phase_of(unit)})")
    if is_being_evicted(unit):
        return Already(outcome="already being evicted")
    asked = Condition(type=EVICTED, status="True", reason=REQUEUE_REQUESTED, message=ASKED)
    stamp = rfc3339(now)
    conditions = with_condition(unit.status.conditions, asked, now=stamp)
    # A merge patch replaces lists: without the guard it could undo what others have written.
    patch: Json = {
        "status": {
            "conditions": [condition_body(each) for each in conditions],
            "message": ASKED,
            "lastUpdateTime": stamp,
        }
    }
    return Change(
        on=On.UNIT_STATUS,
        patch=patch,
        outcome="requeued",
        edit={"requeue": True},
        note=f"{target.named} may start again at once; `hold` keeps it once it waits",
        is_guarded=True,
    )


# --- what they have in common ---------------------------------------------------------------------


def _check_living(target: Target) -> None:
    if is_final(target.unit):
        raise CommandError(f"{target.named} has ended ({phase_of(target.unit)})")


def _followed_job(target: Target) -> AnyObject | None:
    """Return the job that the unit follows; None: the unit itself says it."""
    unit = target.unit
    if not is_managed_by_controllers(unit) or _is_made_of_pods(unit):
        return None
    return target.job


def _writable(target: Target, what: str) -> AnyObject | None:
    """Return the job to change, None for the unit.

    Raises:
        CommandError: It has ended, or neither of them would keep a change.
    """
    _check_living(target)
    unit = target.unit
    if not is_managed_by_controllers(unit):
        return None
    if _is_made_of_pods(unit):
        kind = unit.spec.consumer_ref.kind if unit.spec.consumer_ref is not None else "group"
        raise CommandError(
            f"the {what} of {target.named} is that of its pods, since it is a {kind}",
            "Change the labels and annotations of its pods, and of what creates them.",
        )
    if target.job is None:
        raise CommandError(f"the job of {target.named} is gone, and its unit follows it")
    return target.job


def _is_made_of_pods(unit: QueueUnit) -> bool:
    consumer = unit.spec.consumer_ref
    return consumer is not None and consumer.kind in MADE_OF_PODS


def _again(verb: str, target: Target, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (verb, target.named, *more)
