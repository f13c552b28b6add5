"""Which changes of an object make its job be reconciled, and how soon.

A job changes a dozen times in its life, and three or four of these changes lead to a write. What
decides is reconciled at once: a job that is created, is changed by its user, or ends; a unit whose
phase changes. Changes by a job's own controller or of a pod may wait a moment for those that follow
them. A change of fields that are not read needs no reconcile.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.jobframework.generic_job import GenericJob, JobT
from queue_controllers.watches.pod_usage import PAUSE_SECONDS
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit

AT_ONCE: Final = 0.0

GATHER_SECONDS: Final = PAUSE_SECONDS
"""How long a change that decides nothing by itself waits for others: as long as a pod's."""

STEP_SECONDS: Final = 0.05
"""Such waits end together, at this interval, so that one thread wakes for many jobs. It is short
beside the time that pods take to start."""


def pause_of_job(adapter: GenericJob[JobT], old: JobT | None, new: JobT) -> float | None:
    """Return how many seconds the job's reconcile may wait; None if it needs none."""
    if old is None or old is new:  # a resync repeats what is known: reconcile in any case
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _has_changed_intent(old.metadata, new.metadata):
        return AT_ONCE
    return GATHER_SECONDS if adapter.status_of(new).outcome is None else AT_ONCE


def pause_of_unit(old: QueueUnit | None, new: QueueUnit | None) -> float | None:
    """Return how many seconds the reconcile of a unit's job may wait; None if it needs none."""
    if old is None or new is None or old is new:
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _has_changed_intent(old.metadata, new.metadata) or old.status.phase != new.status.phase:
        return AT_ONCE
    return GATHER_SECONDS


def _has_changed_intent(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return whether a user or program changed what an object asks for, not only its status."""
    if old.uid != new.uid or old.generation != new.generation:
        return True
    return old.deletion_timestamp != new.deletion_timestamp or old.annotations != new.annotations


def _differ(old: object, new: object) -> bool:
    """Return whether two versions of an object differ in anything that is read."""
    if not (isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct)):
        return True  # an extension's own class: its fields are not known
    for field in old.__struct_fields__:
        was, is_now = getattr(old, field), getattr(new, field)
        if isinstance(was, ObjectMeta) and isinstance(is_now, ObjectMeta):
            version = is_now.resource_version
            was = msgspec.structs.replace(was, resource_version=version)
        if was != is_now:
            return True
    return False
