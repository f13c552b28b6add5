"""What `koord-queue explain` does when it is run."""

from __future__ import annotations

import click

from koord_queue.answers.decoding import decode
from koord_queue.answers.explanation import Explanation
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.named import place_of_unit
from koord_queue.reach.objects import read_unit
from koord_queue.session.answer_context import AnswerContext, open_context, show_tree
from koord_queue.session.session import Session
from koord_queue.show.explanation import explanation_lines
from koord_queue.show.forecasts import Wall
from koord_queue.show.paragraphs import write_lines
from koord_queue.show.unit_life import reason_lines


def run(
    session: Session,
    unit: str,
    *,
    changes: bool,
    shows_all: bool,
    at: str | None,
    dump: str | None,
    form: str,
) -> None:
    """Show why a unit waits; the arguments are the options of the command."""
    if changes and at is not None:
        raise click.UsageError("--changes is about now, not about --at.")
    context = open_context(session, dump)
    namespace, name = _find(context, unit, at)
    try:
        answer = _answer(context, (namespace, name), at, changes=changes)
    except (NotServed, Refused) as error:
        if form != "text" or at is not None or dump is not None:
            raise
        _explain_alone(session, namespace, name, error)
        return
    if not show_tree(session, answer, form):
        _show(session, context, answer, shows_all=shows_all)


def _find(context: AnswerContext, unit: str, at: str | None) -> tuple[str, str]:
    """Return namespace and name of a unit; at another time its object need not be there now."""
    try:
        return context.find(unit)
    except CommandError:
        found = None if at is None else place_of_unit(unit, context.namespace())
        if found is None:
            raise
        return found


def _answer(
    context: AnswerContext, unit: tuple[str, str], at: str | None, *, changes: bool
) -> bytes:
    if at is None:
        return context.source.answer(questions.explain(*unit, changes=changes))
    namespace, name = unit
    path = f"/debug/queueunits/{namespace}/{name}/explain"
    return context.source.answer(questions.route(path, (("at", at),)))


def _show(session: Session, context: AnswerContext, answer: bytes, *, shows_all: bool) -> None:

    explanation = decode(answer, Explanation)
    ahead = _ahead(context, explanation)
    write_lines(session.out, explanation_lines(explanation, ahead, shows_all=shows_all))


def _ahead(context: AnswerContext, explanation: Explanation) -> list[str]:
    """Return units of its namespace that are ahead of it; none if that is not answered."""
    if explanation.verdict != "waiting" or explanation.position <= 1:
        return []
    try:
        question = questions.pending(explanation.namespace, explanation.queue)
        found = context.source.answer(question)
    except (NotServed, Refused):
        return []
    ahead = [each for each in found if 0 < each.position < explanation.position]
    return [each.name for each in sorted(ahead, key=lambda each: each.position)]


def _explain_alone(session: Session, namespace: str, name: str, error: CommandError) -> None:

    unit = read_unit(session.cluster(), namespace, name)
    write_lines(session.out, reason_lines(unit, Wall(session.clock.now())))
    missing = f"numbers, position and changes are not known: {error.message}"
    session.out.note(f"{missing}. {error.next_step}".rstrip())
