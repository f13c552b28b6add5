"""Every label and annotation key that is read or written.

They are grouped by the object that has them. "W" names the writer, "R" the reader. Keys with the
prefix `koord-queue/` are also read with `kube-queue/`, the prefix before the rename
(`read_annotation` does that); they are written only with the new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import islice
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
"""Older spellings of the same label, which are read after it, in this order."""
QUOTA_SPELLINGS: Final = (QUOTA_NAME, *QUOTA_NAME_LEGACY)
TREE_QUOTA_NAME: Final = "quota.scheduling.alibabacloud.com/name"
"""Label on jobs and units: a quota of an ElasticQuotaTree; read before `QUOTA_NAME` for trees."""
PREEMPTIBLE: Final = QUOTA_PREFIX + "preemptible"
"""Label; only "false" has an effect: such pods must also fit into the quota's min."""
TREE_PREEMPTIBLE: Final = "quota.scheduling.alibabacloud.com/preemptible"
"""The same label, for quotas of an ElasticQuotaTree."""
NOT_PREEMPTIBLE: Final = "false"
"""The value of these labels that has an effect."""
QUEUE_NAME: Final = PREFIX + "queue-name"
"""Label or annotation on jobs and units: an explicit queue. W: users. R: both."""
SUSPEND: Final = "scheduling.x-k8s.io/suspend"
"""Annotation on jobs: "true" requests queueing; it suspends kinds without a native field."""
USER: Final = PREFIX + "user"
"""Label on jobs, copied to units: who submitted it, or a hash of that. W: users. R:
forecasts, since the jobs of one user resemble each other."""
GROUP: Final = PREFIX + "group"
"""Label on jobs, copied to units: the group that it was submitted for. W: users. R: scheduler."""
SUBMITTED_BY: Final = PREFIX + "submitted-by"
"""Annotation on jobs, copied to units: the exact name of the user who submitted it, which a label
cannot always hold. W: the API server, by an admission policy. R: scheduler."""
PRIORITY: Final = "scheduling.x-k8s.io/priority"
"""Annotation on jobs: an int32 that overrides the priority class."""
ACTIVE: Final = "scheduling.x-k8s.io/active"
"""Annotation on jobs: "false" stops the job for good, "true" makes it pending again."""
MAX_EXEC_TIME: Final = "scheduling.x-k8s.io/max-exec-time-seconds"
"""Annotation on jobs: seconds that the job's pods may run, in all runs together."""
RUNNING_TIMEOUT: Final = PREFIX + "running-timeout"
PARTIAL_RUNNING_TIMEOUT: Final = PREFIX + "partial-running-timeout"
POD_CREATION_TIMEOUT: Final = PREFIX + "pod-creation-timeout"
BACKOFF_TIMEOUT: Final = PREFIX + "backoff-timeout"
"""Annotations on jobs that override the controllers' settings of these names; a duration such as
10m, or seconds."""
BACKOFF_LIMIT: Final = PREFIX + "backoff-limit"
"""Annotation on jobs: after how many backoffs the job is deactivated; 0: never."""
MIN_PARALLELISM: Final = PREFIX + "min-parallelism"
"""Annotation on jobs: the least number of pods at a time with which the job can run, if its whole
parallelism does not fit. W: users. R: controllers."""
KUEUE_MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
"""Kueue's name for it, which is read if ours is not set."""
CHECKPOINTED_AT: Final = PREFIX + "checkpointed-at"
"""Annotation on jobs, copied to units: when the job last saved what it has computed (RFC 3339); an
eviction loses only what came later. W: users and their programs. R: scheduler."""
DELETE_LOST_PODS_AFTER: Final = PREFIX + "delete-lost-pods-after"
"""Annotation on jobs: after which time its pods are deleted whose node is gone or unreachable; a
duration, or seconds, of at least a minute. Not upstream's. W: users. R: controllers, if their
setting `deleteLostPods` is on."""
GATED_BY: Final = PREFIX + "gated-by"
"""Annotation on jobs and units: comma-separated names of what holds the job back, such as a
workflow engine, which removes its name when the job may be queued. Only the names that the job has
when its unit is created count. W: users and other programs; controllers copy it. R: scheduler."""
KUEUE_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
"""Kueue's name for it. Names in either annotation of a job count."""
MAX_GATES: Final = 8
"""How many of them count. A job of one workflow engine has one."""
MAX_GATE_CHARS: Final = 317
"""The longest qualified name: a DNS subdomain of 253 characters, a slash, and 63 characters."""

