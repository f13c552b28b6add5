"""How koord-scheduler divides a total among quotas: the runtime of every quota.

One resource of one parent is divided at a time. A parent has T to give. Every child first gets its
floor (its min, scaled down if the mins together exceed T), but no more than it asks for, unless it
does not lend. The rest goes by weight to the children that ask for more than their floor, round
after round: a child that has enough gives the excess back, until no child is unsatisfied or nothing
is left.

Amounts are integers, so shares must be rounded, and releases differ in how. Two functions use
float64 (`scaled_min`, `half_up_share`) because koord-scheduler does: they repeat its expressions,
and are the only inexact arithmetic here.

**Tolerance.** Rounding half up (koord-scheduler up to 1.8) may hand out less than the total: some
units are lost that a child may lack. What koord-scheduler never starts must wait, so a queue counts
what the division gives, but for one exception (DECISIONS.md 91): cpu and memory (`TOLERATED`) of a
parent whose children's mins are scaled down. There a pod's attempt scales the min on its own chain
anew, and mostly passes. So a tolerant division hands the lost units out: to the children whose
request they complete, those that lack least first, and at most one unit for each child whose share
was rounded. No child gets more than it asks for, and all together get no more than the total.

`divide` is the core, and all decisions use it. `compute_division` divides a whole tree from
scratch: it is slow, and written for comparison with koord-scheduler's code. The quota cache keeps
the same numbers incrementally and is tested against it.

Source: koordinator, runtime_quota_calculator.go and scale_minquota_when_over_root_res.go in
pkg/scheduler/plugins/elasticquota/core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_tree import QuotaNode, QuotaTree
from shared_api.resource_list import Amounts, add

NO_QUOTAS: Final[frozenset[str]] = frozenset()

TOLERATED: Final = frozenset({"cpu", "memory"})
"""Resources whose base unit no pod would miss: of the others it may be a whole device."""

ClaimTuple: TypeAlias = tuple[int, int, int, bool]
"""A `Claim` without field names, for hot paths."""

Unsatisfied: TypeAlias = tuple[int, int, int]
"""(index of the claim, weight, what it lacks) of a child that asks for more than it has."""


class DivisionRules(msgspec.Struct, frozen=True):
    """Differences between koord-schedulers; `guarantee` is the gate ElasticQuotaGuaranteeUsage.

    `tolerated`: not a koord-scheduler's rule, but the one a queue compares with (see the module):
    the resources divided tolerantly where mins are scaled.
    """

    rounding: Rounding
    scale_min: bool = True
    guarantee: bool = False
    tolerated: frozenset[str] = frozenset()


class DivisionState(msgspec.Struct, frozen=True):
    """The assumed state of a koord-scheduler: see `koord_scheduler_state`.

    `unseeded` quotas count as asking for nothing; the min of `unrefreshed` ones is never scaled.
    """

    unseeded: frozenset[str] = NO_QUOTAS
    unrefreshed: frozenset[str] = NO_QUOTAS


class Division(msgspec.Struct, frozen=True):
    """All numbers of one tree, by quota; the root has `child_request` and `runtime` only.

    The runtime of a quota has the keys that its parent governs, not those of its own max.
    """

    child_request: dict[str, Amounts]
    request: dict[str, Amounts]
    limited: dict[str, Amounts]
    scaled_min: dict[str, Amounts]
    allocated: dict[str, Amounts]
    guaranteed: dict[str, Amounts]
    runtime: dict[str, Amounts]


# --- one dimension of one parent ----------------------------------------------------------------


class Claim(NamedTuple):
    """The input of one child to a division of one resource."""

    weight: int
    request: int
    floor: int
    lends: bool


def divide(
    total: int,
    claims: Sequence[Claim | ClaimTuple],
    rounding: Rounding,
    *,
    tolerant: bool = False,
) -> list[int]:
    """Return what each child gets; claims are sorted by the children's names, which break ties."""
    granted: list[int] = []
    unsatisfied: list[Unsatisfied] = []
    rest = total
    lost = 0
    for child, (weight, request, floor, lends) in enumerate(claims):
        if request > floor:
            granted.append(request)
            unsatisfied.append((child, weight, request - floor))
            rest -= floor
        else:
            got = request if lends else floor
            granted.append(got)
            rest -= got
    rounded = sum(weight > 0 for _, weight, _ in unsatisfied)
    while rest > 0 and unsatisfied:
        weights = [weight for _, weight, _ in unsatisfied]
        weight_sum = sum(weights)
        if weight_sum <= 0:
            break
        if rounding is Rounding.HALF_UP:
            shares = half_up(weights, rest, weight_sum)
        else:
            shares = largest_remainder(rest, weights, weight_sum)
        lost += rest - sum(shares)
        rest, unsatisfied = _hand_out(shares, unsatisfied)
    completed = 0
    if tolerant and lost > 0:
        completed = completed_by(
            min(lost, rounded), [lacks for _, weight, lacks in unsatisfied if weight > 0]
        )
    for child, weight, lacks in unsatisfied:
        if lacks > completed or weight <= 0:
            granted[child] -= lacks
    return granted


