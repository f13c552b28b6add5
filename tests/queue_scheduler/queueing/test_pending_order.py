"""Sorted keys: the same as a sorted list, in any order of insertions and removals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing import pending_order
from queue_scheduler.queueing.pending_order import PendingOrder


def key(n: int) -> OrderKey:
    return (n % 7, f"{n:04}")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_order, "CHUNK", 2)


def test_an_empty_order_has_no_first() -> None:
    order = PendingOrder()
    assert (len(order), order.first(), list(order)) == (0, None, [])
    assert order.count_before(key(3)) == 0
    assert order.at(0) is None


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("missing", [key(0), key(2), key(6)], ids=["before", "between", "behind"])
def test_a_missing_key_cannot_be_removed(missing: OrderKey) -> None:
    order = PendingOrder()
    for n in (1, 3, 8):
        order.add(key(n))
    with pytest.raises(KeyError):
        order.remove(missing)
    assert list(order) == [key(1), key(8), key(3)]


@pytest.mark.usefixtures("small_chunks")
def test_it_has_the_keys_that_were_added() -> None:
    order = PendingOrder()
    assert key(0) not in order
    for n in range(1, 20, 2):
        order.add(key(n))
    assert [n for n in range(22) if key(n) in order] == [*range(1, 20, 2)]


def test_a_copy_is_independent() -> None:
    order = PendingOrder()
    for n in range(5):
        order.add(key(n))
    twin = order.copy()
    twin.remove(key(0))
    twin.add(key(90))
    order.remove(key(4))
    assert list(order) == sorted(map(key, (0, 1, 2, 3)))
    assert list(twin) == sorted(map(key, (1, 2, 3, 4, 90)))
    assert (len(order), len(twin)) == (4, 5)


@given(st.lists(st.integers(0, 60)), st.data())
def test_it_is_a_sorted_set(numbers: list[int], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pending_order, "CHUNK", 2)
        order, model = PendingOrder(), set[OrderKey]()
        for n in numbers:
            # A present key must not be added again; so a repeated number removes.
            if key(n) in model:
                order.remove(key(n))
                model.remove(key(n))
            else:
                order.add(key(n))
                model.add(key(n))
            want = sorted(model)
            assert list(order) == want
            assert order.first() == (want[0] if want else None)
            assert len(order) == len(want)
            assert [order.at(n) for n in range(len(want) + 1)] == [*want, None]
        probe = key(data.draw(st.integers(0, 60)))
        assert order.count_before(probe) == sum(each < probe for each in model)


def test_many_keys_are_kept_in_chunks() -> None:
    order = PendingOrder()
    for n in range(3 * pending_order.CHUNK):
        order.add((n,))
    assert list(order) == [(n,) for n in range(3 * pending_order.CHUNK)]
    assert order.count_before((1000,)) == 1000
