"""Build a QueueUnit from a job: what a unit should say about its job. Pure.

The unit is built once and then kept in step: `build_unit` returns the whole object, `build_sync`
the merge patch for what has changed. Fields follow the job for different times: counts, shapes,
queue and quota only while the unit is pending (an admission is for what was asked), the user's own
labels until its admission checks have answered, priority and `active` until the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from queue_controllers.decision.grants import outgrows_spec
from queue_controllers.decision.job_annotations import (
    IGNORED_ANNOTATION,
    read_active,
    read_checkpoint,
    read_max_execution_seconds,
    read_priority,
)
from queue_controllers.decision.job_ownership import (
    ClusterContext,
    queue_of_job,
    quota_labels_of_template,
    quota_of_job,
)
from queue_controllers.decision.pod_stamps import PREEMPTIBLE_LABELS, is_not_preemptible
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from queue_controllers.jobframework.pod_template import CONTROLLER_LABELS, template_body
from shared_api.objects.queue_unit import API_VERSION, KIND, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import Phase, occupies_quota, phase_of
from shared_api.resource_list import Amounts, add, format_amounts, scale
from shared_api.timestamps import read_time, rfc3339
from shared_api.well_known_labels import (
    CHECKPOINTED_AT,
    COPIED_LABELS,
    DEACTIVATION_MARKS,
    GATED_BY,
    JOB_CREATED_AT,
    LEGACY_PREFIX,
    MANAGED_BY,
    MAX_PRIORITY,
    NOT_PREEMPTIBLE,
    PODS_REFUSED,
    PREFIX,
    PRIORITY,
    QUOTA_NAME,
    QUOTA_NAME_LEGACY,
    QUOTA_PREFIX,
    QUOTA_SPELLINGS,
    SUSPEND,
    TEMPLATE_DIFFERENCES,
    read_annotation,
    read_gates,
    read_quota_name,
    split_gates,
)

CONTROLLERS: Final = "koord-queue-controllers"
"""Value of the managed-by annotation."""

POD_SETS_HASH: Final = PREFIX + "pod-sets-hash"
"""Annotation on units: what the pod sets looked like when they were written. W, R: controllers."""

MAX_NAME_CHARS: Final = 253
"""Limit of an object's name (a DNS subdomain)."""

CHECKPOINT_STEP: Final = timedelta(seconds=60)
"""A checkpoint that is later than the last one by less is not written to the unit."""

UID_CHARS: Final = 8
"""How much of the uid makes a name unique."""


# --- the unit, and what has changed since -------------------------------------------------------


def build_unit(
    job: JobFacts, context: ClusterContext, *, name: str, runs: bool = False
) -> dict[str, Any]:
    """Return the QueueUnit of a job as JSON values, ready to be created.

    `runs`: the job ran before the queue knew of it, so its pods can no longer change.
    """
    meta, kind = job.metadata, job.kind
    quota = quota_of_job(job, context)
    bodies = pod_set_bodies(job.pod_sets)
    labels = labels_of_unit(job, quota)
    annotations = {
        **annotations_of_unit(job),
        MANAGED_BY: CONTROLLERS,
        JOB_CREATED_AT: meta.creation_timestamp,
        POD_SETS_HASH: hash_of_pod_sets(bodies),
    }
    if note := note_of_labels(labels):
        annotations[COPIED_LABELS] = note
    if job.template_differences:
        annotations[TEMPLATE_DIFFERENCES] = job.template_differences
    if runs:
        _take_wishes_off(labels, job)
    else:
        if job.pods_refused:
            annotations[PODS_REFUSED] = job.pods_refused
        if gates := read_gates(meta.annotations):
            annotations[GATED_BY] = ",".join(gates)
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace,
        "labels": labels,
        "annotations": annotations,
    }
    if kind.has_object:
        reference = {"kind": kind.kind, "name": meta.name, "uid": meta.uid}
        metadata["ownerReferences"] = [{"apiVersion": kind.api_version, **reference}]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": _spec_of(job, context, bodies, quota),
    }


def _take_wishes_off(labels: Changes | dict[str, str], job: JobFacts) -> None:
    """Remove the labels that a release would have written on pods: these pods do not have them."""
    for key in PREEMPTIBLE_LABELS:
        if labels.get(key) == NOT_PREEMPTIBLE and all(
            each.template.metadata.labels.get(key) != NOT_PREEMPTIBLE for each in job.pod_sets
        ):
            del labels[key]


