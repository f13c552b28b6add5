"""The process that floods, against a server that has its answer ready."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.flood.flooding import Plan, flooding
from tests.flood.http_connection import NO_ANSWER, Endpoint, Question
from tests.flood.still_server import still_server

QUESTIONS = (Question("/", "/", {}), Question("wrong", "/", {}, "POST", "body"))


def test_many_ask_at_once_and_their_answers_are_counted() -> None:
    with still_server() as still:
        plan = Plan(still, QUESTIONS, 1.0, datetime.now(UTC), parallel=20)
        with flooding(plan) as going:
            got = going.answers(plan.seconds)
    assert set(got.statuses) <= {200, 501, NO_ANSWER}
    assert got.made > 0
    assert got.refused > 0
    assert 0 < got.open <= 20


def test_of_a_port_that_nobody_serves_the_failures_are_counted() -> None:
    plan = Plan(Endpoint(1), QUESTIONS, 0.3, datetime.now(UTC), parallel=5)
    with flooding(plan) as going:
        got = going.answers(plan.seconds)
    assert (got.made, got.refused) == (0, 0)
    assert got.failed > 0
