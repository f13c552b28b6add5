"""The routes of questions over the debug API's real server."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from tests.queue_scheduler.debug_api.watched_engine import WatchedEngine
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

EXPLAIN = "/debug/queueunits/default/a/explain"


def watched_answers(kit: ShellKit) -> tuple[WatchedEngine, Answers]:
    kit.add_unit("a")
    watched = WatchedEngine(kit.engine)
    answers = Answers(StateAnswers(watched, lambda: True))
    watched.turn = answers.state.turn
    return watched, answers


def test_one_answer_is_built_at_a_time(kit: ShellKit) -> None:
    watched, answers = watched_answers(kit)
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        answer = client.get(EXPLAIN)
    assert answer.json()["verdict"] == "waiting"
    assert answer.headers["content-type"] == "application/json"
    assert watched.held
    assert all(watched.held)


def test_changes_are_found_while_other_answers_are_built(kit: ShellKit) -> None:
    watched, answers = watched_answers(kit)
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        answer = client.get(f"{EXPLAIN}?changes=true")
    assert [each["kind"] for each in answer.json()["changes"]] == ["wait"]
    assert watched.held == [True, False]


def test_a_unit_that_is_not_there_is_not_explained(kit: ShellKit) -> None:
    _, answers = watched_answers(kit)
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        answer = client.get("/debug/queueunits/default/b/explain")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "queue unit default/b is unknown"}


def test_every_route_is_guarded(kit: ShellKit) -> None:
    def nobody(_request: Request) -> None:
        raise HTTPException(401, "a token is needed")

    _, answers = watched_answers(kit)
    paths = (
        EXPLAIN,
        "/debug/queueunits/default/a/forecast",
        "/debug/queues/team/forecast",
        "/debug/insight",
        "/debug/log",
        "/debug/dump",
        "/debug/queues",
    )
    with served(build_whole_app(answers, nobody, (), "0.0.0")) as client:
        for path in paths:
            assert client.get(path).status_code == 401, path
