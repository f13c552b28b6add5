"""What `koord-queue describe` does when it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from koord_queue.answers.decoding import decode
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.objects import read_unit
from koord_queue.reach.questions import Question
from koord_queue.session.session import Session
from koord_queue.show import unit_life
from koord_queue.show.forecasts import Wall
from koord_queue.show.paragraphs import heading, rows_as_lines, write_lines
from koord_queue.show.unit_life import Event, UnitAnswers
from shared_api.objects.queue_unit import QueueUnit

MOST_EVENTS: Final = 10
"""The newest of unit and job; `kubectl events` has all of them."""


def run(session: Session, unit: str) -> None:
    """Show all that is known of a unit, by the name that a user has given."""
    namespace, name = session.unit_or_why(unit)
    found = read_unit(session.cluster(), namespace, name)
    answers = _unit_answers(session, namespace, name)
    wall = Wall(session.clock.now())
    out = session.out
    write_lines(out, unit_life.fact_lines(found, answers, wall))
    more = list(unit_life.further_reason_lines(answers))
    if more:
        write_lines(out, [*heading("More reasons"), *more])

    def section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if rows:
            write_lines(out, [*heading(title), *rows_as_lines(columns, rows)])

    section("Life", unit_life.LIFE_COLUMNS, unit_life.life_rows(found, wall))
    section("Demand", unit_life.DEMAND_COLUMNS, unit_life.demand_rows(found))
    section("Admission checks", unit_life.CHECK_COLUMNS, unit_life.check_rows(found))
    events = _events(session, found)
    section("Events", unit_life.EVENT_COLUMNS, unit_life.event_rows(events, wall))


def _unit_answers(session: Session, namespace: str, name: str) -> UnitAnswers:
    """Return what the engine says of a unit; where it does not, a note says why."""
    explained = _answer(session, questions.explain(namespace, name), "place and numbers")
    if explained is None:
        return UnitAnswers()
    explanation = decode(explained, Explanation)
    if explanation.verdict != "waiting":
        return UnitAnswers(explanation)
    forecast = _answer(session, questions.forecast(namespace, name), "a forecast")
    return UnitAnswers(explanation, None if forecast is None else decode(forecast, Forecast))


def _answer(session: Session, question: Question[bytes], what: str) -> bytes | None:
    try:
        return session.sources().answer(question)
    except Missing:
        return None
    except CommandError as error:
        text = f"{what}: not known: {error.message}"
        session.out.note(f"{text}. {error.next_step}".rstrip())
        return None


# --- events -------------------------------------------------------------------------------------


def _events(session: Session, unit: QueueUnit) -> list[Event]:
    job = unit.spec.consumer_ref
    abouts = [("QueueUnit", unit.metadata.name), *([(job.kind, job.name)] if job else [])]
    try:
        found = [
            event
            for kind, name in abouts
            for event in _events_about(session, unit.metadata.namespace, kind, name)
        ]
    except (Refused, NotServed) as error:
        session.out.note(f"events: not known: {error.message}")
        return []
    return sorted(found, key=lambda each: each.last)[-MOST_EVENTS:]


def _events_about(session: Session, namespace: str, kind: str, name: str) -> list[Event]:

    selector = f"involvedObject.kind={kind},involvedObject.name={name}"
    path = f"/api/v1/namespaces/{namespace}/events"
    pages = session.cluster().pages(path, (("fieldSelector", selector),))
    return [
        Event(
            last=_last(each),
            kind=each.get("type") or "",
            reason=each.get("reason") or "",
            about=f"{kind.lower()}/{name}",
            message=each.get("message") or "",
        )
        for page in pages
        for each in msgspec.json.decode(page).get("items", ())
    ]


def _last(event: dict[str, Any]) -> str:
    """Return when an event came last: where that stands depends on which API has written it."""
    series = event.get("series") or {}
    moments = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((each for each in moments if each), ""))
