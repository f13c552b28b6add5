"""The books of a plugin whose quotas are compared by plain limits, in the framework's words.

What ElasticQuotaTree and ResourceQuota have in common: the translation of a unit into a demand that
is checked, booked, and waits. What makes a demand of a unit's amounts (its job, its pods) differs,
and is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.quota.quota_books import QuotaBooks
from queue_scheduler.quota.quota_decision import Demand, QuotaRefusal, QuotaView, RefusalReason
from queue_scheduler.quota.quota_settings import QuotaSettings
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import JOB_COUNTS, read_queue_name, read_quota_name

DemandOf = Callable[[QueueUnitInfo], Demand]

LIMITS: Final = frozenset(
    (RefusalReason.OVER_QUOTA_MAX, RefusalReason.OVER_PARENT_MAX, RefusalReason.OVER_MIN)
)
"""Reasons whose limit does not depend on what others do."""


class BookedQuotas:
    """Asks the books for a plugin.

    Args:
        settings: Of the books.
        demand_of: What a unit asks for.
        domain_of: What units of a quota compete for; "": with nobody.
    """

    def __init__(
        self, settings: QuotaSettings, demand_of: DemandOf, domain_of: Callable[[str], str]
    ) -> None:
        self.books = QuotaBooks(settings)
        self._demand_of = demand_of
        self._domain_of = domain_of

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Ask whether the unit's demand fits."""
        refusal = self.books.check(info.quota, self._demand_of(info))
        return None if refusal is None else translate(refusal)

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], besides: Sequence[tuple[str, Demand]]
    ) -> Refusal | None:
        """Ask whether the unit's demand would fit if others were booked."""
        refusal = self.books.check_without(info.quota, self._demand_of(info), released, besides)
        return None if refusal is None else translate(refusal)

    def reserve(self, info: QueueUnitInfo) -> None:
        """Book the unit whole."""
        self.books.book(info.uid, info.quota, self._demand_of(info))

    def book(self, uid: Uid, quota: str, demand: Demand) -> None:
        """Book exactly this for the uid, fitting or not."""
        self.books.book(uid, quota, demand)

    def wait(self, waiter: Waiter, info: QueueUnitInfo) -> None:
        """Leave a class with the books that they have just refused."""
        demand = self._demand_of(info)
        # Asked again, since the framework's refusal does not say all that the books' says.
        refusal = self.books.check(info.quota, demand)
        assert refusal is not None, f"{info.key} waits for quota {info.quota}, where it fits"
        self.books.wait(waiter, info.quota, demand, refusal, domain=self._domain_of(info.quota))

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class that changes may have enabled, with its place."""
        found = self.books.first_woken(domain, place_of, before)
        return None if found is None else (found[0], cast("Waiter", found[2]))

    def protect(self, quota: str, info: QueueUnitInfo | None) -> None:
        """Tell the books the first waiting unit of a quota."""
        self.books.protect(quota, None if info is None else self._demand_of(info))

    def views(self) -> list[QuotaView]:
        """Return all quotas with their numbers, by name."""
        found = (self.books.view(name) for name in self.books.names())
        return [view for view in found if view is not None]

    def why_broken(self, quota: str) -> Refusal:
        """Return why a quota that exists can not be used."""
        culprit = self.books.trees.why_unusable(quota).other
        view = self.books.view(culprit)
        assert view is not None, f"quota {culprit} is at fault and unknown"
        # A younger object of the same name has a problem of its own, which does no harm to it.
        texts = [p.text for p in view.problems if p.fatal and p.namespace == view.namespace]
        detail = "; ".join(texts)
        return Refusal(reason=Reason.BROKEN_CHAIN, quota=quota, other=culprit, detail=detail)


def read_chosen_queue(unit: QueueUnit) -> str:
    """Return the queue that somebody chose for a unit, or "".

    The controllers fill `spec.queue` with the name of the quota where the job names no queue.
    """
    meta = unit.metadata
    filled = unit.spec.queue
    return read_queue_name(meta.labels, meta.annotations) or (
        "" if filled == read_quota_name(meta.labels) else filled
    )


def translate(refusal: QuotaRefusal) -> Refusal:
    """Return the framework's words for the books' no; the reasons carry the same values.

    But for a demand that is larger than a limit: it fits no emptier quota either, and its user must
    hear that waiting does not help. And for limits on jobs, which are of no resource.
    """
    reason = Reason(refusal.reason.value)
    if refusal.reason in LIMITS and refusal.requested > refusal.limit:
        reason = Reason.EXCEEDS_QUOTA
    elif refusal.resource in JOB_COUNTS:
        reason = Reason.OVER_MAX_JOBS
    return Refusal(
        reason=reason,
        quota=refusal.quota,
        resource=refusal.resource,
        limit=refusal.limit,
        used=refusal.used,
        requested=refusal.requested,
        other=refusal.other,
    )
