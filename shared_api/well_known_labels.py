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
QUOTA_SPELLINGS: Final = (QUOTA_NAME, *QUOTA_NAME_LEGACY)
TREE_QUOTA_NAME: Final = "quota.scheduling.alibabacloud.com/name"
"""Label on jobs and units: a quota of an ElasticQuotaTree; read before `QUOTA_NAME` for these."""
PREEMPTIBLE: Final = QUOTA_PREFIX + "preemptible"
"""Label; only "false" means something: such pods must also fit the quota's min."""
TREE_PREEMPTIBLE: Final = "quota.scheduling.alibabacloud.com/preemptible"
"""The same label, for quotas of an ElasticQuotaTree."""
NOT_PREEMPTIBLE: Final = "false"
"""Its value."""
QUEUE_NAME: Final = PREFIX + "queue-name"
"""Label or annotation on jobs and units: an explicit queue. W: users. R: both."""
SUSPEND: Final = "scheduling.x-k8s.io/suspend"
"""Annotation on jobs: "true" asks to be queued; where a kind has no native field it holds."""
PRIORITY: Final = "scheduling.x-k8s.io/priority"
"""Annotation on jobs: an int32 that overrides the priority class."""
ACTIVE: Final = "scheduling.x-k8s.io/active"
"""Annotation on jobs: "false" stops the job for good, "true" lets it wait again."""
MAX_EXEC_TIME: Final = "scheduling.x-k8s.io/max-exec-time-seconds"
"""Annotation on jobs: seconds that the job's pods may run, all runs together."""
RUNNING_TIMEOUT: Final = PREFIX + "running-timeout"
PARTIAL_RUNNING_TIMEOUT: Final = PREFIX + "partial-running-timeout"
POD_CREATION_TIMEOUT: Final = PREFIX + "pod-creation-timeout"
BACKOFF_TIMEOUT: Final = PREFIX + "backoff-timeout"
"""Annotations on jobs: for this job, in place of the controllers' settings of these names; a
duration such as 10m, or seconds."""
BACKOFF_LIMIT: Final = PREFIX + "backoff-limit"
"""Annotation on jobs: after how many backoffs this job is deactivated; 0: never."""
MIN_PARALLELISM: Final = PREFIX + "min-parallelism"
"""Annotation on jobs: with so many pods at a time the job can do, if not all of its parallelism
fits. W: users. R: controllers."""
KUEUE_MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue's name for it, read where ours says nothing."""

# --- queue units ------------------------------------------------------------------------------
MANAGED_BY: Final = PREFIX + "managed-by"
"""Annotation on units. W: controllers, at creation. Absent: the scheduler does both parts."""
JOB_CREATED_AT: Final = PREFIX + "job-created-at"
"""Annotation on units: the job's creationTimestamp. W: controllers. Which pods may be the job's is
read off it; the place in the queue is not, since users who may edit units may write it
(`status.jobCreationTimestamp`)."""
COPIED_LABELS: Final = PREFIX + "copied-labels"
"""Annotation on units: comma list of those labels of the user's own that are the job's, and go when
it has them no more. W, R: controllers."""
TEMPLATE_DIFFERENCES: Final = PREFIX + "template-differences"
"""Annotation on units: what the API server makes of the job's templates that is not as they are
written (requests that a LimitRange fills in), and by what. W: controllers. R: users."""
PODS_REFUSED: Final = PREFIX + "pods-refused"
"""Annotation on units: why the API server would refuse the job's pods as things are; the unit waits
beside the line as long as it is there. W: controllers. R: the scheduler."""
MAX_REFUSAL_CHARS: Final = 512
"""Of it, that are passed on."""
LIMIT_REACHED: Final = PREFIX + "backoff-limit-reached"
TIME_EXCEEDED: Final = PREFIX + "max-exec-time-exceeded"
UPDATES_CONFLICT: Final = PREFIX + "pod-set-updates-conflict"
"""Annotations on units that were deactivated for it: what the job's `active` annotation said then;
only what it says later makes the unit active again. W, R: controllers."""
DEACTIVATION_MARKS: Final = (LIMIT_REACHED, TIME_EXCEEDED, UPDATES_CONFLICT)

