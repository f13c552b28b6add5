"""Logging in with a token of the cluster, and out again."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final, TypeVar

import anyio
import structlog
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from queue_insight.page.networks import Networks, is_within
from queue_insight.page.page_metrics import PageMetrics
from queue_insight.page.sessions import Session, Sessions
from queue_insight.page.visitors import Visitor
from shared_api.authorization.authorizer import Authorizer, Policy
from shared_api.authorization.caller import Caller
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import PathRight, list_units_in
from shared_api.client.flow_control import TokenBucket
from shared_api.debug_api.access import EVERYWHERE, MayRead
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.json_body import (
    BODY_PROBLEMS,
    JSON,
    BodyReader,
    PostedBody,
    read_json,
    request_body,
    schema_of,
)
from shared_api.process.clock import Clock

COOKIE: Final = "__Host-koord-queue"
"""The browser sends it to this host only, and only over TLS."""

REFUSED_AFTER_SECONDS: Final = 0.5
"""When a wrong token is refused, so that the time tells nothing about it."""

BURST: Final = 10.0
PER_SECOND: Final = 0.2
"""Logins from one address: so many at once, and then one every five seconds."""
BURST_OF_ALL: Final = 100.0
PER_SECOND_OF_ALL: Final = 5.0
MAX_ADDRESSES: Final = 1000

MAX_REVIEWS: Final = 64
"""Namespaces that one request asks the API server about; the next one asks about further ones."""
REVIEW_SECONDS: Final = 5.0
"""How long a request asks about further namespaces: while the API server is slow, each review takes
seconds, and the request has a place that others wait for."""
REVIEWS: Final = 8
"""Logins that wait for the API server at once, on threads of their own: while it is slow, those who
have logged in before are answered."""

VISITORS: Final = Policy(
    allowed_seconds=60.0,
    # As long: a request has at most `MAX_REVIEWS` reviews, and adds them to those of earlier ones.
    refused_seconds=60.0,
    failed_seconds=5.0,
    # Namespaces of all visitors who may not read all units: 20 MB.
    entries=50_000,
    # A thousand sessions, the streams and the rate of logins need 30 a second.
    new_tokens_per_second=40.0,
    new_tokens_at_once=int(BURST_OF_ALL),
)
"""How visitors are authorized. How often tokens are tried is bounded by `LoginRate` as well."""

MAX_TOKEN: Final = 32_768
MAX_BODY_BYTES: Final = 65_536
"""The longest body of a login: any client of the port may send one, and long tokens may be
escaped."""

LOG_IN: Final = "log in with a token of the cluster"
WRONG: Final = "the token is not valid"

Sent = Annotated[PostedBody, Depends(BodyReader(JSON, most=MAX_BODY_BYTES))]

T = TypeVar("T")

log = structlog.get_logger("page")


class _Login(BaseModel):
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)]


class LoginRate:
    """How often logins are tried; callable from any thread.

    There is a bound for each address, and one for all together. A try that either refuses spends
    nothing of the other: so an address that tries too often takes nothing from the rest.

    Attributes:
        clock: The time.
        metrics: Counts refusals.

    Args:
        clock: The time.
        metrics: Counts refusals.
        shared: The networks whose addresses stand for many visitors: only the bound for all counts.
    """

    def __init__(self, clock: Clock, metrics: PageMetrics, shared: Networks = ()) -> None:
        self.clock = clock
        self.metrics = metrics
        self._shared = shared
        self._lock = threading.Lock()  # guards what follows
        self._of_all = TokenBucket(PER_SECOND_OF_ALL, BURST_OF_ALL, clock.monotonic())
        self._saved: dict[str, TokenBucket] = {}  # by address; the one that tried last is the last

    def spend(self, address: str) -> None:
        """Count a try.

        Raises:
            HTTPException: 429: there were too many.
        """
        with self._lock:
            now, limits = self.clock.monotonic(), [self._of_all]
            if not is_within(address, self._shared):
                limits.append(self._of_address(address, now))
            after = math.ceil(max(each.seconds_until_token(now) for each in limits))
            if not after:
                for each in limits:
                    each.take()
        if after:
            self.metrics.on_refused_login("rate")
            detail = f"too many logins; try again in {after} s"
            raise HTTPException(429, detail, headers={"Retry-After": str(after)})

    def _of_address(self, address: str, now: float) -> TokenBucket:
        found = self._saved.pop(address, None) or TokenBucket(PER_SECOND, BURST, now)
        while len(self._saved) >= MAX_ADDRESSES:
            del self._saved[next(iter(self._saved))]
        self._saved[address] = found
        return found


class LoggedInVisitors:
    """Visitors of a port that others can reach: each has logged in.

    Args:
        sessions: Who has.
        authorizer: Asks the API server, by the policy `VISITORS`.
        clock: The time.
    """

    needs_login = True

    def __init__(self, sessions: Sessions, authorizer: Authorizer, clock: Clock) -> None:
        self._sessions = sessions
        self._authorizer = authorizer
        self._clock = clock

    def identify(self, request: Request) -> Visitor:
        """Return who asks; see `Visitors`.

        Raises:
            HTTPException: 401: there is no session, or the token is not accepted any more; 503:
                the API server cannot be asked.
        """
        number = request.cookies.get(COOKIE, "")
        session = self._sessions.find(number) if number else None
        if session is None:
            raise HTTPException(401, LOG_IN)
        identity = self._authorizer.identify(session.token)
        if identity.status is HTTPStatus.UNAUTHORIZED:
            self._sessions.close(number)
            raise HTTPException(401, f"your token is not accepted any more: {LOG_IN}")
        if identity.caller is None:
            raise HTTPException(identity.status.value, identity.detail)
        return self.visitor_of(session, identity)

    def visitor_of(
        self, session: Session, identity: ReviewResult, *, anew: bool = False
    ) -> Visitor:
        """Return who has a session; may wait for the API server.

        Args:
            session: The session.
            identity: The identity of its token, which is valid.
            anew: Whether the right to read all units is reviewed, whatever is cached.
        """
        caller = identity.caller
        assert caller is not None, "it is valid"
        judge = partial(self._authorizer.judge, caller)
        checked = identity.until - VISITORS.allowed_seconds

        def refusal_of(right: PathRight) -> HTTPException | None:
            result = judge(right)
            if result.status is HTTPStatus.OK:
                return None
            return HTTPException(result.status.value, result.detail)

        reads_all = judge(list_units_in(EVERYWHERE), anew=anew).status is HTTPStatus.OK
        may_read = (lambda _: True) if reads_all else self._reader_of(caller)
        return Visitor(session.user, reads_all, may_read, refusal_of, session, checked)

    def _reader_of(self, caller: Caller) -> MayRead:
        """Return a check of what namespaces a caller may read, by at most `MAX_REVIEWS` reviews."""
        known: dict[str, ReviewResult] = {}  # a view asks about each of its units
        reviewed, seconds = 0, 0.0

        def may_read(namespace: str) -> bool:
            nonlocal reviewed, seconds
            result, now = known.get(namespace), self._clock.monotonic()
            if result is None or result.until <= now:
                right = list_units_in(namespace)
                result = self._authorizer.cached_right(caller, right)
                if result is None and reviewed < MAX_REVIEWS and seconds < REVIEW_SECONDS:
                    reviewed += 1
                    result = self._authorizer.judge(caller, right)
                    seconds += self._clock.monotonic() - now
                if result is None:
                    return False  # a later request asks about it
                known[namespace] = result
            return result.status is HTTPStatus.OK

        return may_read

    def recheck(self, session: Session) -> Visitor | None:
        """Return who has a session, asked of the API server; None if its token is not accepted."""
        identity = self._authorizer.identify(session.token, anew=True)
        if identity.status is HTTPStatus.UNAUTHORIZED:
            session.ends = 0.0
        return None if identity.caller is None else self.visitor_of(session, identity, anew=True)


def add_login(
    app: FastAPI,
    sessions: Sessions,
    visitors: LoggedInVisitors,
    authorizer: Authorizer,
    rate: LoginRate,
) -> None:
    """Add the routes that begin and end a session."""
    clock, metrics = rate.clock, rate.metrics
    threads = CapacityLimiter(REVIEWS)

    async def wait_for(question: Callable[[], T]) -> T:
        return await to_thread.run_sync(question, limiter=threads)

    def count(request: Request) -> None:
        rate.spend(request.client.host if request.client is not None else "")

    async def log_in(
        request: Request,
        response: Response,
        body: Sent,
    ) -> dict[str, object]:
        began = clock.monotonic()
        token = read_json(body, _Login).token.strip()
        identity = await wait_for(partial(authorizer.identify, token, anew=True))
        if identity.status is HTTPStatus.SERVICE_UNAVAILABLE:
            metrics.on_refused_login("unavailable")
            raise HTTPException(identity.status.value, identity.detail)
        if identity.caller is None:
            metrics.on_refused_login("token")
            await anyio.sleep(max(0.0, began + REFUSED_AFTER_SECONDS - clock.monotonic()))
            raise HTTPException(401, WRONG)
        sessions.close(request.cookies.get(COOKIE, ""))
        user = identity.caller.user
        number, left = sessions.open(user, token)
        _set_cookie(response, number, int(left))
        session = sessions.find(number)
        reads_all = (
            session is not None
            and (
                await wait_for(partial(visitors.visitor_of, session, identity, anew=True))
            ).reads_all
        )
        log.info("a user has logged in to the page", user=user)
        return {"user": user, "login": True, "readsAll": reads_all}

    def log_out(request: Request, response: Response) -> None:
        sessions.close(request.cookies.get(COOKIE, ""))
        _set_cookie(response, "", 0)

    app.post(
        "/page/session",
        dependencies=[Depends(count)],
        openapi_extra=request_body({JSON: schema_of(_Login)}),
        responses=problems(*BODY_PROBLEMS, 408, 429),
    )(log_in)
    app.delete("/page/session", status_code=HTTPStatus.NO_CONTENT.value)(log_out)


def _set_cookie(response: Response, number: str, seconds: int) -> None:
    response.set_cookie(
        COOKIE, number, max_age=seconds, path="/", secure=True, httponly=True, samesite="strict"
    )
