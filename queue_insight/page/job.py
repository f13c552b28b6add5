"""One job as the list of all jobs has it: of what the scheduler keeps, or of the record. Pure."""

from __future__ import annotations

from sys import intern
from typing import Final

import msgspec

from queue_insight.insight.explain import lifecycle_state_of
from queue_insight.insight.finished_run import FinishedRun, running_since, user_of
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.debug_api.views import demand_of, quota_of
from shared_api.lifecycle import PENDING, LifecycleState
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import FINISHED, QUOTA_RESERVED, Phase, is_final
from shared_api.resource_list import Amounts
from shared_api.timestamps import read_seconds
from shared_api.well_known_labels import read_quota_name

_RESULTS: Final = {"finished": "succeeded", "failed": "failed", "deleted": "deleted"}
"""Results by how a run has ended. After an eviction the unit is in its queue again."""
_NO_REASONS: Final = frozenset({"Pending", "QuotaReserved"})
"""Reasons of a unit that was not refused yet, and of one whose admission was just taken back."""
_RESULTS_BY_PHASE: Final = {Phase.SUCCEED.value: "succeeded", Phase.FAILED.value: "failed"}


class Job(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job; times are seconds since the epoch.

    Attributes:
        key: `namespace/name` of its unit.
        namespace: Its namespace.
        name: The name of its unit.
        uid: The uid of its unit.
        kind: The kind of its job; "" if the unit has none.
        job: The name of its job.
        state: What it does.
        result: How it ended: `succeeded`, `failed` or `deleted`; "": it has not.
        reason: Why it is pending, as its condition says; "": it is not, or has not been told yet.
        phase: Upstream's phase; "": the unit is gone.
        queue: Its queue.
        quota: Its quota; "": it is mapped to none.
        user: Who submitted it; "": it does not say.
        priority: The priority that its queue uses.
        requests: What it requests.
        created: When its unit was created; None: not known.
        started: When its pods ran; None: they never did, or it is not known.
        ended: When it ended; None: it has not, or it is not known.
        words: What words of a filter are looked for in, in lower case.
        record: What it was read from; None: the unit is gone.
    """

    key: str
    namespace: str
    name: str
    uid: str
    kind: str
    job: str
    state: LifecycleState
    result: str
    reason: str
    phase: str
    queue: str
    quota: str
    user: str
    priority: int
    requests: Amounts
    created: float | None
    started: float | None
    ended: float | None
    words: str
    record: CachedUnit | None

    def waited(self, now: float) -> float | None:
        """Return for how many seconds it waited until its pods ran, or has waited until now.

        None: that is not known.
        """
        has_run = self.state in {LifecycleState.RUNNING, LifecycleState.FINISHED}
        until = self.started if has_run else now
        return None if self.created is None or until is None else max(0.0, until - self.created)

    def ran(self, now: float) -> float | None:
        """Return for how many seconds its pods ran, or have run; None: that is not known."""
        until = self.ended if self.state is LifecycleState.FINISHED else now
        return None if self.started is None or until is None else max(0.0, until - self.started)


def job_of_record(key: str, record: CachedUnit, run: Job | None = None) -> Job:
    """Return the job of a unit.

    Args:
        key: `namespace/name` of the unit: a record makes it anew when asked.
        record: The unit.
        run: What is known of its end; None: nothing.
    """
    unit = record.unit
    meta, consumer, phase = unit.metadata, unit.spec.consumer_ref, unit.status.phase
    kind, job = ("", "") if consumer is None else (consumer.kind, consumer.name)
    user, state = user_of(unit), lifecycle_state_of(record)
    return Job(
        key=key,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        kind=kind,
        job=job,
        state=state,
        result=_RESULTS_BY_PHASE.get(phase, ""),
        reason=_reason_of(unit) if state in PENDING else "",
        phase=phase,
        queue=record.queue_name or ("" if run is None else run.queue),
        quota=quota_of(record) or (_quota_of_ended(unit, run) if is_final(unit) else ""),
        user=user,
        priority=record.priority,
        requests=demand_of(record),
        created=read_seconds(meta.creation_timestamp),
        started=running_since(unit) if run is None else run.started,
        ended=_ended_at(unit) if run is None else run.ended,
        words=_words_of(meta.name, meta.namespace, job, user),
        record=record,
    )


def _reason_of(unit: QueueUnit) -> str:
    """Return the reason that a pending unit states.

    What the engine knows is newer by seconds, but to ask it about all units for each list would
    take as long as the rest of the list.
    """
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED)
    return "" if reserved is None or reserved.reason in _NO_REASONS else intern(reserved.reason)


def _quota_of_ended(unit: QueueUnit, run: Job | None) -> str:
    """Return the quota of a unit that is mapped to none any more."""
    return (read_quota_name(unit.metadata.labels) or "") if run is None else run.quota


def _ended_at(unit: QueueUnit) -> float | None:
    finished = find_condition(unit.status.conditions, FINISHED)
    if finished is None or not is_final(unit):
        return None
    return read_seconds(finished.last_transition_time)


def job_of_run(run: FinishedRun) -> Job | None:
    """Return the job of a run that has ended; None: it was evicted, so its job has not."""
    result = _RESULTS.get(run.ended_by)
    if result is None:
        return None
    namespace, _, name = run.unit.partition("/")
    # Thousands of them have few users, kinds and quotas, each of which was read from a file anew.
    return Job(
        key=run.unit,
        namespace=intern(namespace),
        name=name,
        uid=run.uid,
        kind=intern(run.kind),
        job="",
        state=LifecycleState.FINISHED,
        result=result,
        reason="",
        phase="",
        queue=intern(run.queue),
        quota=intern(run.quota),
        user=intern(run.user),
        priority=run.priority,
        requests=run.charge,
        created=run.created,
        started=run.started,
        ended=run.ended,
        words=_words_of(name, namespace, run.user),
        record=None,
    )


def _words_of(*texts: str) -> str:
    # No word of a filter has a blank, so none is found across two of them.
    return " ".join(texts).lower()
