"""Queue policies: in which order a queue's units are offered, and what a refusal holds back.

| policy | order | a refused unit holds back |
|---|---|---|
| Priority | priority, creation, name | none |
| Block | priority, creation, name | those behind it that are charged to the same quota |
| FIFO | creation, name | those behind it that are charged to the same quota |
| Intelligent | high before low, priority, non-preemptible first, creation, name | see below |
| Fair | account with the least use, priority, creation, name | none |

In Intelligent, a unit is *high* if its priority is at least the queue's threshold. A refused high
unit holds back those behind it of its quota, and while any high unit is pending no low one is
tried; a refused low one holds back none.

In Fair, the accounts of a queue are ordered (`fair_settings`, `fair_classes`), and the policy
orders the units of each.

A policy is two pure functions, or three if it has *bands*, as Intelligent has. Third-party policies
load by the entry point `koord_queue.queue_policies`: a callable without arguments that returns one.

Creation is the unit's own, which the API server writes. If the job is older (its unit was deleted
and recreated, or the controllers started late), the controllers say so in the unit's status, which
only they may write, and the unit keeps its position. No annotation counts, so users cannot date a
unit back. A unit whose job was resumed against the queue again and again (`contested_since`) counts
as created when the controllers last said so: at the end of the queue, or, if priority comes first,
of its priority.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, Protocol, TypeGuard

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.queue_options import QueueOptions
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import contested_since
from shared_api.well_known_labels import PREEMPTIBLE

_TIME: Final = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
)
"""RFC 3339 in UTC, as the API server writes it: such strings sort like times."""


class HoldsBack(Enum):
    """Which units behind a refused one are held back by it."""

    NOBODY = "nobody"
    SAME_QUOTA = "same quota"


class QueuePolicy(Protocol):
    """How one queue orders and blocks. Called under the engine's lock: pure and quick."""

    @property
    def name(self) -> str:
        """Its value in `spec.queuePolicy`."""

    @property
    def holds_back(self) -> HoldsBack:
        """What a refused unit does to those behind it."""

    def order_key(self, unit: QueueUnit) -> OrderKey:
        """Return the unit's position; ends in namespace and name, so that no two are equal.

        `spec.priority` of `unit` is already limited to the queue's ceiling.
        """


class BandedPolicy(QueuePolicy, Protocol):
    """A policy that divides its queue into bands, which are tried one after the other.

    What a band means is up to the policy; all units of a band come before those of the next. While
    a unit of a band is pending, refused or not, none of a later band is tried, whatever its quota.
    Units on hold (inactive, in backoff) are in no queue and hold back none. `bands` counts instead
    of `holds_back`.
    """

    @property
    def bands(self) -> tuple[HoldsBack, ...]:
        """What a refused unit of each band does to those behind it in the band."""

    def band(self, unit: QueueUnit, queue: Queue, options: QueueOptions) -> int:
        """Return the unit's band, an index of `bands`; asked when the unit or the queue changes.

        `spec.priority` is limited as for `order_key`. `options` are those in force; annotations of
        the queue may differ.
        """


def is_banded(policy: QueuePolicy) -> TypeGuard[BandedPolicy]:
    """Return whether a policy has bands, by its members.

    Asked of every queue of each copy of the engine, where `isinstance` would take most of the time.
    """
    return hasattr(policy, "bands") and hasattr(policy, "band")


def bands_of(policy: QueuePolicy) -> tuple[HoldsBack, ...]:
    """Return what a refused unit of each band holds back; one band if the policy has none."""
    bands = policy.bands if is_banded(policy) else ()
    return bands or (policy.holds_back,)


def creation_order(unit: QueueUnit) -> tuple[str, str, str]:
    """Return (creation time of unit or job, or when it lost its position, namespace, name).

    The job's creation counts if the controllers have proved it.
    """
    meta = unit.metadata
    proved = unit.status.job_creation_timestamp or ""
    is_before = bool(proved) and proved <= meta.creation_timestamp
    created = proved if is_before and _TIME.fullmatch(proved) else meta.creation_timestamp
    since = contested_since(unit)
    if since > created and _TIME.fullmatch(since):
        created = since
    return (created, meta.namespace, meta.name)


class _BuiltIn:
    """A built-in policy."""

    __slots__ = ("_by_priority", "holds_back", "name")

    def __init__(self, name: str, holds_back: HoldsBack, *, by_priority: bool) -> None:
        self.name = name
        self.holds_back = holds_back
        self._by_priority = by_priority

    def __reduce__(self) -> str:
        """Let a checkpoint name the constant: queues compare their policy by identity."""
        return self.name.upper()

    def order_key(self, unit: QueueUnit) -> OrderKey:
        """Return (-priority, creation, namespace, name), priority 0 throughout for FIFO."""
        priority = unit.spec.priority if self._by_priority else 0
        return (-priority, *creation_order(unit))


class _Intelligent:
    """Units of high priority one after the other, and the others while none of these is pending."""

    __slots__ = ()

    name: Final = "Intelligent"
    holds_back: Final = HoldsBack.SAME_QUOTA
    bands: Final = (HoldsBack.SAME_QUOTA, HoldsBack.NOBODY)

    def band(self, unit: QueueUnit, _queue: Queue, options: QueueOptions) -> int:
        """Return 0 for a unit of high priority, 1 for any other."""
        return 0 if unit.spec.priority >= options.priority_threshold else 1

    def order_key(self, unit: QueueUnit) -> OrderKey:
        """Return (-priority, whether it is preemptible, creation, namespace, name)."""
        is_preemptible = unit.metadata.labels.get(PREEMPTIBLE) != "false"
        return (-unit.spec.priority, int(is_preemptible), *creation_order(unit))


PRIORITY: Final = _BuiltIn("Priority", HoldsBack.NOBODY, by_priority=True)
BLOCK: Final = _BuiltIn("Block", HoldsBack.SAME_QUOTA, by_priority=True)
FIFO: Final = _BuiltIn("FIFO", HoldsBack.SAME_QUOTA, by_priority=False)

FAIR: Final = _BuiltIn("Fair", HoldsBack.NOBODY, by_priority=True)

INTELLIGENT: Final = _Intelligent()

BUILT_IN_POLICIES: Final[tuple[QueuePolicy, ...]] = (PRIORITY, BLOCK, FIFO, INTELLIGENT, FAIR)
