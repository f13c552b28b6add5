"""QuotaPolicy (`scheduling.x-k8s.io/v1alpha1`): what administrators set for quotas.

`crds/quotapolicies.yaml` is generated from these types; `field_schema` says what its words mean.
What is decoded may have been stored under a less strict CRD, so `queue_scheduler.tenants` reads it
as if nothing had been checked.
"""

from __future__ import annotations

from typing import Annotated, Final

from shared_api.objects.field_schema import (
    LABEL_LENGTH,
    MESSAGE_LENGTH,
    REQUIRED,
    entries,
    int32,
    int64,
    items,
    rule,
    rules,
    text,
)
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct
from shared_api.objects.pod import QuantityText

MAX_QUOTAS: Final = 64
MAX_USER_LIMITS: Final = 64
MAX_NAMES: Final = 64
"""Users or groups of one entry."""
MAX_RESOURCES: Final = 32
"""Resources of one entry; a quota rarely has more than ten."""
MAX_CONDITIONS: Final = 16
QUOTA_LENGTH: Final = 1024
"""The path of a node of a tree may be long: a name of 63 characters on each of 16 levels."""
USER_LENGTH: Final = 512
"""Kubernetes limits neither names of users nor of groups. The longest that it makes itself, of a
service account, has 339."""

_NOT_NEGATIVE = rule(
    "type(self) == string ? !string(self).startsWith('-') : int(self) >= 0",
    "a limit must not be negative",
)
_USERS_OR_GROUPS = rule(
    "(has(self.users) && self.users.size() > 0) != (has(self.groups) && self.groups.size() > 0)",
    "name either users or groups",
)
_LIMITS_SOMETHING = rule(
    "(has(self.max) && self.max.size() > 0) || has(self.running) || has(self.pending)",
    "set at least one of max, running and pending",
)
_STANDS_ALONE = rule("!('*' in self) || self.size() == 1", "* must stand alone")
_ONE_FOR_OTHER_USERS = rule(
    "self.filter(each, has(each.users) && '*' in each.users).size() <= 1",
    "only one entry may have the users *",
)
_ONE_FOR_OTHER_GROUPS = rule(
    "self.filter(each, has(each.groups) && '*' in each.groups).size() <= 1",
    "only one entry may have the groups *",
)

_NOT_BLANK: Final = r"^\S(.*\S)?$"
_PATH: Final = "^[^/]+(/[^/]+)*$"

LimitQuantities = dict[str, Annotated[QuantityText, rules(_NOT_NEGATIVE)]]
"""A resource list whose amounts must not be negative; decoded like any other."""


class UserLimit(WireStruct, frozen=True):
    """What one user, or the members of one group together, may have at most in a quota."""

    users: Annotated[
        tuple[
            Annotated[str, text("A user's name.", longest=USER_LENGTH, pattern=_NOT_BLANK)],
            ...,
        ],
        items(
            'Names of users; each of them may have that much. ["*"]: each user whom no entry'
            " names. The first entry that names a user counts.",
            most=MAX_NAMES,
            unique=True,
            rules=(_STANDS_ALONE,),
        ),
    ] = ()
    groups: Annotated[
        tuple[
            Annotated[str, text("A group's name.", longest=USER_LENGTH, pattern=_NOT_BLANK)],
            ...,
        ],
        items(
            'Names of groups; the members of each may have that much together. ["*"]: all'
            " together whose group no entry names, or who name none. The first entry that names a"
            " group counts.",
            most=MAX_NAMES,
            unique=True,
            rules=(_STANDS_ALONE,),
        ),
    ] = ()
    max: Annotated[
        LimitQuantities,
        entries(
            "The most that their admitted units may request, by resource; a resource that is"
            " missing is not limited.",
            most=MAX_RESOURCES,
        ),
    ] = {}
    running: Annotated[
        int | None, int32("The most units that they may have admitted; absent: any number.")
    ] = None
    pending: Annotated[
        int | None,
        int32(
            "The most units that they may have pending; further ones are on hold, and the oldest"
            " come in first. Absent: any number."
        ),
    ] = None


class QuotaPolicySpec(WireStruct, frozen=True):
    """What is set, and for which quotas."""

    quotas: Annotated[
        tuple[
            Annotated[str, text("A quota's name.", longest=QUOTA_LENGTH, pattern=_PATH)],
            ...,
        ],
        items(
            "The quotas that it is set for, each for itself: an ElasticQuota by its name, a node"
            " of an ElasticQuotaTree by its path (root/a/b), a ResourceQuota as namespace/name."
            " Of two policies that name one quota the older counts for it.",
            most=MAX_QUOTAS,
            least=1,
            unique=True,
        ),
        REQUIRED,
    ] = ()
    user_limits: Annotated[
        tuple[Annotated[UserLimit, rules(_USERS_OR_GROUPS, _LIMITS_SOMETHING)], ...],
        items(
            "What users and groups may have at most in each of the quotas and below it. A unit"
            " must be within the limit of its user and that of its group, in its quota and in all"
            " above it.",
            most=MAX_USER_LIMITS,
            rules=(_ONE_FOR_OTHER_USERS, _ONE_FOR_OTHER_GROUPS),
        ),
    ] = ()


class QuotaInForce(WireStruct, frozen=True):
    """Whether the policy counts for one of its quotas."""

    name: Annotated[str, text("The quota's name.", longest=QUOTA_LENGTH, required=True)] = ""
    reason: Annotated[
        str,
        text(
            "InForce; QuotaMissing: no such quota exists, and the policy counts once it does;"
            " Conflict: an older policy counts.",
            longest=LABEL_LENGTH,
            required=True,
        ),
    ] = ""
    message: Annotated[str, text("The reason, for people.", longest=MESSAGE_LENGTH)] = ""


class QuotaPolicyStatus(WireStruct, frozen=True):
    """The observed state; written by the scheduler, on change."""

    observed_generation: Annotated[
        int, int64("The metadata.generation that the status was made from.")
    ] = 0
    quotas: Annotated[
        tuple[QuotaInForce, ...],
        items("Whether the policy counts, for each quota.", most=MAX_QUOTAS, key="name"),
    ] = ()
    user_limits_in_force: Annotated[
        tuple[UserLimit, ...],
        items("The last valid userLimits of the spec: those that count.", most=MAX_USER_LIMITS),
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        items(
            "Whether the policy counts as its spec says, and why not.",
            most=MAX_CONDITIONS,
            key="type",
            by_item=True,
        ),
    ] = ()


class QuotaPolicy(WireStruct, frozen=True):
    """What administrators set for quotas; it counts only in the scheduler's --queue-namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[QuotaPolicySpec, REQUIRED] = QuotaPolicySpec()
    status: QuotaPolicyStatus = QuotaPolicyStatus()
