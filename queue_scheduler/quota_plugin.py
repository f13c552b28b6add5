"""What all plugins with quotas have in common: their quota cache behind the framework's methods.

A unit is translated into a demand, which is checked, charged, and waits. How a demand follows from
a unit's amounts (its job, its pods), which quotas exist and which units use them differs by plugin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, cast

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.framework.extension_points import (
    ForeignPod,
    Loan,
    Place,
    Reclaimer,
    Supposed,
    Waiter,
)
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.quota.quota_decision import Demand, QuotaProblem
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaSettings
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.quota_cache.admission_record import AdmissionRecord
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.quota_ledger import ForeignCharge
from queue_scheduler.quota_cache.reclaim import LentUsage, find_borrowed, is_owed
from queue_scheduler.required_requests import missing_requests_text
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import NO_UID, Uid
from shared_api.well_known_labels import JOB_COUNTS

LIMITS: Final = reasons_with(Trait.FIXED_LIMIT)


class QuotaPlugin(ABC):
    """The quotas of a plugin, and its answers at the extension points where all such plugins agree.

    It is a base class, not a part: a plugin takes part in the extension points whose methods it
    has, so each method would have to be written again to delegate.

    Attributes:
        name: The plugin's name.
        quotas: The quotas with their usage.
        noted: What the unit that was reserved last was compared with; None: it is not charged here.
        judges_namespaces: Whether a unit is mapped to a quota only if its namespace may name that.
    """

    name: str
    quotas: QuotaCache
    stirred_domains: Callable[[], list[str]]
    keeps_room_for: Callable[[str], bool]
    follows_charges: Literal[True] = True
    judges_namespaces: bool = False

    def __init__(self, settings: QuotaSettings) -> None:
        """Start without quotas; `settings` are those of the quota cache."""
        self._settings = settings
        # The names of all existing quotas, usable or not. Replaced, never changed, so forks share
        # it.
        self._known: frozenset[str] = frozenset()
        self._told_problems: frozenset[QuotaProblem] = frozenset()
        self.noted: AdmissionRecord | None = None
        self._keep(QuotaCache(settings))

    def _keep(self, quotas: QuotaCache) -> None:
        self.quotas = quotas
        # Called after every fact, mostly without result: the bound methods save a call each.
        self.stirred_domains = quotas.stirred_domains
        self.keeps_room_for = quotas.keeps_room_for

    def _take_over(self, other: QuotaPlugin) -> None:
        """Start with the state of another plugin with the same settings."""
        self._known = other._known
        self._told_problems = other._told_problems
        self._keep(other.quotas.fork())

    # --- what differs -------------------------------------------------------------------------

    @abstractmethod
    def demand_of(self, info: QueueUnitInfo) -> Demand:
        """Return what a unit asks for."""

    def question_of(self, info: QueueUnitInfo) -> Demand:
        """Return the same as a question: pods of its job that are held now are the demand."""
        consumer = info.unit.spec.consumer_ref
        job = NO_UID if consumer is None else consumer.uid
        return replace(self.demand_of(info), job=job)

    @abstractmethod
    def demands_of(self, added: Sequence[Supposed]) -> list[tuple[str, Demand]]:
        """Return the hypothetical charges as (quota, demand) pairs."""

    @abstractmethod
    def domain_of(self, quota: str) -> str:
        """Return the name of what units of a quota compete for; "" if they do not compete."""

    def charge_of_foreign(self, pod: ForeignPod) -> ForeignCharge | None:
        """Return what is charged for a pod that no unit stands for; None: nothing."""
        return None

    # --- deciding -----------------------------------------------------------------------------

    def knows_quota(self, quota: str) -> bool:
        """Return whether there is a quota of that name."""
        return quota in self._known

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why the unit's demand does not fit; None if it does, or the quota is not ours."""
        if info.quota not in self._known:
            return None
        refusal = self.quotas.check(info.quota, self.question_of(info))
        return None if refusal is None else self._for_users(refusal)

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return a refusal for each limit that the unit's demand does not fit."""
        if info.quota not in self._known:
            return []
        found = self.quotas.every_refusal(info.quota, self.question_of(info))
        return [self._for_users(refusal) for refusal in found]

    def check_without(
        self, info: QueueUnitInfo, released: Sequence[Uid], added: Sequence[Supposed] = ()
    ) -> Refusal | None:
        """Return the same with nothing charged for `released`, and `added` charged."""
        if info.quota not in self._known:
            return None
        extra = self.demands_of(added) if added else ()
        refusal = self.quotas.check_without(info.quota, self.question_of(info), released, extra)
        return None if refusal is None else self._for_users(refusal)

    def _for_users(self, refusal: Refusal) -> Refusal:
        return put_for_users(refusal, self.quotas.namespace_among_several(refusal.quota))

    def reserve(self, info: QueueUnitInfo) -> Refusal | None:
        """Charge the whole demand of the unit."""
        self.noted = self.quotas.charge(info.uid, info.quota, self.demand_of(info), notes=True)
        return None

    def unreserve(self, uid: Uid) -> None:
        """Release what is charged for the uid."""
        self.quotas.release(uid)

    # --- required requests --------------------------------------------------------------------

    def check_requests(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a unit whose pods lack a request may not be pending, or None."""
        required = self._required_in(info.quota)
        missing = missing_requests_text(info.demand, required) if required else ""
        if not missing:
            return None
        return Refusal(reason=Reason.REQUESTS_MISSING, quota=info.quota, detail=missing)

    def find_unrequested(self, info: QueueUnitInfo) -> tuple[str, ...]:
        """Return the governed resources of its quota if the unit requests none of them; else ()."""
        if not info.demand.pods or info.quota not in self._known:
            return ()
        return self.quotas.find_unrequested(info.quota, info.demand.total)

    def _required_in(self, quota: str) -> frozenset[str]:
        """Return the resources that every pod must request in a quota."""
        required = self._settings.required_requests
        return required & self.quotas.stated.governed(quota) if required else required

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Register a refused class with the quota cache."""
        quota, whole = info.quota, info.demand.whole
        self.quotas.wait(
            waiter,
            quota,
            self.question_of(info),
            refusal,
            domain=self.domain_of(quota),
            whole=None if whole is None else self.question_of(replace(info, demand=whole)),
        )

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class."""
        self.quotas.stop_waiting(waiter)

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class that changes may let in, with its place."""
        found = self.quotas.first_woken(domain, place_of, before)
        return None if found is None else (found[0], cast("Waiter", found[2]))

    def domains(self, quota: str) -> frozenset[str]:
        """Return the name of what units of the quota compete for, if there is one."""
        domain = self.domain_of(quota)
        return frozenset({domain}) if domain else frozenset()

    def lent_to(
        self, info: QueueUnitInfo, leaving: Iterable[Uid], *, outranks: bool
    ) -> LentUsage | None:
        """Return which units may be evicted together for a refused unit, within all guarantees.

        A unit evicted within its min becomes protected when requeued, so only borrowers are
        candidates. None (any unit) only for a unit that outranks the victims and is itself owed the
        room.
        """
        trees, demand = self.quotas.trees, self.demand_of(info)
        if info.quota not in self._known or (outranks and is_owed(trees, info.quota, demand)):
            return None
        return LentUsage(trees, self.quotas.ledger, info.quota, demand, leaving)

    def loan_of(self, uid: Uid) -> Loan | None:
        """Return what the quota of a charged unit borrows; None: no quota here, or none lends."""
        charge = self.quotas.charge_of(uid)
        is_alone = self._settings.kind is QuotaKind.RESOURCE_QUOTA
        if charge is None or is_alone or charge[0] not in self._known:
            return None
        borrowed = find_borrowed(self.quotas.trees, *charge)
        return Loan(borrowed, self._find_reclaimers(*charge))

    def _find_reclaimers(self, quota: str, demand: Demand) -> tuple[Reclaimer, ...]:
        """Return the quotas that may reclaim from a charge: none, where quotas do not reclaim."""
        return ()

    def chain(self, quota: str) -> tuple[str, ...]:
        """Return the quota and its ancestors, nearest first, without the root; () if not usable."""
        return self.quotas.chain(quota) if quota in self._known else ()

    # --- facts --------------------------------------------------------------------------------

    def on_quota(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Ignore an ElasticQuota: the quotas of most plugins are other objects."""
        return ()

    def on_quota_gone(self, quota: ElasticQuota) -> tuple[str, ...]:
        """Ignore a deleted ElasticQuota: the quotas of most plugins are other objects."""
        return ()

    def _charge_foreign(self, key: str, pod: ForeignPod | None) -> None:
        """Charge a pod that no unit stands for; None if it is gone."""
        charge = None if pod is None else self.charge_of_foreign(pod)
        if charge is None:
            self.quotas.on_foreign(key, "", None)
            return
        self.quotas.on_foreign(
            key,
            charge.quota,
            charge.demand.amounts,
            stage=charge.stage,
            non_preemptible=charge.demand.non_preemptible,
            job=charge.job,
        )

    # --- reporting ----------------------------------------------------------------------------

    def list_quotas(self) -> tuple[str, ...]:
        """Return the names of all quotas, sorted."""
        return self.quotas.stated.names()

    def view_quota(self, name: str) -> QuotaView | None:
        """Return one quota with its numbers, or None."""
        return self.quotas.view(name)

    def _take_new_problems(self) -> list[QuotaProblem]:
        """Return, once, the new problems of quotas."""
        problems = self.quotas.problems()
        known, self._told_problems = self._told_problems, frozenset(problems)
        return [problem for problem in problems if problem not in known]

    def _why_broken(self, quota: str) -> Refusal:
        """Return why a quota that exists cannot be used."""
        culprit = self.quotas.trees.why_unusable(quota).other
        view = self.quotas.view(culprit)
        assert view is not None, f"quota {culprit} is at fault and unknown"
        # A younger object of the same name has its own problem, which does not affect this quota.
        texts = [p.text for p in view.problems if p.fatal and p.namespace == view.namespace]
        detail = "; ".join(texts)
        return Refusal(
            reason=Reason.BROKEN_CHAIN,
            quota=quota,
            quota_namespace=self.quotas.namespace_among_several(quota),
            other=culprit,
            detail=detail,
        )


def quota_plugins(plugins: Iterable[object]) -> Iterator[QuotaPlugin]:
    """Yield those of some plugins that have their quotas in a cache, in order."""
    return (plugin for plugin in plugins if isinstance(plugin, QuotaPlugin))


def put_for_users(refusal: Refusal, namespace: str = "") -> Refusal:
    """Return a quota's refusal as it is shown to users.

    The reason changes in two cases. A demand larger than the limit does not fit an empty quota
    either, so the user must learn that waiting does not help. A limit on jobs is not about a
    resource. `told_of` keeps the original reason.

    Args:
        refusal: The refusal of the quota cache.
        namespace: Namespace of the quota that counts, if there are several of its name.
    """
    kind = refusal.reason
    if kind in LIMITS and refusal.requested > refusal.limit:
        reason = Reason.EXCEEDS_QUOTA
    elif refusal.resource in JOB_COUNTS:
        reason = Reason.OVER_MAX_JOBS
    else:
        return replace(refusal, quota_namespace=namespace) if namespace else refusal
    return replace(refusal, reason=reason, told_of=kind, quota_namespace=namespace)
