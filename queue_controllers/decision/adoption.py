"""Jobs that ran before the queue knew of them: they continue and are charged as they are. Pure.

The unit's status proves an adoption, since users who may only edit units cannot write it. An
adoption takes two writes: the unit is created, Enqueued like any other; then its status moves to
Running, with all that the job asks for as its admissions and the condition `Adopted=True`. In
between the scheduler charges the living pods, so nothing is admitted on top. If the second write is
lost (a crash, a restart into another version), the next reconcile repeats it.

Whether a job is adopted is read from the job and its pods alone. Only pods that have a node make it
running: others have taken nothing yet, and a label alone would charge hundreds of them to a quota
that has no room. With one such pod the whole job is adopted. A job that was resumed against the
queue has a pending unit, too; the difference is a pod that is older than the unit, by the API
server's timestamps. No annotation counts. A job whose namespace may not name its quota is not
adopted: it was never admitted, so a label would be enough to fill another team's quota.
"""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.decision.actions import (
    MARK_REFUSED,
    EventType,
    MarkPods,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
)
from queue_controllers.decision.job_ownership import may_use_quota, quota_of_job
from queue_controllers.decision.job_settings import Adopt
from queue_controllers.decision.job_state import JobState, State, runs_whole
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.pending import with_event_once
from queue_controllers.decision.pod_stamps import build_stamps
from queue_controllers.decision.queue_unit_builder import build_sync, demand_of
from queue_controllers.decision.running import children_into_status, count_into_status
from queue_controllers.decision.unit_status_patches import move_unit
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import DEFAULT_REQUIREMENT, Admission, QueueUnit
from shared_api.placement import placement_body
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import (
    ADOPTABLE_PHASES,
    ADOPTED,
    EVICTED,
    PODS_PENDING,
    PODS_READY,
    SUSPEND_CONTESTED,
    Phase,
    admission_body,
    condition_body,
    is_adopted,
    is_being_evicted,
    phase_of,
    with_condition,
)
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import ADMISSION_GATE


def ran_before(view: JobView, job: JobFacts, state: JobState) -> bool:
    """Return whether a job without a unit ran before the queue knew of it, and continues.

    A job whose kind can be held at creation only always continues: to suspend it now would not stop
    what its operator has begun.
    """
    if job.kind.held_by_gates:
        # Holding a running pod would mean deleting it. Gated pods go on waiting.
        return _is_whole(view, job)
    if not _may_go_on(view, state) or _was_let_go_out_of_turn(view):
        return False
    if view.memory.nested and view.ownership.ignored_owner and not job.kind.held_only_at_creation:
        return False  # it was created as part of an owner that no longer counts
    is_too_late = job.kind.held_only_at_creation and job.released_at is None
    return is_too_late or (_is_running(view, job) and not view.memory.arrived)


