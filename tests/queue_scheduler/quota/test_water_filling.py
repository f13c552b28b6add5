"""Levels equal `divide`, to the unit; random claims are a property (runtime)."""

from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.runtime_division import divide
from queue_scheduler.quota.water_filling import PooledClaim, ShareGroup
from tests.queue_scheduler.quota.test_runtime_division import MOST_LOST

BOTH = pytest.mark.parametrize("tolerant", [False, True], ids=["exact", "tolerant"])


def pool_of(claims: list[PooledClaim], *, tolerant: bool = True) -> ShareGroup:
    pool = ShareGroup(tolerant=tolerant)
    for number, claim in enumerate(claims):
        pool.put(str(number), claim)
    return pool


def divided(total: int, claims: list[PooledClaim], *, tolerant: bool = True) -> list[int]:
    lending = [(*claim, True) for claim in claims]
    return divide(total, lending, Rounding.HALF_UP, tolerant=tolerant)


@BOTH
@pytest.mark.parametrize(
    ("total", "claims"),
    [
        pytest.param(10, [], id="no claims"),
        pytest.param(-3, [(1, 5, 2), (1, 1, 1)], id="less than nothing"),
        pytest.param(98, [(1, 30, 0)] * 6, id="a third is rounded down for all: two units lost"),
        pytest.param(99, [(1, 30, 0)] * 6, id="a half is rounded up for all: three units made"),
        pytest.param(22, [(1, 3, 0), (1, 9, 0), (1, 10, 0)], id="the first gives back twice"),
        pytest.param(22, [(2, 3, 1), (3, 9, 4), (3, 11, 0)], id="two weights"),
        pytest.param(1, [(1, 9, 0)] * 3, id="a share of nothing"),
        pytest.param(22, [(1, 3, 0), (1, 9, 0), (1, 8, 0), (1, 2, 2)], id="enough for all"),
        pytest.param(1000, [(1, 334, 0), (1, 333, 0), (1, 333, 0)], id="for all, by a lost unit"),
        pytest.param(3, [(7, 1, 0), (7, 1, 0), (1, 1, 0)], id="a device for each of three"),
        pytest.param(2**62, [(2**50 + 1, 2**61, 3), (7, 2**61, 1)], id="beyond what is exact"),
    ],
)
def test_levels_are_the_division(total: int, claims: list[PooledClaim], *, tolerant: bool) -> None:
    pool = pool_of(claims, tolerant=tolerant)
    level = pool.fill(total)
    want = divided(total, claims, tolerant=tolerant)
    assert [level.get(str(number), -1) for number in range(len(claims))] == want
    assert level.get("nobody", -1) == -1
    short = [str(n) for n, claim in enumerate(claims) if want[n] < claim[1]]
    assert level.short() == short
    assert level.is_full == (not short)


@pytest.mark.parametrize(
    ("claim", "want_short"),
    [
        pytest.param((1, 40, 0), ["0", "1", "2", "3", "4", "5"], id="it asks for more"),
        pytest.param((1, 3, 0), ["0", "1", "2", "3", "4"], id="it asks for less"),
        pytest.param((1, 2, 2), ["0", "1", "2", "3", "4"], id="it has enough"),
    ],
)
def test_an_exchanged_claim_leaves_the_pool_as_it_was(
    claim: PooledClaim, want_short: list[str]
) -> None:
    claims: list[PooledClaim] = [(1, 30, 0)] * 6
    pool = pool_of(claims)
    level = pool.fill(98, "5", claim)
    want = divided(98, [*claims[:5], claim])
    assert [level.get(str(number), -1) for number in range(6)] == want
    assert pool.grant(98, "5", claim) == want[5]
    assert level.short() == want_short
    assert not level.is_full
    assert pool.fill(150 + claim[1], "5", claim).is_full
    assert [pool.fill(98).get(str(number), -1) for number in range(6)] == divided(98, claims)


@pytest.mark.parametrize(
    ("total", "claims", "want"),
    [
        pytest.param(1000, [(1, 334, 0)] * 3, 1, id="none of three that lack the same has it"),
        pytest.param(1000, [(1, 334, 0), (1, 335, 0), (1, 900, 0)], 0, id="one was given it"),
        pytest.param(1000, [(1, 300, 0)] * 3, 0, id="no claim lacks anything"),
        pytest.param(1001, [(1, 400, 0)] * 3, 0, id="units were made"),
        pytest.param(7003, [(1, one, 0) for one in MOST_LOST], 5, id="more than is made up for"),
    ],
)
def test_units_that_no_claim_has(total: int, claims: list[PooledClaim], want: int) -> None:
    level = pool_of(claims).fill(total)
    assert level.lost() == want
    assert [level.get(str(number), -1) for number in range(len(claims))] == divided(total, claims)


def test_where_nothing_is_tolerated_a_lost_unit_stays_lost() -> None:
    level = pool_of([(7, 1, 0), (7, 1, 0), (1, 1, 0)], tolerant=False).fill(3)
    assert (level.lost(), level.short()) == (1, ["2"])


def test_a_removed_claim_leaves_nothing() -> None:
    pool = pool_of([(1, 30, 0), (2, 30, 5)])
    for name in ("1", "nobody"):
        pool.take_out(name)
    assert pool.fill(10).get("0", -1) == 10
    pool.put("1", (1, 30, 5))
    level = pool.fill(10)
    assert [level.get(name, -1) for name in "01"] == divided(10, [(1, 30, 0), (1, 30, 5)])


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param((1, 20, 3), id="it asks for less, above another floor"),
        pytest.param((3, 40, 0), id="another weight"),
        pytest.param((1, 4, 5), id="it has enough"),
    ],
)
def test_a_replaced_claim_is_the_last(claim: PooledClaim) -> None:
    pool = pool_of([(1, 30, 0), (1, 30, 5), (2, 9, 9)])
    for name in ("0", "new", "0"):
        pool.replace(name, claim)
    claims: list[PooledClaim] = [claim, (1, 30, 5), (2, 9, 9), claim]
    level = pool.fill(31)
    assert [level.get(name, -1) for name in ("0", "1", "2", "new")] == divided(31, claims)
    hungry = claim[1] > claim[2]
    assert level.short() == (["1", "new", "0"] if hungry else ["1"])
