"""Writes into `QuotaPolicy.status` for which quotas a policy counts, and what is in force.

Limits, budgets and what is stated for queues are written also while the spec can be read: they are
the last valid ones once it cannot be, for the next process.

What is left of budgets changes with every second. It is written anew at once where a budget is
spent, begins anew, or is another one, and otherwise when the status is written or once in
`FIGURES_SECONDS`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import plugin_with_quota
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.queue_objects.status_writer import MIN_INTERVAL_SECONDS
from queue_scheduler.queueing.fair_settings import fair_share_patch
from queue_scheduler.queueing.managed_queues import follows_policies
from queue_scheduler.quota.tree_queue_names import named_node, possible_names
from queue_scheduler.tenants.budget_figures import read_figures
from queue_scheduler.tenants.quota_policies import BUDGETS_NEED_ACCOUNTS, StatedPolicy
from shared_api.client.resource_types import QUOTA_POLICIES
from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import READY
from shared_api.objects.quota_policy import (
    Budget,
    BudgetFigures,
    QuotaInForce,
    QuotaPolicy,
    StatedQueue,
    UserLimit,
)
from shared_api.queue_unit_phases import condition_body, with_condition
from shared_api.timestamps import read_seconds
from shared_api.well_known_labels import SPECIAL_QUOTAS

ACCOUNTS_DISABLED: Final = "AccountsDisabled"
"""Budgets count only where accounts are kept."""
IN_FORCE: Final = "InForce"
QUOTA_MISSING: Final = "QuotaMissing"
CONFLICT: Final = "Conflict"
NO_QUEUE_MADE: Final = "NoQueueMade"

FIGURES_SECONDS: Final = 600
"""Between two writes of what is left of budgets, if nothing else changes."""

_MAKE_QUEUES: Final = frozenset((ELASTIC_QUOTA, ELASTIC_QUOTA_TREE))
"""The plugins for whose quotas the scheduler makes queues."""

MAX_LISTED: Final = 8
"""Quotas that the condition names; the list of quotas has all."""


class PolicyFigures(msgspec.Struct, frozen=True):
    """What the status of a policy shows.

    Attributes:
        generation: The generation of the policy that it is made from.
        quotas: Whether the policy counts for each of its quotas.
        user_limits: The limits in force.
        budgets: The budgets in force.
        queue: What is in force for queues; None: nothing is stated.
        reason: Reason of the condition `Ready`, which is True if that is the reason.
        message: The message of the condition.
    """

    generation: int
    quotas: tuple[QuotaInForce, ...]
    user_limits: tuple[UserLimit, ...]
    reason: str
    message: str
    budgets: tuple[Budget, ...] = ()
    queue: StatedQueue | None = None


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
        quotas = _with_figures(engine, stated.api_object, quotas)
        reason, message = _judge(stated, quotas)
        if stated.budgets and engine.usage.ledger is None and reason != stated.problem_reason:
            reason, message = ACCOUNTS_DISABLED, BUDGETS_NEED_ACCOUNTS
        return PolicyFigures(
            generation=stated.api_object.metadata.generation,
            quotas=quotas,
            user_limits=stated.user_limits,
            budgets=stated.budgets,
            queue=None if stated.fair_share is None else StatedQueue(stated.fair_share),
            reason=reason,
            message=message,
        )

    def is_shown(self, policy: QuotaPolicy, figures: PolicyFigures) -> bool:
        """Return whether the status shows this already."""
        status = policy.status
        condition = find_condition(status.conditions, READY)
        return (
            (status.observed_generation, status.quotas) == (figures.generation, figures.quotas)
            and (status.user_limits_in_force, status.budgets_in_force)
            == (figures.user_limits, figures.budgets)
            and status.queue_in_force == figures.queue
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
                "budgetsInForce": msgspec.to_builtins(figures.budgets),
                **_queue_patch(policy.status.queue_in_force, figures.queue),
                "conditions": [condition_body(each) for each in conditions],
            },
        }


def _judge_quota(engine: Engine, policy: str, quota: str) -> QuotaInForce:
    """Return whether a policy counts for a quota."""
    counts = engine.policies.policy_of(quota)
    if counts != policy:
        message = f"QuotaPolicy {counts} counts for it, since it is older"
        return QuotaInForce(name=quota, reason=CONFLICT, message=message)
    plugin = plugin_with_quota(engine.plugins, quota)
    if not plugin:
        message = "no such quota exists; the policy counts once it does"
        return QuotaInForce(name=quota, reason=QUOTA_MISSING, message=message)
    if engine.policies.statement_of(quota) is not None:
        why_not = _find_obstacle(engine, quota, plugin)
        if why_not:
            return QuotaInForce(name=quota, reason=NO_QUEUE_MADE, message=why_not)
    return QuotaInForce(name=quota, reason=IN_FORCE)


def _find_obstacle(engine: Engine, quota: str, plugin: str) -> str:
    """Return why the scheduler makes no queue for a quota; "": it does."""
    if plugin not in _MAKE_QUEUES or quota in SPECIAL_QUOTAS:
        return "the scheduler makes no queue for it, so queue.fairShare does not count"
    names = (quota,) if plugin == ELASTIC_QUOTA else possible_names(quota)
    queues = [queue for name in names if (queue := engine.queues.queue(name)) is not None]
    if plugin == ELASTIC_QUOTA_TREE:
        queues = [queue for queue in queues if named_node(queue) in {"", quota}]
    if not queues or any(map(follows_policies, queues)):
        return ""
    return f"the scheduler did not make queue {queues[0].metadata.name}: set spec.fairShare there"


def _queue_patch(shown: StatedQueue | None, in_force: StatedQueue | None) -> dict[str, Any]:
    """Return the part of a merge patch."""
    if shown == in_force:
        return {}
    if in_force is None or in_force.fair_share is None:
        return {"queueInForce": None}
    before = None if shown is None else shown.fair_share
    return {"queueInForce": {"fairShare": fair_share_patch(before, in_force.fair_share)}}


def _with_figures(
    engine: Engine, policy: QuotaPolicy, quotas: tuple[QuotaInForce, ...]
) -> tuple[QuotaInForce, ...]:
    """Return the quotas with what is left of their budgets; as in the status, while that is new."""
    budgets = engine.usage.budgets
    if not budgets.is_on:
        return quotas
    known = {each.name: each.budgets for each in policy.status.quotas}
    found = []
    for quota in quotas:
        figures = tuple(read_figures(budgets.accounts, quota.name, policy.metadata.name))
        shown = known.get(quota.name, ())
        are_alike = len(figures) == len(shown) and all(map(_are_alike, figures, shown))
        found.append(replace(quota, budgets=shown if are_alike else figures))
    return tuple(found)


def _are_alike(now: BudgetFigures, shown: BudgetFigures) -> bool:
    """Return whether what the status shows may stay: it is not old, and only time has passed."""
    age = (read_seconds(now.at) or 0.0) - (read_seconds(shown.at) or 0.0)
    passing = {"spent": "", "committed": "", "left": "", "at": None}
    return replace(now, **passing) == replace(shown, **passing) and 0 <= age < FIGURES_SECONDS


def _judge(stated: StatedPolicy, quotas: tuple[QuotaInForce, ...]) -> tuple[str, str]:
    """Return reason and message of the condition: the worst counts, and the text has all."""
    problem = stated.problem
    reasons = {each.reason for each in quotas}
    texts = [f"quota {each.name}: {each.message}" for each in quotas if each.message]
    more = [f"and {len(texts) - MAX_LISTED} more"] if len(texts) > MAX_LISTED else []
    listed = [*([problem] if problem else ()), *texts[:MAX_LISTED], *more]
    message = "; ".join(listed)[:MESSAGE_LENGTH]
    if problem:
        return stated.problem_reason, message
    for reason in (CONFLICT, QUOTA_MISSING, NO_QUEUE_MADE):
        if reason in reasons:
            return reason, message
    return READY, "it counts for all of its quotas"
