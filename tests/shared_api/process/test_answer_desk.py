"""Requests go to lanes, and within a lane each caller has a share."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from structlog.testing import capture_logs

from shared_api.caller_shares import address_key, user_key
from shared_api.process.answer_desk import (
    PATIENCE_SECONDS,
    AnswerDesk,
    Lane,
    LaneRequest,
    address_of,
    limit_places,
    one_lane,
)
from shared_api.process.http_exchange import Answer, Request, text_answer
from shared_api.testing.virtual_clock import VirtualClock


def request(path: str, who: str = "ann") -> Request:
    return Request("GET", path, {"authorization": who}, ("10.0.0.7", 4711))


def refuse(retry_after: int) -> Answer:
    return text_answer(HTTPStatus.TOO_MANY_REQUESTS, f"in {retry_after} s")


class Desk:
    """A desk with lanes for dear and cheap answers; the test is its workers."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.answered: list[str] = []
        self.heard: list[tuple[str, int]] = []
        lanes = {
            "dear": Lane(limit_places(2, waiting=2), self.make),
            "cheap": Lane(limit_places(2, waiting=2), self.make),
            "new": Lane(limit_places(2, waiting=2), self.sort_late),
        }
        self.desk = AnswerDesk(lanes, self.sort, refuse, self.clock)

    def sort(self, asked: Request) -> Answer | LaneRequest:
        lane = asked.target.split("/")[1]
        if lane == "none":
            return text_answer(HTTPStatus.UNAUTHORIZED)
        assert lane != "broken"
        return LaneRequest(lane, user_key(asked.headers["authorization"]), asked)

    def sort_late(self, asked: Request) -> Answer | LaneRequest:
        return LaneRequest("cheap", "user/late", asked)

    def make(self, asked: Request) -> Answer:
        assert "fails" not in asked.target
        self.answered.append(asked.target)
        return Answer(200, b"")

    def ask(self, path: str, who: str = "ann") -> None:
        self.desk.ask(request(path, who), lambda answer: self.heard.append((path, answer.status)))

    def work(self) -> None:
        while self.desk.work():
            pass


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_request_is_answered_by_a_worker_of_its_lane(desk: Desk) -> None:
    desk.ask("/dear/1")
    assert desk.heard == []
    desk.work()
    assert desk.heard == [("/dear/1", 200)]


def test_a_full_lane_refuses_and_no_other_lane_does(desk: Desk) -> None:
    for number in range(5):
        desk.ask(f"/dear/{number}")
    assert desk.heard == [("/dear/3", 429), ("/dear/4", 429)]
    desk.ask("/cheap/1")
    assert len(desk.heard) == 2
    desk.work()
    assert sorted(status for _, status in desk.heard) == [200] * 4 + [429] * 2


def test_another_caller_takes_a_place_in_the_queue_of_who_has_the_most(desk: Desk) -> None:
    for number in range(3):
        desk.ask(f"/dear/{number}")
    desk.ask("/dear/other", "bob")
    desk.ask("/dear/third", "eve")
    assert desk.heard == [("/dear/2", 429)]
    desk.work()
    assert set(desk.answered) == {"/dear/0", "/dear/1", "/dear/other", "/dear/third"}


def test_who_waits_too_long_is_refused(desk: Desk) -> None:
    for number in range(2):
        desk.ask(f"/dear/{number}")
    desk.clock.advance(PATIENCE_SECONDS)
    desk.desk.tick()
    assert desk.heard == [("/dear/1", 429)]


def test_a_request_may_go_on_in_another_lane(desk: Desk) -> None:
    desk.ask("/new/token")
    desk.work()
    assert desk.heard == [("/new/token", 200)]


def test_a_request_may_be_answered_at_once(desk: Desk) -> None:
    desk.ask("/none")
    assert desk.heard == [("/none", 401)]


@pytest.mark.parametrize("path", ["/broken", "/dear/fails"])
def test_an_answer_that_cannot_be_made_is_an_error_and_frees_its_place(
    desk: Desk, path: str
) -> None:
    with capture_logs() as logs:
        for _ in range(5):
            desk.ask(path)
            desk.work()
    assert desk.heard == [(path, 500)] * 5
    assert len(logs) == 5


def test_callers_are_users_that_are_known_and_else_addresses() -> None:
    clock = VirtualClock()
    seen: list[str] = []

    def user_of(authorization: str) -> str:
        seen.append(authorization)
        return "ann" if authorization == "Bearer ann" else ""

    made: list[Request] = []

    def make(asked: Request) -> Answer:
        made.append(asked)
        return Answer(200, b"")

    desk = one_lane(make, limit_places(2, waiting=1), refuse, clock, user_of)
    heard: list[int] = []
    for who in ("Bearer made-up", "Bearer also", "Bearer random", "Bearer ann"):
        desk.ask(request("/", who), lambda answer: heard.append(answer.status))
    assert heard == [429], "made-up tokens are one caller"
    while desk.work():
        pass
    assert heard == [429, 200, 200, 200]
    assert made[1].headers["authorization"] == "Bearer ann"
    assert address_of(request("/")) == address_key("10.0.0.7")
