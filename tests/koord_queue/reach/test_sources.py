"""The order in which APIs are asked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final, NoReturn

import pytest

from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.choice import Choice
from koord_queue.reach.errors import NotServed, Refused
from koord_queue.reach.questions import Question
from koord_queue.reach.sources import ANY_STEP, DEBUG_STEP, SERVER_STEP, Sources
from shared_api.testing.virtual_clock import VirtualClock

EXPLAIN: Final = questions.explain("a", "b")


class Answers:
    """A source that answers any question, or raises."""

    def __init__(self, answer: bytes | CommandError) -> None:
        self._answer = answer

    def answer(self, question: Question[Any]) -> Any:
        if isinstance(self._answer, CommandError):
            raise self._answer
        return self._answer


def needless(*_: object) -> NoReturn:
    pytest.fail("no cluster is needed")


def sources(monkeypatch: pytest.MonkeyPatch, **opened: bytes | CommandError) -> Sources:
    """Return sources of which each opens, and answers, as given; others cannot be opened."""

    def opens(name: str) -> Callable[[Sources], object]:
        def open_it(_self: Sources) -> object:
            if name not in opened:
                raise NotServed(f"no {name}")
            return Answers(opened[name])

        return open_it

    for name in ("server", "aggregated", "forward"):
        monkeypatch.setattr(Sources, f"_open_{name}", opens(name))
    choice = Choice(server="http://x" if "server" in opened else None)
    return Sources(choice, needless, needless, VirtualClock(), ExitStack())


NOT_SERVED = NotServed("the group is not there")


@pytest.mark.parametrize(
    ("opened", "want"),
    [
        pytest.param({"aggregated": b"1", "forward": b"2"}, b"1", id="the aggregated API first"),
        pytest.param({"aggregated": NOT_SERVED, "forward": b"2"}, b"2", id="then a port-forward"),
        pytest.param({"forward": b"2"}, b"2", id="which is enough"),
        pytest.param({"server": b"0", "aggregated": b"1"}, b"0", id="a server alone, if named"),
    ],
)
def test_the_first_that_answers(
    monkeypatch: pytest.MonkeyPatch, opened: dict[str, bytes | CommandError], want: bytes
) -> None:
    assert sources(monkeypatch, **opened).answer(EXPLAIN) == want


def test_a_refusal_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sources(monkeypatch, aggregated=Refused("eve may not"), forward=b"2")
    with pytest.raises(Refused, match="eve may not"):
        asked.answer(EXPLAIN)


def test_each_reason_is_told_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = sources(monkeypatch, aggregated=NOT_SERVED)
    for _ in range(2):  # the second question tells them as well
        with pytest.raises(NotServed) as got:
            asked.answer(EXPLAIN)
        assert got.value.message == "the group is not there; no forward"


@pytest.mark.parametrize(
    ("opened", "route", "step"),
    [
        pytest.param({}, False, ANY_STEP, id="either API would have it"),
        pytest.param({}, True, DEBUG_STEP, id="the aggregated API never has it"),
        pytest.param({"server": NOT_SERVED}, True, SERVER_STEP, id="the server is another one"),
    ],
)
def test_the_next_step_is_one_that_helps(
    monkeypatch: pytest.MonkeyPatch,
    opened: dict[str, bytes | CommandError],
    route: bool,
    step: str,
) -> None:
    asked = sources(monkeypatch, **opened)
    with pytest.raises(NotServed) as got:
        asked.answer(questions.route("/debug/log") if route else EXPLAIN)
    assert got.value.next_step == step
