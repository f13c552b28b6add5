"""What is in a dump.

Objects have the fields that the engine reads, as the API server writes them. Of annotations, only
those of this project are there: users put anything into annotations. Pod templates have resources
and labels; what containers run, and their environment, was never read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.decision import Refusal
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_decision import PodStage
from queue_scheduler.quota_cache.admission_record import AdmissionRecord
from queue_scheduler.reservations.schedules import Schedule
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.calendars import Calendar
from queue_scheduler.tenants.ledger import StoredAccounts
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import SalvagedUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.resource_quota import ResourceQuota

KIND: Final = "KoordQueueDump"
FORMAT: Final = 2
"""Raised with every change that an older program would misread."""

NOT_CARRIED: Final = (
    "writes in flight: admissions and growths count as written, evictions as not yet requested",
    "when the search for units to evict is repeated",
    "the last valid value of a queue's annotation that cannot be read now, except its stop policy",
    "the last valid run time of a quota before which nothing is reclaimed",
    "uids of deleted units, whose late writes are ignored",
    "what plugins of other packages keep besides the objects",
)
"""What an engine keeps, and a dump has not."""


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of the parts of a dump."""


class CountedPod(Part, frozen=True):
    """A living pod, as far as it is counted.

    Attributes:
        pod: `namespace/name`.
        uid: Its uid.
        unit: `namespace/name` of the unit that it names; "": none.
        owner: Uid of its controller.
        created: When it was created.
        labels: Its labels.
        requests: What it asks for, as quantities.
        node: The node that it is bound to; "": none.
        stage: How far it is by its own object.
        is_tried: Whether a scheduler has tried to bind it.
        held_for: Uid of its job, if the queue's gate holds it.
        pod_set: The pod set that it is marked with; "": none.
        ends: Whether it was deleted, and still has its grace period.
        counted_for: Uid of the unit that it is counted for, if that is gone.
    """

    pod: str
    uid: Uid
    unit: str = ""
    owner: Uid = NO_UID
    created: str = ""
    labels: dict[str, str] = {}
    requests: ResourceQuantities = {}
    node: str = ""
    stage: PodStage = PodStage.PENDING
    is_tried: bool = True
    held_for: Uid = NO_UID
    pod_set: str = ""
    ends: bool = False
    counted_for: Uid = NO_UID


class Checks(Part, frozen=True):
    """The AdmissionChecks: whether the cluster has the kind, and why those are inactive that are.

    Attributes:
        are_served: Whether the cluster has the kind; None if unknown.
        names: Those that exist.
        inactive: Those that are inactive, each with the reason.
    """

    are_served: bool | None = None
    names: tuple[str, ...] = ()
    inactive: dict[str, str] = {}


class Policies(Part, frozen=True):
    """The QuotaPolicies, and whether the cluster has the kind.

    Attributes:
        are_served: Whether the cluster has the kind; None if unknown.
        objects: The policies; their status has the limits in force.
    """

    are_served: bool | None = None
    objects: tuple[QuotaPolicy, ...] = ()


class Reservations(Part, frozen=True):
    """The QueueReservations, and whether the cluster has the kind.

    Attributes:
        are_served: Whether the cluster has the kind; None if unknown.
        objects: The reservations; their status has the spec in force.
    """

    are_served: bool | None = None
    objects: tuple[QueueReservation, ...] = ()


class Turn(Part, frozen=True):
    """A queue's place in the turns: as `Turns.standing_of`, without its rank."""

    queue: str
    generation: int
    served: int
    backs_off_until: float | None = None


class Asleep(Part, frozen=True):
    """A class of units that was refused.

    Attributes:
        unit: Its first unit, `namespace/name`.
        refusal: Why.
        at: When, in seconds since the epoch; None if unknown.
    """

    unit: str
    refusal: Refusal
    at: int | None = None


class AskedToLeave(Part, frozen=True):
    """A unit whose eviction was requested: its key and uid, and its version before; "": unknown."""

    unit: str
    uid: Uid
    version: str = ""


