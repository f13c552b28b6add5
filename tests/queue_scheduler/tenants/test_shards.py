"""Shards as texts: what was written comes back, and what cannot be is refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from zlib import compress

import msgspec
import pytest

from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import MAX_RESOURCES, StoredAccount
from queue_scheduler.tenants.shards import (
    FORMAT,
    MAX_IN_SHARD,
    MAX_NAME,
    MAX_USED,
    Shard,
    ShardError,
    decode_shard,
    encode_shard,
    join_shards,
    split,
)

ANN, BOB = (Account("a", "q", "ns", "", user) for user in ("ann", "bob"))
NOW = 1_800_000_000
STORED = StoredAccount(ANN, {"cpu": 10**30}, ((5, {"cpu": 4}), (7, {"cpu": 9})), 7, 9)


def shard(*accounts: StoredAccount, **fields: Any) -> Shard:
    settings = {"format": FORMAT, "count": 1, "settled_at": NOW, "complete_from": 3, **fields}
    return Shard(**settings, accounts=accounts)


def test_a_shard_comes_back_as_it_was() -> None:
    written = shard(STORED, StoredAccount(BOB, {}))
    got = decode_shard(encode_shard(written), NOW)
    assert got == written
    assert type(got.accounts[0].account) is Account


def used(**fields: Any) -> Shard:
    return shard(msgspec.structs.replace(STORED, **fields))


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(shard(format=2), id="another format"),
        pytest.param(shard(count=0), id="no shard"),
        pytest.param(shard(count=1000), id="too many shards"),
        pytest.param(shard(settled_at=NOW + 10**6), id="from the future"),
        pytest.param(shard(settled_at=-1, complete_from=-2), id="before the epoch"),
        pytest.param(shard(complete_from=NOW + 1), id="complete after it was settled"),
        pytest.param(shard(*[STORED] * (MAX_IN_SHARD + 1)), id="too many accounts"),
        pytest.param(used(account=ANN._replace(user="x" * (MAX_NAME + 1))), id="a long name"),
        pytest.param(used(used={"x" * 2000: 1}, marks=()), id="a long resource"),
        pytest.param(used(used={str(n): 1 for n in range(MAX_RESOURCES + 1)}), id="resources"),
        pytest.param(used(used={"cpu": -1}, marks=()), id="less than nothing"),
        pytest.param(used(used={"cpu": MAX_USED + 1}), id="beyond all bounds"),
        pytest.param(used(marks=((5, {"cpu": -4}),)), id="a mark below nothing"),
        pytest.param(used(marks=((7, {}), (5, {}))), id="marks out of order"),
        pytest.param(used(marks=((5, {}), (6, {}), (7, {}))), id="too many marks"),
        pytest.param(used(marks=((5, {"cpu": 10**31}),)), id="more at an edge than in all"),
        pytest.param(used(marks=((NOW + 1, {}),)), id="an edge to come"),
        pytest.param(used(marked_to=NOW + 1), id="marked to the future"),
        pytest.param(used(changed=NOW + 1), id="changed in the future"),
    ],
)
def test_what_cannot_be_is_refused(bad: Shard) -> None:
    with pytest.raises(ShardError) as caught:
        decode_shard(encode_shard(bad), NOW)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize("value", [1.5, "7", None, [], 1e400])
def test_an_amount_of_another_type_is_refused(value: object) -> None:
    tree = msgspec.to_builtins(shard(STORED))
    tree["accounts"][0][1]["cpu"] = value
    text = b64encode(compress(msgspec.json.encode(tree))).decode()
    with pytest.raises(ShardError):
        decode_shard(text, NOW)


def test_an_account_in_two_shards_counts_as_the_later_one_has_it() -> None:
    older = shard(StoredAccount(ANN, {"cpu": 5}), StoredAccount(BOB, {"cpu": 1}), settled_at=50)
    newer = shard(StoredAccount(ANN, {"cpu": 7}), settled_at=60, complete_from=4)
    for shards in ([older, newer], [newer, older]):
        got = join_shards(shards, is_rebuilt=False)
        assert {each.account: each.used for each in got.accounts} == {
            ANN: {"cpu": 7},
            BOB: {"cpu": 1},
        }
        assert (got.settled_at, got.complete_from) == (60, 4)


def test_halves() -> None:
    accounts = [ANN._replace(user=str(number)) for number in range(5)]
    stays, moves = split(accounts)
    assert (len(stays), len(moves)) == (2, 3)
    assert {*stays, *moves} == {*accounts}
