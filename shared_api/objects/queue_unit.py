"""QueueUnit (`scheduling.x-k8s.io/v1alpha1`): one job's claim on a queue.

The unit is where the two programs meet. Which program may move its phase is in
`shared_api.queue_unit_phases`; what "charged" means is `occupies_quota` there.
`crds/queueunits.yaml` is generated from these types; `field_schema` says what its words mean.
"""

from __future__ import annotations

from typing import Annotated, Final

from shared_api.objects.field_schema import (
    DNS_LABEL,
    INT32_MIN,
    LABEL_LENGTH,
    MESSAGE_LENGTH,
    QUALIFIED_NAME_LENGTH,
    SUBDOMAIN_LENGTH,
    UID_LENGTH,
    entries,
    flag,
    int32,
    int64,
    items,
    moment,
    part,
    rule,
    rules,
    text,
)
from shared_api.objects.meta import NO_UID, Condition, ObjectMeta, Timestamp, Uid, WireStruct
from shared_api.objects.pod import PodTemplate, QuantityText, ResourceQuantities

API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"
KIND: Final = "QueueUnit"

DEFAULT_REQUIREMENT: Final = "koord-queue/default-requirement"
"""Name of the one admission of a unit that has no pod sets (upstream's constant)."""

MAX_POD_SETS: Final = 32
"""Upstream's limit is 8, which a RayCluster with eight worker groups already passes."""
MAX_RESOURCES: Final = 64
"""Resource names in one list; a pod rarely asks for more than five."""
MAX_ADMISSION_CHECKS: Final = 8
MAX_TOLERATIONS: Final = 8
MAX_CONDITIONS: Final = 16
"""Upstream's limit is 8, and its five types leave little for other reporters."""
MAX_LABELS: Final = 64
MAX_POD_OWNERS: Final = 32

_NOT_NEGATIVE = rule(
    "type(self) == string ? !string(self).startsWith('-') : int(self) >= 0",
    "a demand must not be negative",
)
_MIN_WITHIN_COUNT = rule(
    "!has(self.minCount) || self.minCount <= self.count",
    "minCount must not be larger than count",
    field_path=".minCount",
)


def _fixed_once_set(field: str) -> str:
    return f"(!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field}))"


# The rest may move: a job is served in a newer version, or has a newer resourceVersion. With
# another group the controllers would not find the unit, and create a second one for the same job.
_SAME_GROUP = (
    "(!has(oldSelf.apiVersion) || (has(self.apiVersion)"
    " && self.apiVersion.split('/')[0] == oldSelf.apiVersion.split('/')[0]))"
)
# `namespace` is a reserved word of CEL, and written so there.
_SAME_CONSUMER = rule(
    " && ".join(
        (_SAME_GROUP, *map(_fixed_once_set, ("kind", "__namespace__", "name", "uid"))),
    ),
    "a unit stands for one job: group, kind, namespace, name and uid of consumerRef are immutable",
)
# On the whole object: a rule of `spec` is not asked when the spec itself is taken away.
CONSUMER_STAYS: Final = rule(
    "!has(oldSelf.spec) || !has(oldSelf.spec.consumerRef)"
    " || (has(self.spec) && has(self.spec.consumerRef))",
    "consumerRef cannot be removed",
    field_path=".spec",
)

DemandQuantities = dict[str, Annotated[QuantityText, rules(_NOT_NEGATIVE)]]
"""A resource list whose amounts must not be negative; decoded like any other."""


class ConsumerReference(WireStruct, frozen=True):
    """The job that a unit stands for (a core/v1 ObjectReference)."""

    api_version: Annotated[str, text("Group and version.", longest=QUALIFIED_NAME_LENGTH)] = ""
    kind: Annotated[str, text("Kind of the job.", longest=LABEL_LENGTH)] = ""
    namespace: Annotated[str, text("Its namespace.", longest=LABEL_LENGTH)] = ""
    name: Annotated[str, text("Its name.", longest=SUBDOMAIN_LENGTH)] = ""
    uid: Annotated[Uid, text("Its uid.", longest=UID_LENGTH)] = NO_UID
    resource_version: Annotated[str, text("Not used.", longest=UID_LENGTH)] = ""
    field_path: Annotated[str, text("Not used.", longest=SUBDOMAIN_LENGTH)] = ""


