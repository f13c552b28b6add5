"""Whether amounts fit the plain limits: max, min, and what the nodes have.

Every rule here compares one sum with one limit on one resource, so a refusal stays true until that
sum falls or that limit rises: `wake_index` relies on it. The reasons of these rules are
`SUM_REASONS`.

Which rule applies in which mode: see `quota_cache`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.quota.quota_settings import QuotaKind
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, TreeUsage, taken_by

SUM_REASONS: Final = reasons_with(Trait.SUM)


def check_max(node: NodeUsage, items: Items) -> Refusal | None:
    """Compare with max at the quota and at every ancestor; a missing key is unlimited."""
    if node.tree.keeps_mins:
        return _check_beside_kept(node, items)
    for each in node.chain:
        limits = each.limits
        used = each.used
        for key, amount in items:
            limit = limits.get(key)
            if limit is None or used.get(key, 0) + amount <= limit:
                continue
            if each is node:
                return refuse(
                    Reason.OVER_QUOTA_MAX, each.name, key, limit, used.get(key, 0), amount
                )
            taken = each.taken(key)
            if taken + amount > limit:
                return refuse(Reason.OVER_PARENT_MAX, each.name, key, limit, taken, amount)
    return None


def _check_beside_kept(node: NodeUsage, items: Items) -> Refusal | None:
    """Check max if quotas keep part of their min, which counts as taken for others (`taken_by`)."""
    for each in node.chain:
        limits = each.limits
        for key, amount in items:
            limit = limits.get(key)
            if limit is None:
                continue
            taken = taken_by(node, each, key)
            if taken + amount > limit:
                own = each is node
                reason = Reason.OVER_QUOTA_MAX if own else Reason.OVER_PARENT_MAX
                return refuse(reason, each.name, key, limit, taken, amount, via=node.name)
    return None


def check_overused(node: NodeUsage, items: Items) -> Refusal | None:
    """Refuse if the quota is over its max on any resource, even one that is not asked for.

    koord-scheduler does: its check of a pod's own quota covers all resources in use.
    """
    limits = node.limits
    asked = None
    for key, used in node.used.items():
        limit = limits.get(key)
        if limit is not None and used > limit:
            asked = asked or dict(items)
            amount = asked.get(key, 0)
            return refuse(Reason.OVER_QUOTA_MAX, node.name, key, limit, used, amount)
    return None


def check_min(node: NodeUsage, items: Items) -> Refusal | None:
    """Compare with min at the quota; a resource that min lacks has the limit 0."""
    minimum = node.spec.min
    for key, amount in items:
        used = node.used.get(key, 0)
        limit = minimum.get(key, 0)
        if used + amount > limit:
            return refuse(Reason.OVER_MIN, node.name, key, limit, used, amount)
    return None


def check_non_preemptible(node: NodeUsage, items: Items) -> Refusal | None:
    """Compare the non-preemptible part with min, never scaled; a missing key is unlimited.

    All resources of min, also those that are not asked for, since koord-scheduler compares all of
    them. In an ElasticQuotaTree, those that are asked for, at every ancestor as well.
    """
    is_tree = node.tree.settings.kind is QuotaKind.TREE
    for each in node.chain if is_tree else (node,):
        limits = each.np_limits
        for key, amount in items:
            limit = limits.get(key)
            used = each.np_used.get(key, 0)
            if limit is not None and used + amount > limit:
                reason = Reason.NON_PREEMPTIBLE_OVER_MIN
                return refuse(reason, each.name, key, limit, used, amount)
    return None if is_tree else next(over_min_unrequested(node, items), None)


def over_min_unrequested(node: NodeUsage, items: Items) -> Iterator[Refusal]:
    """Yield a refusal for each resource not asked for whose non-preemptible part exceeds min.

    So it is after min was lowered, or where pods are not held by the queue.
    """
    asked = {key for key, _ in items}
    for key, limit in node.np_limits.items():
        used = node.np_used.get(key, 0)
        if used > limit and key not in asked:
            yield refuse(Reason.NON_PREEMPTIBLE_OVER_MIN, node.name, key, limit, used, 0)


def check_total(tree: TreeUsage, items: Items) -> Refusal | None:
    """Compare what units and bound pods ask for with what the nodes have.

    Runtimes alone may grant more than that (mins over-promised without scaling, amounts created by
    rounding half up); such pods would only wait for a node.
    """
    for key, amount in items:
        limit = tree.left(key)
        committed = tree.committed.get(key, 0)
        if committed + amount > limit:
            reason = Reason.NO_CAPACITY
            return refuse(reason, tree.root.name, key, limit, committed, amount)
    return None


def room(
    tree: TreeUsage, node: NodeUsage, reason: Reason, key: str, via: NodeUsage | None = None
) -> int | None:
    """Return what is left under a limit of `SUM_REASONS`; None if there is no such limit (now).

    `via`: the quota that is charged, if the answer depends on it.
    """
    if via is not None:
        limit = node.limits.get(key)
        return None if limit is None else limit - taken_by(via, node, key)
    sums: Mapping[str, int] = node.used
    match reason:
        case Reason.NO_CAPACITY:
            sums, limit = tree.committed, tree.left(key)
        case Reason.OVER_MIN:
            limit = node.spec.min.get(key, 0)
        case Reason.NON_PREEMPTIBLE_OVER_MIN:
            sums, limit = node.np_used, node.np_limits.get(key)
        case Reason.OVER_PARENT_MAX:
            limit = node.limits.get(key)
            return None if limit is None else limit - node.taken(key)
        case _:
            limit = node.limits.get(key)
    return None if limit is None else limit - sums.get(key, 0)


def refuse(
    reason: Reason,
    quota: str,
    key: str,
    limit: int,
    used: int,
    amount: int,
    *,
    via: str = "",
) -> Refusal:
    """Return a refusal with its numbers."""
    return Refusal(
        reason=reason,
        quota=quota,
        resource=key,
        limit=limit,
        used=used,
        requested=amount,
        via=via,
    )
