"""Writes into `QuotaPolicy.status` for which quotas a policy counts, and which limits are in force.

The limits are written also while the spec can be read: they are the last valid ones once it cannot
be, for the next process.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import knows_quota
from queue_scheduler.queue_objects.status_writer import MIN_INTERVAL_SECONDS
from queue_scheduler.tenants.quota_policies import UNREADABLE_LIMIT
from shared_api.client.resource_types import QUOTA_POLICIES
from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import READY
from shared_api.objects.quota_policy import QuotaInForce, QuotaPolicy, UserLimit
from shared_api.queue_unit_phases import condition_body, with_condition

IN_FORCE: Final = "InForce"
QUOTA_MISSING: Final = "QuotaMissing"
CONFLICT: Final = "Conflict"

MAX_TOLD: Final = 8
"""Quotas that the condition names; the list of quotas has all."""


class PolicyFigures(msgspec.Struct, frozen=True):
    """What the status of a policy shows.

    Attributes:
        generation: The generation of the policy that it is made from.
        quotas: Whether the policy counts for each of its quotas.
        user_limits: The limits in force.
        reason: Reason of the condition `Ready`, which is True if that is the reason.
        message: Of the condition.
    """

    generation: int
    quotas: tuple[QuotaInForce, ...]
    user_limits: tuple[UserLimit, ...]
    reason: str
    message: str


class QuotaPolicyStatuses:
    """The statuses of policies (`StatusKind`)."""

    resource_type: Final = QUOTA_POLICIES

    def names(self, engine: Engine) -> list[str]:
        """Return the names of all policies."""
        return [stated.api_object.metadata.name for stated in engine.policies]

    def find(self, engine: Engine, name: str) -> tuple[QuotaPolicy, float] | None:
        """Return a policy, and the fewest seconds between two writes; None: it is gone."""
        stated = engine.policies.find(name)
        return None if stated is None else (stated.api_object, MIN_INTERVAL_SECONDS)

    def read(self, engine: Engine, name: str) -> PolicyFigures | None:
        """Return what the status of a policy is to show; None: it is gone."""
        stated = engine.policies.find(name)
        if stated is None:
            return None
        quotas = tuple(_judge_quota(engine, name, quota) for quota in stated.quotas)
        reason, message = _judge(stated.problem, quotas)
        return PolicyFigures(
            generation=stated.api_object.metadata.generation,
            quotas=quotas,
            user_limits=stated.user_limits,
            reason=reason,
            message=message,
        )

    def is_shown(self, policy: QuotaPolicy, figures: PolicyFigures) -> bool:
        """Return whether the status shows this already."""
        status = policy.status
        condition = find_condition(status.conditions, READY)
        return (
            (status.observed_generation, status.quotas, status.user_limits_in_force)
            == (figures.generation, figures.quotas, figures.user_limits)
            and condition is not None
            and (condition.status == "True", condition.reason, condition.message)
            == (figures.reason == READY, figures.reason, figures.message)
        )

    def build_patch(
        self, policy: QuotaPolicy, figures: PolicyFigures, now: Timestamp
    ) -> dict[str, Any]:
        """Return the merge patch of a policy's status, guarded by its version."""
        condition = Condition(
            type=READY,
            status="True" if figures.reason == READY else "False",
            reason=figures.reason,
            message=figures.message,
            observed_generation=figures.generation,
        )
        conditions = with_condition(policy.status.conditions, condition, now=now)
        return {
            "metadata": {"resourceVersion": policy.metadata.resource_version},
            "status": {
                "observedGeneration": figures.generation,
                "quotas": msgspec.to_builtins(figures.quotas),
                "userLimitsInForce": msgspec.to_builtins(figures.user_limits),
                "conditions": [condition_body(each) for each in conditions],
            },
        }


def _judge_quota(engine: Engine, policy: str, quota: str) -> QuotaInForce:
    """Return whether a policy counts for a quota."""
    counts = engine.policies.policy_of(quota)
    if counts != policy:
        message = f"QuotaPolicy {counts} counts for it, since it is older"
        return QuotaInForce(name=quota, reason=CONFLICT, message=message)
    if not knows_quota(engine.plugins, quota):
        message = "no such quota exists; the policy counts once it does"
        return QuotaInForce(name=quota, reason=QUOTA_MISSING, message=message)
    return QuotaInForce(name=quota, reason=IN_FORCE)


def _judge(problem: str, quotas: tuple[QuotaInForce, ...]) -> tuple[str, str]:
    """Return reason and message of the condition: the worst counts, and all are told."""
    reasons = {each.reason for each in quotas}
    texts = [f"quota {each.name}: {each.message}" for each in quotas if each.message]
    more = [f"and {len(texts) - MAX_TOLD} more"] if len(texts) > MAX_TOLD else []
    told = [*([problem] if problem else ()), *texts[:MAX_TOLD], *more]
    message = "; ".join(told)[:MESSAGE_LENGTH]
    if problem:
        return UNREADABLE_LIMIT, message
    for reason in (CONFLICT, QUOTA_MISSING):
        if reason in reasons:
            return reason, message
    return READY, "it counts for all of its quotas"
