"""What users say in annotations on a job about how the queue treats it. Pure.

An empty annotation counts as absent. One that cannot be parsed does not count either, and
`unreadable_annotations` explains it to the job's owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from queue_controllers.decision.job_settings import JobSettings, backoff_from
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.partial_parallelism import INSTEAD, MIN_KEYS, why_no_minimum
from queue_controllers.jobframework.template_updates import why_unreadable
from shared_api.durations import DurationError, parse_seconds
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import read_time
from shared_api.well_known_labels import (
    ACTIVE,
    BACKOFF_LIMIT,
    BACKOFF_TIMEOUT,
    CHECKPOINTED_AT,
    DEACTIVATION_MARKS,
    DELETE_LOST_PODS_AFTER,
    FALSE_TEXTS,
    MAX_EXEC_TIME,
    MIN_PARALLELISM,
    PARTIAL_RUNNING_TIMEOUT,
    POD_CREATION_TIMEOUT,
    POD_SET_UPDATES,
    PRIORITY,
    RUNNING_TIMEOUT,
    TRUE_TEXTS,
    read_annotation,
    read_int32,
    spellings,
)

IGNORED_ANNOTATION: Final = "Annotation "
"""How a report about an annotation begins."""

MAX_SHOWN_CHARS: Final = 40
"""How much is quoted of a value that cannot be parsed; valid ones are shorter."""

SHORTEST_LOSS_SECONDS: Final = 60.0
"""The shortest time after which lost pods may be deleted: the node controller takes 40 s or more
to find that a node is not heard, and by then it may be about to be heard again."""

ValueT = TypeVar("ValueT")
DefaultT = TypeVar("DefaultT")


def read_priority(job: JobFacts, default: int | None) -> int | None:
    """Return the priority of the job's annotation; the default if there is none."""
    return _read(job, PRIORITY, _int32, default)


def read_active(job: JobFacts) -> bool | None:
    """Return the value of the active annotation, None without one (Go's bool syntax)."""
    return _read(job, ACTIVE, _bool, None)


def is_true_text(text: str) -> bool:
    """Return whether this value of the active annotation asks for the job to be active."""
    return text in TRUE_TEXTS


def read_max_execution_seconds(job: JobFacts) -> int | None:
    """Return how many seconds the annotation lets the job run; None without a positive int32."""
    return _read(job, MAX_EXEC_TIME, _positive_int32, None)


def read_checkpoint(job: JobFacts) -> datetime | None:
    """Return when the job last saved its work, by the annotation; None without a time."""
    return _read(job, CHECKPOINTED_AT, _time, None)


def read_lost_pod_seconds(annotations: Mapping[str, str]) -> float | None:
    """Return after which time lost pods are deleted; None if that is not asked for."""
    text = read_annotation(annotations, DELETE_LOST_PODS_AFTER)
    try:
        return _loss_seconds(text) if text else None
    except ValueError:
        return None


def settings_of_job(job: JobFacts, settings: JobSettings) -> JobSettings:
    """Return the settings for one job: its extension's, overridden by its annotations."""
    if _KEYS.isdisjoint(job.metadata.annotations):
        return settings
    running = _read(job, RUNNING_TIMEOUT, _seconds, settings.running_timeout_seconds)
    partial = _read(
        job, PARTIAL_RUNNING_TIMEOUT, _seconds, settings.partial_running_timeout_seconds
    )
    no_pods = _read(job, POD_CREATION_TIMEOUT, _seconds, settings.pod_creation_timeout_seconds)
    first_wait = _read(job, BACKOFF_TIMEOUT, _seconds, None)
    return msgspec.structs.replace(
        settings,
        running_timeout_seconds=running,
        partial_running_timeout_seconds=partial,
        pod_creation_timeout_seconds=no_pods,
        backoff=settings.backoff if first_wait is None else backoff_from(first_wait),
        backoff_limit=_read(job, BACKOFF_LIMIT, _count, settings.backoff_limit),
    )


def has_own_backoff(job: JobFacts) -> bool:
    """Return whether an annotation sets how long this job backs off."""
    return _read(job, BACKOFF_TIMEOUT, _seconds, None) is not None


