"""Who is let through: reviews by the API server, what is cached of them, and what protects both."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from queue_insight.insight_program.api_connection import BURST, QPS
from queue_insight.page.login import VISITORS
from queue_insight.visibility.server import CALLERS
from shared_api.authorization import authorizer
from shared_api.authorization.authorizer import NEW_TOKEN_SECONDS, Policy
from shared_api.authorization.caller import Caller
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import (
    PathRight,
    ResourceRight,
    ReviewedRight,
    TokenOnly,
    list_units_in,
)
from shared_api.client.errors import ServerError
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.patching import Body
from shared_api.fake_api_server.resource_registry import ServedResource
from shared_api.program import READERS, REVIEW_BURST, REVIEW_QPS
from tests.shared_api.authorization.review_desk import (
    ANN,
    BEARER,
    METRICS,
    POLICY,
    ReviewDesk,
)

DOORS = [
    pytest.param(READERS, id="metrics and debug API"),
    pytest.param(CALLERS, id="aggregated API"),
    pytest.param(VISITORS, id="page"),
]
of_every_door = pytest.mark.parametrize("policy", DOORS)


@pytest.fixture
def desk() -> ReviewDesk:
    return ReviewDesk()


def get_job(name: str) -> ResourceRight:
    return ResourceRight(verb="get", group="batch", resource="jobs", namespace="team", name=name)


def get_unit(subresource: str) -> ResourceRight:
    group = "visibility.koord-queue"
    return ResourceRight(
        verb="get",
        group=group,
        resource="pendingunits",
        namespace="team",
        name="a",
        subresource=subresource,
    )


# ------------------------------------------------------------------ who asks


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer  ", "Basic YTpi", "ann-token"])
def test_without_a_bearer_token_there_is_no_review(desk: ReviewDesk, header: str) -> None:
    assert desk.judge_bearer(header) is HTTPStatus.UNAUTHORIZED
    assert desk.identify("") is HTTPStatus.UNAUTHORIZED
    assert not desk.asked()


def test_an_unknown_token(desk: ReviewDesk) -> None:
    assert desk.judge_bearer("Bearer nobody") is HTTPStatus.UNAUTHORIZED
    assert desk.asked() == {"tokenreviews": 1}


def test_a_user_without_a_name_is_nobody(desk: ReviewDesk) -> None:
    desk.server.reviews.users["nameless"] = {"groups": ["staff"]}
    assert desk.judge_bearer("Bearer nameless", TokenOnly()) is HTTPStatus.UNAUTHORIZED


def test_a_token_is_for_the_audience_of_the_api_server(
    desk: ReviewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[Any] = []
    answer = desk.server.reviews.answer

    def noting(resource: ServedResource, review: Body) -> Body:
        specs.append(review["spec"])
        return answer(resource, review)

    monkeypatch.setattr(desk.server.reviews, "answer", noting)
    desk.identify("ann-token")
    assert specs == [{"token": "ann-token"}], "without audiences they are those of the API server"


def test_a_token_is_reviewed_once_for_all_rights(desk: ReviewDesk) -> None:
    for right in (METRICS, PathRight("/debug/queues"), TokenOnly()):
        desk.judge_bearer(right=right)
        assert desk.judge_bearer("Bearer nobody", right) is HTTPStatus.UNAUTHORIZED
    assert desk.authorizer.identify("ann-token").caller == ANN
    assert desk.asked() == {"tokenreviews": 2, "subjectaccessreviews": 2}


def test_who_has_a_token_can_be_asked_anew(desk: ReviewDesk) -> None:
    def anew(token: str) -> HTTPStatus:
        return desk.authorizer.identify(token, anew=True).status

    assert anew("ann-token") is HTTPStatus.OK
    assert anew("nobody") is HTTPStatus.UNAUTHORIZED
    desk.server.faults.fail(500, match=Match(plural="tokenreviews"), times=1)
    failed = desk.authorizer.identify("ann-token", anew=True)
    assert failed.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert failed.detail.startswith("the API server could not be asked:")
    assert desk.identify("ann-token") is HTTPStatus.OK, "what is cached still counts"
    desk.server.reviews.users.clear()
    assert anew("ann-token") is HTTPStatus.UNAUTHORIZED
    assert desk.identify("ann-token") is HTTPStatus.UNAUTHORIZED, "the cache has learned it"


def test_known_users_are_known_without_waiting(desk: ReviewDesk) -> None:
    assert desk.authorizer.cached_user(BEARER) == ""
    desk.judge_bearer()
    desk.judge_bearer("Bearer nobody")
    assert desk.authorizer.cached_user(BEARER) == "ann"
    assert desk.authorizer.cached_user("Bearer nobody") == ""
    desk.clock.advance(POLICY.allowed_seconds)
    assert desk.authorizer.cached_user(BEARER) == ""


# ------------------------------------------------------------------ what it may do


def test_a_user_with_and_without_rights(desk: ReviewDesk) -> None:
    desk.allow(answer=False)
    result = desk.authorizer.judge_bearer(BEARER, METRICS)
    assert result.status is HTTPStatus.FORBIDDEN
    assert result.detail == "ann may not get /metrics"
    desk.clock.advance(POLICY.refused_seconds)
    desk.allow(answer=True)
    assert desk.judge_bearer("bearer ann-token") is HTTPStatus.OK


def test_if_a_token_is_enough_no_right_is_reviewed(desk: ReviewDesk) -> None:
    desk.allow(answer=False)
    assert desk.judge_bearer(right=TokenOnly()) is HTTPStatus.OK
    assert desk.judge_bearer("Bearer nobody", TokenOnly()) is HTTPStatus.UNAUTHORIZED
    assert desk.asked() == {"tokenreviews": 2}
    assert desk.judge_bearer() is HTTPStatus.FORBIDDEN


RIGHTS: list[tuple[ReviewedRight, str, dict[str, Any]]] = [
    (METRICS, "get /metrics", {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
    (
        list_units_in("team"),
        "list queueunits in namespace team",
        {
            "resourceAttributes": {
                "namespace": "team",
                "verb": "list",
                "group": "scheduling.x-k8s.io",
                "resource": "queueunits",
            }
        },
    ),
    (
        get_job("a"),
        "get jobs a in namespace team",
        {
            "resourceAttributes": {
                "namespace": "team",
                "verb": "get",
                "group": "batch",
                "resource": "jobs",
                "name": "a",
            }
        },
    ),
    (
        get_unit("explain"),
        "get pendingunits a in namespace team",
        {
            "resourceAttributes": {
                "verb": "get",
                "group": "visibility.koord-queue",
                "resource": "pendingunits",
                "subresource": "explain",
                "namespace": "team",
                "name": "a",
            }
        },
    ),
]


@pytest.mark.parametrize(("right", "text", "attributes"), RIGHTS)
def test_a_review_has_all_that_is_known_of_the_caller(
    desk: ReviewDesk, right: ReviewedRight, text: str, attributes: dict[str, Any]
) -> None:
    desk.allow(answer=False)
    assert desk.authorizer.judge_bearer(BEARER, right).detail == f"ann may not {text}"
    user = {"user": "ann", "uid": "ann-1", "groups": ["staff"], "extra": {"why": ["test", "more"]}}
    assert desk.specs == [user | attributes]


def test_masters_are_not_reviewed(desk: ReviewDesk) -> None:
    desk.allow(answer=False)
    assert desk.judge(caller=Caller("x", groups=("system:masters",))) is HTTPStatus.OK
    assert not desk.asked()


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(ANN, user="bob"),
        msgspec.structs.replace(ANN, uid="ann-2"),
        msgspec.structs.replace(ANN, groups=()),
        msgspec.structs.replace(ANN, extra={}),
    ],
)
def test_another_caller_is_reviewed_by_itself(desk: ReviewDesk, other: Caller) -> None:
    desk.allow(answer=True)
    desk.judge()
    desk.judge(caller=other)
    desk.judge(list_units_in("other"))
    assert len(desk.specs) == 3


def test_a_result_counts_only_for_its_right(desk: ReviewDesk) -> None:
    desk.allow(answer=True)
    rights = (METRICS, PathRight("/debug/queues"), list_units_in("a"), list_units_in("b"))
    for right in (*rights, get_job("a"), get_job("b"), get_unit(""), get_unit("explain")):
        for _ in range(2):
            desk.judge_bearer(right=right)
    assert desk.asked()["subjectaccessreviews"] == 8


# ------------------------------------------------------------------ how long results count


@of_every_door
@pytest.mark.parametrize("answer", [True, False])
def test_a_right_counts_as_long_as_the_policy_says(policy: Policy, *, answer: bool) -> None:
    desk = ReviewDesk(policy)
    desk.allow(answer=answer)
    want = HTTPStatus.OK if answer else HTTPStatus.FORBIDDEN
    assert desk.judge() is want
    desk.allow(answer=not answer)
    desk.clock.advance((policy.allowed_seconds if answer else policy.refused_seconds) - 0.5)
    assert desk.judge() is want
    desk.clock.advance(0.5)
    assert desk.judge() is not want


@of_every_door
def test_a_token_counts_as_long_as_the_policy_says(policy: Policy) -> None:
    desk = ReviewDesk(policy)
    assert desk.identify("ann-token") is HTTPStatus.OK
    users, desk.server.reviews.users = desk.server.reviews.users, {}
    desk.clock.advance(policy.allowed_seconds - 0.5)
    assert desk.identify("ann-token") is HTTPStatus.OK
    desk.clock.advance(0.5)
    assert desk.identify("ann-token") is HTTPStatus.UNAUTHORIZED
    desk.server.reviews.users = users
    assert desk.identify("ann-token") is HTTPStatus.UNAUTHORIZED
    desk.clock.advance(policy.refused_seconds)
    assert desk.identify("ann-token") is HTTPStatus.OK


def test_a_slow_review_does_not_make_a_right_count_longer(desk: ReviewDesk) -> None:
    desk.allow(answer=True)
    desk.seconds = 3.0
    desk.judge()
    desk.clock.advance(POLICY.allowed_seconds - desk.seconds)
    desk.judge()
    assert len(desk.specs) == 2


def test_a_right_can_be_reviewed_anew(desk: ReviewDesk) -> None:
    desk.allow(answer=True)
    assert desk.judge() is HTTPStatus.OK
    desk.allow(answer=False)
    assert desk.authorizer.judge(ANN, METRICS, anew=True).status is HTTPStatus.FORBIDDEN
    assert desk.judge() is HTTPStatus.FORBIDDEN


def test_a_failure_does_not_displace_what_another_request_has_learned_meanwhile(
    desk: ReviewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.allow(answer=True)

    def fail_late(*_: object) -> ReviewResult:
        monkeypatch.undo()
        assert desk.judge() is HTTPStatus.OK
        raise ServerError(500, "late")

    monkeypatch.setattr(authorizer, "review_right", fail_late)
    assert desk.judge() is HTTPStatus.SERVICE_UNAVAILABLE
    assert desk.judge() is HTTPStatus.OK


@of_every_door
@pytest.mark.parametrize(("status", "want"), [(403, "needs the right create on"), (500, "500")])
def test_a_review_that_cannot_be_made_is_no_answer_and_is_logged_once(
    policy: Policy, status: int, want: str
) -> None:
    desk = ReviewDesk(policy)
    desk.server.faults.fail(status, times=100, match=Match(verb="create"))
    with capture_logs() as logs:
        for _ in range(3):
            for _ in range(2):
                assert desk.judge() is HTTPStatus.SERVICE_UNAVAILABLE
                assert desk.identify("ann-token") is HTTPStatus.SERVICE_UNAVAILABLE
            desk.clock.advance(policy.failed_seconds)
    assert desk.asked() == {"tokenreviews": 3, "subjectaccessreviews": 3}
    assert len(logs) == 2
    assert all(want in line["event"] for line in logs)
    desk.server.faults.clear()
    assert desk.judge() is HTTPStatus.OK
    assert desk.identify("ann-token") is HTTPStatus.OK


# ------------------------------------------------------------------ made-up tokens


@of_every_door
def test_many_new_tokens_wait_for_their_review_but_not_for_long(policy: Policy) -> None:
    desk = ReviewDesk(policy)
    for number in range(policy.new_tokens_at_once):
        assert desk.identify(f"no-{number}") is HTTPStatus.UNAUTHORIZED
    before = desk.clock.monotonic()
    assert desk.judge() is HTTPStatus.OK, "known callers go on"
    assert desk.clock.monotonic() == before
    assert desk.identify("ann-token") is HTTPStatus.OK
    waited = desk.clock.monotonic() - before
    assert waited == pytest.approx(1 / policy.new_tokens_per_second)
    assert waited < NEW_TOKEN_SECONDS


CLIENTS = [
    pytest.param(READERS, REVIEW_QPS, REVIEW_BURST, id="metrics and debug API"),
    pytest.param(CALLERS, QPS, BURST, id="aggregated API"),
    pytest.param(VISITORS, QPS, BURST, id="page"),
]


@pytest.mark.parametrize(("policy", "qps", "burst"), CLIENTS)
def test_made_up_tokens_leave_reviews_to_known_callers(
    policy: Policy, qps: float, burst: int
) -> None:
    desk = ReviewDesk(policy, qps, burst)
    for number in range(10 * policy.new_tokens_at_once):
        desk.identify(f"no-{number}")
    before = desk.clock.monotonic()
    for number in range(10):
        desk.judge(list_units_in(f"team-{number}"))
    assert desk.clock.monotonic() == before


def test_a_token_without_a_turn_is_refused_and_nothing_is_cached_of_it() -> None:
    slow = msgspec.structs.replace(POLICY, new_tokens_per_second=0.1, new_tokens_at_once=1)
    desk = ReviewDesk(slow)
    desk.identify("no")
    assert desk.identify("ann-token") is HTTPStatus.SERVICE_UNAVAILABLE
    assert desk.asked() == {"tokenreviews": 1}
    desk.clock.advance(10.0)
    assert desk.identify("ann-token") is HTTPStatus.OK


def test_made_up_tokens_do_not_displace_those_of_users() -> None:
    desk = ReviewDesk(msgspec.structs.replace(READERS, entries=200))
    desk.identify("ann-token")
    began = desk.clock.monotonic()
    for number in range(6 * 200):
        desk.identify(f"no-{number}")
    assert desk.clock.monotonic() < began + READERS.allowed_seconds
    assert desk.authorizer.cached_user(BEARER) == "ann"


def test_neither_tokens_nor_what_was_asked_are_kept(desk: ReviewDesk) -> None:
    for number in range(POLICY.entries + 10):
        desk.judge_bearer(f"Bearer stranger-{number}")
        desk.judge(PathRight(f"/debug/{'long' * 100}/{number}"))
    for cache in ("_tokens", "_rights"):
        kept = vars(vars(desk.authorizer)[cache])["_kept"]
        assert len(kept) <= POLICY.entries
        assert all(len(digest) == 32 for digest in kept)
        assert "stranger" not in repr(kept)