class PodSet(WireStruct, frozen=True):
    """Pods of one shape: `count` pods of `template`."""

    name: Annotated[
        str,
        text("Name of the pod set.", longest=LABEL_LENGTH, pattern=DNS_LABEL, defaulted=True),
    ] = "main"
    count: Annotated[int, int32("How many pods.", defaulted=True)] = 1
    min_count: Annotated[
        int | None, int32("The fewest pods that the job can run with; absent: all.", least=1)
    ] = None
    template: Annotated[
        PodTemplate,
        part("The fields of the pod template that scheduling, autoscaling and checks read."),
    ] = PodTemplate()


class QueueUnitSpec(WireStruct, frozen=True):
    """The demand of the job: `podSet`, or else `request`, or else `resource`."""

    consumer_ref: Annotated[
        Annotated[ConsumerReference, rules(_SAME_CONSUMER)] | None,
        part("The job that the unit stands for.", atomic=True),
    ] = None
    priority: Annotated[
        int, int32("Units of higher priority go first.", least=INT32_MIN, defaulted=True)
    ] = 0
    queue: Annotated[str, text("Name of the queue.", longest=SUBDOMAIN_LENGTH)] = ""
    resource: Annotated[
        DemandQuantities, entries("Deprecated: total demand of the job.", most=MAX_RESOURCES)
    ] = {}
    pod_set: Annotated[
        tuple[Annotated[PodSet, rules(_MIN_WITHIN_COUNT)], ...],
        items("The job's pods, by shape.", least=1, most=MAX_POD_SETS, key="name"),
    ] = ()
    priority_class_name: Annotated[
        str, text("The job's priority class.", longest=SUBDOMAIN_LENGTH)
    ] = ""
    request: Annotated[
        DemandQuantities,
        entries("Total demand of a job that is not described by pods.", most=MAX_RESOURCES),
    ] = {}
    active: Annotated[
        bool | None, flag("False stops the job and keeps it out of the queue; absent: true.")
    ] = None
    maximum_execution_time_seconds: Annotated[
        int | None,
        int32("How long the job's pods may run, all runs together; absent: without limit."),
    ] = None


class ReclaimState(WireStruct, frozen=True):
    """Replicas that the scheduler reclaims."""

    replicas: Annotated[int, int64("How many.")] = 0


class Admission(WireStruct, frozen=True):
    """What one pod set was granted, and how many of its pods run."""

    name: Annotated[
        str,
        text(
            f"The pod set, or {DEFAULT_REQUIREMENT} when there is none.",
            longest=QUALIFIED_NAME_LENGTH,
            required=True,
        ),
    ] = ""
    replicas: Annotated[int, int64("Pods that may run.", required=True)] = 0
    running: Annotated[int, int64("Pods that run.", required=True)] = 0
    pending: Annotated[int | None, int64("Pods that exist and do not run yet.")] = None
    failed: Annotated[int | None, int64("Pods that failed.")] = None
    resources: Annotated[
        ResourceQuantities,
        entries(
            "What all of them were granted together; later changes of the spec do not count.",
            most=MAX_RESOURCES,
        ),
    ] = {}
    reclaim_state: Annotated[ReclaimState | None, part("What the scheduler reclaims.")] = None


