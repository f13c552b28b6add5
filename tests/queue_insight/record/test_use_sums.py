"""Sums of use are added up exactly, and read again as they were kept."""

from __future__ import annotations

import zlib

import pytest

from queue_insight.record import use_sums
from queue_insight.record.record_tables import StoreError
from queue_insight.record.use_sums import (
    QuotaUse,
    UseBlock,
    UseKey,
    UseRow,
    decode_block,
    encode_block,
    join_hour,
    join_hours,
)

ANN = UseKey("a", "q", "ns", "lab", "ann", "Job")
BOB = UseKey("a", "q", "other", "", "bob", "PyTorchJob")


def test_rows_of_a_key_are_added_up() -> None:
    parts = [
        UseBlock([UseRow(ANN, {"cpu": 2**70}, {3: 1}, 1, {"cpu": 5})]),
        UseBlock([UseRow(BOB, {"cpu": 1}), UseRow(ANN, {"cpu": 1, "gpu": 2}, {3: 1, 4: 2})]),
    ]
    got = join_hour(parts)
    want = UseRow(ANN, {"cpu": 2**70 + 1, "gpu": 2}, {3: 2, 4: 2}, 1, {"cpu": 5})
    assert got.rows == [want, UseRow(BOB, {"cpu": 1})]
    assert parts[0].rows[0].used == {"cpu": 2**70}, "they are left as they are"
    assert decode_block(encode_block(got)) == got


def test_what_quotas_lent_is_added_up_with_whose_units_it_is_of() -> None:
    first = QuotaUse({"cpu": 1}, {}, (("ns",),))
    got = join_hour(
        [UseBlock(quotas={"a": first}), UseBlock(quotas={"a": QuotaUse({"cpu": 2}, {"gpu": 3})})]
    )
    assert got.quotas == {"a": QuotaUse({"cpu": 3}, {"gpu": 3}, (("ns",),))}
    unknown = join_hours([got, UseBlock(quotas={"a": QuotaUse({"cpu": 1}, {}, None)})])
    assert unknown.quotas["a"].namespaces is None


def test_a_day_keeps_the_namespaces_of_each_hour() -> None:
    hours = [
        join_hour([UseBlock([UseRow(ANN), UseRow(BOB)])]),
        join_hour([UseBlock([UseRow(BOB)])]),
        join_hour([UseBlock([UseRow(BOB)])]),
    ]
    assert join_hours(hours).hours == {"a": [("ns", "other"), ("other",)]}


def test_keys_beyond_the_bound_of_a_day_count_as_their_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(use_sums, "MAX_KEYS_OF_NAMESPACE", 2)
    real = ANN._replace(user="zoe")
    hours = [
        join_hour(
            [
                UseBlock(
                    [UseRow(real, {"cpu": 1}), UseRow(ANN._replace(user=f"x{hour}"), {"cpu": 1})]
                )
            ]
        )
        for hour in range(3)
    ]
    got = {row.key.user: row.used["cpu"] for row in join_hours(hours).rows}
    assert got == {"zoe": 3, "x0": 1, "namespace:ns": 2}, "who is there in most hours stays"


def test_few_resources_are_kept_those_without_a_domain_first() -> None:
    used = {f"x.io/{number}": 1 for number in range(30)} | {"cpu": 1}
    (row,) = join_hour([UseBlock([UseRow(ANN, used)])]).rows
    assert len(row.used) == 16
    assert "cpu" in row.used


@pytest.mark.parametrize(
    "data", [b"", b"x", zlib.compress(b"[[1]]"), encode_block(UseBlock())[:-3]]
)
def test_what_cannot_be_read_is_told(data: bytes) -> None:
    with pytest.raises(StoreError):
        decode_block(data)
