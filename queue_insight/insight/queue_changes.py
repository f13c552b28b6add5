"""Changes of the unit's queue and of what it needs: options, checks, preemption. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from queue_insight.insight.change import (
    Change,
    ChangeKind,
    Patch,
    annotated,
    count_of,
    labeled,
    patch_of,
)
from queue_insight.insight.explain import Verdict
from queue_insight.insight.question import Question
from queue_insight.insight.queue_source import find_source
from queue_insight.insight.trials import Edit, Outcome
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.managed_queues import stated_annotations, stated_policy
from queue_scheduler.queueing.queue_options import StopPolicy
from queue_scheduler.queueing.queue_policies import PRIORITY
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_spec import ReclaimPolicy
from queue_scheduler.quota_cache.reclaim import find_borrowing
from queue_scheduler.quota_plugin import quota_plugins
from shared_api.objects.admission_check import AdmissionCheck, AdmissionCheckStatus
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Condition, ObjectMeta
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    MAX_DEPTH,
    MAX_EVICTIONS_PER_HOUR,
    PREEMPT_RUNNING,
    QUEUE_POLICY,
    RECLAIM_POLICY,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
    read_annotation,
)


def find_queue_changes(question: Question) -> Iterator[Change]:
    """Yield changes of the unit's queue, its checks and its quota's policy that start it."""
    queue = question.queue
    if queue is not None:
        yield from _resume(question, queue.rules.api_object)
        yield from _other_options(question, queue.rules.api_object)
        yield from _look_deeper(question, queue.rules.api_object)
        yield from _preempt(question, queue.rules.api_object)
    yield from _reclaim(question)
    yield from _activate_checks(question)


# --- options --------------------------------------------------------------------------------------


def _with_annotations(queue: Queue, values: Mapping[str, str]) -> Edit:
    meta = replace(queue.metadata, annotations={**queue.metadata.annotations, **values})
    return lambda engine: engine.on_queue(replace(queue, metadata=meta))


def _patch_annotations(
    question: Question, queue: Queue, values: Mapping[str, str]
) -> tuple[Patch, ...]:
    """Return the patches that set annotations of a queue, each on the object that states it.

    What a queue has from its quota would be put back if it were changed on the queue.
    """
    quota = find_source(question.engine, queue)
    stated = () if quota is None else stated_annotations(quota)
    of_quota = {key: value for key, value in values.items() if key in stated}
    of_queue = {key: value for key, value in values.items() if key not in stated}
    patches: tuple[Patch, ...] = ()
    if of_queue:
        patches += (_patch_queue(queue, annotated(of_queue)),)
    if quota is not None and of_quota:
        patches += (_patch_quota(quota, annotated(of_quota)),)
    return patches


def _patch_policy(question: Question, queue: Queue, policy: str) -> Patch:
    """Return the patch of the object that states a queue's policy."""
    quota = find_source(question.engine, queue)
    if quota is None or not stated_policy(quota):
        return _patch_queue(queue, {"spec": {"queuePolicy": policy}})
    return _patch_quota(quota, labeled({QUEUE_POLICY: policy}))


def _patch_queue(queue: Queue, patch: dict[str, Any]) -> Patch:
    return patch_of("scheduling.x-k8s.io/v1alpha1", "Queue", queue.metadata, patch)


def _patch_quota(quota: ElasticQuota, patch: dict[str, Any]) -> Patch:
    return patch_of("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", quota.metadata, patch)


def _annotate(
    question: Question, queue: Queue, kind: ChangeKind, values: Mapping[str, str], text: str
) -> Change | None:
    """Return the change of a queue's annotations, if the unit starts with it."""
    edit = _with_annotations(queue, values)
    outcome = question.trials.attempt(edit)
    if not outcome.starts:
        return None
    return Change(
        kind=kind,
        description=text + _evicting(outcome),
        sufficient=True,
        also_starts=outcome.also,
        patches=_patch_annotations(question, queue, values),
        units=outcome.victims,
        edits=(edit,),
    )


def _evicting(outcome: Outcome) -> str:
    evicted = len(outcome.victims)
    return f"; it then evicts {count_of(evicted, 'unit')}." if evicted else "."


