"""Edits of settings: those of all queues, and those of the configuration that a copy can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from queue_insight.what_if.edit import PATCH, AppliedEdit, Edit, FieldError
from queue_insight.what_if.object_edits import put_queue
from queue_scheduler.engine.engine import Engine
from shared_api.durations import DurationError, parse_duration
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    ADMISSION_CHECK_TIMEOUT,
    BACKFILL,
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    MAX_DEPTH,
    MAX_EVICTIONS_PER_HOUR,
    MAX_PRIORITY,
    PREEMPT_MIN_RUNTIME,
    PREEMPT_RUNNING,
    PRIORITY_THRESHOLD,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
    spellings,
)

SETTINGS: Final = "SchedulerSettings"

POLICY: Final = "queuePolicy"
PROTECT: Final = "defaultReclaimProtectTime"
RATE: Final = "evictionsPerHour"

OPTIONS: Final[Mapping[str, tuple[str, type]]] = {
    "backfill": (BACKFILL, bool),
    "preemption": (ENABLE_PREEMPTION, bool),
    "preemptRunning": (PREEMPT_RUNNING, bool),
    "waitForPodsRunning": (WAIT_FOR_PODS_RUNNING, bool),
    "stopPolicy": (STOP_POLICY, str),
    "maxDepth": (MAX_DEPTH, int),
    "maxPriority": (MAX_PRIORITY, int),
    "priorityThreshold": (PRIORITY_THRESHOLD, int),
    "admissionCheckTimeout": (ADMISSION_CHECK_TIMEOUT, str),
    "preemptMinRuntime": (PREEMPT_MIN_RUNTIME, str),
    "evictionDelay": (EVICTION_DELAY, str),
}
"""Settings of all queues: the annotation that each is, and its type."""

FIXED: Final = frozenset(
    {
        *("apiVersion", "kind", "plugins", "pluginConfigs", "quotaNamespaces", "namesAreProved"),
        *("strict", "oversellRate", "accounts", "fairTurns", "boostPerEviction"),
    }
)
"""Settings of the process that a copy of the engine is built with."""

_WORDS: Final = {bool: "true or false", str: "a string", int: "a whole number"}


def edit_settings(engine: Engine, edit: Edit) -> AppliedEdit:
    """Apply settings for all queues, and those of the configuration, to an engine.

    Raises:
        FieldError: A setting is unknown, has the wrong type, or a copy cannot change it.
    """
    if not isinstance(edit.patch, dict):
        raise FieldError(PATCH, "is required: the settings to change")
    annotations: dict[str, str | None] = {}
    policy: str | None = None
    for name, value in edit.patch.items():
        if name == PROTECT:
            engine.candidates.protect_seconds = _read_seconds(value)
        elif name == RATE:
            engine.queue_state.limit_evictions(_read_rate(value))
        elif name == POLICY:
            policy = _read(name, value, str) or ""
        elif name in OPTIONS:
            key, kind = OPTIONS[name]
            annotations[key] = _as_text(_read(name, value, kind))
        else:
            _refuse(name)
    for queue in [each.rules.api_object for each in engine.queues]:
        put_queue(engine, _changed(queue, annotations, policy), POLICY, _first(annotations))
    return AppliedEdit()


def _refuse(name: str) -> None:
    if name in FIXED:
        text = "a copy of the engine keeps it; a replay can be run with another value"
        raise FieldError(f"{PATCH}.{name}", text)
    known = ", ".join(sorted({POLICY, PROTECT, RATE, *OPTIONS}))
    raise FieldError(f"{PATCH}.{name}", f"is no setting; there are {known}")


def _read(name: str, value: object, kind: type) -> Any:  # noqa: ANN401 - of that type, or None
    if value is None or type(value) is kind:
        return value
    raise FieldError(f"{PATCH}.{name}", f"must be {_WORDS[kind]}, or null")


def _read_seconds(value: object) -> float:
    try:
        return float(parse_duration(value if isinstance(value, str) else "0s"))
    except DurationError as error:
        raise FieldError(f"{PATCH}.{PROTECT}", str(error)) from error


def _read_rate(value: object) -> int:
    """Return a number of evictions in an hour; null: 0, which is any number."""
    rate: int = _read(RATE, value, int) or 0
    if 0 <= rate <= MAX_EVICTIONS_PER_HOUR:
        return rate
    raise FieldError(f"{PATCH}.{RATE}", f"must be from 0 to {MAX_EVICTIONS_PER_HOUR}")


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _changed(queue: Queue, values: Mapping[str, str | None], policy: str | None) -> Queue:
    annotations = dict(queue.metadata.annotations)
    for key, value in values.items():
        for spelling in spellings(key):
            annotations.pop(spelling, None)
        if value is not None:
            annotations[key] = value
    spec = queue.spec if policy is None else replace(queue.spec, queue_policy=policy)
    return replace(queue, metadata=replace(queue.metadata, annotations=annotations), spec=spec)


def _first(annotations: Mapping[str, str | None]) -> str:
    """Return the setting to name where one cannot be read; there is one in most questions."""
    names = {key: name for name, (key, _) in OPTIONS.items()}
    return next((names[key] for key in annotations), POLICY)
