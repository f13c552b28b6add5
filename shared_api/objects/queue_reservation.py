"""QueueReservation (`scheduling.x-k8s.io/v1alpha1`): times at which units must not run.

`crds/queuereservations.yaml` is generated from these types; `field_schema` says what its words
mean. What is decoded may have been stored under a less strict CRD, so
`queue_scheduler.reservations` reads it as if nothing had been checked.
"""

from __future__ import annotations

from typing import Annotated, Final

from shared_api.objects.field_schema import (
    LABEL_LENGTH,
    REQUIRED,
    flag,
    int64,
    items,
    moment,
    part,
    rule,
    rules,
    text,
)
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, WireStruct
from shared_api.objects.quota_policy import DURATION_LENGTH, QUOTA_LENGTH, TIME_ZONE_LENGTH

MAX_QUOTAS: Final = 64
MAX_SHOWN: Final = 8
"""Windows in the status; `/debug/reservations` has more."""
MAX_CONDITIONS: Final = 16
START_LENGTH: Final = 25
"""`2026-12-03T18:00:00+01:00`."""
RRULE_LENGTH: Final = 512
"""Twelve months, 31 days of the month and seven days of the week take some 200 characters."""

WAIT: Final = "Wait"
START: Final = "Start"

CONTINUE: Final = "Continue"
EVICT: Final = "Evict"

_NOT_BLANK: Final = r"^\S(.*\S)?$"
_TIME: Final = "([0-9]+([.][0-9]+)?(ms|s|m|h))+"
"""What `shared_api.durations` reads; finer units make no difference here."""
_PATH: Final = "^[^/]+(/[^/]+)*$"
_START: Final = (
    "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]"
    "(:[0-5][0-9])?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?$"
)
_RRULE: Final = "^FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;[A-Z]+=[-+A-Z0-9,]+)*$"

_SOME_TIME = rule("self.matches('[1-9]')", "a window must have some duration")
_ONE_SCOPE = rule(
    "(has(self.all) && self.all) != (has(self.quotas) && self.quotas.size() > 0)",
    "set either all or quotas",
)


class ReservationScope(WireStruct, frozen=True):
    """Which units it concerns: set either `all` or `quotas`."""

    all: Annotated[bool, flag("All units of all quotas.")] = False
    quotas: Annotated[
        tuple[
            Annotated[str, text("A quota's name.", longest=QUOTA_LENGTH, pattern=_PATH)],
            ...,
        ],
        items(
            "The units of these quotas and of what is below them: an ElasticQuota by its name, a"
            " node of an ElasticQuotaTree by its path (root/a/b), a ResourceQuota as"
            " namespace/name.",
            most=MAX_QUOTAS,
            unique=True,
        ),
    ] = ()


class QueueReservationSpec(WireStruct, frozen=True):
    """What is reserved, and when."""

    scope: Annotated[
        ReservationScope, part("Which units it concerns."), rules(_ONE_SCOPE), REQUIRED
    ] = ReservationScope()
    start: Annotated[
        str,
        text(
            "When the first window begins, such as 2026-12-03T18:00: in the time zone, unless it"
            " ends in Z or in an offset such as +01:00.",
            longest=START_LENGTH,
            pattern=_START,
            required=True,
        ),
    ] = ""
    duration: Annotated[
        str,
        text(
            "How long each window is, such as 2h or 1h30m.",
            longest=DURATION_LENGTH,
            pattern=f"^{_TIME}$",
            required=True,
        ),
        rules(_SOME_TIME),
    ] = ""
    time_zone: Annotated[
        str,
        text(
            "The time zone of the windows, such as Europe/Berlin: their local time stays over the"
            " changes of its clocks. Default: UTC.",
            longest=TIME_ZONE_LENGTH,
            pattern=_NOT_BLANK,
        ),
    ] = "UTC"
    rrule: Annotated[
        str,
        text(
            "How it is repeated, as a recurrence rule of RFC 5545 such as FREQ=WEEKLY;BYDAY=TH:"
            " daily or slower. Absent: it is not.",
            longest=RRULE_LENGTH,
            pattern=_RRULE,
        ),
    ] = ""
    margin: Annotated[
        str,
        text(
            "How long before a window units must have ended, by the time that they declare."
            " Default: 10m.",
            longest=DURATION_LENGTH,
            pattern=f"^({_TIME}|0)$",
        ),
    ] = "10m"
    undeclared: Annotated[
        str,
        text(
            "How long units are assumed to run that declare no time. Default: 24h. Wait: they start"
            " in no time before a window. Start: they start.",
            longest=DURATION_LENGTH,
            pattern=f"^({WAIT}|{START}|{_TIME})$",
        ),
    ] = "24h"
    at_start: Annotated[
        str,
        text(
            "What becomes of units that still run when a window begins. Continue, the default: they"
            " run on. Evict: they are evicted before it, and start again after it.",
            longest=LABEL_LENGTH,
            choices=(CONTINUE, EVICT),
        ),
    ] = CONTINUE
    grace: Annotated[
        str,
        text(
            "With Evict: how long before a window what still runs is evicted; nothing starts from"
            " then on. Default: 5m.",
            longest=DURATION_LENGTH,
            pattern=f"^({_TIME}|0)$",
        ),
    ] = "5m"


class ReservedWindow(WireStruct, frozen=True):
    """One window: from `start` until before `end`."""

    start: Annotated[Timestamp | None, moment("When it begins.")] = None
    end: Annotated[Timestamp | None, moment("When it ends.")] = None


class QueueReservationStatus(WireStruct, frozen=True):
    """The observed state; written by the scheduler, on change."""

    observed_generation: Annotated[
        int, int64("The metadata.generation that the status was made from.")
    ] = 0
    windows: Annotated[
        tuple[ReservedWindow, ...],
        items("The present window, if it is in one, and the next ones.", most=MAX_SHOWN),
    ] = ()
    in_force: Annotated[
        tuple[QueueReservationSpec, ...],
        items("The last valid spec: what counts.", most=1),
    ] = ()
    conditions: Annotated[
        tuple[Condition, ...],
        items(
            "Whether the reservation counts as its spec says, and why not.",
            most=MAX_CONDITIONS,
            key="type",
            by_item=True,
        ),
    ] = ()


class QueueReservation(WireStruct, frozen=True):
    """Windows in which units must not run; it counts only in the scheduler's --queue-namespace."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[QueueReservationSpec, REQUIRED] = QueueReservationSpec()
    status: QueueReservationStatus = QueueReservationStatus()
