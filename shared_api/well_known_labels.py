"""Every label and annotation key that is read or written, once.

Grouped by the object that carries it. "W" names the writer, "R" the reader. Keys of the
`koord-queue/` prefix are also read under `kube-queue/`, their name before the rename
(`read_annotation` does that); they are written under the new one only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

PREFIX: Final = "koord-queue/"
LEGACY_PREFIX: Final = "kube-queue/"
QUOTA_PREFIX: Final = "quota.scheduling.koordinator.sh/"

# --- jobs, pods and queue units: which quota, which queue -------------------------------------
QUOTA_NAME: Final = QUOTA_PREFIX + "name"
"""Label on jobs, units and pods. W: users; controllers stamp it on pod templates. R: both."""
QUOTA_NAME_LEGACY: Final = (
    "alibabacloud.com/quota-name",
    "quota.scheduling.alibabacloud.com/name",
)
"""Older spellings of the same label, read after it, in this order."""
PREEMPTIBLE: Final = QUOTA_PREFIX + "preemptible"
"""Label; only "false" means something: such pods must also fit the quota's min."""
QUEUE_NAME: Final = PREFIX + "queue-name"
"""Label or annotation on jobs and units: an explicit queue. W: users. R: both."""
SUSPEND: Final = "scheduling.x-k8s.io/suspend"
"""Annotation on jobs: "true" asks to be queued; where a kind has no native field it holds."""
PRIORITY: Final = "scheduling.x-k8s.io/priority"
"""Annotation on jobs: an int32 that overrides the priority class."""
ACTIVE: Final = "scheduling.x-k8s.io/active"
"""Annotation on jobs: "false" stops the job for good, "true" lets it wait again."""
MAX_EXEC_TIME: Final = "scheduling.x-k8s.io/max-exec-time-seconds"
"""Annotation on jobs: seconds that the job may run."""
RUNNING_TIMEOUT: Final = PREFIX + "running-timeout"
PARTIAL_RUNNING_TIMEOUT: Final = PREFIX + "partial-running-timeout"
BACKOFF_TIMEOUT: Final = PREFIX + "backoff-timeout"
"""Annotations on jobs: for this job, in place of the controllers' settings of these names; a
duration such as 10m, or seconds."""
BACKOFF_LIMIT: Final = PREFIX + "backoff-limit"
"""Annotation on jobs: after how many backoffs this job is deactivated; 0: never."""

# --- queue units ------------------------------------------------------------------------------
MANAGED_BY: Final = PREFIX + "managed-by"
"""Annotation on units. W: controllers, at creation. Absent: the scheduler does both parts."""
JOB_CREATED_AT: Final = PREFIX + "job-created-at"
"""Annotation on units: the job's creationTimestamp, which decides the order. W: controllers."""
ADOPTED: Final = PREFIX + "adopted"
"""Annotation on units of jobs that already ran when first seen: booked at once."""
LIMIT_REACHED: Final = PREFIX + "backoff-limit-reached"
"""Annotation on units that were deactivated for it: what the job's `active` annotation said then;
only what it says later makes the unit active again. W, R: controllers."""

