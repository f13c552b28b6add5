"""Judges each request before the application sees it: who asks, and may it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from msgspec.structs import replace

from queue_scheduler.visibility.access import ReviewedAccess
from queue_scheduler.visibility.caller import CALLER, Caller
from queue_scheduler.visibility.front_proxy import CertificateReader
from queue_scheduler.visibility.request_attributes import RequestTarget, right_of
from queue_scheduler.visibility.status_answers import forbidden_answer, status_answer
from shared_api.access_review import PathRight
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import Answer, Request

OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""What anybody may read: probes have no credentials, and nothing there is secret."""

AGGREGATORS: Final = frozenset({"system:kube-aggregator", "system:aggregator"})
"""As whom the API server fetches discovery and schemas, without any group of its own. It is
answered without a review: if discovery failed while the API counts as available, as it would
without the right to review, no namespace could be deleted, and nothing would withdraw the API."""

_KEPT_FROM_THE_APPLICATION: Final = ("authorization", "x-remote-", "impersonate-")

_NOBODY: Final = Caller("")


class Gatekeeper:
    """Answers requests that may not be answered, and passes on the others with their caller.

    Args:
        certificates: Returns what reads client certificates; None until it is known whom the API
            server believes.
        access: Reviews tokens and rights.
        ask: The application.
        clock: The time.
        observe: Called with the status code of each answer.
    """

    def __init__(
        self,
        certificates: Callable[[], CertificateReader | None],
        access: ReviewedAccess,
        ask: Callable[[Request], Answer],
        clock: Clock,
        observe: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._certificates = certificates
        self._access = access
        self._ask = ask
        self._clock = clock
        self._observe = observe

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; may wait for the API server."""
        answer = self._answer(request)
        self._observe(answer.status)
        return answer

    def _answer(self, request: Request) -> Answer:
        target = RequestTarget.of(request.target)
        if target.path in OPEN_PATHS:
            return self._pass_on(request, _NOBODY)
        caller = self._identify(request)
        if isinstance(caller, Answer):
            return caller
        if any(name.startswith("impersonate-") for name in request.headers):
            text = "impersonation is the API server's: ask through it"
            return status_answer(HTTPStatus.FORBIDDEN, text)
        right = right_of(request.method, target)
        if caller.user in AGGREGATORS and right == PathRight(target.path):
            return self._pass_on(request, caller)
        verdict = self._access.judge(caller, right)
        match verdict.status:
            case HTTPStatus.OK:
                return self._pass_on(request, caller)
            case HTTPStatus.FORBIDDEN:
                return forbidden_answer(caller, right)
            case _:
                return status_answer(HTTPStatus.SERVICE_UNAVAILABLE, verdict.reason)

    def _identify(self, request: Request) -> Caller | Answer:
        """Return who asks, or the refusal; a certificate counts before a token."""
        certificates = self._certificates()
        if certificates is not None:
            caller = certificates.identify(request, self._clock.now())
            if caller is not None:
                return caller
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            result = self._access.identify(token.strip())
            if result.caller is not None:
                return result.caller
            if result.status is HTTPStatus.SERVICE_UNAVAILABLE:
                text = "the API server could not be asked yet who this is: ask again"
                return status_answer(HTTPStatus.SERVICE_UNAVAILABLE, text)
        return status_answer(HTTPStatus.UNAUTHORIZED, "Unauthorized")

    def _pass_on(self, request: Request, caller: Caller) -> Answer:
        kept = {
            name: value
            for name, value in request.headers.items()
            if not name.startswith(_KEPT_FROM_THE_APPLICATION)
        }
        return self._ask(replace(request, headers=kept, lines=(), state={CALLER: caller}))