def completed_by(lost: int, lacks: list[int]) -> int:
    """Return the largest lack that this many lost units complete; 0: none.

    Children that lack least come first; of several with the same lack, all are completed or none.
    """
    completed = 0
    for lack in sorted(set(lacks)):
        lost -= lack * lacks.count(lack)
        if lost < 0:
            break
        completed = lack
    return completed


def _hand_out(shares: list[int], unsatisfied: list[Unsatisfied]) -> tuple[int, list[Unsatisfied]]:
    """Return what satisfied children give back, and the still unsatisfied with what they lack."""
    given_back = 0
    still_unsatisfied: list[Unsatisfied] = []
    for (child, weight, lacks), share in zip(unsatisfied, shares, strict=True):
        if share < lacks:
            still_unsatisfied.append((child, weight, lacks - share))
        else:
            given_back += share - lacks
    return given_back, still_unsatisfied


def largest_remainder(total: int, weights: Sequence[int], weight_sum: int) -> list[int]:
    """Return shares that add up to `total`; a weight of 0 or less gets nothing.

    `weight_sum` may be less than the sum of the positive weights if an unsatisfied child has a
    negative one: then the shares add up to more, as they do in koord-scheduler.
    """
    shares: list[int] = []
    remainders: list[tuple[int, int]] = []
    rest = total
    for child, weight in enumerate(weights):
        if weight <= 0:
            shares.append(0)
            continue
        share, remainder = divmod(weight * total, weight_sum)
        shares.append(share)
        remainders.append((-remainder, child))
        rest -= share
    if rest > 0:
        remainders.sort()
        for _, child in remainders[:rest]:
            shares[child] += 1
    return shares


def half_up(weights: Sequence[int], total: int, weight_sum: int) -> list[int]:
    """Return the shares as koord-scheduler up to v1.8.0 computes them, including float64."""
    return [half_up_share(weight, total, weight_sum) for weight in weights]


def half_up_share(weight: int, total: int, weight_sum: int) -> int:
    """Return one share of `half_up`.

    Source: `int64(float64(w)*float64(T)/float64(W) + 0.5)`.
    """
    return int(float(weight) * float(total) / float(weight_sum) + 0.5)


def scaled_min(available: int, minimum: int, min_sum: int) -> int:
    """Return a min scaled down to what is available, as koord-scheduler computes it.

    Source: `int64(float64(avail) * float64(min) / float64(sum))`; 0 when nothing is available.
    """
    if available <= 0:
        return 0
    return int(float(available) * float(minimum) / float(min_sum))


def scaled_keys(total: Mapping[str, int], mins: Mapping[str, Amounts]) -> frozenset[str]:
    """Return the resources on which the mins of a parent's children exceed the total."""
    return frozenset(
        key
        for key, amount in total.items()
        if amount < sum(minimum.get(key, 0) for minimum in mins.values())
    )


def scale_mins(
    total: Mapping[str, int], mins: Mapping[str, Amounts], fixed: frozenset[str] = NO_QUOTAS
) -> dict[str, Amounts]:
    """Return the mins of a parent's children, scaled down on the keys where they exceed the total.

    The quotas in `fixed` keep their min and have it first.
    """
    scaled = {name: dict(minimum) for name, minimum in mins.items()}
    for key in scaled_keys(total, mins):
        amount = total[key]
        promised = sum(minimum.get(key, 0) for minimum in mins.values())
        kept = sum(mins[name].get(key, 0) for name in fixed if name in mins)
        for name, minimum in mins.items():
            if name not in fixed and key in minimum:
                scaled[name][key] = scaled_min(amount - kept, minimum[key], promised - kept)
    return scaled