# --- jobs and pod templates -------------------------------------------------------------------
RELEASED_AT: Final = PREFIX + "released-at"
"""Annotation on jobs: time of the last release. W: controllers, in the release patch."""
TOUCHED_AT: Final = PREFIX + "touched-at"
"""Annotation on jobs: when their operator was last woken, since no pod came. W, R: controllers."""
MIN_RESOURCES: Final = PREFIX + "min-resources"
"""Annotation on Argo Workflows: what the whole workflow books, JSON or YAML. W: users."""
POD_SET_UPDATES: Final = PREFIX + "pod-set-updates"
"""Annotation on jobs: what the last release has added to the pod templates because admission checks
want it, so that the next takes it off. JSON. W, R: controllers."""
RELEASED_PARALLELISM: Final = PREFIX + "released-parallelism"
"""Annotation on jobs that were released with fewer pods than they want: "4/10" is four of ten. It
counts while the job's parallelism is the first number. W, R: controllers."""
RELATED_QUEUE_UNIT: Final = PREFIX + "related-queueunit"
"""Annotation on pod templates, pods, Reservations, provisioning requests: `namespace/name` of the
unit."""
STAMPED_QUOTA: Final = PREFIX + "stamped-quota"
"""Annotation on pod templates and pods: the quota label's value, where a release has put it there;
the next release may put another. W, R: controllers."""
STAMPED_PREEMPTIBLE: Final = PREFIX + "stamped-preemptible"
"""Annotation on pod templates and pods: comma list of the preemptible labels that a release has put
there. W, R: controllers."""
RELATED_POD_SET: Final = PREFIX + "related-podset-name"
"""Annotation on pod templates and pods, label on Reservations: the pod set."""
MANAGED_NAMESPACE: Final = PREFIX + "managed"
"""Label on namespaces: "true" makes every job in it managed."""
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""Label of jobs that belong to Kueue: left alone."""

# --- pods that are held by a scheduling gate --------------------------------------------------
ADMISSION_GATE: Final = PREFIX + "admission"
"""Scheduling gate of pods that wait for the queue. W: users, or the admission policy, as a pod is
made; the controllers take it off. R: both."""
SCHEDULE_ADMISSION: Final = "alibabacloud.com/schedule-admission"
"""Label on pods: that gate for Alibaba's scheduler, "false" (held) or "true" (may be scheduled). W,
if the setting `scheduleAdmissionLabel` asks for it: the admission policy together with the gate,
controllers as they take that off. R: that scheduler; nothing here."""
KUEUE_POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""Label on pods: the group that starts as one."""
KUEUE_GROUP_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
"""Annotation on pods of such a group: how many it has."""
KOORDINATOR_POD_GROUP: Final = (
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
"""Labels on pods: their PodGroup (`scheduling.sigs.k8s.io`), which says how many it needs."""
KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/name"
"""Annotation on pods: their gang, where no PodGroup stands for it."""
KOORDINATOR_GANG_COUNT: Final = (
    "gang.scheduling.koordinator.sh/total-number",
    "gang.scheduling.koordinator.sh/min-available",
)
"""Annotations on pods of a gang: how many it has; the first that says anything counts."""
PLUGINS_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label on pods: their PodGroup of the scheduler-plugins (`scheduling.x-k8s.io`)."""
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""Labels on pods of a LeaderWorkerSet: whose, of which group, and which of it; 0 is the leader."""
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
"""Annotation on such pods: how many a group has."""

# --- provisioning requests and their pod templates --------------------------------------------
CHECK_CONTROLLER: Final = PREFIX + "check-controller"
"""Label: which check controller made the object, its name with "." for "/". W, R: that one."""
ADMISSION_CHECK: Final = PREFIX + "admission-check"
"""Annotation: the check that the object was made for. `RELATED_QUEUE_UNIT` says for which unit."""
CHECK_ATTEMPT: Final = PREFIX + "check-attempt"
"""Annotation: since when the unit's quota was reserved, and which retry of the check it was."""
REQUESTED_DEMAND: Final = PREFIX + "requested-demand"
"""Annotation: a digest of the unit's pod sets; another demand is requested again."""
CONSUME_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotations on pods: whose nodes they may use. W: controllers, by a check's podSetUpdates. R: the
autoscaler."""
CONSUME_REQUEST_LEGACY: Final = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
PROVISIONING_CLASS_LEGACY: Final = "cluster-autoscaler.kubernetes.io/provisioning-class-name"
"""Their older spelling; autoscalers that know no other serve ProvisioningRequest as v1beta1."""

# --- reservations -----------------------------------------------------------------------------
UNIT_UID: Final = PREFIX + "queueunit-uid"
"""Label on Reservations: for which unit. W, R: controllers, as all of this group."""
ATTEMPT: Final = PREFIX + "attempt"
"""Label on Reservations: `status.attempts` of the unit when it was asked for."""
RESERVED_JOB_NAMESPACE: Final = "reserved-job-namespace"
RESERVED_JOB_NAME: Final = "reserved-job-name"
TOTAL_RESERVATIONS: Final = "total-reservations"
"""Labels on Reservations, upstream's: whose, and how many there are together."""

# --- queues -----------------------------------------------------------------------------------
CREATED_BY_KOORD_QUEUE: Final = "create-by-koordqueue"
"""Label "true" on the queues that the scheduler made for a quota; only those are deleted."""
AVAILABLE_QUOTA: Final = (PREFIX + "available-quota-in-queue", PREFIX + "available-quota")
"""Annotations on queues: comma list, or "*", of the quotas whose units the queue takes."""
ALL_QUOTAS: Final = "*"
QUOTA_FULLNAME: Final = PREFIX + "quota-fullname"
"""Annotation on queues: the node of an ElasticQuotaTree whose queue it is."""
PARENT_QUOTA_FULLNAME: Final = PREFIX + "parent-quota-fullname"
"""Annotation on the queues made for such nodes: the node above."""
WAIT_FOR_PODS_RUNNING: Final = PREFIX + "wait-for-pods-running"
ADMISSION_CHECK_TIMEOUT: Final = PREFIX + "admission-check-timeout"
"""Annotation on queues: how long a reserved unit waits for its checks, in place of the scheduler's
setting `admissionCheckTimeout`; 0: without limit. W: users. R: the scheduler."""
ENABLE_PREEMPTION: Final = PREFIX + "enable-queueunit-preemption"
"""Annotation "true" on queues: a unit may evict others of lower priority that do not run yet."""
PREEMPT_RUNNING: Final = PREFIX + "preempt-running-queueunits"
"""Annotation "true" on queues that preempt: those that run as well. Not upstream's."""
MAX_DEPTH: Final = PREFIX + "max-depth"
STATUS_REFRESH_INTERVAL: Final = PREFIX + "queue-items-refresh-interval"
DISABLE_SHOW_ITEMS: Final = PREFIX + "disable-show-queue-items"
PRIORITY_THRESHOLD: Final = PREFIX + "priority-threshold"
"""Annotation on queues: from which priority on policy Intelligent takes a unit for a high one."""
BACKFILL: Final = PREFIX + "backfill"
"""Annotation "true" on queues: units behind a refused one start only if they do not delay it."""
STOP_POLICY: Final = PREFIX + "stop-policy"
"""Annotation on queues: Hold lets none of its units start, HoldAndDrain asks back what has."""
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
RECLAIM_POLICY: Final = PREFIX + "reclaim-policy"
"""Annotation on quotas: which units may be evicted to get back, within min, what others borrow:
Never (the default), LowerPriority or Any. Not upstream's."""
QUEUE_POLICY: Final = PREFIX + "queue-policy"
"""Label on quotas: the policy of the queue made for them. Absent: never touched again."""
QUOTA_QUEUE_ENABLE: Final = "quota-koord-queue-enable"
"""Annotation on quotas, copied to their queue."""
COPIED_ANNOTATIONS: Final = PREFIX + "copied-annotations"
"""Annotation on the queues made for quotas: comma list of the annotations that are the quota's, and
go when it has them no more. W, R: the scheduler."""

# --- elastic quota trees ----------------------------------------------------------------------
LEND_LIMIT: Final = "alibabacloud.com/lendlimit"
"""Attribute of a node: a JSON resource list, how much of its min others may use while it idles."""
TREE_PREEMPT_POLICY: Final = "preempt-policy"
"""Attribute of a node. W: users. Upstream alone acts on it; an event says that it does nothing.
"""
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
"""Its one value that does something upstream: what is not preemptible counts as if those of lower
priority had left, although they are not evicted."""
MAX_JOBS: Final = PREFIX + "max-jobs"
"""Pseudo resource in min and max of a node: how many jobs."""
MAX_PREEMPTIBLE_JOBS: Final = PREFIX + "max-preempible-jobs"
"""Label on the tree (spelled so): how many jobs that may be preempted, in all of it."""
JOB_COUNTS: Final = frozenset({MAX_JOBS, MAX_PREEMPTIBLE_JOBS})
"""What every unit asks for one of, beside its resources."""
TREE_ROOT: Final = "root"
"""Its name, whatever the object says."""

DEFAULT_QUEUE: Final = "default"
"""Where units wait that have no queue of their own (plugins defaultgroup, ResourceQuota)."""

DEFAULT_QUEUE_NAMESPACE: Final = "koord-queue"
"""Where queues are, if a flag does not say otherwise."""

# --- namespaces -------------------------------------------------------------------------------
MAX_PRIORITY: Final = PREFIX + "max-priority"
"""Annotation on namespaces: no job in it has a higher priority, whatever it or its PriorityClass
says; and on queues: no unit in it counts as if it had. W: administrators, R: the controllers of
namespaces, the scheduler of queues."""
UNREAD_CEILING: Final = 0
"""Counts for one that is there and cannot be read: the priority of a job that asks for none."""
AVAILABLE_QUOTA_IN_NAMESPACE: Final = (
    PREFIX + "available-quota-in-namespace",
    PREFIX + "available-quota",
)
"""Annotations on namespaces: comma list, or "*", of the quotas that their units may name; counts
with the setting `quotaNamespaces: listed`, and for trees with the gate
ElasticQuotaTreeCheckAvailableQuota. W: administrators of namespaces. R: scheduler, and the chart's
policy."""

# --- nodes ------------------------------------------------------------------------------------
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
"""Annotation on nodes: JSON {resources, reservedCPUs, applyPolicy}, taken off capacity."""

ROOT_QUOTA: Final = "koordinator-root-quota"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"
SPECIAL_QUOTAS: Final = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})
"""Quotas that koord-scheduler makes itself; they never get a queue."""