class KeptRoom(Part, frozen=True):
    """A unit for which others are evicted (`preemption.nomination.Nomination`)."""

    unit: str
    until: float | None = None
    asked: tuple[AskedToLeave, ...] = ()
    failed: tuple[Uid, ...] = ()
    tries: int = 0


class TakenTokens(Part, frozen=True):
    """What the evictions of a queue have taken (`preemption.eviction_rates.Taken`).

    Attributes:
        queue: The queue; "": all together.
        second: In seconds since the epoch.
        missing: Parts of tokens.
    """

    queue: str
    second: int
    missing: int


class LastQuota(Part, frozen=True):
    """The quota that living pods are charged to, since no object says it.

    Attributes:
        uid: Uid of their unit.
        quota: The quota.
        non_preemptible: Whether they may not be preempted.
        account: The account; None in dumps of earlier versions.
    """

    uid: Uid
    quota: str
    non_preemptible: bool = False
    account: Account | None = None


class AdmittedOn(Part, frozen=True):
    """What an admitted unit was compared with."""

    unit: str
    record: AdmissionRecord


class BeyondObjects(Part, frozen=True):
    """What no object says.

    Attributes:
        turns: The turns of all queues.
        asleep: The refusals.
        kept_rooms: The rounds of evictions.
        spent: Units that had their round.
        rests: Until when a unit evicts no others, by uid, in seconds of the monotonic clock.
        taken_tokens: How much of their evictions queues have used.
        last_quotas: Charges that do not follow from an object.
        admitted_on: What units were admitted on.
        accounts: What each account has used; None: accounts are not kept.
        edges: The seconds at which the periods of accounts begin.
        calendars: When the periods of budgets begin.
        schedules: When the windows of reservations are.
    """

    turns: tuple[Turn, ...] = ()
    asleep: tuple[Asleep, ...] = ()
    kept_rooms: tuple[KeptRoom, ...] = ()
    spent: tuple[str, ...] = ()
    rests: dict[str, float] = {}
    taken_tokens: tuple[TakenTokens, ...] = ()
    last_quotas: tuple[LastQuota, ...] = ()
    admitted_on: tuple[AdmittedOn, ...] = ()
    accounts: StoredAccounts | None = None
    edges: tuple[int, ...] = ()
    calendars: tuple[Calendar, ...] = ()
    schedules: tuple[Schedule, ...] = ()


class Dump(Part, frozen=True):
    """A dump.

    Attributes:
        kind: `KIND`.
        format: `FORMAT` of the program that wrote it.
        version: Its version.
        taken_at: The wall time of the state.
        monotonic: The same in seconds of the monotonic clock, which other times count in.
        leader: Whether the replica decided.
        anonymized: Whether names were replaced.
        not_carried: What an engine keeps, and is not here.
        left_out: What is not here of this engine: plugins.
        settings: With what the program was started.
        elastic_quotas: The quotas, of whichever kind, and namespaces if they decide about quotas.
        elastic_quota_trees: The same.
        resource_quotas: The same.
        namespaces: The same.
        nodes: The nodes, if a plugin asks for them.
        checks: The AdmissionChecks.
        policies: The QuotaPolicies.
        reservations: The QueueReservations.
        queues: The queues; their status names the policy in force.
        units: The units.
        pods: The living pods.
        beyond_objects: What no object says.
        runs: Runs that have ended, for forecasts.
    """

    kind: str
    format: int
    version: str
    taken_at: datetime
    monotonic: float
    leader: bool
    settings: EngineSettings
    anonymized: bool = False
    not_carried: tuple[str, ...] = NOT_CARRIED
    left_out: tuple[str, ...] = ()
    elastic_quotas: tuple[ElasticQuota, ...] = ()
    elastic_quota_trees: tuple[ElasticQuotaTree, ...] = ()
    resource_quotas: tuple[ResourceQuota, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    nodes: tuple[Node, ...] = ()
    checks: Checks = Checks()
    policies: Policies = Policies()
    reservations: Reservations = Reservations()
    queues: tuple[Queue, ...] = ()
    units: tuple[SalvagedUnit, ...] = ()
    pods: tuple[CountedPod, ...] = ()
    beyond_objects: BeyondObjects = BeyondObjects()
    runs: tuple[FinishedRun, ...] = ()
