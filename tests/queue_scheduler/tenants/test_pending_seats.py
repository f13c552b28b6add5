"""Who is seated: the oldest, at every limit, whatever came first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.tenants.limit_use import Counted
from queue_scheduler.tenants.pending_seats import LineId, PendingSeats, SeatLimits
from shared_api.submitters import Submitter

TOP, VISION, STAFF = (
    Counted("top", is_group=False, name="ann"),
    Counted("vision", is_group=False, name="ann"),
    Counted("top", is_group=True, name="staff"),
)
LIMITS: dict[LineId, SeatLimits] = {
    ("vision", Submitter("ann", "staff")): ((VISION, 1), (TOP, 3), (STAFF, 4)),
    ("speech", Submitter("ann", "staff")): ((TOP, 3), (STAFF, 4)),
    ("speech", Submitter("bob", "staff")): ((STAFF, 4),),
    ("vision", Submitter("eve", "")): ((Counted("vision", is_group=False, name="eve"), 0),),
}
LINES = tuple(LIMITS)


def place(number: int) -> OrderKey:
    return (f"2026-11-01T00:{number % 7:02}:00Z", "ns", f"u{number}")


def seated_of(units: dict[int, LineId]) -> set[int]:
    """Return who is seated, by the rule."""
    taken: dict[Counted, int] = {}
    found = set()
    for number in sorted(units, key=place):
        limits = LIMITS[units[number]]
        if all(taken.get(counted, 0) < limit for counted, limit in limits):
            found.add(number)
            for counted, _ in limits:
                taken[counted] = taken.get(counted, 0) + 1
    return found


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, len(LINES) - 1)), max_size=60))
def test_the_seats_follow_from_the_units_alone(acts: list[tuple[int, int]]) -> None:
    seats, units = PendingSeats(), dict[int, LineId]()
    known: set[int] = set()
    for number, line in acts:
        if number in units:
            line_id = units.pop(number)
            seats.remove(line_id, place(number))
            known.discard(number)
        else:
            units[number] = LINES[line]
            seats.add(LINES[line], place(number), LIMITS[LINES[line]])
        seats.validate()
        seated = {n for n, line_id in units.items() if not seats.find_full(line_id, place(n))}
        assert seated == seated_of(units)
        moved = {int(key.partition("/u")[2]) for key in seats.moved}
        assert (seated ^ known) - {number} <= moved, "who is moved is named"
        known = seated
        seats.moved.clear()


def test_a_copy_is_independent() -> None:
    seats, line_id = PendingSeats(), LINES[0]
    seats.add(line_id, place(1), LIMITS[line_id])
    twin = seats.copy()
    twin.remove(line_id, place(1))
    twin.add(line_id, place(2), LIMITS[line_id])
    assert (list(seats), list(twin)) == (["ns/u1"], ["ns/u2"])
    seats.clear()
    assert list(seats) == []
    twin.validate()
