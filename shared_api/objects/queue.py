"""Queue (`scheduling.x-k8s.io/v1alpha1`): an order in which units wait.

`crds/queues.yaml` is generated from these types; `field_schema` says what its words mean.
"""

from __future__ import annotations

from typing import Annotated, Final

from shared_api.objects.field_schema import (
    INT32_MIN,
    LABEL_LENGTH,
    QUALIFIED_NAME_LENGTH,
    SUBDOMAIN_LENGTH,
    entries,
    int32,
    items,
    part,
    text,
)
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

READY: Final = "Ready"

MAX_ADMISSION_CHECKS: Final = 8
"""The number of check states that fit into the status of a unit (upstream's limit)."""
MAX_SELECTOR_TERMS: Final = 32
MAX_SHOWN_ITEMS: Final = 100
"""Waiting units that the status lists; more would make every write of it expensive."""
MAX_ITEM_LISTS: Final = 8
"""Keys of `queueItemDetails`; upstream writes one, `active`."""
MAX_CONDITIONS: Final = 16


class LabelSelectorRequirement(WireStruct, frozen=True):
    """One expression of a label selector."""

    key: Annotated[str, text("The label's key.", longest=QUALIFIED_NAME_LENGTH, required=True)] = ""
    operator: Annotated[
        str,
        text(
            "How the label's value relates to `values`.",
            longest=LABEL_LENGTH,
            choices=("In", "NotIn", "Exists", "DoesNotExist"),
            required=True,
        ),
    ] = ""
    values: Annotated[
        tuple[Annotated[str, text("A label's value.", longest=LABEL_LENGTH)], ...],
        items("For In and NotIn: the values.", most=MAX_SELECTOR_TERMS),
    ] = ()


class LabelSelector(WireStruct, frozen=True):
    """Selects objects by their labels; an empty selector selects all."""

    match_labels: Annotated[
        dict[str, Annotated[str, text("A label's value.", longest=LABEL_LENGTH)]],
        entries("Labels that an object must have.", most=MAX_SELECTOR_TERMS),
    ] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        items("Expressions that must all be true.", most=MAX_SELECTOR_TERMS),
    ] = ()


class AdmissionCheckReference(WireStruct, frozen=True):
    """A check that units of the queue need, if the selector matches their labels."""

    name: Annotated[
        str, text("Name of the AdmissionCheck.", longest=SUBDOMAIN_LENGTH, required=True)
    ] = ""
    label_selector: Annotated[
        LabelSelector | None,
        part("Which units need the check, by their labels; absent: all.", atomic=True),
    ] = None


class QueueSpec(WireStruct, frozen=True):
    """The desired state of the queue."""

    queue_policy: Annotated[
        str,
        text(
            "Order in which units are tried: Priority, Block, FIFO, Intelligent, or a policy of"
            " a plugin.",
            longest=LABEL_LENGTH,
        ),
    ] = ""
    priority: Annotated[
        int | None,
        int32("Queues of higher priority are tried first; absent: 0.", least=INT32_MIN),
    ] = None
    priority_class_name: Annotated[str, text("Stored, and not used.", longest=SUBDOMAIN_LENGTH)] = (
        ""
    )
    # No key: the same check may stand twice, with two selectors.
    admission_checks: Annotated[
        tuple[AdmissionCheckReference, ...],
        items(
            "Checks that must be Ready before a unit of this queue starts.",
            most=MAX_ADMISSION_CHECKS,
        ),
    ] = ()


class QueueItemDetail(WireStruct, frozen=True):
    """One pending unit."""

    name: Annotated[str, text("The unit's name.", longest=SUBDOMAIN_LENGTH)] = ""
    namespace: Annotated[str, text("The unit's namespace.", longest=LABEL_LENGTH)] = ""
    priority: Annotated[int, int32("The unit's priority.", least=INT32_MIN)] = 0
    position: Annotated[int, int32("Its place in the queue, from 1.")] = 0


class QueueStatus(WireStruct, frozen=True):
    """The observed state; written at most once a second, and only on change."""

    queue_item_details: Annotated[
        dict[
            str,
            Annotated[
                tuple[QueueItemDetail, ...],
                items("Units in the order in which they are tried.", most=MAX_SHOWN_ITEMS),
            ],
        ],
        entries("The first pending units, under the key `active`.", most=MAX_ITEM_LISTS),
    ] = {}
    pending: Annotated[int, int32("Units that are pending or on hold.")] = 0
    admitted: Annotated[int, int32("Units that hold quota.")] = 0
    policy_in_force: Annotated[
        str,
        text(
            "The policy that orders the units: the last valid one that the spec named.",
            longest=LABEL_LENGTH,
        ),
    ] = ""
    stop_policy_in_force: Annotated[
        str,
        text(
            "Whether the queue is stopped: the last valid value of its annotation"
            " koord-queue/stop-policy.",
            longest=LABEL_LENGTH,
        ),
    ] = ""
    conditions: Annotated[
        tuple[Condition, ...],
        items(
            "Whether the queue works, and why not.", most=MAX_CONDITIONS, key="type", by_item=True
        ),
    ] = ()


class Queue(WireStruct, frozen=True):
    """An order in which units wait; it counts only in the scheduler's --queue-namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()
