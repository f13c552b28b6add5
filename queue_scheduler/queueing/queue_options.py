"""The options of a Queue object, in addition to its order: its depth, what it waits for. Pure.

Only this module reads a queue's annotations, so one table of docs/queues.md can list them
(`fair_settings` reads `spec.fairShare`). A value that cannot be parsed changes nothing: the value
in force stays, and a sentence about it is kept for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, FairSettings, read_fair_share
from shared_api.durations import DurationError, parse_duration, parse_seconds
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    ADMISSION_CHECK_TIMEOUT,
    BACKFILL,
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    MAX_DEPTH,
    MAX_EVICTIONS_PER_HOUR,
    MAX_PRIORITY,
    PREEMPT_MIN_RUNTIME,
    PREEMPT_RUNNING,
    RECLAIM_MIN_RUNTIME,
    STATUS_REFRESH_INTERVAL,
    STOP_POLICY,
    UNREAD_CEILING,
    WAIT_FOR_PODS_RUNNING,
    read_annotation,
    read_int32,
)
from shared_api.well_known_labels import PRIORITY_THRESHOLD as THRESHOLD

STATUS_INTERVAL_SECONDS: Final = 5.0
"""Between two writes of one queue's status, unless its annotation says otherwise. It is the largest
thing that is written: under load one write a second took a fifth of what admissions took."""

PRIORITY_THRESHOLD: Final = 4
"""Upstream's."""

BACKFILL_DEPTH: Final = 100
"""Positions that a queue looks at which backfills: every release has each of them asked again."""

MAX_SHOWN: Final = 64
"""Characters of a value that a sentence repeats; an annotation may have 256 KiB."""

_DURATION: Final = "a duration such as 30s, 5m or 1h30m"


class StopPolicy(StrEnum):
    """Whether a queue is stopped; the values are Kueue's."""

    NONE = "None"
    HOLD = "Hold"
    """No unit is admitted; admitted ones continue."""
    HOLD_AND_DRAIN = "HoldAndDrain"
    """In addition, admitted units are evicted."""


class QueueOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How one queue behaves.

    Attributes:
        max_depth: Only this many positions are considered; None: all.
        waits_for_pods: Whether one unit at a time may be admitted and not running yet.
        backfill: Whether units may pass a refused one only if they do not delay it.
        stop: Whether it is stopped.
        max_priority: The ceiling of its units' priorities; None: no ceiling.
        priority_threshold: From this priority on a unit is high (policy Intelligent).
        status_interval_seconds: The time between two writes of its status.
        check_timeout_seconds: How long admission checks may take; 0: forever; None: the program's
            setting counts.
        fair: How accounts are ordered (policy Fair).
        problems: What cannot be parsed in its annotations, as text.
        fair_problem: What cannot be read in its `fairShare`, as text; "": nothing.
        is_strict: Whether nodes are requested before a unit may start. The program's flags name
            these queues, not the object.
        preempts: Whether a unit may evict others of the queue that have a lower priority; those
            whose pods do not all run yet.
        preempts_running: Whether also those whose pods all run.
        preempt_min_seconds: How long after its admission none of its units is preempted; None: what
            the queue above it states counts.
        evictions_per_hour: How many units may be evicted in an hour for its units; None: any
            number.
        eviction_delay_seconds: How long a unit waits before others are evicted for it.
    """

    max_depth: int | None = None
    waits_for_pods: bool = False
    preempts: bool = False
    preempts_running: bool = False
    backfill: bool = False
    preempt_min_seconds: float | None = None
    evictions_per_hour: int | None = None
    eviction_delay_seconds: float = 0.0
    stop: StopPolicy = StopPolicy.NONE
    max_priority: int | None = None
    priority_threshold: int = PRIORITY_THRESHOLD
    status_interval_seconds: float = STATUS_INTERVAL_SECONDS
    check_timeout_seconds: float | None = None
    problems: tuple[str, ...] = ()
    is_strict: bool = False
    fair: FairSettings = DEFAULT_FAIR
    fair_problem: str = ""

    @property
    def is_stopped(self) -> bool:
        """Whether none of its units may start."""
        return self.stop is not StopPolicy.NONE


DEFAULT_OPTIONS: Final = QueueOptions()


def recorded_options(queue: Queue) -> QueueOptions:
    """Return the options that were in force before a restart and must outlive it.

    A stopped queue must not start to admit because its annotation is misspelled, and nobody is to
    lose a share because of a typing error.
    """
    stop = _as_stop_policy(queue.status.stop_policy_in_force)
    fair, _ = read_fair_share(queue.status.fair_share_in_force, DEFAULT_FAIR)
    return QueueOptions(stop=stop or StopPolicy.NONE, fair=fair)


def read_options(queue: Queue, before: QueueOptions = DEFAULT_OPTIONS) -> QueueOptions:
    """Return what a queue asks for; `before`: what was in force."""
    reader = _AnnotationReader(queue.metadata.annotations)
    fair, fair_problem = read_fair_share(queue.spec.fair_share, before.fair)
    return QueueOptions(
        max_depth=reader.depth(before.max_depth),
        waits_for_pods=reader.is_on(WAIT_FOR_PODS_RUNNING),
        preempts=reader.is_on(ENABLE_PREEMPTION),
        preempts_running=reader.is_on(PREEMPT_RUNNING),
        preempt_min_seconds=reader.preempt_min_runtime(before.preempt_min_seconds),
        evictions_per_hour=reader.evictions_per_hour(before.evictions_per_hour),
        eviction_delay_seconds=reader.eviction_delay(before.eviction_delay_seconds),
        backfill=reader.is_on(BACKFILL),
        stop=reader.stop(before.stop),
        max_priority=reader.max_priority(before.max_priority),
        priority_threshold=reader.threshold(before.priority_threshold),
        status_interval_seconds=reader.status_interval(before.status_interval_seconds),
        check_timeout_seconds=reader.check_timeout(before.check_timeout_seconds),
        problems=tuple(reader.problems),
        fair=fair,
        fair_problem=fair_problem or "",
    )


def places_differently(before: Queue, after: Queue) -> bool:
    """Return whether units of a queue must be placed again: order, checks or quotas changed."""
    return (
        before.spec.queue_policy != after.spec.queue_policy
        or before.spec.fair_share != after.spec.fair_share
        or before.spec.admission_checks != after.spec.admission_checks
        or before.metadata.annotations != after.metadata.annotations
        or before.metadata.labels != after.metadata.labels
    )


class _AnnotationReader:
    """Parses the annotations of one queue, and notes what it cannot parse."""

    def __init__(self, annotations: Mapping[str, str]) -> None:
        self._annotations = annotations
        self.problems: list[str] = []

    def is_on(self, key: str) -> bool:
        """Return whether a switch is on: anything but the word `true` is off, as upstream."""
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
        """Return `koord-queue/stop-policy`; absent: None, the word."""
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

        A value that cannot be parsed was meant as a ceiling. If none is known, as after a restart,
        no unit has a higher priority than one that asks for none.
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

    def preempt_min_runtime(self, before: float | None) -> float | None:
        """Return `koord-queue/preempt-min-runtime` in seconds; absent or empty: None."""
        if read_annotation(self._annotations, RECLAIM_MIN_RUNTIME) is not None:
            problem = (
                f"annotation {RECLAIM_MIN_RUNTIME} has no effect on a queue; set it on a quota"
            )
            self.problems.append(problem)
        return self._seconds(PREEMPT_MIN_RUNTIME, before, "none")

    def evictions_per_hour(self, before: int | None) -> int | None:
        """Return `koord-queue/evictions-per-hour`; absent or empty: None."""
        text = read_annotation(self._annotations, EVICTIONS_PER_HOUR)
        if not text:
            return None
        number = read_int32(text, None)
        if number is None or not 1 <= number <= MAX_EVICTIONS_PER_HOUR:
            what = f"a whole number from 1 to {MAX_EVICTIONS_PER_HOUR}"
            self._keep(EVICTIONS_PER_HOUR, text, what, "no limit" if before is None else before)
            return before
        return number

    def eviction_delay(self, before: float) -> float:
        """Return `koord-queue/eviction-delay` in seconds; absent or empty: 0."""
        return self._seconds(EVICTION_DELAY, before, "none") or 0.0

    def check_timeout(self, before: float | None) -> float | None:
        """Return `koord-queue/admission-check-timeout` in seconds; absent or empty: None."""
        return self._seconds(ADMISSION_CHECK_TIMEOUT, before, "the setting")

    def _seconds(self, key: str, before: float | None, otherwise: str) -> float | None:
        """Return a time in seconds; absent or empty: None, which is `otherwise` in words."""
        text = read_annotation(self._annotations, key)
        if not text:
            return None
        try:
            return parse_seconds(text)
        except DurationError:
            self._keep(key, text, _DURATION, otherwise if before is None else f"{before:g}s")
            return before

    def _keep(self, key: str, text: str, what: str, stays: object) -> None:
        self._note(key, text, what, f"what was in force stays: {stays}")

    def _note(self, key: str, text: str, what: str, then: str) -> None:
        shown = text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
        self.problems.append(f"annotation {key}: {shown!r} is not {what}; {then}")


def _as_stop_policy(text: str) -> StopPolicy | None:
    return next((policy for policy in StopPolicy if policy.value == text), None)