class Toleration(WireStruct, frozen=True):
    """A core/v1 toleration."""

    key: Annotated[str, text("The taint's key.", longest=QUALIFIED_NAME_LENGTH)] = ""
    operator: Annotated[str, text("Equal (default) or Exists.", longest=LABEL_LENGTH)] = ""
    value: Annotated[str, text("The taint's value.", longest=LABEL_LENGTH)] = ""
    effect: Annotated[str, text("The taint's effect; empty: all.", longest=LABEL_LENGTH)] = ""
    toleration_seconds: Annotated[
        int | None,
        int64("How long a NoExecute taint is tolerated; absent: without limit.", least=None),
    ] = None


class PodSetUpdate(WireStruct, frozen=True):
    """Changes that an admission check requests in the template of a pod set."""

    name: Annotated[str, text("The pod set.", longest=LABEL_LENGTH, required=True)] = ""
    labels: Annotated[
        dict[str, Annotated[str, text("A label's value.", longest=LABEL_LENGTH)]],
        entries("Labels to add.", most=MAX_LABELS),
    ] = {}
    annotations: Annotated[
        dict[str, Annotated[str, text("An annotation's value.", longest=MESSAGE_LENGTH)]],
        entries("Annotations to add.", most=MAX_LABELS),
    ] = {}
    node_selector: Annotated[
        dict[str, Annotated[str, text("A label's value.", longest=LABEL_LENGTH)]],
        entries("Node labels to require.", most=MAX_LABELS),
    ] = {}
    tolerations: Annotated[
        tuple[Toleration, ...], items("Tolerations to add.", most=MAX_TOLERATIONS)
    ] = ()


class AdmissionCheckState(WireStruct, frozen=True):
    """The verdict of one admission check."""

    name: Annotated[
        str, text("Name of the AdmissionCheck.", longest=QUALIFIED_NAME_LENGTH, required=True)
    ] = ""
    state: Annotated[
        str,
        text(
            "The verdict; Retry and Rejected release the quota, and the unit is requeued.",
            longest=LABEL_LENGTH,
            choices=("Pending", "Ready", "Retry", "Rejected"),
            required=True,
        ),
    ] = "Pending"
    last_transition_time: Annotated[Timestamp | None, moment("When the verdict last changed.")] = (
        None
    )
    message: Annotated[str, text("The verdict's reason.", longest=MESSAGE_LENGTH)] = ""
    requeue_after_seconds: Annotated[
        int | None, int32("With Retry: the shortest wait before the unit is tried again.")
    ] = None
    retry_count: Annotated[int | None, int32("How often the verdict was Retry.")] = None
    pod_set_updates: Annotated[
        tuple[PodSetUpdate, ...],
        items("Changes to apply before the job starts.", most=MAX_POD_SETS),
    ] = ()


class PodState(WireStruct, frozen=True):
    """Deprecated counts of upstream's job side."""

    running: Annotated[int, int32("Pods that run.")] = 0
    pending: Annotated[int, int32("Pods that do not run yet.")] = 0


class RequeueState(WireStruct, frozen=True):
    """How often the unit was requeued, and when it may be tried again."""

    count: Annotated[int, int32("How often it was requeued.")] = 0
    requeue_at: Annotated[Timestamp | None, moment("When it may be tried again.")] = None


class ReclaimablePod(WireStruct, frozen=True):
    """Pods of a pod set whose quota is no longer needed."""

    name: Annotated[str, text("The pod set.", longest=LABEL_LENGTH, required=True)] = ""
    count: Annotated[int, int32("How many; only grows while the unit runs.", required=True)] = 0


class Placement(WireStruct, frozen=True):
    """What an admission is charged to; later changes of labels and spec do not count."""

    quota: Annotated[
        str, text("The quota that the admission is charged to.", longest=SUBDOMAIN_LENGTH)
    ] = ""
    queue: Annotated[
        str, text("The queue that the unit named when it was admitted.", longest=SUBDOMAIN_LENGTH)
    ] = ""
    labels: Annotated[
        dict[str, Annotated[str, text("A label's value.", longest=LABEL_LENGTH)]],
        entries(
            "The unit's labels about quota and preemption when it was admitted.", most=MAX_LABELS
        ),
    ] = {}


