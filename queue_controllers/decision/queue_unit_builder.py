"""Build a QueueUnit from a job: what a unit should say about its job. Pure.

The unit is built once and then kept in step: `build_unit` returns the whole object, `build_sync`
the merge patch for what has changed. Fields follow the job for different times: counts, shapes,
queue and quota only while the unit is pending (an admission is for what was asked), the user's own
labels until its admission checks have answered, priority and `active` until the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.decision.job_annotations import (
    IGNORED_ANNOTATION,
    read_active,
    read_max_execution_seconds,
    read_priority,
)
from queue_controllers.decision.job_ownership import (
    ClusterContext,
    queue_of_job,
    quota_labels_of_template,
    quota_of_job,
)
from queue_controllers.decision.label_precedence import PREEMPTIBLE_LABELS, stamp_preemptible
from queue_controllers.decision.unit_metadata import (
    Changes,
    annotations_of_unit,
    labels_of_unit,
    note_of_labels,
    sync_of_metadata,
    sync_of_own_labels,
)
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from queue_controllers.jobframework.partial_parallelism import Resize, write_note
from queue_controllers.jobframework.pod_set_names import MAX_COUNT
from queue_controllers.jobframework.pod_template import template_body
from shared_api.objects.queue_unit import QueueUnit
from shared_api.pod_requests import ask_alike, pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import Phase, occupies_quota, phase_of
from shared_api.resource_list import Amounts, add, format_amounts, scale
from shared_api.well_known_labels import (
    COPIED_LABELS,
    DEACTIVATION_MARKS,
    JOB_CREATED_AT,
    MANAGED_BY,
    MAX_PRIORITY,
    NOT_PREEMPTIBLE,
    PODS_REFUSED,
    PREFIX,
    PRIORITY,
    QUOTA_NAME,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    STAMPED_QUOTA,
    TEMPLATE_DIFFERENCES,
    read_annotation,
    read_quota_name,
)

CONTROLLERS: Final = "koord-queue-controllers"
"""Value of the managed-by annotation."""

POD_SETS_HASH: Final = PREFIX + "pod-sets-hash"
"""Annotation on units: what the pod sets looked like when they were written. W, R: controllers."""

MAX_NAME_CHARS: Final = 253
"""Limit of an object's name (a DNS subdomain)."""


UID_CHARS: Final = 8
"""Of the uid in a name that had to be made unique."""


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


def granted_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set were admitted; the spec may have grown since."""
    admitted = {each.name: each.replicas for each in unit.status.admissions}
    return {each.name: admitted.get(each.name, each.count) for each in unit.spec.pod_set}


def given_back_counts(unit: QueueUnit) -> dict[str, int]:
    """Return how many pods of each set have given their quota back, at most what was granted.

    Users may edit the status: what exceeds the grant does not count.
    """
    said = {each.name: each.count for each in unit.status.reclaimable_pods}
    granted = granted_counts(unit)
    return {name: min(max(said.get(name, 0), 0), count) for name, count in granted.items()}


def outgrows(job: JobFacts, unit: QueueUnit, *, was_released: bool = False) -> bool:
    """Return whether the job now asks for more than its unit was admitted with.

    More pods of a set, larger pods, or a set that the unit does not have. `was_released`: it has
    run with this admission, so it may have grown, and given some of it back for good.
    """
    admitted = {pod_set.name: pod_set for pod_set in unit.spec.pod_set}
    counts = {name: pod_set.count for name, pod_set in admitted.items()}
    if was_released:
        given_back = given_back_counts(unit)
        counts = {name: count - given_back[name] for name, count in granted_counts(unit).items()}
    for pod_set in job.pod_sets:
        if not pod_set.count:
            continue
        known, count = admitted.get(pod_set.name), pod_set.count
        if was_released and pod_set.lowered_to is not None:
            count = min(count, pod_set.lowered_to)  # it has run with fewer, and continues so
        if known is None or count > counts[pod_set.name]:
            return True
        if ask_alike(pod_set.template.spec, known.template.spec):
            continue
        wanted, granted = _requests(pod_set.template), _requests(known.template)
        if wanted is None or granted is None:
            return wanted != granted
        if any(amount > granted.get(resource, 0) for resource, amount in wanted.items()):
            return True
    return False


def _requests(template: Any) -> Amounts | None:  # noqa: ANN401 - reduced or plain template
    """Return a template's requests, None if they cannot be parsed."""
    try:
        return pod_requests(template.spec)
    except QuantityError:
        return None


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


def priority_of_job(job: JobFacts, around: ClusterContext) -> tuple[str, int | None]:
    """Return (class name, number): annotation, else the class's value, else the literal.

    At most what the namespace allows its jobs; absent counts as 0. If only classes count, neither
    the annotation nor a literal does.
    """
    class_name, number = _wanted_priority(job, around)
    return class_name, _bounded(number, around)


