"""What a submitted job does now, and how it has ended, from its unit and itself. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from koord_queue.acts.change import AnyObject
from shared_api.evictions import eviction_reason
from shared_api.objects.meta import Condition, WireStruct
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import JOB_IS_DELETED, Phase, is_being_evicted, phase_of
from shared_api.waiting_reasons import NOT_WRITTEN

GRACE_SECONDS: Final = 30.0
"""How long the controllers may take to create the unit of a job; it takes them tenths of a second,
or as long as they start."""


class State(Enum):
    """How far a job is."""

    NEW = "new"
    WAITS = "waiting"
    STARTS = "starting"
    RUNS = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETED = "deleted"
    LEFT_ALONE = "left alone"


DELETED: Final = "was deleted"

ENDED: Final = frozenset({State.SUCCEEDED, State.FAILED, State.DELETED, State.LEFT_ALONE})

SUCCESS: Final = 0
FAILURE: Final = 1
NO_OUTCOME: Final = 3
"""Exit codes; 2 is a wrong command line. `NO_OUTCOME`: its end was not seen."""


class JobObject(WireStruct, frozen=True):
    """A job of any kind, as far as its own end can be read."""

    class Status(WireStruct, frozen=True):
        """`status`, if it has conditions as those of batch/v1."""

        conditions: tuple[Condition, ...] = ()

    status: Status = Status()


class Progress(NamedTuple):
    """What a job does.

    Attributes:
        state: How far it is.
        text: The same as a part of a sentence: "waits in queue night".
        news: What a change of is news; "": the text. A forecast moves all the time.
    """

    state: State
    text: str
    news: str = ""


class Advice(NamedTuple):
    """What the scheduler says of a unit that waits.

    Attributes:
        where: Where it waits: "waits in queue night at position 3"; "" if unknown.
        why: The reason that decides; "" if it is its turn.
        start: When it may start, as "may start 14:05", or why that is not told; "" without a
            forecast.
    """

    where: str = ""
    why: str = ""
    start: str = ""


NO_ADVICE: Final = Advice()

_STARTS: Final = {
    Phase.RESERVED: "is reserved, and waits for its admission checks",
    Phase.SCHED_READY: "is reserved, and waits for nodes",
    Phase.SCHED_FAILED: "is reserved, and got no nodes",
}


def progress(unit: QueueUnit, advice: Advice = NO_ADVICE) -> Progress:
    """Return what a job does by its unit; `advice` counts while it waits."""
    if is_being_evicted(unit):
        return Progress(State.STARTS, f"is being evicted ({eviction_reason(unit)})")
    phase = phase_of(unit)
    match phase:
        case Phase.SUCCEED:
            return Progress(State.SUCCEEDED, "succeeded")
        case Phase.FAILED if unit.status.message == JOB_IS_DELETED:
            return Progress(State.DELETED, DELETED)
        case Phase.FAILED:
            text = unit.status.message.removeprefix("Failed").lstrip(": ")
            return Progress(State.FAILED, _failed(text))
        case Phase.RUNNING:
            return Progress(State.RUNS, f"is running: {_pods(unit)}")
        case Phase.ENQUEUED | Phase.TIMEOUT_BACKOFF:
            return _waiting(unit, advice)
        case _:
            return Progress(State.STARTS, _STARTS.get(phase, f"is starting: {_pods(unit)}"))


def end_by_unit(unit: QueueUnit) -> Progress | None:
    """Return how a job has ended by its unit; None if it has not, or was deleted before."""
    found = progress(unit)
    return found if found.state in {State.SUCCEEDED, State.FAILED} else None


def progress_without_unit(
    *, is_there: bool, end: Progress | None, had_unit: bool, seconds: float
) -> Progress:
    """Return what a job does that has no unit.

    Args:
        is_there: Whether the job exists.
        end: How it has ended by its own conditions; None if it has not, or that cannot be seen.
        had_unit: Whether it had a unit before.
        seconds: Since when it is followed.
    """
    if not is_there:
        return Progress(State.DELETED, DELETED)
    if end is not None:
        return end
    if had_unit:
        return Progress(State.NEW, "has lost its queue unit")
    if seconds >= GRACE_SECONDS:
        return Progress(State.LEFT_ALONE, "is not managed by the queue: it has no queue unit")
    return Progress(State.NEW, "has no queue unit yet")


def exit_code(states: list[State], *, timed_out: bool = False) -> int:
    """Return the exit code for what has become of all jobs: the worst of them counts."""
    if State.FAILED in states:
        return FAILURE
    if timed_out or any(each is not State.SUCCEEDED for each in states):
        return NO_OUTCOME
    return SUCCESS


def is_unit_of(unit: QueueUnit, job: AnyObject) -> bool:
    """Return whether a unit is that of an object: of a pod it may be that of its group."""
    consumer = unit.spec.consumer_ref
    if consumer is None:
        return False
    if job.kind == "Pod" and consumer.kind == "PodGroup":
        meta = job.metadata
        return consumer.name in {*meta.labels.values(), *meta.annotations.values()}
    return consumer.uid == job.metadata.uid


def own_end(job: JobObject) -> Progress | None:
    """Return how a job has ended by its own conditions, None if that cannot be seen."""
    for each in job.status.conditions:
        if each.status == "True" and each.type in {"Complete", "Succeeded", "Completed"}:
            return Progress(State.SUCCEEDED, "succeeded")
        if each.status == "True" and each.type == "Failed":
            return Progress(State.FAILED, _failed(each.message))
    return None


def _failed(text: str) -> str:
    return f"failed: {text}" if text else "failed"


def _pods(unit: QueueUnit) -> str:
    granted = sum(each.replicas for each in unit.status.admissions)
    running = sum(each.running for each in unit.status.admissions)
    pods = "pod runs" if granted == 1 else "pods run"
    return f"{running} of {granted} {pods}"


def _waiting(unit: QueueUnit, advice: Advice) -> Progress:
    where = f"waits in queue {unit.spec.queue}" if unit.spec.queue else "waits"
    message = unit.status.message
    why = "" if message == NOT_WRITTEN else message
    if advice.where:
        where, why = advice.where, advice.why
    because = f": {why}" if why else ""
    start = f", {advice.start}" if advice.start else ""
    # The time before the reason: on a terminal the end of a long line is not seen.
    return Progress(State.WAITS, f"{where}{start}{because}", f"{where}{because}")