# --- queue units ------------------------------------------------------------------------------
MANAGED_BY: Final = PREFIX + "managed-by"
"""Annotation on units. W: controllers, at creation. Absent: the scheduler does both parts."""
JOB_CREATED_AT: Final = PREFIX + "job-created-at"
"""Annotation on units: the job's creationTimestamp. W: controllers. It decides which pods may
belong to the job, but not the place in the queue, since users who may edit units may write it
(`status.jobCreationTimestamp` does)."""
COPIED_LABELS: Final = PREFIX + "copied-labels"
"""Annotation on units: comma-separated user labels that were copied from the job, and are removed
when the job no longer has them. W, R: controllers."""
TEMPLATE_DIFFERENCES: Final = PREFIX + "template-differences"
"""Annotation on units: how the pods that the API server would create differ from the job's
templates (requests that a LimitRange fills in), and why. W: controllers. R: users."""
PODS_REFUSED: Final = PREFIX + "pods-refused"
"""Annotation on units: why the API server would currently refuse the job's pods; the unit is on
hold as long as it is set. W: controllers. R: the scheduler."""
MAX_REFUSAL_CHARS: Final = 512
"""Longest part of it that is passed on."""
LIMIT_REACHED: Final = PREFIX + "backoff-limit-reached"
TIME_EXCEEDED: Final = PREFIX + "max-exec-time-exceeded"
UPDATES_CONFLICT: Final = PREFIX + "pod-set-updates-conflict"
"""Annotations on units that were deactivated for these reasons: the value of the job's `active`
annotation then; only another value later makes the unit active again. W, R: controllers."""
DEACTIVATION_MARKS: Final = (LIMIT_REACHED, TIME_EXCEEDED, UPDATES_CONFLICT)

PRIORITY_BOOST: Final = PREFIX + "priority-boost"
"""Annotation on units, never copied from a job: what is added to the priority, a whole number of at
most `MAX_BOOST` either way; the ceiling of the queue counts all the same. W: administrators and
their programs. R: the scheduler."""
MAX_BOOST: Final = 1000

