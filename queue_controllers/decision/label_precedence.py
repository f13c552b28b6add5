"""Which labels count where a job and its pod template differ. Pure.

koord-scheduler reads the labels of pods, and nothing of the job above them. So the template's
labels count; a label of the job alone is a wish, which a release writes into the template, and
which does not count where the release cannot.
"""

from __future__ import annotations

from typing import Final

from queue_controllers.decision.job_ownership import quota_of_template
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from shared_api.objects.pod import TemplateMeta
from shared_api.well_known_labels import (
    NOT_PREEMPTIBLE,
    PREEMPTIBLE,
    STAMPED_PREEMPTIBLE,
    TREE_PREEMPTIBLE,
    read_quota_name,
)

PREEMPTIBLE_LABELS: Final = (PREEMPTIBLE, TREE_PREEMPTIBLE)
"""Koordinator's, and that of quota trees."""

QUOTA_DIFFERS: Final = "QuotaDiffers"
PREEMPTIBLE_IGNORED: Final = "PreemptibleIgnored"
"""Reasons of events on jobs."""

NOTE_BEGINS: Final = "Its label "
"""How a report about labels begins."""


def is_not_preemptible(job: JobFacts, key: str) -> bool:
    """Return whether pods of the job will say, under this label, that they are not preemptible.

    One pod set that says so is enough: its pods fit the quota's min, or are refused.
    """
    said = [preemptible_of_template(each.template.metadata, key) for each in job.pod_sets]
    if NOT_PREEMPTIBLE in said:
        return True
    if job.metadata.labels.get(key) != NOT_PREEMPTIBLE:
        return False
    return any(not own and _takes(each) for own, each in zip(said, job.pod_sets, strict=True))


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


def label_notes(job: JobFacts) -> dict[str, str]:
    """Return what the job's owner should know of its labels, each with the reason of its event."""
    if job.kind.held_by_gates or not job.pod_sets:
        return {}
    notes = {}
    wanted = read_quota_name(job.metadata.labels)
    for each in job.pod_sets:
        named = quota_of_template(each.template.metadata)
        if wanted and named and named != wanted:
            message = (
                f"{NOTE_BEGINS}names quota {wanted}, and its pod template (pod set {each.name})"
                f" quota {named}: {named} counts, since koord-scheduler charges its pods to that."
                " Name one quota in both"
            )
            notes[message] = QUOTA_DIFFERS
            break
    for key in PREEMPTIBLE_LABELS:
        if job.metadata.labels.get(key) == NOT_PREEMPTIBLE and not is_not_preemptible(job, key):
            message = (
                f'{NOTE_BEGINS}{key}: "{NOT_PREEMPTIBLE}" does not count: its pods do not have it,'
                " and the queue cannot write it into their template. Put it on the pod template"
            )
            notes[message] = PREEMPTIBLE_IGNORED
    return notes


def _takes(pod_set: JobPodSet) -> bool:
    return pod_set.has_template and pod_set.takes_stamps


def _stamped_keys(template: TemplateMeta) -> frozenset[str]:
    note = template.annotations.get(STAMPED_PREEMPTIBLE)
    return frozenset(note.split(",")) if note else frozenset()
