"""The promise asked of `runtime_contract`, from what is charged.

For koord-schedulers with the gate ElasticQuotaGuaranteeUsage, whose floors follow from what is
allocated in whole subtrees; and for tests of `runtime_check`, which must say the same without it.
"""

from __future__ import annotations

from queue_scheduler.decision import Refusal
from queue_scheduler.quota.koord_scheduler_state import possible_states
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.runtime_contract import ContractRules, find_breach
from queue_scheduler.quota.runtime_division import TOLERATED, DivisionRules
from queue_scheduler.quota_cache.limit_checks import refuse
from queue_scheduler.quota_cache.tree_usage import NodeUsage, without_zeros
from shared_api.resource_list import subtract


def check_from_scratch(node: NodeUsage, demand: Demand) -> Refusal | None:
    """Return why koord-scheduler could refuse the pods of a demand, or None."""
    tree = node.tree
    settings = tree.settings
    claims = {each.name: each.claimed for each in tree.claimants}
    own = {name: without_zeros(node.own) for name, node in tree.nodes.items()}
    demands = {
        name: without_zeros(subtract(amounts, claims[name])) if name in claims else amounts
        for name, amounts in own.items()
    }
    # Step 2, about non-preemptible demand, has been taken before: `limit_checks`.
    job = Demand(dict(node.counted(demand.amounts)))
    rules = ContractRules(
        division=DivisionRules(
            settings.rounding,
            scale_min=settings.scale_min,
            guarantee=settings.guarantee_usage,
            tolerated=TOLERATED & job.amounts.keys(),
        ),
        check_parent=settings.check_parent,
        by_resource=True,
        states=possible_states(tree.tree, own),
        claims=claims,
    )
    breach = find_breach(tree.tree, demands, {}, tree.total or {}, node.name, job, rules)
    if breach is None:
        return None
    key = breach.exceed[0]
    amount = dict(job.amounts).get(key, 0) if breach.quota == node.name else 0
    used = breach.demand[key] - amount
    return refuse(breach.reason, breach.quota, key, breach.limit[key], used, amount)