# --- jobs and pod templates -------------------------------------------------------------------
RELEASED_AT: Final = PREFIX + "released-at"
"""Annotation on jobs: time of the last release. W: controllers, in the release patch."""
TOUCHED_AT: Final = PREFIX + "touched-at"
"""Annotation on jobs: when their operator was last woken because there were no pods. W, R:
controllers."""
MIN_RESOURCES: Final = PREFIX + "min-resources"
"""Annotation on Argo Workflows: what the whole workflow is charged, JSON or YAML. W: users."""
POD_SET_UPDATES: Final = PREFIX + "pod-set-updates"
"""Annotation on jobs: what the last release has added to the pod templates for admission checks, so
that the next one removes it. JSON. W, R: controllers."""
RELEASED_PARALLELISM: Final = PREFIX + "released-parallelism"
"""Annotation on jobs that were released with fewer pods than they request: "4/10" is four of ten.
It is valid while the job's parallelism is the first number. W, R: controllers."""
MARKED_UID: Final = PREFIX + "marked-uid"
"""Annotation on jobs: the job's own uid; the controllers hold it, or have released it. Any other
value says nothing: a copy of a job is another one. W: controllers, with the suspension and the
release; the chart's policies refuse it to others. R: those policies, controllers."""
GRANTED_COUNT: Final = PREFIX + "granted-count"
"""Annotation on released jobs with `MARKED_UID` whose pods one field counts: how many were granted,
a plain number. W, R: as `MARKED_UID`."""
RELATED_QUEUE_UNIT: Final = PREFIX + "related-queueunit"
"""Annotation on pod templates, pods, Reservations, provisioning requests: `namespace/name` of the
unit."""
STAMPED_QUOTA: Final = PREFIX + "stamped-quota"
"""Annotation on pod templates and pods: the quota label's value, if a release has set it; the next
release may set another. W, R: controllers."""
STAMPED_PREEMPTIBLE: Final = PREFIX + "stamped-preemptible"
"""Annotation on pod templates and pods: comma-separated preemptible labels that a release has set.
W, R: controllers."""
RELATED_POD_SET: Final = PREFIX + "related-podset-name"
"""Annotation on pod templates and pods, label on Reservations: name of the pod set."""
MANAGED_NAMESPACE: Final = PREFIX + "managed"
"""Label on namespaces: "true" makes every job in it managed."""
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""Label on jobs that Kueue manages; they are ignored."""
KUEUE_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
"""Label on jobs of Kueue: their WorkloadPriorityClass. R: the scheduler in shadow mode."""

# --- pods with a scheduling gate --------------------------------------------------------------
ADMISSION_GATE: Final = PREFIX + "admission"
"""Scheduling gate of pods that wait for admission. W: users, or the admission policy, when a pod is
created; the controllers remove it. R: both."""
SCHEDULE_ADMISSION: Final = "alibabacloud.com/schedule-admission"
"""Label on pods: the same gate for Alibaba's scheduler, "false" (gated) or "true" (may be
scheduled). W, if the setting `scheduleAdmissionLabel` enables it: the admission policy together
with the gate, the controllers when they remove that. R: that scheduler; nothing here."""
PARKED_IN: Final = PREFIX + "parked-in"
"""Annotation on held pods: the parking quota that their quota label names while the gate is there,
so that koord-scheduler does not count what they request. With another label it says nothing. W: the
admission policy, together with the gate; the controllers remove it with that. R: controllers."""
PARKED_FROM: Final = PREFIX + "parked-from"
"""Annotation on held pods that are parked: the value that the quota label had, "" if there was no
such label. W, R: as `PARKED_IN`."""
KUEUE_POD_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""Label on pods: the group that starts together."""
KUEUE_GROUP_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
"""Annotation on pods of such a group: its number of pods."""
KOORDINATOR_POD_GROUP: Final = (
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
"""Labels on pods: their PodGroup (`scheduling.sigs.k8s.io`), which states how many it needs."""
KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/name"
"""Annotation on pods: their gang, if it has no PodGroup."""
KOORDINATOR_GANG_COUNT: Final = (
    "gang.scheduling.koordinator.sh/total-number",
    "gang.scheduling.koordinator.sh/min-available",
)
"""Annotations on pods of a gang: its number of pods; the first one that is set counts."""
PLUGINS_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
"""Label on pods: their PodGroup of the scheduler-plugins (`scheduling.x-k8s.io`)."""
LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
"""Labels on pods of a LeaderWorkerSet: its name, the group, and the index; 0 is the leader."""
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
"""Annotation on such pods: the number of pods of a group."""

# --- provisioning requests and their pod templates --------------------------------------------
CHECK_CONTROLLER: Final = PREFIX + "check-controller"
"""Label: the check controller that made the object, its name with "." for "/". W, R: that one."""
ADMISSION_CHECK: Final = PREFIX + "admission-check"
"""Annotation: the check that the object was made for. `RELATED_QUEUE_UNIT` names the unit."""
CHECK_ATTEMPT: Final = PREFIX + "check-attempt"
"""Annotation: since when the unit's quota was reserved, and which retry of the check it was."""
REQUESTED_DEMAND: Final = PREFIX + "requested-demand"
"""Annotation: a digest of the unit's pod sets; if the demand changes, a new request is made."""
CONSUME_REQUEST: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
PROVISIONING_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotations on pods: the request whose nodes they may use. W: controllers, from a check's
podSetUpdates. R: the autoscaler."""
CONSUME_REQUEST_LEGACY: Final = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
PROVISIONING_CLASS_LEGACY: Final = "cluster-autoscaler.kubernetes.io/provisioning-class-name"
"""Their older spelling; autoscalers that know only it serve ProvisioningRequest as v1beta1."""

# --- reservations -----------------------------------------------------------------------------
UNIT_UID: Final = PREFIX + "queueunit-uid"
"""Label on Reservations: uid of the unit. W, R: controllers, as for all of this group."""
ATTEMPT: Final = PREFIX + "attempt"
"""Label on Reservations: `status.attempts` of the unit when the reservation was requested."""
RESERVED_JOB_NAMESPACE: Final = "reserved-job-namespace"
RESERVED_JOB_NAME: Final = "reserved-job-name"
TOTAL_RESERVATIONS: Final = "total-reservations"
"""Labels on Reservations, upstream's: the owner, and the number of reservations of it."""

# --- queues -----------------------------------------------------------------------------------
CREATED_BY_KOORD_QUEUE: Final = "create-by-koordqueue"
"""Label "true" on queues that the scheduler made for a quota; only those are deleted."""
AVAILABLE_QUOTA: Final = (PREFIX + "available-quota-in-queue", PREFIX + "available-quota")
"""Annotations on queues: the quotas whose units the queue accepts, comma-separated, or "*"."""
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
"""Annotation "true" on queues: a unit may preempt units of lower priority that do not run yet."""
PREEMPT_RUNNING: Final = PREFIX + "preempt-running-queueunits"
"""Annotation "true" on queues with preemption: a unit may preempt running units as well. Not
upstream's."""
MAX_DEPTH: Final = PREFIX + "max-depth"
STATUS_REFRESH_INTERVAL: Final = PREFIX + "queue-items-refresh-interval"
DISABLE_SHOW_ITEMS: Final = PREFIX + "disable-show-queue-items"
PRIORITY_THRESHOLD: Final = PREFIX + "priority-threshold"
"""Annotation on queues: the least priority that the policy Intelligent treats as high."""
BACKFILL: Final = PREFIX + "backfill"
"""Annotation "true" on queues: units behind a refused one start only if they do not delay it."""
STOP_POLICY: Final = PREFIX + "stop-policy"
"""Annotation on queues: Hold lets none of its units start, HoldAndDrain also evicts started
ones."""
PREEMPT_MIN_RUNTIME: Final = PREFIX + "preempt-min-runtime"
"""Annotation on queues: how long after its admission a unit of it, or of a queue below it that
states none, is not preempted; a duration, or seconds. Not upstream's. W: administrators. R: the
scheduler."""
EVICTIONS_PER_HOUR: Final = PREFIX + "evictions-per-hour"
"""Annotation on queues: how many units may be evicted in an hour for units of the queue, a whole
number from 1. Not upstream's. W: administrators. R: the scheduler."""
MAX_EVICTIONS_PER_HOUR: Final = 100_000
"""The largest such number: 28 a second, more than is ever written."""
EVICTION_DELAY: Final = PREFIX + "eviction-delay"
"""Annotation on queues: how long a unit of it waits before others are evicted for it; a duration,
or seconds. Not upstream's. W: administrators. R: the scheduler."""
BLOCK_FOR_TEST: Final = PREFIX + "block-for-test"
"""Annotation "true" on jobs, copied to waiting units: the unit is not admitted (upstream's switch
for tests). W: users, `koord-queue hold`. R: the scheduler."""

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
"""Annotation on quotas: which units may be evicted to reclaim, within min, what others borrow:
Never (the default), LowerPriority or Any. Not upstream's."""
RECLAIM_MIN_RUNTIME: Final = PREFIX + "reclaim-min-runtime"
"""Annotation on quotas: how long after its admission a unit of a quota below it is spared when
another quota below it reclaims; of the quotas above both the lowest that states it counts. A
duration, or seconds. Not upstream's. W: administrators. R: the scheduler."""
PARKING_QUOTA: Final = PREFIX + "parking-quota"
"""Label "true" on quotas: held pods name it, and no unit is charged to it. W: the chart. R: the
scheduler."""
QUEUE_POLICY: Final = PREFIX + "queue-policy"
"""Label on quotas: the policy of the queue made for them. Absent: the policy is not updated."""
QUOTA_QUEUE_ENABLE: Final = "quota-koord-queue-enable"
"""Annotation on quotas, copied to their queue."""
COPIED_ANNOTATIONS: Final = PREFIX + "copied-annotations"
"""Annotation on queues made for quotas: comma-separated annotations that were copied from the
quota, and are removed when it no longer has them. W, R: the scheduler."""

CREATED_BY: Final = "app.kubernetes.io/created-by"
CREATED_BY_IMPORT: Final = "koord-queue-import"
"""Label on objects that `koord-queue import` has made. W: the command line. R: that, and the
scheduler, which keeps in such queues what QuotaPolicies state."""

FAIR_SHARE_FROM: Final = PREFIX + "fair-share-from"
"""Annotation on queues made for quotas: the QuotaPolicy that `spec.fairShare` is from, which is
removed when no policy states it any more. W, R: the scheduler."""

# --- elastic quota trees ----------------------------------------------------------------------
LEND_LIMIT: Final = "alibabacloud.com/lendlimit"
"""Attribute of a node: a JSON resource list, how much of its unused min others may borrow."""
TREE_PREEMPT_POLICY: Final = "preempt-policy"
"""Attribute of a node. W: users. Only upstream uses it; an event says that it has no effect.
"""
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
"""Its only value with an effect upstream: units that are not preemptible are checked as if those of
lower priority were gone, although they are not evicted."""
MAX_JOBS: Final = PREFIX + "max-jobs"
"""Pseudo resource in min and max of a node: number of jobs."""
MAX_PREEMPTIBLE_JOBS: Final = PREFIX + "max-preempible-jobs"
"""Label on the tree (sic): number of preemptible jobs in the whole tree."""
JOB_COUNTS: Final = frozenset({MAX_JOBS, MAX_PREEMPTIBLE_JOBS})
"""Pseudo resources of which every unit requests one, in addition to its resources."""
TREE_ROOT: Final = "root"
"""Name of the root of a tree, whatever its name in the object is."""

DEFAULT_QUEUE: Final = "default"
"""The queue of units without another queue (plugins defaultgroup, ResourceQuota)."""

DEFAULT_QUEUE_NAMESPACE: Final = "koord-queue"
"""Namespace of queues, unless a flag sets another."""

# --- namespaces -------------------------------------------------------------------------------
MAX_PRIORITY: Final = PREFIX + "max-priority"
"""Annotation on namespaces: the highest priority of its jobs, whatever they or their PriorityClass
say; on queues: the highest priority with which its units count. W: administrators. R: the
controllers on namespaces, the scheduler on queues."""
UNREAD_CEILING: Final = 0
"""Used for a value that cannot be parsed: the priority of a job that states none."""
AVAILABLE_QUOTA_IN_NAMESPACE: Final = (
    PREFIX + "available-quota-in-namespace",
    PREFIX + "available-quota",
)
"""Annotations on namespaces: the quotas that their units may name, comma-separated, or "*"; used
with the setting `quotaNamespaces: listed`, and for trees with the gate
ElasticQuotaTreeCheckAvailableQuota. W: administrators of namespaces. R: the scheduler, and the
chart's policy."""

# --- nodes ------------------------------------------------------------------------------------
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
"""Annotation on nodes: JSON {resources, reservedCPUs, applyPolicy}, subtracted from capacity."""

# --- leases -----------------------------------------------------------------------------------
WRITES_END: Final = PREFIX + "writes-end"
"""Annotation on the Lease of a program: seconds before its expiry after which its holder sends
nothing, and who promises that ("4 host_1a2b"). W, R: the candidates of the election."""

ROOT_QUOTA: Final = "koordinator-root-quota"
SYSTEM_QUOTA: Final = "koordinator-system-quota"
DEFAULT_QUOTA: Final = "koordinator-default-quota"
SPECIAL_QUOTAS: Final = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})
"""Quotas that koord-scheduler creates itself; they never get a queue."""


