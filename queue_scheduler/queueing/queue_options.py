"""The options of a Queue object other than its policy, such as depth and waiting for pods. Pure.

This is the only module that reads a queue's annotations, so that one table of docs/queues.md can
list them. A value that cannot be parsed changes nothing: the previous value stays in force, and a
sentence for users is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from shared_api.durations import DurationError, parse_duration, parse_seconds
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    ADMISSION_CHECK_TIMEOUT,
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    STATUS_REFRESH_INTERVAL,
    STOP_POLICY,
    UNREAD_CEILING,
    WAIT_FOR_PODS_RUNNING,
    read_annotation,
    read_int32,
)
from shared_api.well_known_labels import PRIORITY_THRESHOLD as THRESHOLD

STATUS_INTERVAL_SECONDS: Final = 5.0
"""Default interval between two writes of one queue's status. It is the largest object that is
written: under load, one write per second took a fifth of what admissions took."""

PRIORITY_THRESHOLD: Final = 4
"""Default priority from which on the policy Intelligent treats a unit as high; upstream's."""

BACKFILL_DEPTH: Final = 100
"""Most positions that a queue with backfill considers: each release has all of them tried again."""

MAX_SHOWN: Final = 64
"""Most characters of a value that a message quotes; an annotation may have 256 KiB."""

_DURATION: Final = "a duration such as 30s, 5m or 1h30m"


class StopPolicy(StrEnum):
    """Whether a queue is stopped; the values are Kueue's."""

    NONE = "None"
    HOLD = "Hold"
    """No unit starts; started units continue."""
    HOLD_AND_DRAIN = "HoldAndDrain"
    """No unit starts, and started units are evicted."""


class QueueOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How one queue behaves.

    Attributes:
        max_depth: How many positions are considered; None: all.
        waits_for_pods: Whether only one unit at a time may be in flight.
        backfill: Whether a unit behind a refused one may start only if that does not delay it.
        stop: Whether it is stopped.
        max_priority: The highest priority with which its units count; None: no ceiling.
        priority_threshold: The least priority of a high unit (policy Intelligent).
        status_interval_seconds: Interval between two writes of its status.
        check_timeout_seconds: How long admission checks may take; 0: without limit; None: the
            program's setting applies.
        problems: Errors in its annotations, as sentences.
        is_strict: Whether nodes are requested before a unit may start. It is set by the program's
            flags, not by the object.
        preempts: Whether a unit may preempt units of the queue that have a lower priority and whose
            pods do not all run yet.
        preempts_running: Whether it may preempt those whose pods all run as well.
    """

    max_depth: int | None = None
    waits_for_pods: bool = False
    preempts: bool = False
    preempts_running: bool = False
    backfill: bool = False
    stop: StopPolicy = StopPolicy.NONE
    max_priority: int | None = None
    priority_threshold: int = PRIORITY_THRESHOLD
    status_interval_seconds: float = STATUS_INTERVAL_SECONDS
    check_timeout_seconds: float | None = None
    problems: tuple[str, ...] = ()
    is_strict: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether none of its units may start."""
        return self.stop is not StopPolicy.NONE


DEFAULT_OPTIONS: Final = QueueOptions()


def recorded_options(queue: Queue) -> QueueOptions:
    """Return the options that the previous scheduler had in force and that must survive a restart.

    A stopped queue must not start to admit because its annotation is misspelled.
    """
    stop = _as_stop_policy(queue.status.stop_policy_in_force)
    return QueueOptions(stop=stop or StopPolicy.NONE)


def read_options(queue: Queue, before: QueueOptions = DEFAULT_OPTIONS) -> QueueOptions:
    """Return the options of a queue; `before` are the options in force."""
    reader = _AnnotationReader(queue.metadata.annotations)
    return QueueOptions(
        max_depth=reader.depth(before.max_depth),
        waits_for_pods=reader.is_on(WAIT_FOR_PODS_RUNNING),
        preempts=reader.is_on(ENABLE_PREEMPTION),
        preempts_running=reader.is_on(PREEMPT_RUNNING),
        backfill=reader.is_on(BACKFILL),
        stop=reader.stop(before.stop),
        max_priority=reader.max_priority(before.max_priority),
        priority_threshold=reader.threshold(before.priority_threshold),
        status_interval_seconds=reader.status_interval(before.status_interval_seconds),
        check_timeout_seconds=reader.check_timeout(before.check_timeout_seconds),
        problems=tuple(reader.problems),
    )


