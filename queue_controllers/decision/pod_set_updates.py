"""Merge what a unit's admission checks want of the pod templates into one change, or refuse. Pure.

Kueue's rule: labels, annotations and node selectors are merged, tolerations are concatenated. Two
checks that want different values, or one that wants another value than the job's template has, are
in conflict; no choice between them is right, so such a job is not released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from queue_controllers.jobframework.template_updates import (
    MAX_NOTE_CHARS,
    AddedParts,
    TemplateUpdate,
    Toleration,
    digest_of,
    write_added,
)
from shared_api.objects.queue_unit import PodSetUpdate, QueueUnit
from shared_api.well_known_labels import POD_SET_UPDATES

MAX_SHOWN_CHARS: Final = 60
"""Of a value in conflict: labels have 63 at most."""

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
            return UpdateConflict(_said(check, f"changes pods, which no {job.kind.kind} takes"))
        if update.name not in names:
            return UpdateConflict(_said(check, f"changes pod set {update.name}: it has none"))
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
            return _said(check, f"{what}: its pods start without that")
    return ""


def _wanted(unit: QueueUnit) -> list[tuple[str, PodSetUpdate]]:
    checks = unit.status.admission_checks
    return [(each.name, update) for each in checks for update in each.pod_set_updates]


def _said(check: str, what: str) -> str:
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
                self.conflicts.append(_said(check, f"{what}, and {whose} {_shown(other)}"))

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