def _resume(question: Question, queue: Queue) -> Iterator[Change]:
    if Reason.STOPPED_QUEUE not in question.reasons:
        return
    values = {STOP_POLICY: StopPolicy.NONE.value}
    text = f"Resume queue {queue.metadata.name}"
    change = _annotate(question, queue, ChangeKind.STOP_POLICY, values, text)
    yield change or Change(
        kind=ChangeKind.STOP_POLICY,
        description=f"Resuming queue {queue.metadata.name} alone does not start it.",
        sufficient=False,
        patches=_patch_annotations(question, queue, values),
        edits=(_with_annotations(queue, values),),
        action=f"resume queue {queue.metadata.name}",
    )


_OPTIONS: Final[tuple[tuple[frozenset[Reason], str, str, str], ...]] = (
    (
        frozenset({Reason.WAITING_FOR_PODS_RUNNING}),
        *(WAIT_FOR_PODS_RUNNING, "false", "Let queue {name} not wait until pods run"),
    ),
    (
        frozenset({Reason.BEHIND_REFUSED_UNIT}),
        *(BACKFILL, "true", "Let queue {name} backfill"),
    ),
    (
        frozenset({Reason.WOULD_DELAY_HEAD, Reason.NO_MAX_EXECUTION_TIME}),
        *(BACKFILL, "false", "Let queue {name} not backfill"),
    ),
    (
        frozenset({Reason.EVICTION_DELAY}),
        *(EVICTION_DELAY, "0s", "Let units of queue {name} evict others without a delay"),
    ),
)
"""Reasons that follow from one option of a queue: the annotation, its value, and a sentence."""


def _other_options(question: Question, queue: Queue) -> Iterator[Change]:
    name = queue.metadata.name
    for reasons, key, value, text in _OPTIONS:
        if reasons.isdisjoint(question.reasons):
            continue
        change = _annotate(
            question, queue, ChangeKind.QUEUE_OPTION, {key: value}, text.format(name=name)
        )
        if change is not None:
            yield change
    yield from _raise_rate(question, queue)
    if not question.reasons.isdisjoint({Reason.BEHIND_REFUSED_UNIT, Reason.BEHIND_HIGHER_BAND}):
        yield from _let_pass(question, queue)


def _raise_rate(question: Question, queue: Queue) -> Iterator[Change]:
    """Yield the least number of evictions in an hour with which the unit's evictions may begin."""
    for blocker in question.explanation.blockers:
        name = queue.metadata.name
        if blocker.reason is not Reason.EVICTION_RATE or blocker.other != name:
            continue
        rate = min(blocker.used + blocker.requested, MAX_EVICTIONS_PER_HOUR)
        text = f"Let units of queue {name} evict {rate} others in an hour"
        change = _annotate(
            question, queue, ChangeKind.QUEUE_OPTION, {EVICTIONS_PER_HOUR: str(rate)}, text
        )
        if change is not None:
            yield change


def _let_pass(question: Question, queue: Queue) -> Iterator[Change]:
    """Yield the policy under which no refused unit holds others back, if that starts the unit."""
    edited = replace(queue, spec=replace(queue.spec, queue_policy=PRIORITY.name))
    edit = partial(Engine.on_queue, queue=edited)
    outcome = question.trials.attempt(edit)
    if outcome.starts:
        yield Change(
            kind=ChangeKind.QUEUE_OPTION,
            description=f"Give queue {queue.metadata.name} the policy {PRIORITY.name}"
            + _evicting(outcome),
            sufficient=True,
            also_starts=outcome.also,
            patches=(_patch_policy(question, queue, PRIORITY.name),),
            units=outcome.victims,
            edits=(edit,),
        )


def _look_deeper(question: Question, queue: Queue) -> Iterator[Change]:
    """Yield the least depth at which the unit is considered and starts."""
    if Reason.BEYOND_MAX_DEPTH not in question.reasons:
        return

    def edit(depth: int) -> Edit:
        return _with_annotations(queue, {MAX_DEPTH: str(depth)})

    depth = question.explanation.position
    outcome = question.trials.attempt(edit(depth))
    if not outcome.starts:
        return
    low = int(read_annotation(queue.metadata.annotations, MAX_DEPTH) or 0)
    while depth - low > 1:
        middle = (low + depth) // 2
        tried = question.trials.attempt(edit(middle))
        if tried.starts:
            depth, outcome = middle, tried
        else:
            low = middle
    yield Change(
        kind=ChangeKind.QUEUE_OPTION,
        description=f"Let queue {queue.metadata.name} consider {depth} units" + _evicting(outcome),
        sufficient=True,
        also_starts=outcome.also,
        patches=_patch_annotations(question, queue, {MAX_DEPTH: str(depth)}),
        units=outcome.victims,
        edits=(edit(depth),),
    )


