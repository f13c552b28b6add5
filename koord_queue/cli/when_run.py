"""What `koord-queue when` does when it is run."""

from __future__ import annotations

from koord_queue.answers.budget_forecasts import BudgetForecastPage
from koord_queue.answers.decoding import decode
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast, QueueForecast
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.errors import Missing
from koord_queue.reach.named import find_quota_name, is_queue, queue_name
from koord_queue.session.answer_context import AnswerContext, open_context, show_tree
from koord_queue.session.session import Session
from koord_queue.show.budget_forecasts import budget_lines
from koord_queue.show.forecasts import QUEUE_COLUMNS, forecast_lines, queue_rows
from koord_queue.show.paragraphs import Line, write_lines


class _NotForecastYetError(CommandError):
    """A unit waits that did not wait when the last forecast was made."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"When {name} starts is not known yet: it came after the last forecast",
            "A forecast is made every one to four minutes; the next one has it.",
        )


def run(session: Session, named: str, *, dump: str | None, form: str) -> None:
    """Show a forecast; the arguments are the options of the command."""
    context = open_context(session, dump)
    if quota := find_quota_name(named):
        answer = context.source.answer(questions.budget_forecast(quota))
        if not show_tree(session, answer, form):
            _show_budgets(session, context, answer, quota)
        return
    if is_queue(named):
        name = queue_name(named)
        answer = _forecast_of_queue(context, name)
        if not show_tree(session, answer, form):
            _show_queue(session, context, answer, name)
        return
    try:
        answer = _forecast_of(context, named)
    except _NotForecastYetError as error:
        if form != "text":
            raise
        write_lines(session.out, [Line(f"{error.message}.", "bold"), Line(error.next_step, "dim")])
        return
    if not show_tree(session, answer, form):
        _show_unit(session, context, answer)


def _forecast_of_queue(context: AnswerContext, name: str) -> bytes:
    try:
        return context.source.answer(questions.queue_forecast(name))
    except Missing as error:
        raise CommandError(
            f"there is no queue {name}", "`koord-queue queues` lists them."
        ) from error


def _forecast_of(context: AnswerContext, named: str) -> bytes:
    namespace, name = context.find(named)
    try:
        return context.source.answer(questions.forecast(namespace, name))
    except Missing as error:
        if _is_waiting(context, namespace, name):
            raise _NotForecastYetError(name) from error
        raise CommandError(
            f"{name} has no forecast, since it is not waiting in a queue",
            f"`koord-queue explain {named}` says where it stands.",
        ) from error


def _is_waiting(context: AnswerContext, namespace: str, name: str) -> bool:
    """Return whether a unit waits in its queue now; it may have come after the last forecast."""
    answer = context.source.answer(questions.explain(namespace, name))
    return decode(answer, Explanation).verdict == "waiting"


def _show_unit(session: Session, context: AnswerContext, answer: bytes) -> None:

    write_lines(session.out, forecast_lines(decode(answer, Forecast), context.wall))


def _show_queue(session: Session, context: AnswerContext, answer: bytes, name: str) -> None:

    found = decode(answer, QueueForecast)
    if found.units:
        session.out.table(QUEUE_COLUMNS, queue_rows(found, context.wall))
    left = found.total - found.offset - len(found.units)
    if left > 0:
        session.out.note(f"{left} more units wait in queue {name}")
    elif not found.units:
        session.out.note(f"no unit waited in queue {name} when the last forecast was made")


def _show_budgets(session: Session, context: AnswerContext, answer: bytes, quota: str) -> None:
    found = decode(answer, BudgetForecastPage)
    write_lines(session.out, budget_lines(found, context.wall))
    if not found.items and not found.others:
        session.out.note(f"quota {quota} has no budgets; `koord-queue tree` shows the quotas")
