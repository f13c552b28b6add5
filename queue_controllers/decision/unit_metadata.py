"""Which labels and annotations of a job its unit carries, and how they follow it. Pure.

Of the annotations a unit has those that the queue reads, of the labels all: admission checks select
by them. The queue's own keys follow the job, removals included. Which of the user's own labels are
copied, the unit notes in an annotation: those are removed when the job no longer has them, and what
others put on the unit stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from queue_controllers.decision.job_ownership import quota_labels_of_template
from queue_controllers.decision.label_precedence import PREEMPTIBLE_LABELS, is_not_preemptible
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.pod_template import CONTROLLER_LABELS
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    COPIED_LABELS,
    LEGACY_PREFIX,
    NOT_PREEMPTIBLE,
    PREFIX,
    QUOTA_NAME,
    QUOTA_NAME_LEGACY,
    QUOTA_PREFIX,
    QUOTA_SPELLINGS,
    SUSPEND,
    read_quota_name,
)

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
        *("touched-at", "copied-labels", "template-differences", "pods-refused"),
        *("stamped-quota", "stamped-preemptible"),
        *("backoff-limit-reached", "max-exec-time-exceeded", "pod-set-updates-conflict"),
        *("pod-set-updates", "released-parallelism"),
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
    return labels, note | _differences(unit.metadata.annotations, annotations_of_unit(job))


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