DECIDING_LABELS: Final = (QUOTA_NAME, *QUOTA_NAME_LEGACY, PREEMPTIBLE, TREE_PREEMPTIBLE)
"""Labels of units that decide to which quota, and how, they are charged."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}")
"""Integers as Go parses them: Python's int() also accepts 1_000 and digits of other scripts."""


def read_annotation(annotations: Mapping[str, str], key: str) -> str | None:
    """Return the value of `key`, or of its `kube-queue/` spelling, or None."""
    if not annotations:
        return None
    value = annotations.get(key)
    return annotations.get(_legacy_spelling(key)) if value is None else value


def spellings(key: str) -> tuple[str, str]:
    """Return the two keys that `read_annotation` tries for a key of `koord-queue/`."""
    return (key, _legacy_spelling(key))


@cache  # annotations are read by two dozen names
def _legacy_spelling(key: str) -> str:
    """Return the `kube-queue/` spelling of a key of `koord-queue/`; any other key unchanged."""
    return LEGACY_PREFIX + key.removeprefix(PREFIX) if key.startswith(PREFIX) else key


def split_gates(text: str) -> tuple[str, ...]:
    """Return the names in the value of `GATED_BY`, each once, in their order; at most `MAX_GATES`.

    What is empty or longer than a qualified name can be is no name.
    """
    names = dict.fromkeys(name.strip() for name in text.split(","))
    valid = (name for name in names if 0 < len(name) <= MAX_GATE_CHARS)
    return tuple(islice(valid, MAX_GATES))