def why_other_priority(job: JobFacts, around: ClusterContext) -> str:
    """Return why a job has another priority than it says, as one line, or ""."""
    said = _text_of_annotation(job)
    if around.only_classes and said:
        instead = "only PriorityClasses count (priorityFrom)"
        return f"{IGNORED_ANNOTATION}{PRIORITY} is ignored: {instead}"
    _, number = _wanted_priority(job, around)
    if _bounded(number, around) == number or around.unread_ceiling == "":
        return ""
    key = PRIORITY if said else f"{PRIORITY}, or the PriorityClass of its pods,"
    where = f"the {MAX_PRIORITY} of namespace {job.metadata.namespace}, which counts"
    above = f"priority {number or 0} is above {around.max_priority}"
    if around.unread_ceiling is not None:
        where += f", since {around.unread_ceiling} is not a whole number: correct that annotation"
    return f"{IGNORED_ANNOTATION}{key} counts in part: {above}, {where}"


def _text_of_annotation(job: JobFacts) -> str:
    return read_annotation(job.metadata.annotations, PRIORITY) or ""


def _wanted_priority(job: JobFacts, around: ClusterContext) -> tuple[str, int | None]:
    source = job.priority
    number = None if around.only_classes else source.value
    if source.class_name:
        number = around.priority_classes.get(source.class_name, number)
    elif number is None:
        number = around.default_priority
    return source.class_name, number if around.only_classes else read_priority(job, number)


def _bounded(number: int | None, around: ClusterContext) -> int | None:
    most = around.max_priority
    return most if most is not None and (number or 0) > most else number


# --- the unit, and what has changed since -------------------------------------------------------


def build_unit(
    job: JobFacts, around: ClusterContext, *, name: str, runs: bool = False
) -> dict[str, Any]:
    """Return the QueueUnit of a job as JSON values, ready to be created.

    `runs`: the job ran before the queue knew of it, so its pods can no longer change.
    """
    meta, kind = job.metadata, job.kind
    quota = quota_of_job(job, around)
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
    elif job.pods_refused:
        annotations[PODS_REFUSED] = job.pods_refused
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
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": metadata,
        "spec": _spec_of(job, around, bodies, quota),
    }


def _take_wishes_off(labels: Changes | dict[str, str], job: JobFacts) -> None:
    """Remove the labels that a release would have written on pods: these pods do not have them."""
    for key in PREEMPTIBLE_LABELS:
        if labels.get(key) == NOT_PREEMPTIBLE and all(
            each.template.metadata.labels.get(key) != NOT_PREEMPTIBLE for each in job.pod_sets
        ):
            del labels[key]


