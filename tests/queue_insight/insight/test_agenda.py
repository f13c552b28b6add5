"""Events in virtual time."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from math import inf

from queue_insight.insight.agenda import Agenda
from queue_scheduler.decision import Moment
from shared_api.testing.virtual_clock import EPOCH


class Notes:
    """An agenda that starts at 10 s, and what has happened."""

    def __init__(self) -> None:
        self.agenda = Agenda(Moment(10.0, EPOCH))
        self.lines: list[tuple[float, str]] = []

    def note(self, what: str) -> None:
        self.lines.append((self.agenda.now, what))


def test_events_come_by_time_and_then_as_they_were_planned() -> None:
    notes = Notes()
    for at, what in ((30.0, "c"), (20.0, "a"), (20.0, "b"), (5.0, "late")):
        notes.agenda.call_at(at, partial(notes.note, what))
    while notes.agenda.next_at < inf:
        notes.agenda.play_next()
    assert notes.lines == [(10.0, "late"), (20.0, "a"), (20.0, "b"), (30.0, "c")]
    assert notes.agenda.wall == EPOCH + timedelta(seconds=20)


def test_what_an_event_plans_for_its_own_time_is_played_with_it() -> None:
    notes = Notes()
    notes.agenda.call_at(20.0, lambda: notes.agenda.call_at(20.0, lambda: notes.note("next")))
    notes.agenda.play_next()
    assert notes.lines == [(20.0, "next")]


def test_plans_of_an_object_are_void_together_and_those_of_others_are_not() -> None:
    notes = Notes()
    agenda = notes.agenda
    for key in ("x", "y"):
        agenda.plan(key, 1.0, notes.note)
        agenda.plan(key, 2.0, notes.note)
    agenda.void("x")
    agenda.plan("x", 3.0, notes.note)
    while agenda.next_at < inf:
        agenda.play_next()
    assert notes.lines == [(11.0, "y"), (12.0, "y"), (13.0, "x")]


def test_what_never_happens_is_not_planned() -> None:
    agenda = Notes().agenda
    agenda.plan("x", None, lambda _: None)
    agenda.plan("x", inf, lambda _: None)
    assert agenda.next_at == inf


def test_time_does_not_go_back() -> None:
    agenda = Notes().agenda
    agenda.advance(20.0)
    agenda.advance(15.0)
    assert (agenda.now, agenda.at(agenda.wall)) == (20.0, 20.0)