def read_gates(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that hold a job back, by its annotations of either key."""
    texts = (read_annotation(annotations, GATED_BY), annotations.get(KUEUE_GATED_BY))
    return split_gates(",".join(filter(None, texts)))


def read_int32(text: str | None, default: int | None) -> int | None:
    """Return the int32 of an annotation; the default if it is absent or not an int32."""
    if not text or _INTEGER.fullmatch(text) is None:
        return default
    number = int(text)
    return number if -(2**31) <= number < 2**31 else default


def read_boost(annotations: Mapping[str, str]) -> int | None:
    """Return what is added to a unit's priority; 0 if nothing is; None if that is no such number.

    Asked of every unit that comes, and few have it: one spelling is looked for.
    """
    if PRIORITY_BOOST not in annotations:
        return 0
    boost = read_int32(annotations[PRIORITY_BOOST], None)
    return boost if boost is not None and abs(boost) <= MAX_BOOST else None


TRUE_TEXTS: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE_TEXTS: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""The spellings of truth values in annotations, as Go parses them."""


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
    """Return the quotas that a queue's annotations list, "*" for all; empty if none is set."""
    return _read_list(annotations, AVAILABLE_QUOTA)


def is_managed_queue(labels: Mapping[str, str]) -> bool:
    """Return whether the scheduler made the queue with these labels, and keeps it in step."""
    return labels.get(CREATED_BY_KOORD_QUEUE) == "true"


def read_quotas_of_namespace(annotations: Mapping[str, str]) -> frozenset[str]:
    """Return the quotas that a namespace's annotations list, "*" for all; empty if none is set."""
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
"""Every key of this module, for all objects, without the older spellings of `koord-queue/`."""