def _spec_of(
    job: JobFacts, around: ClusterContext, bodies: list[dict[str, Any]], quota: str
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
        request = _request_of(job)
        if request:
            spec["request"] = request
    class_name, number = priority_of_job(job, around)
    if class_name:
        spec["priorityClassName"] = class_name
    if number is not None:
        spec["priority"] = number
    if (active := read_active(job)) is not None:
        spec["active"] = active
    if (seconds := read_max_execution_seconds(job)) is not None:
        spec["maximumExecutionTimeSeconds"] = seconds
    return spec


def _request_of(job: JobFacts) -> dict[str, Any]:
    """Return the total, nothing if it cannot be computed: then the pod sets say why."""
    try:
        return dict(format_amounts(demand_of(job.pod_sets)))
    except QuantityError:
        return {}


def build_sync(
    job: JobFacts,
    unit: QueueUnit,
    around: ClusterContext,
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
    spec = _sync_of_intent(job, unit, around)
    annotations = _sync_of_refusal(job, unit) if stopped else Changes()
    labels: Changes = {}
    if not read_annotation(unit.metadata.annotations, MANAGED_BY):
        annotations[MANAGED_BY] = CONTROLLERS
    if waiting:
        quota = quota_of_job(job, around)
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
    said = unit.metadata.annotations.get(PODS_REFUSED, "")
    return {} if said == job.pods_refused else {PODS_REFUSED: job.pods_refused or None}


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


def _sync_of_intent(job: JobFacts, unit: QueueUnit, around: ClusterContext) -> dict[str, Any]:
    """Return what the user may change until the end: priority, active, the execution time."""
    spec: dict[str, Any] = {}
    class_name, number = priority_of_job(job, around)
    before = unit.spec.priority_class_name
    if job.unknown_demand:  # its templates may say it
        class_name, number = before, unit.spec.priority
    elif class_name and class_name == before and class_name not in around.priority_classes:
        # To change a class's value its class is deleted first: no unit is to be evicted in the
        # meantime.
        kept: int | None = unit.spec.priority
        kept = kept if around.only_classes else read_priority(job, kept)
        number = _bounded(kept, around) if occupies_quota(unit) else number
    if before != class_name:
        spec["priorityClassName"] = class_name or None
    if unit.spec.priority != (number or 0):
        spec["priority"] = number or 0
    active = read_active(job)
    # An absent annotation leaves the field alone, so that a deactivation by others sticks. For a
    # unit that the controllers deactivated, `deactivation` judges the annotation.
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
    told = unit.metadata.annotations.get(TEMPLATE_DIFFERENCES, "")
    if told != job.template_differences:
        annotations[TEMPLATE_DIFFERENCES] = job.template_differences or None
    counts = [(each.name, each.count, each.min_count) for each in unit.spec.pod_set]
    wanted = [(each.name, each.count, each.min_count) for each in job.pod_sets]
    in_step = unit.metadata.annotations.get(POD_SETS_HASH) == digest and counts == wanted
    # Edited by hand to ask for less, or to need less, it would be admitted for that, and evicted,
    # again and again.
    if in_step and not outgrows(job, unit):
        return {}
    annotations[POD_SETS_HASH] = digest
    request = _request_of(job)
    # A merge patch merges maps: to be removed, resources must be named.
    gone = {resource: None for resource in unit.spec.request if resource not in request}
    return {"podSet": bodies, "request": {**request, **gone}}


def build_growth(job: JobFacts, unit: QueueUnit) -> dict[str, Any]:
    """Return the merge patch that records the growth of a released elastic job, or {}.

    Only counts grow; what was given back stays given back (`reclaimablePods` only grows).
    """
    given_back = given_back_counts(unit)
    known = {each.name: each.count for each in unit.spec.pod_set}
    grown = tuple(
        msgspec.structs.replace(each, count=max(known.get(each.name, 0), needed))
        for each in job.pod_sets
        for needed in (min(each.count + given_back.get(each.name, 0), MAX_COUNT),)
    )
    if all(each.count <= known.get(each.name, 0) for each in grown):
        return {}
    bodies = pod_set_bodies(grown)
    return {
        "metadata": {"annotations": {POD_SETS_HASH: hash_of_pod_sets(bodies)}},
        "spec": {"podSet": bodies},
    }


def plan_resize(job: JobFacts, unit: QueueUnit) -> Resize | None:
    """Return how many pods of an admitted job may run at a time, None: as many as it says.

    Fewer than it wants if fewer were granted than it still needs.
    """
    granted = granted_counts(unit)
    counts, notes = {}, []
    for each in job.pod_sets:
        if each.most is None:
            continue
        allowed = granted.get(each.name, each.count)
        let_run = each.most if allowed >= each.count else allowed
        if let_run != (each.most if each.lowered_to is None else each.lowered_to):
            counts[each.name] = let_run
            notes += [write_note(let_run, each.most)] if let_run < each.most else []
    return Resize(counts, "".join(notes)) if counts else None


def plan_restoration(job: JobFacts) -> Resize | None:
    """Return what gives a job the pods back that a release did not let run; None: it has them."""
    counts = {
        each.name: each.most
        for each in job.pod_sets
        if each.most is not None and each.lowered_to is not None
    }
    return Resize(counts, "") if counts else None


def build_reclaimable(job: JobFacts, unit: QueueUnit) -> list[dict[str, Any]]:
    """Return the new `status.reclaimablePods` of a released job, or [] when nothing is new.

    Counts only grow, up to what was admitted: what the job has grown by was never charged. A larger
    count was edited, and is corrected. The last share of finished work is not written: the final
    condition releases it. That of a job that is scaled to zero is, since it may continue at any
    time.
    """
    if all(each.is_done for each in job.pod_sets):
        return []
    needed = {each.name: each.count for each in job.pod_sets}
    given_back = given_back_counts(unit)
    after = {
        name: min(max(count - needed.get(name, 0), given_back[name]), MAX_COUNT)
        for name, count in granted_counts(unit).items()
    }
    said = {each.name: each.count for each in unit.status.reclaimable_pods}
    if all(count == said.get(name, 0) for name, count in after.items()):
        return []
    return [{"name": name, "count": count} for name, count in after.items() if count > 0]


def build_stamps(job: JobFacts, unit: QueueUnit, quota: str) -> dict[str, PodStamp]:
    """Return what a release writes on the pod templates, by pod set.

    The quota, so that koord-scheduler charges the pods where the queue has charged them; the unit,
    so that the queue knows whose pods they are. A quota that the template names itself stays; one
    that it names in an older spelling, which koord-scheduler does not read, is written in addition.
    """
    return build_stamps_of(job, unit.metadata.key, quota)


def build_stamps_of(job: JobFacts, unit_key: str, quota: str) -> dict[str, PodStamp]:
    """Return the same for a unit that need not exist yet."""
    stamps: dict[str, PodStamp] = {}
    for pod_set in job.pod_sets:
        annotations = {RELATED_QUEUE_UNIT: unit_key}
        if len(job.pod_sets) > 1:
            annotations[RELATED_POD_SET] = pod_set.name
        # What admission plugins and webhooks added they add again.
        template = (pod_set.written or pod_set.template).metadata
        labels, notes = stamp_preemptible(job, pod_set)
        annotations |= notes
        named = quota_labels_of_template(template)
        if QUOTA_NAME not in named and (
            charged := read_quota_name(named) or job.stamped_quota or quota
        ):
            labels[QUOTA_NAME] = annotations[STAMPED_QUOTA] = charged
        stamps[pod_set.name] = PodStamp(labels=labels, annotations=annotations)
    return stamps
