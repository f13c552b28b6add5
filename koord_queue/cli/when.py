"""`koord-queue when`: when a unit, or each unit of a queue, starts and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing
from koord_queue.reach.named import is_queue, queue_name
from koord_queue.session.answer_context import open_context, show_tree

if TYPE_CHECKING:
    from koord_queue.session.answer_context import AnswerContext
    from koord_queue.session.session import Session


@click.command()
@click.argument("named", metavar="UNIT|queue/NAME")
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def when(session: Session, named: str, *, dump: str | None, form: str) -> None:
    """Say when a job that waits starts and ends, by the last forecast.

    UNIT is job/NAME, NAMESPACE/NAME, or the name of a queue unit; of queue/NAME all units are
    listed. Times are in the zone of this machine.
    """
    context = open_context(session, dump)
    if is_queue(named):
        name = queue_name(named)
        answer = _forecast_of_queue(context, name)
        if not show_tree(session, answer, form):
            _show_queue(session, context, answer, name)
        return
    answer = _forecast_of(context, named)
    if not show_tree(session, answer, form):
        _show_unit(session, context, answer)


def _forecast_of_queue(context: AnswerContext, name: str) -> bytes:
    from koord_queue.reach import questions  # noqa: PLC0415 - not for --help

    try:
        return context.source.answer(questions.queue_forecast(name))
    except Missing as error:
        raise CommandError(
            f"there is no queue {name}", "`koord-queue queues` lists them."
        ) from error


def _forecast_of(context: AnswerContext, named: str) -> bytes:
    from koord_queue.reach import questions  # noqa: PLC0415 - not for --help

    namespace, name = context.find(named)
    try:
        return context.source.answer(questions.forecast(namespace, name))
    except Missing as error:
        raise CommandError(
            f"{name} has no forecast: it did not wait in a queue when the last one was made",
            f"`koord-queue explain {named}` says where it stands.",
        ) from error


def _show_unit(session: Session, context: AnswerContext, answer: bytes) -> None:
    from koord_queue.answers.decoding import decode  # noqa: PLC0415 - not for --help
    from koord_queue.answers.forecast import Forecast  # noqa: PLC0415 - the same
    from koord_queue.show.forecasts import forecast_lines  # noqa: PLC0415 - the same
    from koord_queue.show.paragraphs import write_lines  # noqa: PLC0415 - the same

    write_lines(session.out, forecast_lines(decode(answer, Forecast), context.wall))


def _show_queue(session: Session, context: AnswerContext, answer: bytes, name: str) -> None:
    from koord_queue.answers.decoding import decode  # noqa: PLC0415 - not for --help
    from koord_queue.answers.forecast import QueueForecast  # noqa: PLC0415 - the same
    from koord_queue.show.forecasts import QUEUE_COLUMNS, queue_rows  # noqa: PLC0415 - the same

    found = decode(answer, QueueForecast)
    if found.units:
        session.out.table(QUEUE_COLUMNS, queue_rows(found, context.wall))
    left = found.total - found.offset - len(found.units)
    if left > 0:
        session.out.note(f"{left} more units wait in queue {name}")
    elif not found.units:
        session.out.note(f"no unit waited in queue {name} when the last forecast was made")