class Evictions(WireStruct, frozen=True):
    """How often the unit was evicted so that another could start."""

    count: Annotated[int, int32("How often.")] = 0
    last_time: Annotated[Timestamp | None, moment("When that was last requested.")] = None
    queue: Annotated[
        str, text("The queue of the unit that it was last evicted for.", longest=SUBDOMAIN_LENGTH)
    ] = ""


class QueueUnitStatus(WireStruct, frozen=True):
    """The state of the unit. Written by the two programs and by check controllers."""

    # Its known values are those of `queue_unit_phases`, which stands on this module; the
    # generator puts them into the CRD.
    phase: Annotated[str, text("The unit's phase.", longest=LABEL_LENGTH, defaulted=True)] = (
        "Enqueued"
    )
    attempts: Annotated[int, int64("How often nodes were requested in strict mode.")] = 0
    message: Annotated[str, text("Why the unit waits.", longest=MESSAGE_LENGTH)] = ""
    last_update_time: Annotated[
        Timestamp | None, moment("When the phase or the counts last changed.")
    ] = None
    last_allocate_time: Annotated[
        Timestamp | None, moment("When the unit was last granted quota.")
    ] = None
    admissions: Annotated[
        tuple[Admission, ...],
        items("What was granted, by pod set.", most=MAX_POD_SETS, key="name"),
    ] = ()
    admission_checks: Annotated[
        tuple[AdmissionCheckState, ...],
        items(
            "The verdicts of admission checks.",
            most=MAX_ADMISSION_CHECKS,
            key="name",
            by_item=True,
        ),
    ] = ()
    pod_state: Annotated[PodState | None, part("Deprecated: counts of pods.")] = None
    # No key: only the two programs write them, and to check at each write that types differ costs
    # 7 % of what the API server allocates for it. Readers take the first of a type.
    conditions: Annotated[
        tuple[Condition, ...],
        items(
            "The state in more detail: QuotaReserved, Admitted, PodsReady, Finished, Evicted."
            " Adopted proves that the job ran before the queue knew of it.",
            most=MAX_CONDITIONS,
        ),
    ] = ()
    requeue_state: Annotated[RequeueState | None, part("How often the unit was requeued.")] = None
    reclaimable_pods: Annotated[
        tuple[ReclaimablePod, ...],
        items("Pods whose quota is no longer needed.", most=MAX_POD_SETS, key="name"),
    ] = ()
    accumulated_past_execution_time_seconds: Annotated[
        int | None, int32("How long the job's pods ran in earlier runs.")
    ] = None
    pod_owners: Annotated[
        tuple[Annotated[Uid, text("A uid.", longest=UID_LENGTH)], ...],
        items(
            "Uids of the job's children whose pods are not marked with the unit.",
            most=MAX_POD_OWNERS,
            unique=True,
        ),
    ] = ()
    placement: Annotated[
        Placement | None,
        part("What the admission is charged to, until its usage is released.", atomic=True),
    ] = None
    evictions: Annotated[
        Evictions | None, part("How often the unit was evicted so that another could start.")
    ] = None
    job_creation_timestamp: Annotated[
        Timestamp | None,
        moment("When the job was created, if earlier than the unit; it orders the unit then."),
    ] = None


class QueueUnit(WireStruct, frozen=True):
    """One job's claim on a queue: it waits here until its whole demand fits its quota."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueUnitSpec = QueueUnitSpec()
    # An Enqueued unit costs no write: it reads so from its birth, in watches and columns too, and
    # Waiting (`waiting_reasons.NOT_WRITTEN`) until the reason is written.
    status: Annotated[
        QueueUnitStatus, part(default={"phase": "Enqueued", "message": "Waiting"})
    ] = QueueUnitStatus()


class SalvagedUnit(QueueUnit, frozen=True):
    """A unit whose demand cannot be read; here it has none."""

    unreadable: str = ""
    """Why, with the path of the field in the object; never on the wire."""