DECIDING_LABELS: Final = (QUOTA_NAME, *QUOTA_NAME_LEGACY, PREEMPTIBLE, TREE_PREEMPTIBLE)
"""Labels of units that decide where, and as what, they are charged."""

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
    for key in QUOTA_SPELLINGS:
        if name := labels.get(key):
            return name
    return ""


def read_tree_quota_name(labels: Mapping[str, str]) -> str:
    """Return the node of an ElasticQuotaTree that labels of a job, unit or pod name, or ""."""
    return labels.get(TREE_QUOTA_NAME) or labels.get(QUOTA_NAME) or ""


def read_queue_name(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return the queue that a job or unit names itself, by label or annotation, or ""."""
    return read_annotation(labels, QUEUE_NAME) or read_annotation(annotations, QUEUE_NAME) or ""


def read_available_quotas(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the quotas that a queue's annotations list, "*" for all; empty where none does."""
    return _read_list(annotations, AVAILABLE_QUOTA)


def read_quotas_of_namespace(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the quotas that a namespace's annotations list, "*" for all; empty: none does."""
    return _read_list(annotations, AVAILABLE_QUOTA_IN_NAMESPACE)


def _read_list(annotations: Mapping[str, str], keys: tuple[str, ...]) -> frozenset[str]:
    for key in keys:
        listed = read_annotation(annotations, key)
        if listed is not None:
            return frozenset(name.strip() for name in listed.split(",")) - {""}
    return frozenset()


ALL_KEYS: Final = frozenset(
    text
    for name, value in list(globals().items())
    if name.isupper()
    for text in ((value,) if isinstance(value, str) else value if isinstance(value, tuple) else ())
    if isinstance(text, str) and "/" in text.rstrip("/")
)
"""Every key of this module, whatever object carries it; not the older spellings of our own."""