def ran_before_its_unit(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> bool:
    """Return whether a job ran before its pending unit was created.

    True if the unit was never admitted and a pod with a node is older than it. Timestamps have
    whole seconds: a pod of the same second may have been released after the unit was created. Also
    true if the job's kind can be held at creation only, or never, and it was created running: its
    spec has not changed since.
    """
    if phase_of(unit) is not Phase.ENQUEUED or unit.spec.active is False:
        return False
    if job.kind.held_by_gates or not _may_go_on(view, state):
        return False
    if view.memory.adopting:
        return True
    if view.memory.held:
        return False  # what is older than the unit was told to stop before that was created
    evicted = find_condition(unit.status.conditions, EVICTED)
    if find_condition(unit.status.conditions, SUSPEND_CONTESTED) is not None:
        return False  # it was suspended before, and is being resumed against the queue
    if unit.status.requeue_state or (evicted is not None and evicted.status != "True"):
        return False  # it was stopped before: whatever resumes it now acts against the queue
    if job.kind.held_only_at_creation and job.released_at is None and job.metadata.generation == 1:
        return True
    since = view.pods.bound_since
    return bool(since) and since < unit.metadata.creation_timestamp


def has_pods(view: JobView, job: JobFacts) -> bool:
    """Return whether a job has unfinished pods, as far as is known of them or as its status says.

    Its operator's count may arrive before the pods that it counts.
    """
    return view.pods.living > 0 or job.status.pods > 0


def _is_running(view: JobView, job: JobFacts) -> bool:
    """Return whether a job has a pod with a node, or, of pods that are not seen, a ready one.

    None may be seen of a kind whose pods are: while they cannot be watched, a job that runs is not
    one that never had a pod.
    """
    are_unseen = not job.sees_pods or not view.pods.total
    return view.pods.bound > 0 or (are_unseen and job.status.ready > 0)


def _is_whole(view: JobView, job: JobFacts) -> bool:
    """Return whether all pods that a job of pods needs live, and at least one has a node."""
    return view.pods.bound > 0 and runs_whole(job, view.pods)


def _was_let_go_out_of_turn(view: JobView) -> bool:
    """Return whether the job had a pending unit that was deleted by hand.

    The job was resumed, and its unit deleted before it could be suspended again. A job that was
    being adopted, or that may not be, was neither held nor resumed.
    """
    memory = view.memory
    was_left = memory.adopting or "NotAdopted" in memory.reported_events
    return view.lost is not None and view.lost.waited and not was_left


def _may_go_on(view: JobView, state: JobState) -> bool:
    is_let_go = state.state in {State.STARTING, State.RUNNING}
    return is_let_go and view.settings.adopt is Adopt.RUNNING


def leave_running(view: JobView, job: JobFacts) -> Decision:
    """Leave a running job alone that was never admitted and whose namespace may not name its quota.

    Its pods are charged like those of any unmanaged job.
    """
    quota = quota_of_job(job, view.context)
    message = (
        f"It runs, and namespace {job.metadata.namespace} may not use quota {quota}: it goes on,"
        f" nothing of {quota} is charged for it, and its pods are charged where their own labels"
        " say. Name a quota in the job's label that its namespace may use"
    )
    return with_event_once(view, "NotAdopted", message)


def adopt(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Prove an adoption; first restore the unit's spec from its job.

    Without the right to use its quota the job is left running, and nothing is charged for it.
    """
    if not may_use_quota(job, view.context):
        return leave_running(view, job)
    known = not job.unknown_demand
    if known and (body := build_sync(job, unit, view.context, waiting=True, runs=True)):
        return Decision(actions=(PatchUnit(unit=unit, body=body),), memory=view.memory)
    return _prove_with(view, job, unit, _describe_adoption(view, job))


def adopt_opened_pods(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Charge what was ungated by others: only deleting its pods would stop it, perhaps forever.

    If nothing is left to start, the unit is admitted. Otherwise its living pods count, and the unit
    stays pending: to ungate one pod admits no others. None: that is so already.
    """
    if phase_of(unit) not in ADOPTABLE_PHASES:
        return None
    if not may_use_quota(job, view.context):
        return None if "NotAdopted" in view.memory.reported_events else leave_running(view, job)
    message = f"The gate {ADMISSION_GATE} was removed from its pods by others: they go on, charged"
    if _is_whole(view, job):
        event = RecordJobEvent(reason="GateOpened", message=message, type=EventType.WARNING)
        return _prove_with(view, job, unit, event)
    if not view.pods.opened or MARK_REFUSED in view.memory.reported_events:
        return None
    rest = "The others wait in the queue until the rest of the job fits"
    if not view.pods.held:
        rest = "The job waits in the queue until it fits, or one of them has a node"
    message = (
        f"The gate {ADMISSION_GATE} was removed from {view.pods.opened} of its pods by others:"
        f" they go on, charged as they run. {rest}"
    )
    event = RecordJobEvent(reason="GateOpened", message=message, type=EventType.WARNING)
    marked = mark_opened(view, job, unit)
    return msgspec.structs.replace(marked, actions=(*marked.actions, event))


def mark_opened(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Mark the pods that were ungated by others with their unit."""
    stamps = build_stamps(job, unit, quota_of_job(job, view.context))
    mark = MarkPods(released_at=view.moment.exact_stamp, stamps=stamps)
    return Decision(actions=(mark,), memory=view.memory)


def _prove_with(view: JobView, job: JobFacts, unit: QueueUnit, *why: RecordJobEvent) -> Decision:
    """Return the write that proves an adoption, and the events about it."""
    memory = msgspec.structs.replace(view.memory, adopting=False)
    return Decision(actions=(_prove(view, job, unit), *why), memory=memory)


def _describe_adoption(view: JobView, job: JobFacts) -> RecordJobEvent:
    """Return the event that the job continues, and what it is charged to."""
    quota = quota_of_job(job, view.context) or "(none: it names none, nor does its namespace)"
    why = "It already ran when it was first seen"
    if job.kind.held_only_at_creation:
        why = f"It was not created suspended, and no {job.kind.kind} is held later"
    message = f"{why}: it goes on, charged to quota {quota}"
    return RecordJobEvent(reason="Adopted", message=message)


def _lacks_proof(unit: QueueUnit) -> bool:
    """Return whether a unit was adopted by an older version, which wrote no admissions.

    Its Running phase is proved by the status; units that the scheduler admits have admissions.
    """
    is_running = phase_of(unit) is Phase.RUNNING and not is_being_evicted(unit)
    return is_running and not unit.status.admissions and not is_adopted(unit)


def prove_again(view: JobView, job: JobFacts, unit: QueueUnit) -> PatchUnitStatus | None:
    """Return the write that proves an adoption by an older version; None if there is none."""
    if not _lacks_proof(unit):
        return None
    conditions = with_condition(unit.status.conditions, _adopted(), now=view.moment.stamp)
    status: dict[str, object] = {"conditions": [condition_body(each) for each in conditions]}
    return PatchUnitStatus(unit=unit, status=status | _granted(view, job, unit))


def _prove(view: JobView, job: JobFacts, unit: QueueUnit) -> PatchUnitStatus:
    conditions = unit.status.conditions
    evicted = find_condition(conditions, EVICTED)
    backs_off = phase_of(unit) is Phase.TIMEOUT_BACKOFF
    if evicted is not None and (backs_off or evicted.status != "True"):
        # That eviction is over, and must not be taken for one of the current run.
        conditions = tuple(each for each in conditions if each.type != EVICTED)
    unit = msgspec.structs.replace(
        unit, status=msgspec.structs.replace(unit.status, conditions=conditions)
    )
    message = "Adopted: it ran before it was admitted"
    granted = _granted(view, job, unit)
    move = move_unit(
        unit, Phase.RUNNING, view.moment, message=message, noted=(_adopted(),), extra=granted
    )
    if view.pods.running:
        return move
    waits = Condition(type=PODS_READY, status="False", reason=PODS_PENDING, message="No pod runs")
    kept_conditions = [each for each in move.status["conditions"] if each["type"] != PODS_READY]
    before = tuple(each for each in conditions if each.type == PODS_READY)
    shown = with_condition(before, waits, now=view.moment.stamp)
    move.status["conditions"] = [*kept_conditions, *map(condition_body, shown)]
    return move


def _adopted() -> Condition:
    message = "The job ran before the queue had admitted it"
    return Condition(type=ADOPTED, status="True", reason="RanBefore", message=message)


def _granted(view: JobView, job: JobFacts, unit: QueueUnit) -> dict[str, Any]:
    """Return the part of a status that says what is charged for an adopted job, and where."""
    status = unit.status
    admissions = status.admissions or _admissions_of(job, unit)
    admitted = msgspec.structs.replace(
        unit, status=msgspec.structs.replace(status, admissions=admissions)
    )
    granted: dict[str, Any] = {"admissions": [admission_body(each) for each in admissions]}
    granted |= count_into_status(admitted, view.pods) | children_into_status(unit, view.pods)
    if status.placement is None:
        granted["placement"] = placement_body(unit, quota_of_job(job, view.context))
    return granted


def _admissions_of(job: JobFacts, unit: QueueUnit) -> tuple[Admission, ...]:
    """Return admissions for all that a job asks for; its pods run already."""
    if not job.pod_sets:
        return (Admission(name=DEFAULT_REQUIREMENT, replicas=1, resources=unit.spec.request),)
    return tuple(map(_admission_of, job.pod_sets))


def _admission_of(pod_set: JobPodSet) -> Admission:
    try:
        amounts = dict(format_amounts(demand_of((pod_set,))))
    except QuantityError:
        amounts = {}  # what its living pods ask for is charged anyway
    return Admission(name=pod_set.name, replicas=pod_set.count, resources=amounts)
