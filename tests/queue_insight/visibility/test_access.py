"""Reviews of tokens and rights, and how long their answers count."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
import pytest
from structlog.testing import capture_logs

from queue_insight.visibility.access import (
    CACHED_SECONDS,
    FAILED_SECONDS,
    MAX_REMEMBERED,
    TOKENS_AT_ONCE,
    TOKENS_PER_SECOND,
    ReviewedAccess,
)
from queue_insight.visibility.caller import Caller
from shared_api.fake_api_server.faults import Match
from tests.client_kit import ReviewingServer

ANN = Caller("ann", "ann-1", ("staff",), {"why": ("test", "more")})


class Desk(ReviewingServer):
    """A server that knows user ann, and what asks it."""

    def __init__(self) -> None:
        super().__init__("test", "more")
        self.access = ReviewedAccess(self.client, self.clock)

    def may_list(self, caller: Caller = ANN, namespace: str = "team") -> HTTPStatus:
        return self.access.may(caller, "list", "pendingunits", namespace=namespace).status


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_review_has_all_that_is_known_of_the_caller(desk: Desk) -> None:
    desk.allow(answer=True)
    verdict = desk.access.may(ANN, "get", "pendingunits", "explain", "team", "a")
    assert verdict.is_allowed
    want = {
        "user": "ann",
        "uid": "ann-1",
        "groups": ["staff"],
        "extra": {"why": ["test", "more"]},
        "resourceAttributes": {
            "verb": "get",
            "group": "visibility.koord-queue",
            "resource": "pendingunits",
            "subresource": "explain",
            "namespace": "team",
            "name": "a",
        },
    }
    assert desk.specs == [want]


@pytest.mark.parametrize("answer", [True, False])
def test_an_answer_counts_for_ten_seconds(desk: Desk, answer: bool) -> None:
    want = HTTPStatus.OK if answer else HTTPStatus.FORBIDDEN
    desk.allow(answer=answer)
    assert desk.may_list() is want
    desk.allow(answer=not answer)
    desk.clock.advance(CACHED_SECONDS - 1)
    assert desk.may_list() is want
    desk.clock.advance(1)
    assert desk.may_list() is not want


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(ANN, user="bob"),
        msgspec.structs.replace(ANN, uid="ann-2"),
        msgspec.structs.replace(ANN, groups=()),
        msgspec.structs.replace(ANN, extra={}),
    ],
)
def test_another_caller_is_reviewed_by_itself(desk: Desk, other: Caller) -> None:
    desk.allow(answer=True)
    desk.may_list()
    desk.may_list(other)
    desk.may_list(ANN, "other")
    assert len(desk.specs) == 3


def test_masters_are_not_reviewed(desk: Desk) -> None:
    desk.allow(answer=False)
    assert desk.may_list(Caller("x", groups=("system:masters",))) is HTTPStatus.OK
    assert not desk.asked()


def test_few_answers_are_kept(desk: Desk) -> None:
    desk.allow(answer=True)
    for number in range(MAX_REMEMBERED + 1):
        desk.may_list(ANN, f"n{number}")
    desk.may_list(ANN, f"n{MAX_REMEMBERED}")
    assert len(desk.specs) == MAX_REMEMBERED + 1
    desk.may_list(ANN, "n0")
    assert len(desk.specs) == MAX_REMEMBERED + 2


def test_a_token_is_reviewed_once(desk: Desk) -> None:
    for _ in range(3):
        assert desk.access.identify("ann-token").caller == ANN
        assert desk.access.identify("nobody").status is HTTPStatus.UNAUTHORIZED
    assert desk.asked() == {"tokenreviews": 2}


def test_many_new_tokens_wait_for_their_review_but_not_for_long(desk: Desk) -> None:
    for number in range(TOKENS_AT_ONCE):
        assert desk.access.identify(f"no-{number}").status is HTTPStatus.UNAUTHORIZED
    before = desk.clock.monotonic()
    assert desk.may_list() is HTTPStatus.OK, "callers of the API server go on"
    assert desk.clock.monotonic() == before
    assert desk.access.identify("ann-token").caller == ANN
    assert desk.clock.monotonic() - before == pytest.approx(1 / TOKENS_PER_SECOND)


@pytest.mark.parametrize(("status", "said"), [(403, "needs the right create on"), (500, "500")])
def test_a_review_that_cannot_be_made(desk: Desk, status: int, said: str) -> None:
    desk.server.faults.fail(status, times=100, match=Match(verb="create"))
    with capture_logs() as logs:
        for _ in range(3):
            assert desk.may_list() is HTTPStatus.SERVICE_UNAVAILABLE
            assert desk.access.identify("ann-token").status is HTTPStatus.SERVICE_UNAVAILABLE
            desk.clock.advance(FAILED_SECONDS)
    assert len(logs) == 2
    assert all(said in line["event"] for line in logs)
    desk.server.faults.clear()
    desk.clock.advance(FAILED_SECONDS)
    assert desk.may_list() is HTTPStatus.OK
