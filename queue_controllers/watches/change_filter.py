"""Which changes of an object ask for a look at its job, and how soon.

A job in the cluster changes a dozen times in its life, and three or four of these changes make
something to do. What decides is looked at at once: a job that comes, is changed by its user, or
ends; a unit whose phase moves. What a job's own controller or a pod tells on the way there may
wait a moment for what comes with it. What changes nothing that is read is not looked at at all.
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
"""Such waits end together, this often, so that one thread wakes for many jobs. No user can tell
it from the time that his pods take to start."""


def pause_of_job(adapter: GenericJob[JobT], old: JobT | None, new: JobT) -> float | None:
    """Return how long the look at a job may wait for; None where it needs none."""
    if old is None or old is new:  # the resync shows what is known: look, whatever it is
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _is_decided_by_others(old.metadata, new.metadata):
        return AT_ONCE
    return GATHER_SECONDS if adapter.status_of(new).outcome is None else AT_ONCE


def pause_of_unit(old: QueueUnit | None, new: QueueUnit | None) -> float | None:
    """Return how long the look at a unit's job may wait for; None where it needs none."""
    if old is None or new is None or old is new:
        return AT_ONCE
    if not _differ(old, new):
        return None
    if _is_decided_by_others(old.metadata, new.metadata) or old.status.phase != new.status.phase:
        return AT_ONCE
    return GATHER_SECONDS


def _is_decided_by_others(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Return whether somebody changed what an object shall be, not only what it says of itself."""
    if old.uid != new.uid or old.generation != new.generation:
        return True
    return old.deletion_timestamp != new.deletion_timestamp or old.annotations != new.annotations


def _differ(old: object, new: object) -> bool:
    """Return whether two versions of an object differ in anything that is read."""
    if not (isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct)):
        return True  # an extension's own class: nothing is known of it
    for field in old.__struct_fields__:
        was, is_now = getattr(old, field), getattr(new, field)
        if isinstance(was, ObjectMeta) and isinstance(is_now, ObjectMeta):
            version = is_now.resource_version
            was = msgspec.structs.replace(was, resource_version=version)
        if was != is_now:
            return True
    return False