def unreadable_annotations(job: JobFacts) -> dict[str, str]:
    """Return why annotations do not count: one line for each, by key."""
    troubles: dict[str, str] = {}
    if _KEYS.isdisjoint(job.metadata.annotations):
        return troubles
    for key, (read, instead) in _ANNOTATIONS.items():
        text = _text(job, key)
        try:
            if text:
                read(text)
        except ValueError as error:
            found = next(each for each in spellings(key) if each in job.metadata.annotations)
            troubles[key] = _ignored_warning(found, text, str(error), instead)
    if unread := why_unreadable(job.metadata.annotations):
        note = job.metadata.annotations[POD_SET_UPDATES]
        what = f"a note of the controllers ({unread})"
        troubles[POD_SET_UPDATES] = _ignored_warning(POD_SET_UPDATES, note, what, _TEMPLATES_COUNT)
    for wanted in (each.wanted_parallelism for each in job.pod_sets):
        if wanted is None:
            continue
        why = why_no_minimum(job.metadata.annotations, wanted)
        if why is not None:
            troubles[MIN_PARALLELISM] = _ignored_warning(*why, INSTEAD)
    return troubles


def _ignored_warning(key: str, text: str, what: str, instead: str) -> str:
    shown = text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "..."
    return f"{IGNORED_ANNOTATION}{key} is ignored: {shown!r} is not {what}; {instead}"


# --- values -------------------------------------------------------------------------------------


def how_to_activate(unit: QueueUnit) -> str:
    """Return what to do to have an inactive unit wait in the queue again."""
    marks = (unit.metadata.annotations.get(each, "") for each in DEACTIVATION_MARKS)
    first = '"false", then ' if any(is_true_text(each) for each in marks) else ""
    return f'annotate the job {ACTIVE}: {first}"true"'


def _text(job: JobFacts, key: str) -> str:
    return read_annotation(job.metadata.annotations, key) or ""


def _read(
    job: JobFacts, key: str, read: Callable[[str], ValueT], default: DefaultT
) -> ValueT | DefaultT:
    text = _text(job, key)
    try:
        return read(text) if text else default
    except ValueError:
        return default


def _int32(text: str) -> int:
    number = read_int32(text, None)
    if number is None:
        raise ValueError("a whole number of 32 bits")
    return number


def _positive_int32(text: str) -> int:
    number = read_int32(text, None)
    if number is None or number <= 0:
        raise ValueError("a whole number of seconds above 0")
    return number


def _count(text: str) -> int:
    number = read_int32(text, None)
    if number is None or number < 0:
        raise ValueError("a whole number from 0 on")
    return number


def _bool(text: str) -> bool:
    if text not in TRUE_TEXTS | FALSE_TEXTS:
        raise ValueError("true or false")
    return text in TRUE_TEXTS


def _seconds(text: str) -> float:
    try:
        return parse_seconds(text)
    except DurationError as error:
        raise ValueError("a duration such as 30s, 5m or 1h30m") from error


def _loss_seconds(text: str) -> float:
    seconds = _seconds(text)
    if seconds < SHORTEST_LOSS_SECONDS:
        raise ValueError("a duration of at least 1m")
    return seconds


def _time(text: str) -> datetime:
    moment = read_time(text)
    if moment is None:
        raise ValueError("a time such as 2026-11-30T08:00:00Z")
    return moment


_TEMPLATES_COUNT: Final = "its pod templates count as they are"

_SETTING_HOLDS: Final = "the setting for all jobs holds"

_ANNOTATIONS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    PRIORITY: (_int32, "the priority of its class counts"),
    ACTIVE: (_bool, "its unit stays as it is"),
    MAX_EXEC_TIME: (_positive_int32, "no time is set"),
    RUNNING_TIMEOUT: (_seconds, _SETTING_HOLDS),
    PARTIAL_RUNNING_TIMEOUT: (_seconds, _SETTING_HOLDS),
    POD_CREATION_TIMEOUT: (_seconds, _SETTING_HOLDS),
    BACKOFF_TIMEOUT: (_seconds, _SETTING_HOLDS),
    BACKOFF_LIMIT: (_count, _SETTING_HOLDS),
    CHECKPOINTED_AT: (_time, "an eviction counts as the loss of the whole run"),
    DELETE_LOST_PODS_AFTER: (_loss_seconds, "its lost pods are left alone"),
}
"""Key -> how it is parsed, and what holds if it cannot be."""

_KEYS: Final = frozenset(
    (*(spelling for key in _ANNOTATIONS for spelling in spellings(key)), *MIN_KEYS, POD_SET_UPDATES)
)
"""Most jobs have none of them, and every reconcile asks."""
