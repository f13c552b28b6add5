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
    rule,
    rules,
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
MAX_FAIR_WEIGHTS: Final = 64
MAX_WEIGHED_NAMES: Final = 64
"""Names of one entry of `fairShare.weights`."""
MAX_WEIGHED_RESOURCES: Final = 32
MAX_WEIGHT: Final = 1_000_000
NAME_LENGTH: Final = 512
"""Names of users and groups: see `quota_policy.USER_LENGTH`."""
DURATION_LENGTH: Final = 30
"""Go writes no longer duration."""

_DURATION: Final = "^([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+$"
_NOT_BLANK: Final = r"^\S(.*\S)?$"

_KNOWN_LEVELS = rule(
    "self == ['user'] || self == ['group', 'user'] || self == ['namespace']",
    "levels must be [user], [group, user] or [namespace]",
)
_HALF_LIFE = rule(
    "duration(self) >= duration('1s') && duration(self) <= duration('87600h')",
    "halfLife must be between 1s and 87600h (ten years)",
)
_MINIMUM_CHARGE = rule(
    "duration(self) <= duration('24h')", "minimumCharge must be between 0s and 24h"
)
_ONE_KIND = rule(
    "[has(self.users) && self.users.size() > 0, has(self.groups) && self.groups.size() > 0,"
    " has(self.namespaces) && self.namespaces.size() > 0].filter(each, each).size() == 1",
    "name either users, groups or namespaces",
)
_WEIGHS_SOMETHING = rule(
    "self.size() == 0 || self.exists(name, self[name] > 0)", "a resource must have a weight above 0"
)


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


class FairWeight(WireStruct, frozen=True):
    """The weight of some users, groups or namespaces: each of them has it."""

    users: Annotated[
        tuple[Annotated[str, text("A user's name.", longest=NAME_LENGTH, pattern=_NOT_BLANK)], ...],
        items("Names of users.", most=MAX_WEIGHED_NAMES, unique=True),
    ] = ()
    groups: Annotated[
        tuple[
            Annotated[str, text("A group's name.", longest=NAME_LENGTH, pattern=_NOT_BLANK)], ...
        ],
        items("Names of groups.", most=MAX_WEIGHED_NAMES, unique=True),
    ] = ()
    namespaces: Annotated[
        tuple[Annotated[str, text("A namespace.", longest=LABEL_LENGTH, pattern=_NOT_BLANK)], ...],
        items("Names of namespaces.", most=MAX_WEIGHED_NAMES, unique=True),
    ] = ()
    weight: Annotated[
        int,
        int32(
            "Use is divided by it; 0: last, after all that have a weight. Absent: 1.",
            most=MAX_WEIGHT,
        ),
    ] = 1


class FairShare(WireStruct, frozen=True):
    """How the policy Fair orders units; other policies do not use it."""

    levels: Annotated[
        tuple[
            Annotated[
                str,
                text("A level.", longest=LABEL_LENGTH, choices=("user", "group", "namespace")),
            ],
            ...,
        ],
        items(
            "Between whom use is compared: [user]; [group, user]: between groups, then between the"
            " users of a group; [namespace]. Absent: [user].",
            most=2,
            rules=(_KNOWN_LEVELS,),
        ),
    ] = ()
    weights: Annotated[
        tuple[Annotated[FairWeight, rules(_ONE_KIND)], ...],
        items(
            "Who is to get more, or less: the first entry that names a user, group or namespace"
            " counts. All others have the weight 1.",
            most=MAX_FAIR_WEIGHTS,
        ),
    ] = ()
    half_life: Annotated[
        str,
        text(
            "The time after which use counts half: 1s to 87600h. Absent: 168h, a week.",
            longest=DURATION_LENGTH,
            pattern=_DURATION,
        ),
        rules(_HALF_LIFE),
    ] = ""
    minimum_charge: Annotated[
        str,
        text(
            "How long a unit counts at least, from its start on: 0s to 24h. Absent: 60s.",
            longest=DURATION_LENGTH,
            pattern=_DURATION,
        ),
        rules(_MINIMUM_CHARGE),
    ] = ""
    priority: Annotated[
        str,
        text(
            "Within: priority counts between the units of one account alone. First: units of higher"
            " priority come first, whoever submitted them. Absent: Within.",
            longest=LABEL_LENGTH,
            choices=("Within", "First"),
        ),
    ] = ""
    resource_weights: Annotated[
        dict[str, Annotated[int, int32("Weight of a core, a GiB, or a piece.", most=MAX_WEIGHT)]],
        entries(
            "What is added up as use: the weight of a core, a GiB of memory or storage, or a piece,"
            " by resource; what is missing does not count. Absent: the largest share of what the"
            " topmost quota may have.",
            most=MAX_WEIGHED_RESOURCES,
        ),
        rules(_WEIGHS_SOMETHING),
    ] = {}


class QueueSpec(WireStruct, frozen=True):
    """The desired state of the queue."""

    queue_policy: Annotated[
        str,
        text(
            "Order in which units are tried: Priority, Block, FIFO, Intelligent, Fair, or a policy"
            " of a plugin.",
            longest=LABEL_LENGTH,
        ),
    ] = ""
    fair_share: Annotated[FairShare | None, part()] = None
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
    fair_share_in_force: Annotated[
        FairShare | None,
        part("The last valid `fairShare` of the spec: what counts; absent: the defaults."),
    ] = None
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