# --- a whole tree, from scratch -----------------------------------------------------------------


def compute_division(
    tree: QuotaTree,
    own_requests: Mapping[str, Mapping[str, int]],
    total: Mapping[str, int],
    rules: DivisionRules,
    *,
    own_used: Mapping[str, Mapping[str, int]] | None = None,
    state: DivisionState | None = None,
) -> Division:
    """Divide `total`, the root's runtime, among the quotas of a tree.

    `own_requests` is the request of each quota itself, masked to the keys of its max; `own_used`
    (only needed with the guarantee) the assigned part of it.
    """
    division = Division({}, {}, {}, {}, {}, {}, {tree.root.name: dict(total)})
    bottom_up = list(reversed(tree.top_down()))
    for node in bottom_up:
        _sum_up(node, own_requests.get(node.name, {}), division, rules)
        if rules.guarantee:
            _guarantee(node, (own_used or {}).get(node.name, {}), division)
    division.child_request[tree.root.name] = _children_request(tree.root, division)
    for node in (tree.root, *tree.top_down()):
        if node.children:
            _divide_node(node, division, rules, state or DivisionState())
    return division


def lends(node: QuotaNode, rules: DivisionRules) -> bool:
    """Return whether a quota lends what it does not use; the guarantee gate turns lending off."""
    return node.spec.lends and not rules.guarantee


def _children_request(node: QuotaNode, division: Division) -> Amounts:
    total: Amounts = {}
    for child in node.children:
        total = add(total, division.limited[child.name])
    return total


def _sum_up(
    node: QuotaNode, own: Mapping[str, int], division: Division, rules: DivisionRules
) -> None:
    spec = node.spec
    child_request = add(own, _children_request(node, division))
    request = dict(child_request)
    if not lends(node, rules):
        for key, minimum in spec.min.items():
            request[key] = max(request.get(key, 0), minimum)
    division.child_request[node.name] = child_request
    division.request[node.name] = request
    division.limited[node.name] = {
        key: min(amount, spec.max[key]) if key in spec.max else amount
        for key, amount in request.items()
    }


def _guarantee(node: QuotaNode, own_used: Mapping[str, int], division: Division) -> None:
    """Sum up what the gate keeps for a quota: what is used in it, and no less than its min."""
    allocated = dict(own_used)
    for child in node.children:
        allocated = add(allocated, division.guaranteed[child.name])
    division.allocated[node.name] = allocated
    division.guaranteed[node.name] = {
        key: max(allocated.get(key, 0), node.spec.min.get(key, 0))
        for key in {**allocated, **node.spec.min}
    }


def _divide_node(
    node: QuotaNode, division: Division, rules: DivisionRules, state: DivisionState
) -> None:
    total = division.runtime.get(node.name, {})
    mins = {child.name: child.spec.min for child in node.children}
    tolerated: frozenset[str] = frozenset()
    if rules.scale_min:
        tolerated = rules.tolerated & scaled_keys(total, mins)
        scaled = scale_mins(total, mins)
        mins = {name: mins[name] if name in state.unrefreshed else scaled[name] for name in mins}
    division.scaled_min.update(mins)
    runtimes: dict[str, Amounts] = {child.name: {} for child in node.children}
    for key in node.governed_keys:
        claims = [
            Claim(
                child.spec.weight.get(key, 0),
                0 if child.name in state.unseeded else division.limited[child.name].get(key, 0),
                max(
                    mins[child.name].get(key, 0),
                    division.guaranteed.get(child.name, {}).get(key, 0),
                ),
                lends(child, rules),
            )
            for child in node.children
        ]
        granted = divide(total.get(key, 0), claims, rules.rounding, tolerant=key in tolerated)
        for child, amount in zip(node.children, granted, strict=True):
            runtimes[child.name][key] = amount
    division.runtime.update(runtimes)
