"""The walk down one chain gives the same numbers as the contract from scratch."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota.runtime_division import TOLERATED, Claim, DivisionRules, divide
from queue_scheduler.quota.water_filling import PooledClaim, ShareGroup
from queue_scheduler.quota_cache.full_runtime_check import check_from_scratch
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.usage_trees import UsageTrees
from tests.cautious_runtimes import cautious_runtimes
from tests.properties.quota_cases import (
    KEYS,
    NAMES,
    build_quota,
    random_amounts,
    random_quota,
    random_quotas,
    random_settings,
)

pytestmark = pytest.mark.properties

SEEDS = st.integers(0, 2**32)
SCALES = st.sampled_from([1, 1, 1000, 10**12])


def random_trees(rng: random.Random, scale: int) -> UsageTrees:
    """Return the trees of a random quota cache; the tests call only the walk."""
    quotas = random_quotas(rng, random_settings(rng, QuotaMode.RUNTIME), scale)
    quotas.validate()
    return quotas.trees


# The contract's steps in their order. The walk goes resource by resource, so it may reach a later
# step of one resource before an earlier step of another.
STEPS = [
    Reason.OVER_RUNTIME,
    Reason.OVER_PARENT_RUNTIME,
    Reason.HURTS_OTHERS,
]


@settings(max_examples=1500, deadline=None)
@given(SEEDS, SCALES)
@example(1776, 1)  # a parent in which something is claimed and nothing charged
def test_walk_agrees_with_the_contract(seed: int, scale: int) -> None:
    rng = random.Random(seed)
    trees = random_trees(rng, scale)
    for name, node in trees.trees[""].nodes.items():
        demand = Demand(random_amounts(rng, 8 * scale))
        want = check_from_scratch(node, demand)
        if not trees.settings.guarantee_usage:
            got = trees.walks[""].check(node, node.counted(demand.amounts))
            assert (got is None) == (want is None), (name, demand, got, want)
            if got is not None and want is not None:
                assert STEPS.index(want.reason) <= STEPS.index(got.reason), (name, got, want)


@settings(max_examples=500, deadline=None)
@given(SEEDS, SCALES)
def test_runtimes_are_those_of_the_division(seed: int, scale: int) -> None:
    trees = random_trees(random.Random(seed), scale)
    rules = trees.settings
    if rules.guarantee_usage:
        return
    tree = trees.trees[""]
    want = cautious_runtimes(
        tree.tree,
        {name: node.own for name, node in tree.nodes.items()},
        {key: tree.left(key) for key in KEYS if key in (tree.total or {})},
        DivisionRules(rules.rounding, scale_min=rules.scale_min, tolerated=TOLERATED),
    )
    for name, node in tree.nodes.items():
        if not node.is_special:
            got = trees.walks[""].runtimes(node)
            assert got == {key: want.runtime[name][key] for key in got}


CLAIMS = st.lists(
    st.builds(
        Claim,
        weight=st.integers(-2, 9),
        request=st.integers(0, 30),
        floor=st.integers(0, 20),
        lends=st.booleans(),
    ),
    max_size=6,
)


@settings(max_examples=500, deadline=None)
@given(st.integers(-5, 100), CLAIMS)
def test_largest_remainder_hands_out_everything_requested(total: int, claims: list[Claim]) -> None:
    claims = [claim._replace(weight=abs(claim.weight) + 1) for claim in claims]
    granted = divide(total, claims, Rounding.LARGEST_REMAINDER)
    floors = [min(c.request, c.floor) if c.lends else c.floor for c in claims]
    wanted = [max(c.request, floor) for c, floor in zip(claims, floors, strict=True)]
    assert all(got <= want for got, want in zip(granted, wanted, strict=True))
    assert sum(granted) == max(sum(floors), min(total, sum(wanted)))


@settings(max_examples=500, deadline=None)
@given(st.integers(-5, 100), CLAIMS, st.sampled_from(Rounding))
def test_floors_are_promises(total: int, claims: list[Claim], rounding: Rounding) -> None:
    claims = [claim._replace(weight=abs(claim.weight)) for claim in claims]
    for got, claim in zip(divide(total, claims, rounding), claims, strict=True):
        assert got >= min(claim.request, claim.floor)
        assert got <= max(claim.request, 0 if claim.lends else claim.floor)


@settings(max_examples=2000, deadline=None)
@given(st.integers(-5, 100), CLAIMS, st.sampled_from([1, 1000]))
def test_only_what_rounding_lost_is_made_up_for(
    total: int, claims: list[Claim], scale: int
) -> None:
    claims = [claim._replace(request=claim.request * scale) for claim in claims]
    bare = divide(total * scale, claims, Rounding.HALF_UP)
    granted = divide(total * scale, claims, Rounding.HALF_UP, tolerant=True)
    made_up = [got - had for got, had in zip(granted, bare, strict=True)]
    assert min(made_up, default=0) >= 0
    unsatisfied = [claim for claim in claims if claim.request > claim.floor and claim.weight > 0]
    # At most a unit for each of them, never more than one asks for, or than there is for all.
    assert sum(made_up) <= len(unsatisfied)
    for got, more, claim in zip(granted, made_up, claims, strict=True):
        assert not more or (claim.weight > 0 and got == claim.request)
    if any(made_up):
        assert sum(granted) <= total * scale


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30), st.integers(0, 20)), max_size=3))
def test_where_all_requests_fit_no_claim_lacks_a_unit(
    drawn: list[tuple[int, int, int]],
) -> None:
    total = sum(request for _, request, _ in drawn)
    claims = [Claim(*claim, lends=True) for claim in drawn]
    granted = divide(total, claims, Rounding.HALF_UP, tolerant=True)
    assert granted == [claim.request for claim in claims]


@settings(max_examples=500, deadline=None)
@given(SEEDS, SCALES)
def test_started_units_exceed_no_max(seed: int, scale: int) -> None:
    rng = random.Random(seed)
    rules = replace(
        random_settings(rng, QuotaMode.RUNTIME),
        rounding_override=Rounding.HALF_UP,
        cap_by_total=False,
    )
    quotas = QuotaCache(rules)
    names = NAMES[: rng.randint(2, len(NAMES))]
    for number in range(len(names)):
        quotas.on_quota(random_quota(rng, names, number, scale))
    quotas.on_capacity({key: rng.randint(10, 60) * scale for key in KEYS})
    for number in range(30):
        quota, demand = rng.choice(names), Demand(random_amounts(rng, 6 * scale))
        if quotas.check(quota, demand) is None:
            quotas.charge(str(number), quota, demand)
    for node in quotas.trees.trees[""].nodes.values():
        over = {key: node.used[key] for key, most in node.spec.max.items() if node.used[key] > most}
        assert not over, (node.name, over)


LACKS = st.one_of(st.integers(-3, 12), st.integers(0, 10**6), st.just(2**55 + 1))
POOLED = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 2, 7, 2**40]), LACKS, st.integers(0, 50)).map(
        lambda drawn: (drawn[0], max(0, drawn[1] + drawn[2]), drawn[2])
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=1500, deadline=None)
@given(POOLED, POOLED, st.integers(-20, 20), st.data())
def test_levels_are_the_division_that_rounds_half_up(
    claims: list[PooledClaim], others: list[PooledClaim], spare: int, data: st.DataObject
) -> None:
    tolerant = data.draw(st.booleans())
    pool = ShareGroup(tolerant=tolerant)
    for number, claim in enumerate(claims):
        pool.put(str(number), claim)
    # Children ask for other amounts; the pool follows, and foresees one more such change.
    for number, (weight, request, floor) in enumerate(others[: len(claims)]):
        claims[number] = (weight if number % 2 else claims[number][0], request, floor)
        pool.replace(str(number), claims[number])
    changed = data.draw(st.integers(0, len(claims) - 1))
    weight, request, floor = claims[changed]
    claim = (weight, data.draw(st.integers(0, request + 9)), floor)
    for total_of, name in ((claims, ""), ([*claims[:changed], claim, *claims[changed + 1 :]], "c")):
        total = sum(request for _, request, _ in total_of) + spare
        drawn = [(*each, True) for each in total_of]
        want = divide(total, drawn, Rounding.HALF_UP, tolerant=tolerant)
        level = pool.fill(total, str(changed), claim) if name else pool.fill(total)
        assert [level.get(str(number), -1) for number in range(len(claims))] == want
        short = {str(n) for n, each in enumerate(total_of) if want[n] < each[1]}
        assert set(level.short()) == short
        assert level.is_full == (not short)
        if name:
            assert pool.grant(total, str(changed), claim) == want[changed]


def test_a_fork_names_the_same_quota_as_hurt() -> None:
    story(8)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_forks_refuse_for_the_same_reason(seed: int) -> None:
    story(seed)


def story(seed: int) -> None:
    """Charge and release in one level that shares out by half up, and ask a fork after each."""
    rng = random.Random(seed)
    rules = QuotaSettings(mode=QuotaMode.RUNTIME, rounding_override=Rounding.HALF_UP)
    quotas, names = QuotaCache(rules), NAMES[: rng.randint(3, len(NAMES))]
    key = rng.choice(["memory", "x"])
    for name in names:
        weight, minimum = {key: rng.randint(1, 3)}, {key: rng.randint(0, 3)}
        quotas.on_quota(build_quota(name, minimum=minimum, maximum={key: 40}, weight=weight))
    quotas.on_capacity({key: rng.randint(10, 30)})
    charged: list[str] = []
    for number in range(40):
        quota, demand = rng.choice(names), Demand({key: rng.randint(1, 4)})
        if charged and rng.random() < 0.3:
            quotas.release(charged.pop(rng.randrange(len(charged))))
        elif rng.random() < 0.2:
            pod = rng.choice([None, demand.amounts])
            quotas.on_foreign(f"pod-{rng.randrange(5)}", quota, pod)
        elif quotas.check(quota, demand) is None:
            quotas.charge(f"unit-{number}", quota, demand)
            charged.append(f"unit-{number}")
        twin = quotas.fork()
        for name, amount in product(names, (1, 2, 4)):
            asked = Demand({key: amount})
            assert quotas.check(name, asked) == twin.check(name, asked), (number, name, amount)
