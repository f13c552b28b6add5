"""What `when` says of a unit that the last forecast does not have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.answers.budget_forecasts import BudgetForecast, BudgetForecastPage
from koord_queue.answers.explanation import Explanation
from koord_queue.cli.when_run import run
from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing
from koord_queue.reach.questions import Question
from shared_api.testing.object_builders import queue_unit_body
from tests.koord_queue.session.played_session import PlayedSession


class NoForecasts:
    """Explains a unit, and has no forecast of it."""

    def __init__(self, verdict: str) -> None:
        self._explanation = Explanation(verdict=verdict)

    def answer(self, question: Question[Any]) -> Any:
        """Answer an explanation."""
        if question.name.startswith("the forecast"):
            raise Missing("it did not wait in a queue at the last forecast")
        return msgspec.json.encode(self._explanation)


@pytest.fixture
def session() -> PlayedSession:
    """Return a session with a unit `train`."""
    found = PlayedSession()
    found.server.direct.create(queue_unit_body("train"))
    return found


def test_of_a_unit_that_came_after_the_last_forecast_it_says_when_more_is_known(
    session: PlayedSession,
) -> None:
    session.source = NoForecasts("waiting")
    run(session, "unit/train", dump=None, form="text")
    assert session.out_text.getvalue() == (
        "When train starts is not known yet: it came after the last forecast.\n"
        "A forecast is made every one to four minutes; the next one has it.\n"
    )


@pytest.mark.parametrize(
    ("verdict", "form", "want"),
    [
        pytest.param("waiting", "json", "When train starts is not known yet", id="no JSON of it"),
        pytest.param("admitted", "text", "train has no forecast, since", id="it does not wait"),
    ],
)
def test_else_it_is_an_error(session: PlayedSession, verdict: str, form: str, want: str) -> None:
    session.source = NoForecasts(verdict)
    with pytest.raises(CommandError, match=want):
        run(session, "unit/train", dump=None, form=form)


class Budgets:
    """Answers when the budgets of a quota are spent."""

    def __init__(self, page: BudgetForecastPage) -> None:
        self._page = page

    def answer(self, question: Question[Any]) -> Any:
        """Answer the forecast of a quota."""
        assert question.name == "the forecast of the budgets of quota root/vision"
        return msgspec.json.encode(self._page)


@pytest.mark.parametrize(
    ("page", "want"),
    [
        pytest.param(
            BudgetForecastPage(items=(BudgetForecast(quota="root/vision", outlook="spent"),)),
            "Nothing has been left since",
            id="one",
        ),
        pytest.param(BudgetForecastPage(), "quota root/vision has no budgets", id="none"),
    ],
)
def test_of_a_quota_it_says_when_its_budgets_are_spent(
    session: PlayedSession, page: BudgetForecastPage, want: str
) -> None:
    session.source = Budgets(page)
    run(session, "quota/root/vision", dump=None, form="text")
    assert want in session.out_text.getvalue() + session.err_text.getvalue()
