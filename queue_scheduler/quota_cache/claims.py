"""Checks beside pods that only claim a share: held by the queue's gate, or not to be bound now.

koord-scheduler counts such a pod as requested, and divides accordingly. It may be released or bound
at any moment, and it may as well be deleted. So what is promised must hold both ways:

* with all claims but those of the demand's own job: its held pods are the demand. Counting both
  would count them twice. Where they ask for more than the demand, the rest goes on claiming.
* without any claim.

A basis is compared with what the tree divides now, all claims included. So that of a refusal
that was found without the own claims says by how much (`RuntimeBasis.relief`). A refusal that was
found without any claim has no basis: its waiter is asked again at each change on its resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from queue_scheduler.decision import Refusal
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, TreeUsage

ForgetLevels = Callable[[TreeUsage], None]
"""Drops what was computed from the sums of a tree (`UsageTrees.forget_levels`)."""


def check_beside_claims(
    check: Callable[[], Refusal | None],
    node: NodeUsage,
    items: Items,
    own: Mapping[str, int],
    forget: ForgetLevels,
) -> Refusal | None:
    """Return why a demand does not fit, with the claims of others or without.

    Args:
        check: Checks the demand against the sums as they are.
        node: The quota of the demand.
        items: Its amounts that count there.
        own: What the held pods of its job ask for in this quota.
        forget: Called when sums have changed without a change of the tree.
    """
    with beside_own(node, items, own, forget):
        refusal = check()
        asked = _request_now(refusal, node)
    if refusal is not None:
        return _relieved(refusal, _request_now(refusal, node) - asked)
    with _without_claims(node.tree, forget):
        refusal = check()
    return None if refusal is None else replace(refusal, basis=None)


def _request_now(refusal: Refusal | None, node: NodeUsage) -> int:
    """Return what the asker in a refusal's basis is asked for now; 0: it has no basis."""
    if refusal is None or refusal.basis is None:
        return 0
    name = refusal.basis.asker
    asker = next(each for each in node.chain if each.name == name)
    return asker.asked.get(refusal.resource, 0)


def _relieved(refusal: Refusal, relief: int) -> Refusal:
    """Return a refusal that was found while the asker was asked for this much less."""
    basis = refusal.basis
    if basis is None or not relief:
        return refusal
    return replace(refusal, basis=replace(basis, more=basis.more - relief, relief=relief))


@contextmanager
def beside_own(
    node: NodeUsage, items: Items, own: Mapping[str, int], forget: ForgetLevels
) -> Iterator[None]:
    """Take the demand's own held pods off what is claimed."""
    relief = [(key, -min(amount, own[key])) for key, amount in items if own.get(key)]
    if not relief:
        yield
        return
    with _simulate({node: relief}, node.tree, forget):
        yield


@contextmanager
def _without_claims(tree: TreeUsage, forget: ForgetLevels) -> Iterator[None]:
    claims = {
        each: [(key, -amount) for key, amount in each.claimed.items()] for each in tree.claimants
    }
    with _simulate(claims, tree, forget):
        yield


@contextmanager
def _simulate(
    changes: Mapping[NodeUsage, Items], tree: TreeUsage, forget: ForgetLevels
) -> Iterator[None]:
    try:
        for node, items in changes.items():
            tree.simulate_claim(node, items)
        forget(tree)
        yield
    finally:
        for node, items in changes.items():
            tree.simulate_claim(node, [(key, -amount) for key, amount in items])
        forget(tree)
