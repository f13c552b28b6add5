"""What QuotaPolicies set for quotas, and which policy counts for which quota. Pure.

Where several policies name a quota, the oldest counts; of one second, the first by name. A
policy whose limits cannot be read keeps those that it had: the last valid ones, which its status
repeats for the next process; with its budgets it is the same, apart from the limits, and with what
it states for queues. Its quotas can always be read, so what counts are the old limits for the
quotas that it names now.

Quotas are names here. Whether a quota exists makes no difference: no unit is charged to a quota
that does not exist, so a limit of it counts from the moment at which it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.decision import Notice
from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, read_fair_share
from queue_scheduler.queueing.managed_queues import PolicyStatement
from queue_scheduler.tenants.budget_reading import BudgetError, read_budgets
from queue_scheduler.tenants.budget_rules import BudgetRule
from queue_scheduler.tenants.calendars import Calendar, Calendars
from queue_scheduler.tenants.limit_reading import LimitError, read_limits
from queue_scheduler.tenants.limit_rules import NO_LIMITS, QuotaUserLimits
from shared_api.objects.queue import FairShare
from shared_api.objects.quota_policy import Budget, QuotaPolicy, StatedQueue, UserLimit
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE

UNREADABLE_LIMIT: Final = "UnreadableLimit"
UNREADABLE_BUDGET: Final = "UnreadableBudget"
UNREADABLE_FAIR_SHARE: Final = "UnreadableFairShare"
"""Reasons of the event on a policy, and of its condition Ready."""


BUDGETS_NEED_ACCOUNTS: Final = (
    "its budgets do not count, since the scheduler keeps no accounts (accounts.enabled of the"
    " chart)"
)
"""What is wrong with a policy with budgets where accounts are not kept."""


class StatedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy, and what of it is in force.

    Attributes:
        api_object: The policy.
        user_limits: The last valid `userLimits`.
        limits: The same in base units.
        budgets: The last valid `budgets`.
        budget_rules: The same as they count.
        limit_problem: Why the limits of the spec cannot be read, as a text for users; "": they are
            in force.
        budget_problem: The same of the budgets.
        fair_share: The last valid `queue.fairShare`; None: nothing is stated for queues.
        fair_problem: The same of that.
    """

    api_object: QuotaPolicy
    user_limits: tuple[UserLimit, ...] = ()
    limits: QuotaUserLimits = NO_LIMITS
    budgets: tuple[Budget, ...] = ()
    budget_rules: tuple[BudgetRule, ...] = ()
    limit_problem: str = ""
    budget_problem: str = ""
    fair_share: FairShare | None = None
    fair_problem: str = ""

    @property
    def problem(self) -> str:
        """Why the spec is not in force, as a text for users; "": it is."""
        problems = (self.limit_problem, self.budget_problem, self.fair_problem)
        return "; ".join(filter(None, problems))

    @property
    def problem_reason(self) -> str:
        """The same as the reason of an event or a condition."""
        if self.limit_problem:
            return UNREADABLE_LIMIT
        return UNREADABLE_BUDGET if self.budget_problem else UNREADABLE_FAIR_SHARE

    @property
    def quotas(self) -> tuple[str, ...]:
        """The quotas that the policy names, each once."""
        return tuple(dict.fromkeys(self.api_object.spec.quotas))