def _spec_of(
    job: JobFacts, context: ClusterContext, bodies: list[dict[str, Any]], quota: str
) -> dict[str, Any]:
    meta, kind = job.metadata, job.kind
    spec: dict[str, Any] = {
        "consumerRef": {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
    }
    if queue := queue_of_job(job, quota):
        spec["queue"] = queue
    if bodies:
        spec["podSet"] = bodies
        request = _request_of(job.pod_sets)
        if request:
            spec["request"] = request
    class_name, number = priority_of_job(job, context)
    if class_name:
        spec["priorityClassName"] = class_name
    if number is not None:
        spec["priority"] = number
    if (active := read_active(job)) is not None:
        spec["active"] = active
    if (seconds := read_max_execution_seconds(job)) is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    return spec


def _request_of(pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
    """Return the total, nothing if it cannot be computed: then the pod sets say why."""
    try:
        return dict(format_amounts(demand_of(pod_sets)))
    except QuantityError:
        return {}


def build_sync(
    job: JobFacts,
    unit: QueueUnit,
    context: ClusterContext,
    *,
    waiting: bool,
    stopped: bool = False,
    runs: bool = False,
) -> dict[str, Any]:
    """Return the merge patch (without guard) that brings a unit in step with its job, or {}.

    `waiting`: the unit was not admitted yet, so its shape and queue may still change. Of a reserved
    unit its user's own labels still change: checks select by them. `stopped`: the job's next pods
    are yet to come, so it counts whether they would be refused. An admitted unit is marked before
    it is evicted for that: freed without the mark, it could start at once. `runs`: as in
    `build_unit`.
    """
    spec = _sync_of_intent(job, unit, context)
    annotations = _sync_of_refusal(job, unit) if stopped else Changes()
    if occupies_quota(unit):
        annotations |= _sync_of_checkpoint(job, unit)
    labels: Changes = {}
    if not read_annotation(unit.metadata.annotations, MANAGED_BY):
        annotations[MANAGED_BY] = CONTROLLERS
    if waiting:
        quota = quota_of_job(job, context)
        labels, followed = sync_of_metadata(job, unit, quota)
        if runs:
            _take_wishes_off(labels, job)
        annotations |= followed
        if unit.spec.queue != (queue := queue_of_job(job, quota)):
            spec["queue"] = queue or None
        spec |= _sync_of_pod_sets(job, unit, annotations)
    elif phase_of(unit) is Phase.RESERVED:
        labels, note = sync_of_own_labels(job, unit)
        annotations |= note
    patch: dict[str, Any] = {}
    if labels or annotations:
        metadata = {"labels": labels, "annotations": annotations}
        patch["metadata"] = {key: value for key, value in metadata.items() if value}
    if spec:
        patch["spec"] = spec
    return patch


def _sync_of_refusal(job: JobFacts, unit: QueueUnit) -> Changes:
    recorded = unit.metadata.annotations.get(PODS_REFUSED, "")
    return {} if recorded == job.pods_refused else {PODS_REFUSED: job.pods_refused or None}


def _sync_of_checkpoint(job: JobFacts, unit: QueueUnit) -> Changes:
    """Return the time of a running job's last checkpoint, if it is news.

    A job may save its work each second; a write for each minute of progress is enough to choose
    victims by. An annotation that is removed changes nothing of what was saved.
    """
    saved = read_checkpoint(job)
    if saved is None:
        return {}
    known = read_time(read_annotation(unit.metadata.annotations, CHECKPOINTED_AT))
    if known is not None and abs(saved - known) < CHECKPOINT_STEP:
        return {}
    return {CHECKPOINTED_AT: rfc3339(saved)}


def is_only_demand(body: Mapping[str, Any]) -> bool:
    """Return whether a patch of `build_sync` only has what the cluster changes of the demand."""
    metadata, spec = body.get("metadata", {}), body.get("spec", {})
    annotations = metadata.get("annotations", {}).keys()
    return (
        TEMPLATE_DIFFERENCES in annotations
        and annotations <= {TEMPLATE_DIFFERENCES, POD_SETS_HASH}
        and spec.keys() <= {"podSet", "request"}
        and "labels" not in metadata
    )


def _sync_of_intent(job: JobFacts, unit: QueueUnit, context: ClusterContext) -> dict[str, Any]:
    """Return what the user may change until the end: priority, active, the execution time."""
    spec: dict[str, Any] = {}
    class_name, number = priority_of_job(job, context)
    before = unit.spec.priority_class_name
    if job.unknown_demand:  # its templates may say it
        class_name, number = before, unit.spec.priority
    elif class_name and class_name == before and class_name not in context.priority_classes:
        # To change a class's value its class is deleted first: no unit is to be evicted in the
        # meantime.
        kept: int | None = unit.spec.priority
        kept = kept if context.only_classes else read_priority(job, kept)
        number = _bounded(kept, context) if occupies_quota(unit) else number
    if before != class_name:
        spec["priorityClassName"] = class_name or None
    if unit.spec.priority != (number or 0):
        spec["priority"] = number or 0
    active = read_active(job)
    # An absent annotation leaves the field alone, so that a deactivation by others sticks. For a
    # unit that the controllers deactivated, `eviction` judges the annotation.
    follows = unit.metadata.annotations.keys().isdisjoint(DEACTIVATION_MARKS)
    if follows and active is not None and unit.spec.active != active:
        spec["active"] = active
    seconds = read_max_execution_seconds(job)
    if unit.spec.maximum_execution_time_seconds != seconds:
        spec["maximumExecutionTimeSeconds"] = seconds
    return spec


def _sync_of_pod_sets(job: JobFacts, unit: QueueUnit, annotations: Changes) -> dict[str, Any]:
    """Return the pod sets if they differ, and note their hash among the annotations."""
    bodies = pod_set_bodies(job.pod_sets)
    digest = hash_of_pod_sets(bodies)
    recorded = unit.metadata.annotations.get(TEMPLATE_DIFFERENCES, "")
    if recorded != job.template_differences:
        annotations[TEMPLATE_DIFFERENCES] = job.template_differences or None
    counts = [(each.name, each.count, each.min_count) for each in unit.spec.pod_set]
    wanted = [(each.name, each.count, each.min_count) for each in job.pod_sets]
    in_step = unit.metadata.annotations.get(POD_SETS_HASH) == digest and counts == wanted
    # Edited by hand to ask for less, or to need less, it would be admitted for that, and evicted,
    # again and again.
    if in_step and not outgrows_spec(job, unit):
        return {}
    annotations[POD_SETS_HASH] = digest
    return {"podSet": bodies, "request": _changed_request(job.pod_sets, unit)}


def body_of_demand(pod_sets: tuple[JobPodSet, ...], unit: QueueUnit) -> dict[str, Any]:
    """Return the merge patch (without guard) that has an admitted unit say this demand.

    What it is charged is recorded in its status, and stays so.
    """
    bodies = pod_set_bodies(pod_sets)
    return {
        "metadata": {"annotations": {POD_SETS_HASH: hash_of_pod_sets(bodies)}},
        "spec": {"podSet": bodies, "request": _changed_request(pod_sets, unit)},
    }


def _changed_request(pod_sets: tuple[JobPodSet, ...], unit: QueueUnit) -> dict[str, Any]:
    request = _request_of(pod_sets)
    # A merge patch merges maps: to be removed, resources must be named.
    gone = {resource: None for resource in unit.spec.request if resource not in request}
    return {**request, **gone}


# --- names --------------------------------------------------------------------------------------


def choose_unit_name(job: JobFacts, *, is_taken: bool) -> tuple[str, bool]:
    """Return the unit's name, and whether it had to be cut or made unique."""
    suffix = f"-{job.kind.name_suffix}" if job.kind.name_suffix else ""
    name = job.metadata.name + suffix
    if len(name) <= MAX_NAME_CHARS and not is_taken:
        return name, False
    mark = "-" + str(job.uid).replace("-", "")[:UID_CHARS].lower()
    return name[: MAX_NAME_CHARS - len(mark)].rstrip("-.") + mark, True


# --- demand -------------------------------------------------------------------------------------


def demand_of(pod_sets: tuple[JobPodSet, ...]) -> Amounts:
    """Return what all pods together ask for.

    Raises:
        QuantityError: As `pod_requests`, with the pod set's name before it.
    """
    total: Amounts = {}
    for pod_set in pod_sets:
        try:
            total = add(total, scale(pod_requests(pod_set.template.spec), pod_set.count))
        except QuantityError as error:
            raise QuantityError(f"pod set {pod_set.name}: {error}") from error
    return total


def is_created_by_us(unit: QueueUnit) -> bool:
    """Return whether this program created the unit; one that it took over is never deleted."""
    annotations = unit.metadata.annotations
    return annotations.get(MANAGED_BY) == CONTROLLERS and JOB_CREATED_AT in annotations


# --- parts of a unit ----------------------------------------------------------------------------


def pod_set_bodies(pod_sets: tuple[JobPodSet, ...]) -> list[dict[str, Any]]:
    """Return `spec.podSet` as JSON values."""
    bodies: list[dict[str, Any]] = []
    for pod_set in pod_sets:
        body: dict[str, Any] = {"name": pod_set.name, "count": pod_set.count}
        if pod_set.min_count is not None:
            body["minCount"] = pod_set.min_count
        body["template"] = template_body(pod_set.template)
        bodies.append(body)
    return bodies


def hash_of_pod_sets(bodies: list[dict[str, Any]]) -> str:
    """Return a short hash of `spec.podSet`; the decoded unit has only some of its fields."""
    text = msgspec.json.encode(bodies, order="sorted")
    return hashlib.sha256(text).hexdigest()[:16]


def priority_of_job(job: JobFacts, context: ClusterContext) -> tuple[str, int | None]:
    """Return (class name, number): annotation, else the class's value, else the literal.

    At most what the namespace allows its jobs; absent counts as 0. If only classes count, neither
    the annotation nor a literal does.
    """
    class_name, number = _wanted_priority(job, context)
    return class_name, _bounded(number, context)


def why_other_priority(job: JobFacts, context: ClusterContext) -> str:
    """Return why a job has another priority than it says, as one line, or ""."""
    annotated = _text_of_annotation(job)
    if context.only_classes and annotated:
        instead = "only PriorityClasses count (priorityFrom)"
        return f"{IGNORED_ANNOTATION}{PRIORITY} is ignored: {instead}"
    _, number = _wanted_priority(job, context)
    if _bounded(number, context) == number or context.unread_ceiling == "":
        return ""
    key = PRIORITY if annotated else f"{PRIORITY}, or the PriorityClass of its pods,"
    where = f"the {MAX_PRIORITY} of namespace {job.metadata.namespace}, which counts"
    above = f"priority {number or 0} is above {context.max_priority}"
    if context.unread_ceiling is not None:
        where += f", since {context.unread_ceiling} is not a whole number: correct that annotation"
    return f"{IGNORED_ANNOTATION}{key} counts in part: {above}, {where}"


def _text_of_annotation(job: JobFacts) -> str:
    return read_annotation(job.metadata.annotations, PRIORITY) or ""


def _wanted_priority(job: JobFacts, context: ClusterContext) -> tuple[str, int | None]:
    source = job.priority
    number = None if context.only_classes else source.value
    if source.class_name:
        number = context.priority_classes.get(source.class_name, number)
    elif number is None:
        number = context.default_priority
    return source.class_name, number if context.only_classes else read_priority(job, number)


def _bounded(number: int | None, context: ClusterContext) -> int | None:
    most = context.max_priority
    return most if most is not None and (number or 0) > most else number


# --- labels and annotations -----------------------------------------------------------------------
# Which labels and annotations of a job its unit carries, and how they follow it.
#
# Of the annotations a unit has those that the queue reads, of the labels all: admission checks
# select by them. The queue's own keys follow the job, removals included. Which of the user's own
# labels are copied, the unit notes in an annotation: those are removed when the job no longer has
# them, and what others put on the unit stays.

Changes = dict[str, str | None]
"""Part of a merge patch: key -> value, or None to remove the key."""

# The queue's own keys, of labels and annotations: they follow the job, removals included.
_OUR_PREFIXES: Final = (
    PREFIX,
    LEGACY_PREFIX,
    QUOTA_PREFIX,
    "scheduling.x-k8s.io/",
    "quota.scheduling.alibabacloud.com/",
    "alibabacloud.com/quota-name",
)
# What only the unit, only the job, or only a pod may carry.
_NEVER_COPIED_MARKS: Final = frozenset(
    (
        *("managed-by", "job-created-at", "adopted", "released-at", "pod-sets-hash"),
        *("touched-at", "copied-labels", "template-differences", "pods-refused", "gated-by"),
        *("stamped-quota", "stamped-preemptible", "priority-boost"),
        *("backoff-limit-reached", "max-exec-time-exceeded", "pod-set-updates-conflict"),
        *("pod-set-updates", "released-parallelism", "marked-uid", "granted-count"),
        *("related-queueunit", "related-podset-name", "related-apiversion-kind", "related-object"),
        *("job-has-enqueued", "job-enqueue-timestamp", "job-dequeue-timestamp"),
    )
)


def labels_of_unit(job: JobFacts, quota: str) -> dict[str, str]:
    """Return the labels that the unit takes from the job: admission checks select by them.

    Those that koord-scheduler reads have the values that its pods will have.
    """
    labels = {
        key: value
        for key, value in job.metadata.labels.items()
        if not key.startswith(CONTROLLER_LABELS)
    }
    if named := _quota_labels_of_templates(job):
        for key in QUOTA_SPELLINGS:
            labels.pop(key, None)
        labels |= {**named, QUOTA_NAME: quota or read_quota_name(named)}
    if job.pod_sets:
        for key in PREEMPTIBLE_LABELS:
            if is_not_preemptible(job, key):
                labels[key] = NOT_PREEMPTIBLE
            elif labels.get(key) == NOT_PREEMPTIBLE:
                del labels[key]
    return labels


def annotations_of_unit(job: JobFacts) -> dict[str, str]:
    """Return the annotations that the unit takes from the job: those that the queue reads."""
    return {key: value for key, value in job.metadata.annotations.items() if _is_ours(key)}


def note_of_labels(labels: Iterable[str]) -> str:
    """Return what a unit notes of the labels that it takes from its job: the user's own keys."""
    return ",".join(sorted(key for key in labels if not _is_ours(key)))


def sync_of_metadata(job: JobFacts, unit: QueueUnit, quota: str) -> tuple[Changes, Changes]:
    """Return what changes of the labels and the annotations of a pending unit."""
    labels, note = sync_of_own_labels(job, unit)
    labels |= _differences(unit.metadata.labels, labels_of_unit(job, quota))
    annotations = note | _differences(unit.metadata.annotations, annotations_of_unit(job))
    return labels, annotations | _sync_of_gates(job, unit)


def _sync_of_gates(job: JobFacts, unit: QueueUnit) -> Changes:
    """Return what changes of a unit's gates: they can only become fewer.

    A name that the job got later is no gate: it is in the queue already.
    """
    recorded = unit.metadata.annotations.get(GATED_BY, "")
    if not recorded:
        return {}
    present = read_gates(job.metadata.annotations)
    left = ",".join(gate for gate in split_gates(recorded) if gate in present)
    return {} if left == recorded else {GATED_BY: left or None}


def sync_of_own_labels(job: JobFacts, unit: QueueUnit) -> tuple[Changes, Changes]:
    """Return what changes of the user's own labels, and of the note that lists them."""
    have, noted = unit.metadata.labels, unit.metadata.annotations.get(COPIED_LABELS, "")
    want = {key: value for key, value in labels_of_unit(job, "").items() if not _is_ours(key)}
    labels: Changes = {key: value for key, value in want.items() if have.get(key) != value}
    gone = (key for key in noted.split(",") if key in have and key not in want)
    labels.update(dict.fromkeys(key for key in gone if not _is_ours(key)))
    # A unit that was created without the note gets it when there is something to write anyway.
    note = note_of_labels(want)
    if note == noted or not (noted or labels):
        return labels, {}
    return labels, {COPIED_LABELS: note or None}


def _differences(have: Mapping[str, str], want: Mapping[str, str]) -> Changes:
    """Return what must be set, and which of the queue's keys the job no longer has."""
    changed: Changes = {key: value for key, value in want.items() if have.get(key) != value}
    gone = (k for k in have if k not in want and _is_ours(k))
    changed.update(dict.fromkeys(gone))
    return changed


def _quota_labels_of_templates(job: JobFacts) -> dict[str, str]:
    """Return the labels of the first template that names a quota, {} if none does."""
    of_sets = (quota_labels_of_template(each.template.metadata) for each in job.pod_sets)
    return next(filter(None, of_sets), {})


def _is_ours(key: str) -> bool:
    """Return whether a key is one of the queue's that follows the job."""
    if key == SUSPEND or key.rpartition("/")[2] in _NEVER_COPIED_MARKS:
        return False
    return key.startswith(_OUR_PREFIXES) or key in QUOTA_NAME_LEGACY
