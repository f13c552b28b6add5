"""Turns: a total order in every domain, and no queue is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.queueing.turn_order import SLACK, Entry, TurnOrder


def entry(name: str, *, rank: int = 0, turn: int = 0) -> Entry:
    return ((rank,), turn, name)


def domains(*names: str) -> frozenset[str]:
    return frozenset(names)


def first_of(turns: TurnOrder, domain: str) -> str:
    first = turns.first_entry(domain)
    return "" if first is None else first[2]


def test_higher_rank_then_longest_unserved_then_name() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("b", turn=3), domains("d"))
    assert first_of(turns, "d") == "b"
    turns.set_movable(entry("c", turn=1), domains("d"))
    assert first_of(turns, "d") == "c"
    turns.set_movable(entry("a", turn=1), domains("d"))
    assert first_of(turns, "d") == "a"
    turns.set_movable(entry("z", rank=-1, turn=9), domains("d"))
    assert first_of(turns, "d") == "z"
    assert turns.queue_ahead_of("a") == "z"
    assert turns.queue_ahead_of("z") == ""


def test_without_a_common_domain_no_queue_waits() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("a"), domains("d1"))
    turns.set_movable(entry("b"), domains("d2"))
    turns.set_movable(entry("c"), domains())
    assert [turns.queue_ahead_of(name) for name in "abc"] == ["", "", ""]


def test_a_resting_queue_is_not_in_the_way() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("a"), domains("d"))
    turns.set_movable(entry("b"), domains("d"))
    assert turns.set_resting("a") == {"d"}
    assert turns.queue_ahead_of("a") is None
    assert turns.competes_of("a") is None
    assert turns.queue_ahead_of("b") == ""
    assert turns.set_resting("a") == frozenset()


@pytest.mark.parametrize(
    ("known", "news", "want"),
    [
        pytest.param(None, (entry("a"), domains("d")), {"d"}, id="it can move now"),
        pytest.param((entry("a"), domains("d")), (entry("a"), domains("d")), set(), id="no change"),
        pytest.param(
            (entry("a"), domains("d")), (entry("a", turn=4), domains("d")), {"d"}, id="another turn"
        ),
        pytest.param(
            (entry("a"), domains("d", "e")),
            (entry("a"), domains("e", "f")),
            {"d", "e", "f"},
            id="other domains: those it left as well",
        ),
    ],
)
def test_the_domains_whose_order_changed(
    known: tuple[Entry, frozenset[str]] | None, news: tuple[Entry, frozenset[str]], want: set[str]
) -> None:
    turns = TurnOrder()
    if known is not None:
        turns.set_movable(*known)
    assert turns.set_movable(*news) == want


def test_a_queue_leaves_the_domains_that_it_no_longer_competes_for() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("a"), domains("d", "e"))
    turns.set_movable(entry("b"), domains("d"))
    turns.set_movable(entry("a"), domains("e"))
    assert turns.queue_ahead_of("b") == ""
    assert first_of(turns, "e") == "a"


def test_stale_entries_do_not_pile_up() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("first", rank=-1), domains("d"))
    for turn in range(1000):
        turns.set_movable(entry("restless", turn=turn), domains("d"))
    kept = turns._heaps["d"]  # noqa: SLF001 - no answer shows how much is kept
    assert len(kept) <= 2 * 2 + SLACK + 1
    turns.set_resting("first")
    assert first_of(turns, "d") == "restless"


def test_a_copy_is_independent() -> None:
    turns = TurnOrder()
    turns.set_movable(entry("a"), domains("d"))
    twin = turns.copy()
    twin.set_resting("a")
    twin.set_movable(entry("b"), domains("d"))
    assert first_of(turns, "d") == "a"
    assert first_of(twin, "d") == "b"
    assert turns.queue_ahead_of("b") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"),
            st.integers(0, 2),
            st.integers(0, 3),
            st.one_of(st.none(), st.frozensets(st.sampled_from(["x", "y", "z"]))),
        )
    )
)
def test_it_is_the_smallest_entry_of_each_domain(
    changes: list[tuple[str, int, int, frozenset[str] | None]],
) -> None:
    turns = TurnOrder()
    model: dict[str, tuple[Entry, frozenset[str]]] = {}
    for name, rank, turn, competes in changes:
        if competes is None:
            turns.set_resting(name)
            model.pop(name, None)
        else:
            model[name] = (entry(name, rank=rank, turn=turn), competes)
            turns.set_movable(*model[name])
            turns.check_movable(*model[name])
        for domain in "xyz":
            want = min((e for e, where in model.values() if domain in where), default=None)
            assert turns.first_entry(domain) == want
    # Some queue can always go on.
    assert not model or any(not turns.queue_ahead_of(name) for name in model)
