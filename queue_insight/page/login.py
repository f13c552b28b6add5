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
from shared_api.access_review import ALLOWED_SECONDS, AccessReviewer, PathRight, TokenOnly
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

MAX_ASKED: Final = 64
"""Namespaces that one request asks the API server about; the next one asks about further ones."""
REVIEWS: Final = 8
"""Logins that wait for the API server at once, on threads of their own: while it is slow, those who
have logged in before are answered."""
MAX_TOKEN: Final = 32_768
MAX_BODY_BYTES: Final = 65_536
"""Of a login: whoever reaches the port may send one, and a token of the longest may be escaped."""

LOG_IN: Final = "log in with a token of the cluster"
WRONG: Final = "the token is not valid"

Sent = Annotated[PostedBody, Depends(BodyReader(JSON, most=MAX_BODY_BYTES))]

T = TypeVar("T")

log = structlog.get_logger("page")


class _Login(BaseModel):
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)]


class _Tries:
    """Tries that are saved up.

    Args:
        burst: How many at most.
        rate: How many a second.
        now: Monotonic seconds.
    """

    __slots__ = ("_burst", "_left", "_rate", "_since")

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._since = burst, now

    def seconds_to_wait(self, now: float) -> float:
        """Return after how many seconds there is one; 0: there is one now."""
        self._left = min(self._burst, self._left + self._rate * (now - self._since))
        self._since = now
        return 0.0 if self._left >= 1.0 else (1.0 - self._left) / self._rate

    def spend(self) -> None:
        """Take one; after `seconds_to_wait` has returned 0."""
        self._left -= 1.0


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
        self._of_all = _Tries(BURST_OF_ALL, PER_SECOND_OF_ALL, clock.monotonic())
        self._saved: dict[str, _Tries] = {}  # by address; the one that tried last is the last

    def spend(self, address: str) -> None:
        """Count a try.

        Raises:
            HTTPException: 429: there were too many.
        """
        with self._lock:
            now, asked = self.clock.monotonic(), [self._of_all]
            if not is_within(address, self._shared):
                asked.append(self._of_address(address, now))
            after = math.ceil(max(each.seconds_to_wait(now) for each in asked))
            if not after:
                for each in asked:
                    each.spend()
        if after:
            self.metrics.on_refused_login("rate")
            detail = f"too many logins; try again in {after} s"
            raise HTTPException(429, detail, headers={"Retry-After": str(after)})

    def _of_address(self, address: str, now: float) -> _Tries:
        found = self._saved.pop(address, None) or _Tries(BURST, PER_SECOND, now)
        while len(self._saved) >= MAX_ADDRESSES:
            del self._saved[next(iter(self._saved))]
        self._saved[address] = found
        return found


class LoggedInVisitors:
    """Visitors of a port that others can reach: each has logged in.

    Args:
        sessions: Who has.
        reviewer: Asks the API server; it remembers answers for a minute.
        clock: The time.
    """

    needs_login = True

    def __init__(self, sessions: Sessions, reviewer: AccessReviewer, clock: Clock) -> None:
        self._sessions = sessions
        self._reviewer = reviewer
        self._clock = clock

    def identify(self, request: Request) -> Visitor:
        """Return who asks; see `Visitors`.

        Raises:
            HTTPException: 401: nobody has logged in, or the token is not accepted any more; 503:
                the API server cannot be asked.
        """
        number = request.cookies.get(COOKIE, "")
        session = self._sessions.find(number) if number else None
        if session is None:
            raise HTTPException(401, LOG_IN)
        verdict = self._reviewer.judge(session.authorization, TokenOnly())
        if verdict.status is HTTPStatus.UNAUTHORIZED:
            self._sessions.close(number)
            raise HTTPException(401, f"your token is not accepted any more: {LOG_IN}")
        if verdict.status is not HTTPStatus.OK:
            raise HTTPException(verdict.status.value, verdict.detail)
        return self.visitor_of(session)

    def visitor_of(self, session: Session) -> Visitor:
        """Return who has a session; may wait for the API server."""
        if self._may_list(session, EVERYWHERE):
            return self._visitor(session, lambda _: True, reads_all=True)
        asked: set[str] = set()

        def may_read(namespace: str) -> bool:
            known = session.rights.get(namespace)
            if known is not None and known[1] > self._clock.monotonic():
                return known[0]
            if len(asked) >= MAX_ASKED:
                return False
            asked.add(namespace)
            return self._may_list(session, namespace)

        return self._visitor(session, may_read, reads_all=False)

    def _visitor(self, session: Session, may_read: MayRead, *, reads_all: bool) -> Visitor:
        def refusal_of(right: PathRight) -> HTTPException | None:
            verdict = self._reviewer.judge(session.authorization, right)
            if verdict.status is HTTPStatus.OK:
                return None
            return HTTPException(verdict.status.value, verdict.detail)

        return Visitor(session.user, reads_all, may_read, refusal_of, session)

    def recheck(self, session: Session) -> Visitor | None:
        """Return who has a session, asked of the API server; None: its token is not accepted."""
        status, _ = self._reviewer.identify(session.token)
        if status is HTTPStatus.UNAUTHORIZED:
            session.ends = 0.0  # at once, whatever is still remembered of the token
        if status is not HTTPStatus.OK:
            return None
        session.checked = self._clock.monotonic()
        session.rights.clear()
        return self.visitor_of(session)

    def _may_list(self, session: Session, namespace: str) -> bool:
        known, now = session.rights.get(namespace), self._clock.monotonic()
        if known is not None and known[1] > now:
            return known[0]
        may = self._reviewer.may_list_units(session.authorization, namespace)
        session.rights[namespace] = (may, now + ALLOWED_SECONDS)
        return may


def add_login(
    app: FastAPI,
    sessions: Sessions,
    visitors: LoggedInVisitors,
    reviewer: AccessReviewer,
    rate: LoginRate,
) -> None:
    """Add the routes that begin and end a session."""
    clock, metrics = rate.clock, rate.metrics
    threads: list[CapacityLimiter] = []  # belongs to a loop, so it is made there

    async def wait_for(question: Callable[[], T]) -> T:
        if not threads:
            threads.append(CapacityLimiter(REVIEWS))
        return await to_thread.run_sync(question, limiter=threads[0])

    def count(request: Request) -> None:
        rate.spend(request.client.host if request.client is not None else "")

    async def log_in(
        request: Request,
        response: Response,
        body: Sent,
    ) -> dict[str, object]:
        began = clock.monotonic()
        token = read_json(body, _Login).token.strip()
        status, user = await wait_for(partial(reviewer.identify, token))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            metrics.on_refused_login("unavailable")
            raise HTTPException(status.value, user)
        if status is not HTTPStatus.OK:
            metrics.on_refused_login("token")
            await anyio.sleep(max(0.0, began + REFUSED_AFTER_SECONDS - clock.monotonic()))
            raise HTTPException(401, WRONG)
        sessions.close(request.cookies.get(COOKIE, ""))
        number, left = sessions.open(user, token)
        _set_cookie(response, number, int(left))
        session = sessions.find(number)
        reads_all = (
            session is not None
            and (await wait_for(partial(visitors.visitor_of, session))).reads_all
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