class QuotaPolicies:
    """The policies by name, and what is in force for each quota.

    Args:
        namespace: The one namespace in which policies count, that of the queues.

    Attributes:
        namespace: The same.
        are_served: Whether the cluster has the kind; None: not known yet.
        calendars: When the periods of budgets begin.
    """

    def __init__(self, namespace: str = DEFAULT_QUEUE_NAMESPACE) -> None:
        self.are_served: bool | None = None
        self.namespace = namespace
        self.calendars = Calendars()
        self._stated: dict[str, StatedPolicy] = {}
        # What follows from them: the policies that name each quota, the one that counts first.
        self._of_quota: dict[str, list[StatedPolicy]] = {}
        # By policy: a replica that does not lead never takes them.
        self._notices: dict[str, Notice] = {}

    def __iter__(self) -> Iterator[StatedPolicy]:
        return iter(self._stated.values())

    def find(self, name: str) -> StatedPolicy | None:
        """Return the policy of a name; None: there is none."""
        return self._stated.get(name)

    # --- what is in force ---------------------------------------------------------------------

    def limits_of(self, quota: str) -> QuotaUserLimits:
        """Return the limits by user and group that a quota has for itself and what is below it."""
        named = self._of_quota.get(quota)
        return NO_LIMITS if named is None else named[0].limits

    def budgets_of(self, quota: str) -> tuple[BudgetRule, ...]:
        """Return the budgets that a quota has for itself and what is below it."""
        named = self._of_quota.get(quota)
        return () if named is None else named[0].budget_rules

    def statement_of(self, quota: str) -> PolicyStatement | None:
        """Return what is stated for the queue of a quota; None: nothing."""
        named = self._of_quota.get(quota)
        share = None if named is None else named[0].fair_share
        return None if share is None else PolicyStatement(self.policy_of(quota), share)

    def policy_of(self, quota: str) -> str:
        """Return the name of the policy that counts for a quota; "": none does."""
        named = self._of_quota.get(quota)
        return "" if named is None else named[0].api_object.metadata.name

    # --- facts --------------------------------------------------------------------------------

    def put(self, policy: QuotaPolicy) -> tuple[str, ...]:
        """Take a new or changed policy; return the quotas whose limits or budgets differ now.

        The calendars of its budgets must be known: what has none is in no time zone that exists.
        """
        if policy.metadata.namespace != self.namespace:
            return ()
        before = self._stated.get(policy.metadata.name)
        if before is not None and before.api_object.metadata.uid != policy.metadata.uid:
            before = None
        return self._put(policy, before)

    def _put(self, policy: QuotaPolicy, before: StatedPolicy | None) -> tuple[str, ...]:
        stated = _read_budgets(_read(policy, before), before, self.calendars)
        stated = _read_queue(stated, before)
        if stated.problem and (before is None or before.problem != stated.problem):
            self._notices[policy.metadata.name] = _build_notice(stated)
        return self._replace(policy.metadata.name, stated)

    def put_calendars(self, calendars: Iterable[Calendar]) -> tuple[str, ...]:
        """Take when periods begin; return the quotas whose budgets differ now."""
        if not self.calendars.put(calendars):
            return ()
        again = [each for each in self._stated.values() if each.budget_problem]
        found = [quota for each in again for quota in self._put(each.api_object, each)]
        return tuple(dict.fromkeys(found))

    def drop(self, name: str) -> tuple[str, ...]:
        """Forget a deleted policy; return the quotas whose limits or budgets differ now."""
        self._notices.pop(name, None)
        return self._replace(name, None)

    def set_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Take whether the cluster has the kind: without it there are no policies.

        Return the quotas whose limits or budgets differ now.
        """
        self.are_served = are_served
        names = () if are_served else tuple(self._stated)
        return tuple(dict.fromkeys(quota for name in names for quota in self.drop(name)))

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events on policies."""
        notices, self._notices = self._notices, {}
        return list(notices.values())

    def _replace(self, name: str, stated: StatedPolicy | None) -> tuple[str, ...]:
        old = self._stated.get(name)
        if stated is not None:
            self._stated[name] = stated
        elif old is not None:
            del self._stated[name]
        quotas = dict.fromkeys(quota for each in (old, stated) if each for quota in each.quotas)
        before = {quota: self._in_force(quota) for quota in quotas}
        for quota in quotas:
            self._put_of_quota(quota, old, stated)
        return tuple(quota for quota in quotas if self._in_force(quota) != before[quota])

    def _in_force(self, quota: str) -> tuple[object, ...]:
        return self.limits_of(quota).rules, self.budgets_of(quota)

    def _put_of_quota(
        self, quota: str, old: StatedPolicy | None, stated: StatedPolicy | None
    ) -> None:
        named = [each for each in self._of_quota.pop(quota, ()) if each is not old]
        if stated is not None and quota in stated.quotas:
            named.append(stated)
        if named:
            # A new list: forks share the lists.
            self._of_quota[quota] = sorted(named, key=_age)

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> QuotaPolicies:
        """Return an independent copy, without the notices."""
        twin = QuotaPolicies(self.namespace)
        twin.are_served, twin.calendars = self.are_served, self.calendars.copy()
        twin._stated = dict(self._stated)
        twin._of_quota = dict(self._of_quota)
        return twin


