"""What a release writes on pod templates, and which labels count where they differ. Pure.

koord-scheduler reads the labels of pods, and nothing of the job above them. So the template's
labels count; a label of the job alone is a wish, which a release writes into the template, and
which does not count where the release cannot.
"""

from __future__ import annotations

from typing import Final

from queue_controllers.decision.job_ownership import quota_labels_of_template
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from shared_api.objects.pod import TemplateMeta
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    NOT_PREEMPTIBLE,
    PREEMPTIBLE,
    QUOTA_NAME,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    STAMPED_PREEMPTIBLE,
    STAMPED_QUOTA,
    TREE_PREEMPTIBLE,
    read_quota_name,
)

PREEMPTIBLE_LABELS: Final = (PREEMPTIBLE, TREE_PREEMPTIBLE)
"""Koordinator's, and that of quota trees."""


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


def is_not_preemptible(job: JobFacts, key: str) -> bool:
    """Return whether pods of the job will say, under this label, that they are not preemptible.

    One pod set that says so is enough: its pods fit the quota's min, or are refused.
    """
    stated = [preemptible_of_template(each.template.metadata, key) for each in job.pod_sets]
    if NOT_PREEMPTIBLE in stated:
        return True
    if job.metadata.labels.get(key) != NOT_PREEMPTIBLE:
        return False
    return any(
        not own and each.has_template and each.takes_stamps
        for own, each in zip(stated, job.pod_sets, strict=True)
    )


def preemptible_of_template(template: TemplateMeta, key: str) -> str:
    """Return the pod template's value of this label, "" without one.

    What a release has written is the job's value, and not the template's.
    """
    return "" if key in _stamped_keys(template) else template.labels.get(key, "")


def stamp_preemptible(job: JobFacts, pod_set: JobPodSet) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that bring the job's value into a template.

    A label that an earlier release wrote and that the job no longer has becomes "true": a release
    removes nothing.
    """
    template = (pod_set.written or pod_set.template).metadata
    labels: dict[str, str] = {}
    stamped = _stamped_keys(template)
    for key in PREEMPTIBLE_LABELS:
        if preemptible_of_template(template, key):
            continue
        if job.metadata.labels.get(key) == NOT_PREEMPTIBLE:
            labels[key] = NOT_PREEMPTIBLE
        elif key in stamped:
            labels[key] = "true"
    return labels, {STAMPED_PREEMPTIBLE: ",".join(labels)} if labels else {}


def _stamped_keys(template: TemplateMeta) -> frozenset[str]:
    note = template.annotations.get(STAMPED_PREEMPTIBLE)
    return frozenset(note.split(",")) if note else frozenset()
