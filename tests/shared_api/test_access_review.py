"""Which users may read: two reviews by the API server, and how long their answers are cached."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from shared_api.access_review import (
    ALLOWED_SECONDS,
    MAX_REMEMBERED,
    REFUSED_SECONDS,
    AccessReviewer,
    PathRight,
    ResourceRight,
    Right,
    TokenOnly,
    list_units_in,
)
from shared_api.fake_api_server.faults import Match
from tests.client_kit import ReviewingServer

ANN = "Bearer ann-token"
METRICS = PathRight("/metrics")


def get_job(name: str) -> ResourceRight:
    return ResourceRight(verb="get", group="batch", resource="jobs", namespace="team", name=name)


class Desk(ReviewingServer):
    """A server that knows user ann, and a reviewer that asks it."""

    def __init__(self) -> None:
        super().__init__("test")
        self.reviewer = AccessReviewer(self.client, self.clock)

    def judge(self, authorization: str = ANN, right: Right = METRICS) -> HTTPStatus:
        return self.reviewer.judge(authorization, right).status


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic YTpi", "ann-token"])
def test_without_a_bearer_token_there_is_no_review(desk: Desk, header: str) -> None:
    assert desk.judge(header) is HTTPStatus.UNAUTHORIZED
    assert not desk.asked()


def test_an_unknown_token(desk: Desk) -> None:
    assert desk.judge("Bearer nobody") is HTTPStatus.UNAUTHORIZED
    assert desk.asked() == {"tokenreviews": 1}


def test_a_user_with_and_without_rights(desk: Desk) -> None:
    desk.allow(answer=False)
    verdict = desk.reviewer.judge(ANN, METRICS)
    assert verdict.status is HTTPStatus.FORBIDDEN
    assert verdict.detail == "ann may not get /metrics"
    desk.clock.advance(REFUSED_SECONDS)
    desk.allow(answer=True)
    assert desk.judge("bearer ann-token") is HTTPStatus.OK


def test_the_whole_user_is_forwarded(desk: Desk) -> None:
    desk.allow(answer=True)
    desk.judge()
    assert desk.specs == [
        {
            "user": "ann",
            "groups": ["staff"],
            "uid": "ann-1",
            "extra": {"why": ["test"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }
    ]


def test_for_a_namespace_the_right_is_to_list_its_units(desk: Desk) -> None:
    desk.allow(answer=False)
    verdict = desk.reviewer.judge(ANN, list_units_in("team"))
    assert verdict.detail == "ann may not list queueunits in namespace team"
    assert "nonResourceAttributes" not in desk.specs[0]
    assert desk.specs[0]["resourceAttributes"]["namespace"] == "team"


def test_yes_is_cached_for_a_minute_and_no_for_seconds(desk: Desk) -> None:
    desk.allow(answer=True)
    for _ in range(3):
        desk.judge()
        desk.clock.advance(ALLOWED_SECONDS / 3 - 1)
    assert desk.asked() == {"tokenreviews": 1, "subjectaccessreviews": 1}
    desk.clock.advance(3.0)
    desk.allow(answer=False)
    assert desk.judge() is HTTPStatus.FORBIDDEN
    desk.allow(answer=True)
    assert desk.judge() is HTTPStatus.FORBIDDEN
    desk.clock.advance(REFUSED_SECONDS)
    assert desk.judge() is HTTPStatus.OK


def test_an_answer_counts_only_for_its_question(desk: Desk) -> None:
    desk.allow(answer=True)
    for right in (METRICS, PathRight("/debug/queues"), list_units_in("a"), list_units_in("b")):
        for _ in range(2):
            desk.judge(right=right)
    desk.judge(right=get_job("a"))
    desk.judge(right=get_job("b"))
    assert desk.asked()["subjectaccessreviews"] == 6


def test_the_right_to_one_object_names_it(desk: Desk) -> None:
    desk.allow(answer=False)
    verdict = desk.reviewer.judge(ANN, get_job("a"))
    assert verdict.detail == "ann may not get jobs a in namespace team"
    assert desk.specs[0]["resourceAttributes"] == {
        "namespace": "team",
        "verb": "get",
        "group": "batch",
        "resource": "jobs",
        "name": "a",
    }


def test_if_a_token_is_enough_no_right_is_reviewed(desk: Desk) -> None:
    desk.allow(answer=False)
    assert desk.judge(right=TokenOnly()) is HTTPStatus.OK
    assert desk.judge("Bearer nobody", TokenOnly()) is HTTPStatus.UNAUTHORIZED
    assert desk.asked() == {"tokenreviews": 2}
    assert desk.judge() is HTTPStatus.FORBIDDEN


def test_a_server_that_does_not_answer_is_neither_yes_nor_no(desk: Desk) -> None:
    desk.server.faults.fail(503, times=50, match=Match(plural="tokenreviews"))
    assert desk.judge() is HTTPStatus.SERVICE_UNAVAILABLE
    desk.server.faults.clear()
    desk.clock.advance(REFUSED_SECONDS)
    assert desk.judge() is HTTPStatus.OK


def test_the_cache_is_bounded_and_keeps_no_tokens(desk: Desk) -> None:
    for number in range(MAX_REMEMBERED + 10):
        desk.judge(f"Bearer stranger-{number}")
    kept = vars(desk.reviewer)["_verdicts"]
    assert len(kept) <= MAX_REMEMBERED
    assert "stranger" not in repr(kept)


def test_who_has_a_token_is_asked_each_time(desk: Desk) -> None:
    assert desk.reviewer.identify("ann-token") == (HTTPStatus.OK, "ann")
    assert desk.reviewer.identify("nobody") == (HTTPStatus.UNAUTHORIZED, "")
    desk.server.reviews.users.clear()
    assert desk.reviewer.identify("ann-token") == (HTTPStatus.UNAUTHORIZED, "")
    desk.server.faults.fail(500, match=Match(plural="tokenreviews"), times=50)
    status, why = desk.reviewer.identify("ann-token")
    assert (status, why[:34]) == (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the API server could not be asked:",
    )
