"""State of a running koord-scheduler that a queue cannot see.

Two of its states depend on history (observed: os-008 to os-011 in
tests/data/elasticquota-observed.json.gz).

**Unseeded** is a childless quota that does not lend and has had no pod since it was created: it
counts as asking for nothing. After its first pod, or a restart of the scheduler, it asks for its
min.

**Unrefreshed** is a quota below which nothing has been refreshed yet: its min is not scaled down.
A refresh starts at a leaf, so a parent without a leaf below it stays unrefreshed.

A promise must hold in every state that is consistent with what is seen. So the division is computed
for the states in which these quotas take more and those in which they take less, and the least
runtime is promised.
"""

from __future__ import annotations

from collections.abc import Mapping

from queue_scheduler.quota.quota_tree import QuotaNode, QuotaTree
from queue_scheduler.quota.runtime_division import DivisionState


def possible_states(
    tree: QuotaTree, own_requests: Mapping[str, Mapping[str, int]]
) -> tuple[DivisionState, ...]:
    """Return the states that the scheduler may be in; first the one without such quotas."""
    unseeded = frozenset(
        node.name for node in tree.nodes.values() if may_be_unseeded(node, own_requests)
    )
    unrefreshed = unrefreshed_quotas(tree)
    states = [DivisionState()]
    if unseeded:
        states.append(DivisionState(unseeded=unseeded))
    if unrefreshed:
        states.append(DivisionState(unrefreshed=unrefreshed))
    if unseeded and unrefreshed:
        states.append(DivisionState(unseeded=unseeded, unrefreshed=unrefreshed))
    return tuple(states)


def may_be_unseeded(node: QuotaNode, own_requests: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether a quota may have had no pod yet."""
    return (
        not node.spec.lends
        and not node.children
        and any(node.spec.min.values())
        and not any(own_requests.get(node.name, {}).values())
    )


def unrefreshed_quotas(tree: QuotaTree) -> frozenset[str]:
    """Return the quotas that are never refreshed: parents without a leaf below."""
    names: set[str] = set()
    for node in reversed(tree.top_down()):
        if node.spec.is_parent and all(child.name in names for child in node.children):
            names.add(node.name)
    return frozenset(names)
