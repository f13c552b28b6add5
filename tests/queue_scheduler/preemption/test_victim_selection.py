"""Which victims are chosen, compared with every subset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.preemption import victim_selection
from queue_scheduler.preemption.victim_selection import Candidate, choose_victims
from shared_api.objects.meta import Uid


def candidate(name: str, *, size: int = 1) -> Candidate:
    """Return a candidate that holds `size` of the only resource."""
    return Candidate(key=f"ns/{name}", uid=Uid(name), priority=0, runs=False, since="", kind=size)


class Room:
    """A quota that lacks `missing`; counts the questions."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.asked = 0

    def is_enough(self, released: Sequence[Candidate]) -> bool:
        self.asked += 1
        return sum(int(str(one.kind)) for one in released) >= self.missing


def chosen(candidates: Sequence[Candidate], missing: int) -> list[str]:
    return [one.uid for one in choose_victims(candidates, Room(missing).is_enough)]


@pytest.mark.parametrize(
    ("sizes", "missing", "want"),
    [
        pytest.param([1, 1, 1], 2, ["0", "1"], id="the cheapest"),
        pytest.param([1, 4, 1], 4, ["1"], id="none that is not needed"),
        pytest.param([1, 2, 2], 3, ["0", "1"], id="rather two cheap ones"),
        pytest.param([1, 1, 1], 4, [], id="none if all are not enough"),
        pytest.param([], 1, [], id="no candidates"),
        pytest.param([3, 1, 3, 1, 3], 7, ["0", "1", "2"], id="kinds in between"),
    ],
)
def test_which_victims_are_chosen(sizes: list[int], missing: int, want: list[str]) -> None:
    units = [candidate(str(number), size=size) for number, size in enumerate(sizes)]
    assert chosen(units, missing) == want


def test_a_round_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_selection, "MAX_VICTIMS", 2)
    units = [candidate(str(number)) for number in range(5)]
    assert chosen(units, 2) == ["0", "1"]
    assert chosen(units, 3) == []


def test_questions_are_few() -> None:
    units = [candidate(str(number), size=1 + number % 3) for number in range(10_000)]
    room = Room(9_000)
    assert not choose_victims(units, room.is_enough)  # more than one round may evict
    room = Room(600)
    assert len(choose_victims(units, room.is_enough)) == 300
    assert room.asked < 60
    taken = iter(units)
    choose_victims(taken, Room(5).is_enough)
    assert next(taken).uid == "4"  # the others were not even read


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=9),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_the_chosen_are_the_cheapest_that_suffice(
    sizes: list[tuple[int, int]], missing: tuple[int, int]
) -> None:
    """Of two resources, so that kinds depend on each other."""
    units = [candidate(str(number)) for number, _ in enumerate(sizes)]
    size_of = {unit.uid: size for unit, size in zip(units, sizes, strict=True)}
    place = {unit.uid: number for number, unit in enumerate(units)}
    units = [replace(one, kind=size_of[one.uid]) for one in units]

    def is_enough(released: Sequence[Candidate]) -> bool:
        return all(
            sum(size_of[one.uid][axis] for one in released) >= missing[axis] for axis in (0, 1)
        )

    if is_enough([]):
        return
    sets = [set_ for k in range(len(units) + 1) for set_ in combinations(units, k)]
    enough = [set_ for set_ in sets if is_enough(set_)]
    minimal = [
        set_
        for set_ in enough
        if not any(is_enough([o for o in set_ if o is not one]) for one in set_)
    ]
    want = min(minimal, key=lambda s: sorted((place[o.uid] for o in s), reverse=True), default=())
    assert choose_victims(units, is_enough) == want


def test_roundings_that_break_the_order_do_no_harm() -> None:
    """Enough with one, with three, not with two: whichever are chosen suffice."""
    units = [candidate(str(number), size=number) for number in range(4)]

    def is_enough(released: Sequence[Candidate]) -> bool:
        return len(released) in {1, 3}

    got = choose_victims(units, is_enough)
    assert is_enough(got)


def test_where_many_do_not_suffice_it_is_asked_once_whether_all_would() -> None:
    units = [candidate(str(number)) for number in range(1000)]
    asked: list[bool] = []

    def in_vain() -> bool:
        asked.append(True)
        return False

    room = Room(2000)
    assert choose_victims(units, room.is_enough, in_vain) == ()
    assert asked == [True]
    assert room.asked < 10, "then not all of them are tried"


class Borrowed:
    """Limits what each quota may lose; a candidate's kind is (quota, size)."""

    def __init__(self, excess: Sequence[int], kinds: dict[Uid, tuple[int, int]]) -> None:
        self.excess = list(excess)
        self.kinds = kinds

    def copy(self) -> Borrowed:
        twin = copy(self)
        twin.excess = list(self.excess)
        return twin

    def places(self, owner: Uid, /) -> frozenset[int]:
        return frozenset({self.kinds[owner][0]})

    def take(self, owner: Uid, count: int, /) -> int:
        quota, size = self.kinds[owner]
        count = min(count, self.excess[quota] // size)
        self.excess[quota] -= count * size
        return count


def borrowers(
    kinds: Sequence[tuple[int, int]], missing: int, excess: Sequence[int]
) -> tuple[list[Candidate], Callable[[Sequence[Candidate]], bool], Borrowed]:
    """Return candidates, what is enough, and what may be taken."""
    kind_of = {Uid(str(number)): kind for number, kind in enumerate(kinds)}
    units = [replace(candidate(uid), kind=kind) for uid, kind in kind_of.items()]

    def is_enough(released: Sequence[Candidate]) -> bool:
        return sum(kind_of[one.uid][1] for one in released) >= missing

    return units, is_enough, Borrowed(excess, kind_of)


def test_a_small_first_candidate_does_not_keep_the_large_one_from_being_chosen() -> None:
    units, is_enough, lent = borrowers([(0, 1), (0, 2)], missing=2, excess=[2])
    assert [one.uid for one in choose_victims(units, is_enough, lent=lent)] == ["1"]


def test_where_combinations_are_too_many_the_cheapest_are_chosen() -> None:
    """Eight quotas of two kinds each: 4 ** 8 combinations, and the small ones are enough."""
    kinds = [(quota, size) for quota in range(8) for size in (3, 2, 2, 2, 1, 1, 1)]
    units, is_enough, lent = borrowers(kinds, missing=8 * 5, excess=[5] * 8)
    asked: list[int] = []

    def counting(released: Sequence[Candidate]) -> bool:
        asked.append(len(released))
        return is_enough(released)

    got = choose_victims(units, counting, lent=lent)
    assert is_enough(got)
    assert len(asked) < 5 * victim_selection.MAX_QUESTIONS
    spent = lent.copy()
    assert all(spent.take(one.uid, 1) for one in got)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 4)), max_size=8),
    st.integers(1, 9),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_of_the_sets_that_may_leave_together_the_cheapest_is_chosen(
    kinds: list[tuple[int, int]], missing: int, excess: tuple[int, int]
) -> None:
    units, is_enough, lent = borrowers(kinds, missing, excess)

    def may_go(set_: Sequence[Candidate]) -> bool:
        left = lent.copy()
        return all(left.take(one.uid, 1) for one in set_)

    sets = [set_ for k in range(len(units) + 1) for set_ in combinations(units, k)]
    enough = [set_ for set_ in sets if may_go(set_) and is_enough(set_)]
    want = min(enough, key=lambda s: sorted((int(o.uid) for o in s), reverse=True), default=())
    assert choose_victims(units, is_enough, lent=lent) == want
