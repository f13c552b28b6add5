"""The runtimes that hold in every state of koord-scheduler that a queue cannot see."""

from __future__ import annotations

from collections.abc import Mapping

from queue_scheduler.quota.koord_scheduler_state import possible_states
from queue_scheduler.quota.quota_tree import QuotaTree
from queue_scheduler.quota.runtime_division import Division, DivisionRules, compute_division
from shared_api.resource_list import Amounts


def cautious_runtimes(
    tree: QuotaTree,
    own_requests: Mapping[str, Mapping[str, int]],
    total: Mapping[str, int],
    rules: DivisionRules,
    *,
    own_used: Mapping[str, Mapping[str, int]] | None = None,
) -> Division:
    """Return the division with, for each quota, the least runtime of all possible states."""
    first, *others = (
        compute_division(tree, own_requests, total, rules, own_used=own_used, state=state)
        for state in possible_states(tree, own_requests)
    )
    for division in others:
        for name, amounts in division.runtime.items():
            first.runtime[name] = _least(first.runtime[name], amounts)
    return first


def _least(first: Amounts, second: Amounts) -> Amounts:
    return {key: min(amount, second[key]) for key, amount in first.items()}
