"""The release of an admitted job: what is written, and what delays or prevents it. Pure.

A released job may be suspended by others: then it is released again. A tool that does so again and
again (it applies the job as it was written, suspended) keeps quota that others wait for, and throws
away whatever runs. After five times within an hour the job gives its quota back, like one whose
pods do not run in time: it backs off, longer each time, and the backoff limit counts. The
counterpart is in `pending`: a job that is resumed before it is admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from queue_controllers.decision.actions import (
    MARK_REFUSED,
    Action,
    EventType,
    RecordJobEvent,
    ReleaseJob,
)
from queue_controllers.decision.adoption import mark_opened, prove_again
from queue_controllers.decision.eviction import JOB_CHANGED, PODS_REFUSED, announce_eviction
from queue_controllers.decision.grants import (
    granted_counts,
    granted_size,
    plan_resize,
    was_released_already,
)
from queue_controllers.decision.held_pods import follow_beyond, sort_held
from queue_controllers.decision.job_ownership import quota_of_job
from queue_controllers.decision.job_state import JobState, State
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.pending import with_event_once
from queue_controllers.decision.pod_stamps import build_stamps
from queue_controllers.decision.pods_not_ready import first_requeue_seconds
from queue_controllers.decision.running import (
    earliest,
    first_release,
    follow_job,
    give_up_late,
    wait_to_resume,
)
from queue_controllers.decision.unit_status_patches import running_timeout
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from queue_controllers.jobframework.template_updates import (
    MAX_NOTE_CHARS,
    AddedParts,
    TemplateUpdate,
    Toleration,
    digest_of,
    write_added,
)
from shared_api.evictions import BACKOFF_TIMEOUT
from shared_api.objects.queue_unit import PodSetUpdate, QueueUnit
from shared_api.queue_unit_phases import POD_SET_UPDATES_CONFLICT
from shared_api.well_known_labels import ACTIVE, NOT_PREEMPTIBLE, POD_SET_UPDATES, SUSPEND

MAX_SUSPENSIONS: Final = 5
SUSPENSIONS_SECONDS: Final = 3600.0
"""`MAX_SUSPENSIONS` by others within `SUSPENSIONS_SECONDS` end a release: that catches a tool that
applies a manifest every few minutes, and not a user who stops a job now and then."""

REST_SECONDS: Final = 60.0
"""How long a job may wait for pods that it was not admitted with and cannot do without: growth is
granted within seconds if there is capacity. A shorter time to run in is enough."""

REFUSED_SECONDS: Final = 5.0
"""How long an admitted job is held back whose pods would be refused, before it waits without quota:
an object that is created anew is away for less than a second."""

TOO_FEW: Final = "Evicted because it was admitted with fewer pods than its job can do with"

SUSPENDED_BY_OTHERS: Final = (
    f"Backoff since others suspended it {MAX_SUSPENSIONS} times within"
    f" {SUSPENSIONS_SECONDS / 60:g} minutes after its release. What applies it must leave its"
    f' suspend field to the queue; to stop it, annotate it {ACTIVE}: "false"'
)


def let_run(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Resume an admitted job once nothing of an earlier run is left, and follow what it does."""
    is_proved = bool(unit.status.admissions)
    if not is_proved and (proof := prove_again(view, job, unit)) is not None:
        return Decision(actions=(proof,), memory=view.memory)
    match state.state:
        case State.RELEASED if state.resumable:
            return give_up_late(view, job, unit) or release_whole(view, job, unit)
        case State.RELEASED | State.STOPPING:
            return wait_to_resume(view, job, unit, state)
        case State.STARTING | State.RUNNING:
            if job.kind.held_by_gates:
                return _let_pods_run(view, job, unit, state)
            return follow_job(view, job, unit, state)
        case State.HELD | State.FINISHED | State.DELETING | State.GONE:
            raise AssertionError(f"admitted, and yet {state.state}")