# --- jobs and pod templates -------------------------------------------------------------------
RELEASED_AT: Final = PREFIX + "released-at"
"""Annotation on jobs: time of the last release. W: controllers, in the release patch."""
RELATED_QUEUE_UNIT: Final = PREFIX + "related-queueunit"
"""Annotation on pod templates and pods: `namespace/name` of the unit. W: controllers."""
STAMPED_QUOTA: Final = PREFIX + "stamped-quota"
"""Annotation on pod templates and pods: the quota label's value, where a release has put it there;
the next release may put another. W, R: controllers."""
RELATED_POD_SET: Final = PREFIX + "related-podset-name"
"""Annotation on pod templates and pods: the pod set."""
MANAGED_NAMESPACE: Final = PREFIX + "managed"
"""Label on namespaces: "true" makes every job in it managed."""
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""Label of jobs that belong to Kueue: left alone."""

# --- queues -----------------------------------------------------------------------------------
CREATED_BY_KOORD_QUEUE: Final = "create-by-koordqueue"
"""Label "true" on the queues that the scheduler made for a quota; only those are deleted."""
AVAILABLE_QUOTA: Final = (PREFIX + "available-quota-in-queue", PREFIX + "available-quota")
"""Annotations on queues: comma list, or "*", of the quotas whose units the queue takes."""
ALL_QUOTAS: Final = "*"
WAIT_FOR_PODS_RUNNING: Final = PREFIX + "wait-for-pods-running"
MAX_DEPTH: Final = PREFIX + "max-depth"
STATUS_REFRESH_INTERVAL: Final = PREFIX + "queue-items-refresh-interval"
DISABLE_SHOW_ITEMS: Final = PREFIX + "disable-show-queue-items"
BLOCK_FOR_TEST: Final = PREFIX + "block-for-test"
"""Annotation "true" on units: never starts (upstream's switch for tests)."""

# --- elastic quotas ---------------------------------------------------------------------------
QUOTA_PARENT: Final = QUOTA_PREFIX + "parent"
QUOTA_IS_PARENT: Final = QUOTA_PREFIX + "is-parent"
QUOTA_ALLOW_LENT: Final = QUOTA_PREFIX + "allow-lent-resource"
QUOTA_TREE_ID: Final = QUOTA_PREFIX + "tree-id"
QUOTA_IS_ROOT: Final = QUOTA_PREFIX + "is-root"
QUOTA_IGNORE_DEFAULT_TREE: Final = QUOTA_PREFIX + "ignore-default-tree"
QUOTA_SHARED_WEIGHT: Final = QUOTA_PREFIX + "shared-weight"
QUOTA_NAMESPACES: Final = QUOTA_PREFIX + "namespaces"
QUOTA_TOTAL_RESOURCE: Final = QUOTA_PREFIX + "total-resource"
QUEUE_POLICY: Final = PREFIX + "queue-policy"
"""Label on quotas: the policy of the queue made for them. Absent: never touched again."""
QUOTA_QUEUE_ENABLE: Final = "quota-koord-queue-enable"
"""Annotation on quotas, copied to their queue."""
COPIED_ANNOTATIONS: Final = PREFIX + "copied-annotations"
"""Annotation on the queues made for quotas: comma list of the annotations that are the quota's, and
go when it has them no more. W, R: the scheduler."""

# --- nodes ------------------------------------------------------------------------------------
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
"""Annotation on nodes: JSON {resources, reservedCPUs, applyPolicy}, taken off capacity."""

ROOT_QUOTA: Final = "koordinator-root-quota"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"
SPECIAL_QUOTAS: Final = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})
"""Quotas that koord-scheduler makes itself; they never get a queue."""


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
"""As Go reads them: Python's int() takes 1_000 and digits of other scripts, too."""


def read_annotation(annotations: Mapping[str, str], key: str) -> str | None:
    """Return the value under `key`, or under its `kube-queue/` spelling, or None."""
    if not annotations:
        return None
    value = annotations.get(key)
    return annotations.get(_legacy_spelling(key)) if value is None else value


def spellings(key: str) -> tuple[str, str]:
    """Return the two keys under which `read_annotation` finds one of `koord-queue/`."""
    return (key, _legacy_spelling(key))


@cache  # annotations are read by two dozen names
def _legacy_spelling(key: str) -> str:
    """Return the `kube-queue/` spelling of a key of ours; any other key as it is."""
    return LEGACY_PREFIX + key.removeprefix(PREFIX) if key.startswith(PREFIX) else key


def read_int32(text: str | None, default: int | None) -> int | None:
    """Return the int32 that an annotation says; the default where it is absent or says none."""
    if not text or _INTEGER.fullmatch(text) is None:
        return default
    number = int(text)
    return number if -(2**31) <= number < 2**31 else default


def read_quota_name(labels: Mapping[str, str]) -> str:
    """Return the quota that labels of a job, unit or pod name, or ""."""
    for key in (QUOTA_NAME, *QUOTA_NAME_LEGACY):
        if name := labels.get(key):
            return name
    return ""


def read_queue_name(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the queue that a job or unit names itself, by label or annotation, or ""."""
    return read_annotation(labels, QUEUE_NAME) or read_annotation(annotations, QUEUE_NAME) or ""


def read_available_quotas(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the quotas that a queue's annotations list, "*" for all; empty where none does."""
    for key in AVAILABLE_QUOTA:
        listed = read_annotation(annotations, key)
        if listed is not None:
            return frozenset(name.strip() for name in listed.split(",")) - {""}
    return frozenset()