def _build_notice(stated: StatedPolicy) -> Notice:
    meta, reason = stated.api_object.metadata, stated.problem_reason
    note = stated.problem
    return Notice(kind="QuotaPolicy", key=meta.key, uid=meta.uid, reason=reason, note=note)


def _age(stated: StatedPolicy) -> tuple[str, str]:
    meta = stated.api_object.metadata
    return (meta.creation_timestamp, meta.name)


def _read(policy: QuotaPolicy, before: StatedPolicy | None) -> StatedPolicy:
    """Return the limits that a policy states.

    What cannot be read stays as it was `before`, or as its status has recorded it.
    """
    stated = policy.spec.user_limits
    if before is not None and before.api_object.spec.user_limits == stated:
        problem = before.limit_problem
        return StatedPolicy(policy, before.user_limits, before.limits, limit_problem=problem)
    name = policy.metadata.name
    try:
        return StatedPolicy(policy, stated, read_limits(stated, name))
    except LimitError as error:
        problem = f"{error}; the last valid limits stay in force"
    if before is not None:
        return StatedPolicy(policy, before.user_limits, before.limits, limit_problem=problem)
    recorded = policy.status.user_limits_in_force
    try:
        return StatedPolicy(policy, recorded, read_limits(recorded, name), limit_problem=problem)
    except LimitError:
        # The status is the scheduler's own, but any administrator may have written it.
        return StatedPolicy(policy, limit_problem=problem)


def _read_budgets(
    stated: StatedPolicy, before: StatedPolicy | None, calendars: Calendars
) -> StatedPolicy:
    """Return a policy with the budgets that it states, by the same rule."""
    policy = stated.api_object
    name, spec = policy.metadata.name, policy.spec.budgets
    try:
        return replace(stated, budgets=spec, budget_rules=read_budgets(spec, name, calendars))
    except BudgetError as error:
        stated = replace(stated, budget_problem=f"{error}; the last valid budgets stay in force")
    if before is not None:
        return replace(stated, budgets=before.budgets, budget_rules=before.budget_rules)
    recorded = policy.status.budgets_in_force
    try:
        rules = read_budgets(recorded, name, calendars)
    except BudgetError:
        return stated
    return replace(stated, budgets=recorded, budget_rules=rules)


def _read_queue(stated: StatedPolicy, before: StatedPolicy | None) -> StatedPolicy:
    """Return a policy with what it states for queues, by the same rule."""
    share, problem = _readable(stated.api_object.spec.queue)
    if problem is None:
        return replace(stated, fair_share=share)
    if before is not None:
        share = before.fair_share
    else:
        share, _ = _readable(stated.api_object.status.queue_in_force)
    return replace(stated, fair_share=share, fair_problem=f"queue.{problem}")


def _readable(queue: StatedQueue | None) -> tuple[FairShare | None, str | None]:
    """Return a `fairShare`, or None and why it cannot be read."""
    share = None if queue is None else queue.fair_share
    _, problem = read_fair_share(share, DEFAULT_FAIR)
    return (share if problem is None else None), problem
