"""QuotaPolicy (`scheduling.x-k8s.io/v1alpha1`): what administrators set for quotas.

`crds/quotapolicies.yaml` is generated from these types; `field_schema` says what its words mean.
What is decoded may have been stored under a less strict CRD, so `queue_scheduler.tenants` reads it
as if nothing had been checked.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from shared_api.objects.field_schema import (
    LABEL_LENGTH,
    MESSAGE_LENGTH,
    QUALIFIED_NAME_LENGTH,
    REQUIRED,
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
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import QuantityText
from shared_api.objects.queue import FairShare

MAX_QUOTAS: Final = 64
MAX_USER_LIMITS: Final = 64
MAX_NAMES: Final = 64
"""Users or groups of one entry."""
MAX_RESOURCES: Final = 32
"""Resources of one entry; a quota rarely has more than ten."""
MAX_BUDGETS: Final = 8
"""Budgets of one policy: a few resources, each by day and by month."""
MAX_CONDITIONS: Final = 16
QUOTA_LENGTH: Final = 1024
"""The path of a node of a tree may be long: a name of 63 characters on each of 16 levels."""
RESOURCE_LENGTH: Final = QUALIFIED_NAME_LENGTH
TIME_ZONE_LENGTH: Final = 64
"""The longest name of the IANA database has 32 characters."""
DURATION_LENGTH: Final = 32
HOURS_LENGTH: Final = 64
"""Digits of an amount that the scheduler writes."""
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
_HOURS_OR_AMOUNT = rule("has(self.hours) != has(self.amount)", "set either hours or amount")
_OF_ONE_RESOURCE = rule(
    "!has(self.hours) || (has(self.resource) && !has(self.price))",
    "hours are of one resource, and have no price",
)
_OF_A_PRICE = rule(
    "!has(self.amount) || (!has(self.resource) && has(self.price) && self.price.size() > 0)",
    "an amount needs a price, and no resource",
)
_CALENDAR_ONLY = rule(
    "self.period in ['Day', 'Week', 'Month'] || (!has(self.timeZone) &&"
    " (!has(self.carryOver) || self.carryOver == 0) && (!has(self.debt) || self.debt == 'Count'))",
    "timeZone, carryOver and debt need the period Day, Week or Month",
)

_NOT_BLANK: Final = r"^\S(.*\S)?$"
_TIME: Final = "([0-9]+([.][0-9]+)?(ms|s|m|h))+"
"""What `shared_api.durations` reads; finer units make no difference here."""
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


PERIODS: Final = ("Day", "Week", "Month", "Rolling 30d", "None")
HOLD: Final = "Hold"
WARN: Final = "Warn"
STOP: Final = "Stop"
DECLARED: Final = "Declared"
NO_RESERVE: Final = "None"
REFUSE: Final = "Refuse"
COUNT: Final = "Count"
FORGIVE: Final = "Forgive"


class Budget(WireStruct, frozen=True):
    """How much a quota, and what is below it, may use in a period."""

    resource: Annotated[
        str,
        text("The resource whose hours count.", longest=RESOURCE_LENGTH, pattern=_NOT_BLANK),
    ] = ""
    hours: Annotated[
        QuantityText | None,
        rules(_NOT_NEGATIVE),
        Meta(
            description="How many hours of it may be used in a period: of cores, of GiB of what is"
            " counted in bytes, of pieces of all else."
        ),
    ] = None
    amount: Annotated[
        QuantityText | None,
        rules(_NOT_NEGATIVE),
        Meta(description="How much may be used in a period, at the price; in place of hours."),
    ] = None
    price: Annotated[
        LimitQuantities,
        entries("What an hour costs, by resource, in the unit of amount.", most=MAX_RESOURCES),
    ] = {}
    period: Annotated[
        str,
        text(
            "When it begins anew: each Day, Week (from Monday) or Month; Rolling 30d: the last 720"
            " hours count, and it moves by the hour; None: never.",
            longest=LABEL_LENGTH,
            choices=PERIODS,
            required=True,
        ),
    ] = ""
    time_zone: Annotated[
        str,
        text(
            "The time zone in which days, weeks and months begin, such as Europe/Berlin. Default:"
            " UTC.",
            longest=TIME_ZONE_LENGTH,
            pattern=_NOT_BLANK,
        ),
    ] = "UTC"
    enforce: Annotated[
        str,
        text(
            "What happens once it is spent. Hold, the default: nothing starts, and what runs ends."
            " Warn: it is shown, and no more. Stop: nothing starts, and what runs is evicted after"
            " the grace.",
            longest=LABEL_LENGTH,
            choices=(HOLD, WARN, STOP),
        ),
    ] = HOLD
    reserve: Annotated[
        str,
        text(
            "Declared, the default: what started is counted with the time that it declares, so a"
            " unit starts only if it can end within the budget. None: units start as long as"
            " anything is left.",
            longest=LABEL_LENGTH,
            choices=(DECLARED, NO_RESERVE),
        ),
    ] = DECLARED
    undeclared: Annotated[
        str,
        text(
            "What counts as declared for units that declare no time. Default: 24h. Refuse: they do"
            " not start.",
            longest=DURATION_LENGTH,
            pattern=f"^({REFUSE}|{_TIME})$",
        ),
    ] = "24h"
    grace: Annotated[
        str,
        text(
            "With Stop: how long after the budget is spent units run on. Default: 10m.",
            longest=DURATION_LENGTH,
            pattern=f"^({_TIME}|0)$",
        ),
    ] = "10m"
    carry_over: Annotated[
        int,
        int32(
            "Percent of what is left that the next period has in addition. It goes first, and is"
            " not carried again. Default: 0.",
            most=100,
        ),
    ] = 0
    debt: Annotated[
        str,
        text(
            "Whether the next period has less by what was used beyond the budget. Count, the"
            " default: it has. Forgive: it has not.",
            longest=LABEL_LENGTH,
            choices=(COUNT, FORGIVE),
        ),
    ] = COUNT


CheckedBudget = Annotated[
    Budget, rules(_HOURS_OR_AMOUNT, _OF_ONE_RESOURCE, _OF_A_PRICE, _CALENDAR_ONLY)
]


class StatedQueue(WireStruct, frozen=True):
    """What a policy states for the queues that the scheduler makes for its quotas."""

    fair_share: Annotated[
        FairShare | None,
        part(
            "How the policy Fair orders units there: it is kept in spec.fairShare of the queue that"
            " the scheduler makes for a quota. Absent: it is left to the queue's users."
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
    queue: Annotated[
        StatedQueue | None,
        part(
            "What the queues have that the scheduler makes for the quotas. A ResourceQuota has no"
            " such queue."
        ),
    ] = None
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
    budgets: Annotated[
        tuple[CheckedBudget, ...],
        items(
            "How much each of the quotas, with what is below it, may use in a period. A unit starts"
            " only if all budgets of its quota, and of all above it, have room for it.",
            most=MAX_BUDGETS,
        ),
    ] = ()


class BudgetFigures(WireStruct, frozen=True):
    """What is spent and left of one budget of a quota."""

    budget: Annotated[int, int32("Its place in the budgets, from 0; absent: 0.")] = 0
    resource: Annotated[
        str, text("The resource whose hours count, or amount.", longest=RESOURCE_LENGTH)
    ] = ""
    spent: Annotated[
        str, text("Used in the present period, in the unit of the budget.", longest=HOURS_LENGTH)
    ] = ""
    committed: Annotated[
        str,
        text("What running units may still use of it, as declared.", longest=HOURS_LENGTH),
    ] = ""
    left: Annotated[
        str, text("What new units may use; negative: a debt.", longest=HOURS_LENGTH)
    ] = ""
    carried: Annotated[
        str,
        text(
            "What the period has in addition from the last one; negative: the debt of that.",
            longest=HOURS_LENGTH,
        ),
    ] = ""
    exhausted: Annotated[bool, flag("Whether nothing is left, apart from what is committed.")] = (
        False
    )
    counted_from: Annotated[
        Timestamp | None, moment("Since when use counts: the period began before, or then.")
    ] = None
    resets_at: Annotated[
        Timestamp | None, moment("When the present period ends; absent: never.")
    ] = None
    at: Annotated[Timestamp | None, moment("When this was so.")] = None


class QuotaInForce(WireStruct, frozen=True):
    """Whether the policy counts for one of its quotas."""

    name: Annotated[str, text("The quota's name.", longest=QUOTA_LENGTH, required=True)] = ""
    reason: Annotated[
        str,
        text(
            "InForce; QuotaMissing: no such quota exists, and the policy counts once it does;"
            " Conflict: an older policy counts; NoQueueMade: all but queue counts, since the"
            " scheduler makes no queue for the quota.",
            longest=LABEL_LENGTH,
            required=True,
        ),
    ] = ""
    message: Annotated[str, text("The reason, for people.", longest=MESSAGE_LENGTH)] = ""
    budgets: Annotated[
        tuple[BudgetFigures, ...],
        items("What is left of each budget that is in force.", most=MAX_BUDGETS),
    ] = ()


class QuotaPolicyStatus(WireStruct, frozen=True):
    """The observed state; written by the scheduler, on change."""

    observed_generation: Annotated[
        int, int64("The metadata.generation that the status was made from.")
    ] = 0
    quotas: Annotated[
        tuple[QuotaInForce, ...],
        items("Whether the policy counts, for each quota.", most=MAX_QUOTAS, key="name"),
    ] = ()
    queue_in_force: Annotated[
        StatedQueue | None,
        part("The last valid queue of the spec: what the queues have; absent: nothing is stated."),
    ] = None
    user_limits_in_force: Annotated[
        tuple[UserLimit, ...],
        items("The last valid userLimits of the spec: those that count.", most=MAX_USER_LIMITS),
    ] = ()
    budgets_in_force: Annotated[
        tuple[Budget, ...],
        items("The last valid budgets of the spec: those that count.", most=MAX_BUDGETS),
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
