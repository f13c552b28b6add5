"""Settings for the treatment of jobs; values only, read by `configuration`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from queue_controllers.jobframework.generic_job import JobKind
from shared_api.backoff import Backoff

BACKOFF_BASE_SECONDS: Final = 10.0
BACKOFF_CAP_SECONDS: Final = 900.0
"""Upstream's requeue state: 10 s doubled each time, at most 15 minutes."""


class Manage(StrEnum):
    """Which jobs the queue manages."""

    LABELLED = "labelled"
    """Jobs that name a queue or quota, or request it by the suspend annotation."""
    NAMESPACE_QUOTA = "namespace-quota"
    """In addition those whose namespace has a quota by koord-scheduler's rule."""
    ALL = "all"
    """Every job without another owner."""


class LeaveToKueue(StrEnum):
    """Whether jobs that name a queue of Kueue are left alone."""

    AUTO = "auto"
    """If the cluster serves Kueue's Workloads."""
    TRUE = "true"
    FALSE = "false"


class Adopt(StrEnum):
    """What happens to a job that already runs when it is first seen."""

    RUNNING = "running"
    """It continues, and is charged."""
    NEVER = "never"
    """It is suspended, and waits like any other."""


def backoff_from(first_wait_seconds: float) -> Backoff:
    """Return the backoff that begins with this wait; 0: with upstream's."""
    first_wait = first_wait_seconds or BACKOFF_BASE_SECONDS
    return Backoff(base_seconds=first_wait, cap_seconds=max(BACKOFF_CAP_SECONDS, first_wait))


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one extension; for one job, with those of its annotations."""

    manage: Manage = Manage.NAMESPACE_QUOTA
    adopt: Adopt = Adopt.RUNNING
    own_namespace: str = "koord-queue"
    """The queue's own namespace; never managed, like kube-system."""
    held_by_annotation: bool = False
    """The kind's operator honors the suspend annotation in addition to the suspend field."""
    full_pod_templates: bool = False
    """Units carry the whole pod template instead of the part that is read."""
    schedule_admission_label: bool = False
    """Pods whose gate is taken off are labeled for Alibaba's scheduler as well."""
    report_unqueued_jobs: bool = False
    """A job without queue or quota gets an event if other jobs of its namespace are queued."""
    keeps_grants: bool = False
    """A running job that is made smaller keeps its quota: the API server lets it have what it was
    granted again, and no more (the chart's `admissionPolicy.growth`)."""
    deletes_lost_pods: bool = False
    """Pods of lost nodes are deleted if their job asks for it (`lost_pods`)."""
    running_timeout_seconds: float = 0.0
    """How long a released job may take until its pods run, before it is evicted; 0: forever,
    unless the queue waits for them (`unit_status_patches.running_timeout`)."""
    partial_running_timeout_seconds: float = 0.0
    """How long only some of a job's pods may run, before it is evicted; 0: forever."""
    pod_creation_timeout_seconds: float | None = None
    """How long a released job may have no pod object, before it is evicted; 0: forever; None: the
    default of its kind (`pods_not_ready.pod_creation_timeout`)."""
    backoff: Backoff = backoff_from(0.0)
    """How long an evicted unit waits if its eviction asks for a backoff."""
    backoff_limit: int = 0
    """The backoffs in a row after which a unit is deactivated; 0 for never."""

    def suspends_by_annotation(self, kind: JobKind) -> bool:
        """Return whether a job of a kind stops only with the suspend annotation."""
        return self.held_by_annotation or not kind.has_suspend_field

    @property
    def excluded_namespaces(self) -> frozenset[str]:
        """Namespaces whose jobs are never touched."""
        return frozenset({"kube-system", self.own_namespace})
