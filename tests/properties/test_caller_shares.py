"""Whatever callers ask, places and seconds stay shared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.caller_shares import CallerShares, Outcome, ShareLimits

pytestmark = pytest.mark.properties

LIMITS = st.builds(
    ShareLimits,
    places=st.integers(1, 6),
    waiting=st.integers(0, 6),
    patience_seconds=st.sampled_from([0.5, 2.0]),
    rate=st.sampled_from([0.25, 1.0, 6.0]),
    own_rate=st.sampled_from([0.05, 1.0]),
    own_places=st.sampled_from([None, 1, 2]),
    saved_seconds=st.sampled_from([0.5, 5.0]),
    callers=st.integers(13, 16),
)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 30)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("pass"), st.integers(0, 8)),
    ),
    max_size=60,
)


LEAST_PLACES_FOR_THREE = 4
"""With fewer, two callers can have all of them."""


class Outcomes:
    """The state of a server's requests, by the outcomes alone."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.running: list[int] = []

    def note(self, outcome: Outcome[int]) -> None:
        for ticket in outcome.begun:
            self.waiting.remove(ticket)
            self.running.append(ticket)
        for each in outcome.refused:
            assert each.retry_after >= 1
            self.waiting.remove(each.ticket)


@given(LIMITS, STEPS)
def test_every_request_is_answered_or_refused_once(
    limits: ShareLimits, steps: list[tuple[str, int]]
) -> None:
    now, got = 0.0, Outcomes()
    shares: CallerShares[int] = CallerShares(limits, now)
    for number, (act, which) in enumerate(steps):
        match act:
            case "ask":
                got.waiting.append(number)
                got.note(shares.ask(f"caller {which}", number, now))
            case "end" if got.running:
                got.note(shares.end(got.running.pop(which % len(got.running)), now))
            case "leave" if got.waiting:
                shares.leave(got.waiting.pop(which % len(got.waiting)))
            case "pass":
                now += which / 4
                got.note(shares.tick(now))
            case _:
                pass
        shares.validate()
        assert (len(got.running), len(got.waiting)) == (shares.running, shares.waiting)
    while got.waiting or got.running:
        if got.running:
            got.note(shares.end(got.running.pop(), now))
        else:
            now += shares.seconds_to_tick(now) or 0.0
            got.note(shares.tick(now))


GREEDY = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "ask", "end", "pass"]), st.integers(0, 8)),
    min_size=6,
    max_size=30,
)


@given(LIMITS, GREEDY)
def test_a_newcomer_begins_at_once_while_two_others_ask_as_much_as_they_can(
    limits: ShareLimits, steps: list[tuple[str, int]]
) -> None:
    now = 0.0
    shares: CallerShares[int] = CallerShares(limits, now)
    running: list[int] = []
    for number, (act, which) in enumerate(steps):
        if act == "pass":
            now += which / 4
            running += shares.tick(now).begun
        elif act == "end" and running:
            running += shares.end(running.pop(which % len(running)), now).begun
        else:
            running += shares.ask(f"greedy {which % 2}", number, now).begun
    assert shares.ask("newcomer", -1, now).begun or limits.places < LEAST_PLACES_FOR_THREE