def places_differently(before: Queue, after: Queue) -> bool:
    """Return whether units of a queue must be placed again: order, checks or quotas changed."""
    return (
        before.spec.queue_policy != after.spec.queue_policy
        or before.spec.admission_checks != after.spec.admission_checks
        or before.metadata.annotations != after.metadata.annotations
        or before.metadata.labels != after.metadata.labels
    )


class _AnnotationReader:
    """Reads the annotations of one queue, and records values that cannot be parsed."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._annotations = annotations
        self.problems: list[str] = []

    def is_on(self, key: str) -> bool:
        """Return whether a switch is on: any value but `true` is off, as upstream."""
        text = read_annotation(self._annotations, key) or "false"
        if text not in ("true", "false"):
            self._note(key, text, "true or false", "it counts as false")
        return text == "true"

    def depth(self, before: int | None) -> int | None:
        """Return `koord-queue/max-depth`; absent or negative: None."""
        text = read_annotation(self._annotations, MAX_DEPTH)
        if text is None:
            return None
        depth = read_int32(text, None)
        if depth is None:
            self._keep(MAX_DEPTH, text, "a whole number", "no limit" if before is None else before)
            return before
        return depth if depth >= 0 else None

    def stop(self, before: StopPolicy) -> StopPolicy:
        """Return `koord-queue/stop-policy`; absent: `StopPolicy.NONE`."""
        text = read_annotation(self._annotations, STOP_POLICY)
        if text is None:
            return StopPolicy.NONE
        policy = _as_stop_policy(text)
        if policy is None:
            self._keep(STOP_POLICY, text, "None, Hold or HoldAndDrain", before.value)
            return before
        return policy

    def max_priority(self, before: int | None) -> int | None:
        """Return `koord-queue/max-priority`; absent: None.

        A value that cannot be parsed was meant as a ceiling: if no previous one is known, as after
        a restart, the ceiling is the priority of a job that states none.
        """
        text = read_annotation(self._annotations, MAX_PRIORITY)
        if text is None:
            return None
        ceiling = read_int32(text, None)
        if ceiling is not None:
            return ceiling
        what = "a whole number of 32 bits"
        if before is None:
            then = f"until it can be read no priority above {UNREAD_CEILING} counts"
            self._note(MAX_PRIORITY, text, what, then)
            return UNREAD_CEILING
        self._keep(MAX_PRIORITY, text, what, before)
        return before

    def threshold(self, before: int) -> int:
        """Return `koord-queue/priority-threshold`."""
        text = read_annotation(self._annotations, THRESHOLD)
        if text is None:
            return PRIORITY_THRESHOLD
        threshold = read_int32(text, None)
        if threshold is None:
            self._keep(THRESHOLD, text, "a whole number", before)
            return before
        return threshold

    def status_interval(self, before: float) -> float:
        """Return `koord-queue/queue-items-refresh-interval` in seconds."""
        text = read_annotation(self._annotations, STATUS_REFRESH_INTERVAL)
        if text is None:
            return STATUS_INTERVAL_SECONDS
        try:
            return float(parse_duration(text))
        except DurationError:
            self._keep(STATUS_REFRESH_INTERVAL, text, _DURATION, f"{before:g}s")
            return before

    def check_timeout(self, before: float | None) -> float | None:
        """Return `koord-queue/admission-check-timeout` in seconds; absent or empty: None."""
        text = read_annotation(self._annotations, ADMISSION_CHECK_TIMEOUT)
        if not text:
            return None
        try:
            return parse_seconds(text)
        except DurationError:
            stays = "the setting" if before is None else f"{before:g}s"
            self._keep(ADMISSION_CHECK_TIMEOUT, text, _DURATION, stays)
            return before

    def _keep(self, key: str, text: str, what: str, stays: object) -> None:
        self._note(key, text, what, f"what was in force stays: {stays}")

    def _note(self, key: str, text: str, what: str, then: str) -> None:
        shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
        self.problems.append(f"annotation {key}: {shown!r} is not {what}; {then}")


def _as_stop_policy(text: str) -> StopPolicy | None:
    return next((policy for policy in StopPolicy if policy.value == text), None)
