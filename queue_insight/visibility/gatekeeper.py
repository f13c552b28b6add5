"""Authenticates and authorizes each request before the application sees it.

    sort -- caller is cached --> documents | answers: authorize, then the application
      |                              ^
      +-- a new token --> tokens ----+

Discovery, OpenAPI and probes are documents. While they are not answered, the API server reports the
API as unavailable, and no namespace is deleted: so they have workers and places of their own, and
wait for no answer about units. Nor do they wait for tokens, which only the API server can review.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace

from queue_insight.visibility.caller import CALLER
from queue_insight.visibility.front_proxy import CertificateReader
from queue_insight.visibility.request_attributes import RequestTarget, right_of
from queue_insight.visibility.status_answers import (
    NOT_REVIEWED,
    busy_answer,
    forbidden_answer,
    status_answer,
)
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.caller import Caller, bearer_token
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import PathRight
from shared_api.caller_shares import user_key
from shared_api.process.answer_desk import AnswerDesk, Lane, LaneRequest, address_of, limit_places
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import Answer, Request

OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""The paths without authorization: probes have no credentials, and nothing there is secret."""

AGGREGATORS: Final = frozenset({"system:kube-aggregator", "system:aggregator"})
"""The users as which the API server fetches discovery and schemas, without a group of its own. It
is answered without a review: if discovery failed while the API counts as available, as it would
without the right to review, no namespace could be deleted, and nothing would withdraw the API."""

_KEPT_FROM_THE_APPLICATION: Final = ("authorization", "x-remote-", "impersonate-")

_NOBODY: Final = Caller("")


DOCUMENTS: Final = "documents"
ANSWERS: Final = "answers"
TOKENS: Final = "tokens"

PLACES: Final = 4
"""Answers at once in each lane. One of them uses the processor; the others wait for it, or for a
review by the API server."""
OWN_PLACES: Final = 1
"""Answers about units at once of one caller. More would make none of them earlier, and each thread
that computes lets the port's own, which reads requests and sends answers, wait longer."""
WAITING: Final = 8
"""Requests that wait in each lane: with those that are answered, fewer than a port holds bodies of
(`MAX_BODIES`), and fewer in all lanes than it has connections."""
SHARE: Final = 0.5
"""Seconds of answers about units, per second: while one is made, all other threads of the program
wait for the interpreter. A long list that is read page after page is slowed down to that, once the
seconds that were saved up are spent."""
OWN_SHARE: Final = 0.25
"""What each caller has for itself."""
DOCUMENTS_WAITING: Final = 32
"""Requests for documents that may wait: they are small, and wait for milliseconds."""


class Gatekeeper:
    """Refuses requests without the right to an answer, and passes on the others with their caller.

    Args:
        certificates: Returns what reads client certificates; None until it is known whom the API
            server believes.
        authorizer: Reviews tokens and rights.
        ask: The application.
        clock: The time.
        observe: Called with the status code of each answer.
    """

    def __init__(
        self,
        certificates: Callable[[], CertificateReader | None],
        authorizer: Authorizer,
        ask: Callable[[Request], Answer],
        clock: Clock,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._certificates = certificates
        self._authorizer = authorizer
        self._ask = ask
        self._clock = clock
        self._observe = observe

    def desk(self) -> AnswerDesk:
        """Return what answers the requests of the port."""
        places = limit_places(PLACES, WAITING)
        answers = replace(places, rate=SHARE, own_rate=OWN_SHARE, own_places=OWN_PLACES)
        lanes = {
            DOCUMENTS: Lane(limit_places(PLACES, DOCUMENTS_WAITING), self._answer_noted),
            ANSWERS: Lane(answers, self._answer_noted),
            TOKENS: Lane(places, self._review_token),
        }
        return AnswerDesk(lanes, self._sort, self._refuse, self._clock)

    def _sort(self, request: Request) -> Answer | LaneRequest:
        """Return in which lane a request goes, and as whose; never waits."""
        target = RequestTarget.of(request.target)
        if target.path in OPEN_PATHS:
            return LaneRequest(DOCUMENTS, address_of(request), _with_caller(request, _NOBODY))
        certificates = self._certificates()
        if certificates is not None:
            caller = certificates.identify(request, self._clock.now())
            if caller is not None:
                return _lane_request(caller, request)
        token = bearer_token(request.headers.get("authorization", ""))
        if not token:
            return self._noted(_UNKNOWN)
        cached = self._authorizer.cached_token(token)
        if cached is None:
            return LaneRequest(TOKENS, address_of(request), request)
        return self._with_token(request, cached)

    def _review_token(self, request: Request) -> Answer | LaneRequest:
        token = bearer_token(request.headers.get("authorization", ""))
        return self._with_token(request, self._authorizer.identify(token))

    def _with_token(self, request: Request, result: ReviewResult) -> Answer | LaneRequest:
        if result.caller is not None:
            return _lane_request(result.caller, request)
        if result.status is HTTPStatus.SERVICE_UNAVAILABLE:
            text = "the API server could not be asked yet who this is: ask again"
            return self._noted(status_answer(HTTPStatus.SERVICE_UNAVAILABLE, text))
        return self._noted(_UNKNOWN)

    def _answer_noted(self, request: Request) -> Answer:
        return self._noted(self._answer(request))

    def _noted(self, answer: Answer) -> Answer:
        self._observe(answer.status)
        return answer

    def _refuse(self, retry_after: int) -> Answer:
        return self._noted(busy_answer(retry_after))

    def _answer(self, request: Request) -> Answer:
        """Return the answer to a request whose caller is known; may wait for the API server."""
        caller: Caller = request.state[CALLER]
        if caller is _NOBODY:
            return self._pass_on(request)
        if any(name.startswith("impersonate-") for name in request.headers):
            text = "impersonation is the API server's: ask through it"
            return status_answer(HTTPStatus.FORBIDDEN, text)
        target = RequestTarget.of(request.target)
        right = right_of(request.method, target)
        if caller.user in AGGREGATORS and right == PathRight(target.path):
            return self._pass_on(request)
        match self._authorizer.judge(caller, right).status:
            case HTTPStatus.OK:
                return self._pass_on(request)
            case HTTPStatus.FORBIDDEN:
                return forbidden_answer(caller, right)
            case _:
                return status_answer(HTTPStatus.SERVICE_UNAVAILABLE, NOT_REVIEWED)

    def _pass_on(self, request: Request) -> Answer:
        kept = {
            name: value
            for name, value in request.headers.items()
            if not name.startswith(_KEPT_FROM_THE_APPLICATION)
        }
        return self._ask(replace(request, headers=kept, lines=()))


_UNKNOWN: Final = status_answer(HTTPStatus.UNAUTHORIZED, "Unauthorized")


def _lane_request(caller: Caller, request: Request) -> LaneRequest:
    """Return the request of a caller, in the lane of its target."""
    right = right_of(request.method, RequestTarget.of(request.target))
    lane = DOCUMENTS if isinstance(right, PathRight) else ANSWERS
    return LaneRequest(lane, user_key(caller.user), _with_caller(request, caller))


def _with_caller(request: Request, caller: Caller) -> Request:
    return replace(request, state={CALLER: caller})
