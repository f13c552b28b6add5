"""What QuotaPolicies set for quotas, and which policy counts for which quota. Pure.

Of the policies that name a quota the oldest counts; of those of one second the first by name. A
policy whose limits cannot be read keeps those that it had: the last valid ones, which its status
repeats for the next process. Its quotas can always be read, so what counts are the old limits for
the quotas that it names now.

Quotas are names here. Whether a quota exists makes no difference: no unit is charged to a quota
that does not exist, so a limit of it counts from the moment at which it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from queue_scheduler.decision import Notice
from queue_scheduler.tenants.limit_reading import LimitError, read_limits
from queue_scheduler.tenants.limit_rules import NO_LIMITS, QuotaUserLimits
from shared_api.objects.quota_policy import QuotaPolicy, UserLimit
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE

UNREADABLE_LIMIT: Final = "UnreadableLimit"
"""Reason of the event on a policy, and of its condition Ready."""


class StatedPolicy(msgspec.Struct, frozen=True, gc=False):
    """A policy, and what of it is in force.

    Attributes:
        api_object: The policy.
        user_limits: The last valid `userLimits`.
        limits: The same in base units.
        problem: Why those of the spec cannot be read, as a text for users; "": they are in force.
    """

    api_object: QuotaPolicy
    user_limits: tuple[UserLimit, ...]
    limits: QuotaUserLimits
    problem: str = ""

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
    """

    def __init__(self, namespace: str = DEFAULT_QUEUE_NAMESPACE) -> None:
        self.are_served: bool | None = None
        self.namespace = namespace
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

    def policy_of(self, quota: str) -> str:
        """Return the name of the policy that counts for a quota; "": none does."""
        named = self._of_quota.get(quota)
        return "" if named is None else named[0].api_object.metadata.name

    # --- facts --------------------------------------------------------------------------------

    def put(self, policy: QuotaPolicy) -> tuple[str, ...]:
        """Take a new or changed policy; return the quotas whose limits differ now."""
        if policy.metadata.namespace != self.namespace:
            return ()
        before = self._stated.get(policy.metadata.name)
        if before is not None and before.api_object.metadata.uid != policy.metadata.uid:
            before = None
        stated = _read(policy, before)
        if stated.problem and (before is None or before.problem != stated.problem):
            self._notices[policy.metadata.name] = _build_notice(policy, stated.problem)
        return self._replace(policy.metadata.name, stated)

    def drop(self, name: str) -> tuple[str, ...]:
        """Forget a deleted policy; return the quotas whose limits differ now."""
        self._notices.pop(name, None)
        return self._replace(name, None)

    def set_served(self, *, are_served: bool) -> tuple[str, ...]:
        """Take whether the cluster has the kind: without it there are no policies.

        Return the quotas whose limits differ now.
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
        before = {quota: self.limits_of(quota).rules for quota in quotas}
        for quota in quotas:
            self._put_of_quota(quota, old, stated)
        return tuple(quota for quota in quotas if self.limits_of(quota).rules != before[quota])

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
        twin.are_served = self.are_served
        twin._stated = dict(self._stated)
        twin._of_quota = dict(self._of_quota)
        return twin


def _build_notice(policy: QuotaPolicy, problem: str) -> Notice:
    meta = policy.metadata
    reason = UNREADABLE_LIMIT
    return Notice(kind="QuotaPolicy", key=meta.key, uid=meta.uid, reason=reason, note=problem)


def _age(stated: StatedPolicy) -> tuple[str, str]:
    meta = stated.api_object.metadata
    return (meta.creation_timestamp, meta.name)


def _read(policy: QuotaPolicy, before: StatedPolicy | None) -> StatedPolicy:
    """Return what a policy states; what cannot be read stays as it was `before`, or as recorded."""
    stated = policy.spec.user_limits
    if before is not None and before.api_object.spec.user_limits == stated:
        return StatedPolicy(policy, before.user_limits, before.limits, before.problem)
    name = policy.metadata.name
    try:
        return StatedPolicy(policy, stated, read_limits(stated, name))
    except LimitError as error:
        problem = f"{error}; the last valid limits stay in force"
    if before is not None:
        return StatedPolicy(policy, before.user_limits, before.limits, problem)
    recorded = policy.status.user_limits_in_force
    try:
        return StatedPolicy(policy, recorded, read_limits(recorded, name), problem)
    except LimitError:
        # The status is the scheduler's own, but any administrator may have written it.
        return StatedPolicy(policy, (), NO_LIMITS, problem)