def _let_pods_run(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Release the pods that came since the release of their job, as far as its grant goes."""
    held = sort_held(unit, view.pods)
    if held.may_start:
        return release_job(view, job, unit)
    if view.pods.opened and MARK_REFUSED not in view.memory.reported_events:
        return mark_opened(view, job, unit)
    beyond = follow_beyond(view, job, unit, held.beyond)
    view = msgspec.structs.replace(view, memory=beyond.memory)
    if beyond.actions:
        return Decision(actions=beyond.actions, memory=view.memory)
    decision = follow_job(view, job, unit, state)
    rest = earliest(beyond.requeue_after_seconds, decision.requeue_after_seconds)
    return msgspec.structs.replace(decision, requeue_after_seconds=rest)


def release_whole(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Release a job of which nothing runs, if its grant is enough for it."""
    if job.pods_refused:
        return _wait_while_refused(view, job, unit)
    if not _may_run_with_what_it_got(job, unit):
        return _wait_for_the_rest(view, unit)
    if job.kind.held_by_gates and not (held := sort_held(unit, view.pods)).may_start:
        beyond = follow_beyond(view, job, unit, held.beyond)
        return Decision(
            actions=beyond.actions,
            memory=beyond.memory,
            requeue_after_seconds=beyond.requeue_after_seconds,
        )
    return _release_again(view, job, unit) or release_job(view, job, unit)


def _wait_while_refused(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Hold a job back whose pods would be refused; when that lasts, its unit gives its quota back.

    To change the value of a PriorityClass is to delete it and to create it again.
    """
    now = view.moment.monotonic
    since = now if view.memory.refused_since is None else view.memory.refused_since
    rest = since + REFUSED_SECONDS - now
    if rest <= 0:
        message = f"Evicted because its pods would be refused: {job.pods_refused}"
        return announce_eviction(view, unit, PODS_REFUSED, message)
    memory = msgspec.structs.replace(view.memory, refused_since=since)
    return Decision(memory=memory, requeue_after_seconds=rest)


def _wait_for_the_rest(view: JobView, unit: QueueUnit) -> Decision:
    """Wait until a job is granted what it cannot do without; when that takes long, evict it.

    Growth is granted only when no pending unit could take it, and a unit that waits for this one's
    pods may be the very one that could.
    """
    timeout, now = running_timeout(unit, view.settings), view.moment.monotonic
    patience = min(timeout, REST_SECONDS) if timeout else REST_SECONDS
    since = now if view.memory.short_since is None else view.memory.short_since
    if now - since >= patience:
        return announce_eviction(view, unit, JOB_CHANGED, TOO_FEW)
    memory = msgspec.structs.replace(view.memory, short_since=since)
    message = (
        "Admitted with fewer pods than it can do with: it is not resumed. Unless it is granted the"
        f" others within {patience:g} s it waits in the queue again, for all of them"
    )
    view = msgspec.structs.replace(view, memory=memory)
    decision = with_event_once(view, "PartialAdmission", message)
    return msgspec.structs.replace(decision, requeue_after_seconds=since + patience - now)


def _release_again(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Return the release of a job that was suspended by others, None if it was not."""
    if not was_released_already(job, unit) or job.kind.held_by_gates:
        return None
    now = view.moment.monotonic
    recent = (at for at in view.memory.suspended_at if now - at < SUSPENSIONS_SECONDS)
    suspended_at = (*recent, now)
    if len(suspended_at) >= MAX_SUSPENSIONS:
        memory = msgspec.structs.replace(view.memory, suspended_at=())
        view = msgspec.structs.replace(view, memory=memory)
        return announce_eviction(view, unit, BACKOFF_TIMEOUT, SUSPENDED_BY_OTHERS)
    memory = msgspec.structs.replace(view.memory, suspended_at=suspended_at)
    decision = release_job(msgspec.structs.replace(view, memory=memory), job, unit)
    if not any(isinstance(each, ReleaseJob) for each in decision.actions):
        return decision
    message = (
        "Resumed: it is admitted, and was suspended by others."
        f' To stop it, annotate it {ACTIVE}: "false"'
    )
    event = RecordJobEvent(reason="Resumed", message=message, type=EventType.WARNING)
    return msgspec.structs.replace(decision, actions=(*decision.actions, event))


def release_job(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Resume a job, or take the gates off as many of its pods as were granted."""
    quota = quota_of_job(job, view.context)
    wanted = build_stamps(job, unit, quota)
    stamps = {} if view.memory.stamp_refused else wanted
    plan = plan_updates(job, unit, stamps)
    if isinstance(plan, UpdateConflict):
        return announce_eviction(view, unit, POD_SET_UPDATES_CONFLICT, plan.message)
    release = ReleaseJob(
        released_at=view.moment.exact_stamp,
        stamps=stamps,
        updates=plan.updates,
        updates_note=plan.note,
        resize=plan_resize(job, unit),
        granted=granted_size(job, unit),
        pods=sort_held(unit, view.pods).may_start if job.kind.held_by_gates else {},
        annotation=_released_annotation(job),
    )
    actions: tuple[Action, ...] = (release,)
    if view.memory.stamp_refused:
        message = (
            "Resumed without the queue's stamp, which its pod template does not take:"
            " its pods are charged to the quota that they or their namespace name"
        )
        if any(NOT_PREEMPTIBLE in each.labels.values() for each in wanted.values()):
            message += ", and are preemptible, whatever the job's label says"
        event = RecordJobEvent(reason="NotStamped", message=message, type=EventType.WARNING)
        actions = (*actions, event)
    if plan.left_out:
        event = RecordJobEvent(
            reason="UpdatesNotTaken", message=plan.left_out, type=EventType.WARNING
        )
        actions = (*actions, event)
    # If its time to run in is limited, a reconcile of the released job says when that is over.
    is_complete = not running_timeout(unit, view.settings)
    memory = msgspec.structs.replace(
        view.memory,
        first_release=first_release(view, unit) or view.moment.wall,
        has_seen_pods=False,
        without_pods_since=None,
        running_since=None,
        miscounted_since=None,
        stamp_refused=False,
        old_pods_since=None,
        short_since=None,
        refused_since=None,
    )
    return Decision(
        actions=actions,
        memory=memory,
        is_complete=is_complete,
        requeue_after_seconds=first_requeue_seconds(job.kind),
    )


def _may_run_with_what_it_got(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job was granted at least the pods that it can do with.

    Units that list nothing were not split. What the job can do with is its own word: the unit may
    have been admitted with a minimum that the job no longer has, or that was edited into it.
    """
    granted = granted_counts(unit)
    return all(
        granted.get(each.name, each.count)
        >= (each.count if each.min_count is None else each.min_count)
        for each in job.pod_sets
    )


def _released_annotation(job: JobFacts) -> str | None:
    """Return what the suspend annotation becomes at the release."""
    if job.metadata.annotations.get(SUSPEND) is None:
        return None
    return "" if job.kind.releases_on_absence else "false"


# --- what admission checks want of the pod templates ----------------------------------------------
# Merge what a unit's admission checks want of the pod templates into one change, or refuse.
#
# Kueue's rule: labels, annotations and node selectors are merged, tolerations are concatenated. Two
# checks that want different values, or one that wants another value than the job's template has,
# are in conflict; no choice between them is right, so such a job is not released.

MAX_SHOWN_CHARS: Final = 60
"""How much is quoted of a value in conflict: labels have 63 characters at most."""

_NO_STAMP: Final = PodStamp()
_TEMPLATE: Final = "the job's template"
_QUEUE: Final = "the queue"


class UpdatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a release changes in the templates, by pod set, and what it notes on the job."""

    updates: dict[str, TemplateUpdate] = {}
    note: str | None = None
    """"" removes it, None leaves it unchanged."""
    left_out: str = ""
    """What cannot be changed although a check wants it, in words."""


class UpdateConflict(msgspec.Struct, frozen=True):
    """Why a job cannot be released as its admission checks want it, in words."""

    message: str


NO_UPDATES: Final = UpdatePlan()


def plan_updates(
    job: JobFacts, unit: QueueUnit, stamps: Mapping[str, PodStamp]
) -> UpdatePlan | UpdateConflict:
    """Return what a release changes in the templates in addition to the queue's own labels."""
    wanted = _wanted(unit)
    if not wanted and POD_SET_UPDATES not in job.metadata.annotations:
        return NO_UPDATES
    names = {each.name for each in job.pod_sets}
    for check, update in wanted:
        if not job.takes_updates:
            return UpdateConflict(
                _check_message(check, f"changes pods, which no {job.kind.kind} takes")
            )
        if update.name not in names:
            return UpdateConflict(
                _check_message(check, f"changes pod set {update.name}: it has none")
            )
    added: dict[str, AddedParts] = {}
    updates: dict[str, TemplateUpdate] = {}
    for pod_set in (each for each in job.pod_sets if each.has_template):
        merger = _Merger(pod_set, stamps.get(pod_set.name, _NO_STAMP))
        for check, update in wanted:
            if update.name == pod_set.name:
                merger.add(check, update)
        if merger.conflicts:
            return UpdateConflict(merger.conflicts[0])
        added[pod_set.name] = merger.added()
        updates[pod_set.name] = merger.update()
    note = write_added(added)
    if len(note) > MAX_NOTE_CHARS:
        return UpdateConflict(f"Admission checks change more than {MAX_NOTE_CHARS} bytes of it")
    changed = {name: each for name, each in updates.items() if each != TemplateUpdate()}
    return UpdatePlan(updates=changed, note=note, left_out=_left_out(job, wanted))


def _left_out(job: JobFacts, wanted: list[tuple[str, PodSetUpdate]]) -> str:
    """Return which changes have no template to be made in, "" if all have."""
    others = {each.name for each in job.pod_sets if not each.has_template}
    for check, update in wanted:
        if update.name in others and update != PodSetUpdate(name=update.name):
            what = f"changes pod set {update.name}, whose template the job does not state"
            return _check_message(check, f"{what}: its pods start without that")
    return ""


def _wanted(unit: QueueUnit) -> list[tuple[str, PodSetUpdate]]:
    checks = unit.status.admission_checks
    return [(each.name, update) for each in checks for update in each.pod_set_updates]


def _check_message(check: str, what: str) -> str:
    return f"Admission check {check} {what}"


class _Merger:
    """Merges what is wanted of one template."""

    def __init__(self, pod_set: JobPodSet, stamp: PodStamp) -> None:
        self._name, self._before = pod_set.name, pod_set.added
        meta, spec = pod_set.template.metadata, pod_set.template.spec
        self._base = {
            "label": {**meta.labels, **stamp.labels},
            "annotation": {**meta.annotations, **stamp.annotations},
            "node selector": spec.node_selector,
        }
        self._stamped = {"label": stamp.labels, "annotation": stamp.annotations}
        # Those of a RuntimeClass are added to every pod: written down, they would outlive it.
        written = pod_set.written or pod_set.template
        self._tolerations: tuple[Toleration, ...] = written.spec.tolerations
        self._new: dict[str, dict[str, tuple[str, str]]] = {kind: {} for kind in self._base}
        self._new_tolerations: tuple[Toleration, ...] = ()
        self.conflicts: list[str] = []

    def add(self, check: str, update: PodSetUpdate) -> None:
        """Add what one check wants."""
        self._add_values(check, "label", update.labels)
        self._add_values(check, "annotation", update.annotations)
        self._add_values(check, "node selector", update.node_selector)
        for each in update.tolerations:
            body: Toleration = msgspec.to_builtins(each)
            if body not in self._tolerations and body not in self._new_tolerations:
                self._new_tolerations = (*self._new_tolerations, body)

    def _add_values(self, check: str, kind: str, wanted: Mapping[str, str]) -> None:
        base, new = self._base[kind], self._new[kind]
        for key, value in wanted.items():
            other, whose = base.get(key), _TEMPLATE
            if key in self._stamped.get(kind, {}):
                whose = _QUEUE
            elif key in new:
                other, who = new[key]
                whose = f"admission check {who}"
            if other is None:
                new[key] = (value, check)
            elif other != value:
                what = f"wants {kind} {key} of pod set {self._name} to be {_shown(value)}"
                self.conflicts.append(_check_message(check, f"{what}, and {whose} {_shown(other)}"))

    def added(self) -> AddedParts:
        """Return what the template has by the checks alone."""
        labels, annotations, node_selector = (
            {key: digest_of(value) for key, (value, _) in self._new[kind].items()}
            for kind in self._base
        )
        return AddedParts(
            labels=labels,
            annotations=annotations,
            node_selector=node_selector,
            tolerations=self._new_tolerations,
        )

    def update(self) -> TemplateUpdate:
        """Return what is to be changed; what was added before and is not wanted now is removed."""
        before = self._before
        tolerations = None
        if self._new_tolerations or before.tolerations:
            tolerations = (*self._tolerations, *self._new_tolerations)
        return TemplateUpdate(
            labels=self._changes("label", before.labels),
            annotations=self._changes("annotation", before.annotations),
            node_selector=self._changes("node selector", before.node_selector),
            tolerations=tolerations,
        )

    def _changes(self, kind: str, before: Mapping[str, str]) -> dict[str, str | None]:
        new = {key: value for key, (value, _) in self._new[kind].items()}
        return {**dict.fromkeys(before), **new}


def _shown(value: str) -> str:
    return value if len(value) <= MAX_SHOWN_CHARS else f"{value[:MAX_SHOWN_CHARS]}..."
