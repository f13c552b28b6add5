"""What all plugins that keep quotas have in common: their books, asked in the framework's words.

A unit is translated into a demand that is checked, booked, and waits. What makes a demand of a
unit's amounts (its job, its pods), which quotas there are and who uses them differs by plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Place, Supposed, Waiter
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.quota.quota_decision import Demand, QuotaProblem, QuotaView
from queue_scheduler.quota.quota_settings import QuotaSettings
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.reclaim import Lent, is_owed
from queue_scheduler.required_requests import tell_missing
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import JOB_COUNTS, read_queue_name, read_quota_name

LIMITS: Final = frozenset((Reason.OVER_QUOTA_MAX, Reason.OVER_PARENT_MAX, Reason.OVER_MIN))
"""Reasons whose limit does not depend on what others do."""


class QuotaPlugin(ABC):
    """A plugin's quotas, and its answers at those extension points where all such plugins agree.

    A base class, not a part: what a plugin takes part in is read off its methods, and each would
    have to be written again to pass the question on.

    Attributes:
        books: What is booked.
    """

    books: QuotaCache
    stirred_domains: Callable[[], list[str]]
    keeps_room_for: Callable[[str], bool]

    def __init__(self, settings: QuotaSettings) -> None:
        """Begin with no quota; `settings` are those of the books."""
        self._settings = settings
        # The names of all quotas that there are, usable or not. Replaced, never changed.
        self._known: frozenset[str] = frozenset()
        self._told_problems: frozenset[QuotaProblem] = frozenset()
        self._keep(QuotaCache(settings))

    def _keep(self, books: QuotaCache) -> None:
        self.books = books
        # Asked after every fact, and mostly in vain: the books' own answers, no call between.
        self.stirred_domains = books.stirred_domains
        self.keeps_room_for = books.keeps_room_for

    def _take_over(self, other: QuotaPlugin) -> None:
        """Begin with what another of the same settings knows."""
        self._known = other._known
        self._told_problems = other._told_problems
        self._keep(other.books.fork())

    # --- what differs -------------------------------------------------------------------------

    @abstractmethod
    def demand_of(self, info: QueueUnitInfo) -> Demand:
        """Return what a unit asks for."""

    @abstractmethod
    def demands_of(self, added: Sequence[Supposed]) -> list[tuple[str, Demand]]:
        """Return what would be booked besides, each with its quota."""

    @abstractmethod
    def domain_of(self, quota: str) -> str:
        """Return what units of a quota compete for; "": with nobody."""

    # --- deciding -----------------------------------------------------------------------------

    def knows_quota(self, quota: str) -> bool:
        """Return whether there is a quota of that name."""
        return quota in self._known

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Ask the books whether the unit's demand fits; pass what is charged elsewhere."""
        if info.quota not in self._known:
            return None
        refusal = self.books.check(info.quota, self.demand_of(info))
        return None if refusal is None else self._for_users(refusal)

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        """Ask the books whether it would fit if others were booked."""
        if info.quota not in self._known:
            return None
        besides = self.demands_of(added) if added else ()
        refusal = self.books.check_without(info.quota, self.demand_of(info), released, besides)
        return None if refusal is None else self._for_users(refusal)

    def _for_users(self, refusal: Refusal) -> Refusal:
        return put_for_users(refusal, self.books.namespace_among_several(refusal.quota))

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        """Book the unit whole."""
        self.books.book(info.uid, info.quota, self.demand_of(info))
        return None

    def unreserve(self, uid: Uid) -> None:
        """Take back what is booked for the uid."""
        self.books.release(uid)

    # --- what is requested --------------------------------------------------------------------

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit may not stand in line whose pods lack a request, or None."""
        required = self._required_in(info.quota)
        missing = tell_missing(info.demand, required) if required else ""
        if not missing:
            return None
        return Refusal(reason=Reason.REQUESTS_MISSING, quota=info.quota, detail=missing)

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the resources that its quota governs of a unit that is charged none of them."""
        if not info.demand.pods or info.quota not in self._known:
            return ()
        return self.books.find_unrequested(info.quota, info.demand.total)

    def _required_in(self, quota: str) -> frozenset[str]:
        """Return what every pod must request in a quota."""
        required = self._settings.required_requests
        return required & self.books.governed(quota) if required else required

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Leave a refused class with the books."""
        quota, whole = info.quota, info.demand.whole
        self.books.wait(
            waiter,
            quota,
            self.demand_of(info),
            refusal,
            domain=self.domain_of(quota),
            whole=None if whole is None else self.demand_of(replace(info, demand=whole)),
        )

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class."""
        self.books.stop_waiting(waiter)

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class that changes may have enabled, with its place."""
        found = self.books.first_woken(domain, place_of, before)
        return None if found is None else (found[0], cast("Waiter", found[2]))

    def domains(self, quota: str) -> frozenset[str]:
        """Return what units of the quota compete for."""
        domain = self.domain_of(quota)
        return frozenset({domain}) if domain else frozenset()

    def lent_to(
        self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool
    ) -> Lent | None:
        """Return who may go for a refused unit where guarantees hold.

        Who is evicted within his min is protected as soon as he waits again. So only who borrows
        may go, but for one who is owed the room himself and comes first.
        """
        trees, demand = self.books.trees, self.demand_of(info)
        if info.quota not in self._known or (outranks and is_owed(trees, info.quota, demand)):
            return None
        return Lent(trees, self.books.ledger, info.quota, demand, leaving)

    # --- facts --------------------------------------------------------------------------------

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take an ElasticQuota: nothing to those whose quotas are other objects."""
        return ()

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Take a deleted ElasticQuota: nothing to those whose quotas are other objects."""
        return ()

    # --- what is told -------------------------------------------------------------------------

    def views(self) -> list[QuotaView]:
        """Return all quotas with their numbers, by name."""
        found = (self.books.view(name) for name in self.books.names())
        return [view for view in found if view is not None]

    def _take_new_problems(self) -> list[QuotaProblem]:
        """Return, once, what is newly wrong with quotas."""
        problems = self.books.problems()
        known, self._told_problems = self._told_problems, frozenset(problems)
        return [problem for problem in problems if problem not in known]

    def _why_broken(self, quota: str) -> Refusal:
        """Return why a quota that exists cannot be used."""
        culprit = self.books.trees.why_unusable(quota).other
        view = self.books.view(culprit)
        assert view is not None, f"quota {culprit} is at fault and unknown"
        # A younger object of the same name has a problem of its own, which does no harm to it.
        texts = [p.text for p in view.problems if p.fatal and p.namespace == view.namespace]
        detail = "; ".join(texts)
        return Refusal(
            reason=Reason.BROKEN_CHAIN,
            quota=quota,
            quota_namespace=self.books.namespace_among_several(quota),
            other=culprit,
            detail=detail,
        )


def read_chosen_queue(unit: QueueUnit) -> str:
    """Return the queue that somebody chose for a unit, or "".

    The controllers fill `spec.queue` with the name of the quota where the job names no queue.
    """
    meta = unit.metadata
    filled = unit.spec.queue
    return read_queue_name(meta.labels, meta.annotations) or (
        "" if filled == read_quota_name(meta.labels) else filled
    )


def put_for_users(refusal: Refusal, namespace: str = "") -> Refusal:
    """Return a quota's refusal as users are told of it.

    The reason is the same, but for a demand that is larger than a limit: it fits no emptier quota
    either, and its user must hear that waiting does not help. And for limits on jobs, which are of
    no resource. What kind of limit it is remains in `told_of`.

    Args:
        refusal: The books' no.
        namespace: Of the quota that counts, where there are several of its name.
    """
    kind = refusal.reason
    if kind in LIMITS and refusal.requested > refusal.limit:
        reason = Reason.EXCEEDS_QUOTA
    elif refusal.resource in JOB_COUNTS:
        reason = Reason.OVER_MAX_JOBS
    else:
        return replace(refusal, quota_namespace=namespace) if namespace else refusal
    return replace(refusal, reason=reason, told_of=kind, quota_namespace=namespace)