# --- preemption -----------------------------------------------------------------------------------


def _preempt(question: Question, queue: Queue) -> Iterator[Change]:
    """Yield the switch with which the unit evicts others of its queue, if that is enough."""
    scheduling_queue = question.queue
    assert scheduling_queue is not None, "the queue was found"
    options, name = scheduling_queue.rules.options, queue.metadata.name
    if options.preempts and options.preempts_running:
        return
    if not _would_evict(question, scheduling_queue):
        return
    switches = [{ENABLE_PREEMPTION: "true"}, {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}]
    for values in switches[1:] if options.preempts else switches:
        text = f"Let queue {name} preempt"
        text += ", running units as well" if PREEMPT_RUNNING in values else ""
        change = _annotate(question, queue, ChangeKind.PREEMPTION, values, text)
        if change is not None:
            yield change
            return


def _would_evict(question: Question, queue: SchedulingQueue) -> bool:
    """Return whether the unit would find victims if its queue preempted; without a trial."""
    info, options = question.info, queue.rules.options
    if info is None or question.explanation.verdict is not Verdict.WAITING:
        return True
    queue.set_options(replace(options, preempts=True, preempts_running=True))
    found = question.engine.admission.would_evict(queue, info, question.trials.wall)
    queue.set_options(options)
    return found is not None and bool(found.victims)


def _is_owed(question: Question, info: QueueUnitInfo) -> bool:
    """Return whether others borrow what the unit's quota is entitled to; without a trial."""
    return any(
        find_borrowing(plugin.quotas.trees, info.quota, plugin.demand_of(info))
        for plugin in quota_plugins(question.engine.plugins)
        if plugin.knows_quota(info.quota)
    )


def _reclaim(question: Question) -> Iterator[Change]:
    """Yield the policy with which the unit's quota reclaims what others borrow."""
    info = question.info
    if info is None or not _is_owed(question, info):
        return
    named = [
        quota
        for quota in question.engine.objects.of_kind(ElasticQuota)
        if quota.metadata.name == info.quota
    ]
    policy = ReclaimPolicy.ANY.value
    for quota in named if len(named) == 1 else ():
        meta = quota.metadata
        if read_annotation(meta.annotations, RECLAIM_POLICY) == policy:
            return
        values = {RECLAIM_POLICY: policy}
        edited = replace(quota, metadata=replace(meta, annotations={**meta.annotations, **values}))
        edit = partial(Engine.on_quota, quota=edited)
        outcome = question.trials.attempt(edit)
        if outcome.starts and outcome.victims:
            yield Change(
                kind=ChangeKind.PREEMPTION,
                description=f"Let quota {info.quota} reclaim what others borrow"
                + _evicting(outcome),
                sufficient=True,
                also_starts=outcome.also,
                patches=(_patch_quota(quota, annotated(values)),),
                units=outcome.victims,
                edits=(edit,),
            )


# --- admission checks -----------------------------------------------------------------------------


def _activate_checks(question: Question) -> Iterator[Change]:
    """Yield the inactive checks that keep the unit on hold, each as if it were active."""
    for blocker in question.explanation.blockers:
        if blocker.reason is not Reason.ADMISSION_CHECK_INACTIVE:
            continue
        active = AdmissionCheck(
            metadata=ObjectMeta(name=blocker.other),
            status=AdmissionCheckStatus(conditions=(Condition(type="Active", status="True"),)),
        )
        edit = partial(Engine.on_admission_check, check=active)
        outcome = question.trials.attempt(edit)
        text = f"The controller of admission check {blocker.other} must be able to perform it"
        yield Change(
            kind=ChangeKind.CHECK,
            description=text + ("." if outcome.starts else "; that alone does not start the unit."),
            sufficient=outcome.starts,
            also_starts=outcome.also,
            edits=(edit,),
            action=f"let the controller of admission check {blocker.other} perform it",
        )
