"""Identifies callers and reviews their rights, by asking the API server.

Answers are cached for a short time, so that a page that asks often costs the API server little.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec

from queue_insight.api_registration.trouble_log import TroubleLog
from queue_insight.visibility.caller import GROUP, AccessVerdict, Caller
from queue_insight.visibility.status_answers import forbidden_text
from shared_api.access_review import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    PathRight,
    ResourceRight,
    Review,
    access_spec,
    review,
)
from shared_api.client.errors import ApiFailure, Forbidden
from shared_api.client.flow_control import FlowControl, Lane
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.process.clock import Clock

CACHED_SECONDS: Final = 10.0
"""How late a right that is taken away may still count; the API server's own authorizer of
aggregated APIs has the same."""
FAILED_SECONDS: Final = 1.0
"""How long a review that failed is not tried again: while the API server is away, each try keeps a
worker waiting."""
MAX_REMEMBERED: Final = 1000
"""Most cached answers of each kind, which bounds what callers with random tokens can take."""
TOKENS_PER_SECOND: Final = 20.0
TOKENS_AT_ONCE: Final = 40
"""New tokens that are reviewed, as by the other programs."""
TOKEN_SECONDS: Final = 2.0
"""How long a new token waits for its review. In front of it wait no more than there are workers for
tokens, and of one address half of them: clients with random tokens delay others by a moment."""
MASTERS: Final = "system:masters"
"""The group that may do everything: the API server asks no authorizer about it either, and its own
check whether this API is available comes as one of them."""

_Kept = TypeVar("_Kept")

_OK: Final = AccessVerdict(HTTPStatus.OK)


class _Cache(Generic[_Kept]):
    """Answers by a key, each until its time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards _kept
        self._kept: dict[bytes, tuple[_Kept, float]] = {}

    def get(self, key: bytes) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(key)
        return kept[0] if kept is not None and kept[1] > self._clock.monotonic() else None

    def put(self, key: bytes, value: _Kept, seconds: float) -> None:
        with self._lock:
            if len(self._kept) >= MAX_REMEMBERED:
                self._kept.clear()
            self._kept[key] = (value, self._clock.monotonic() + seconds)


class TokenResult(msgspec.Struct, frozen=True):
    """Who holds a token.

    Attributes:
        caller: None if the token is not valid, or could not be reviewed.
        status: OK, UNAUTHORIZED, or SERVICE_UNAVAILABLE.
    """

    caller: Caller | None
    status: HTTPStatus


class ReviewedAccess:
    """Reviews tokens and rights; a `Rights`. Callable from any thread.

    Args:
        client: The client of the API server.
        clock: The time.
    """

    def __init__(self, client: ResourceClient, clock: Clock) -> None:
        self._client = client
        self._tokens: _Cache[TokenResult] = _Cache(clock)
        self._verdicts: _Cache[AccessVerdict] = _Cache(clock)
        self._token_flow = FlowControl(TOKENS_PER_SECOND, TOKENS_AT_ONCE, clock)
        self._trouble = TroubleLog()

    def known(self, token: str) -> TokenResult | None:
        """Return who holds a bearer token, if that is remembered; never waits."""
        return self._tokens.get(_digest(token))

    def identify(self, token: str) -> TokenResult:
        """Return who holds a bearer token; may wait for the API server."""
        key = _digest(token)
        known = self._tokens.get(key)
        if known is not None:
            return known
        if not self._token_flow.acquire(Lane.NORMAL, TOKEN_SECONDS):
            return TokenResult(None, HTTPStatus.SERVICE_UNAVAILABLE)
        try:
            who = review(self._client, TOKEN_REVIEWS, {"token": token})
        except ApiFailure as failure:
            self._note(TOKEN_REVIEWS, failure)
            result = TokenResult(None, HTTPStatus.SERVICE_UNAVAILABLE)
            self._tokens.put(key, result, FAILED_SECONDS)
            return result
        self._trouble.end(_subject(TOKEN_REVIEWS))
        caller = _caller_of(who.get("user") or {}) if who.get("authenticated") else None
        result = TokenResult(caller, HTTPStatus.OK if caller else HTTPStatus.UNAUTHORIZED)
        self._tokens.put(key, result, CACHED_SECONDS)
        return result

    def may(
        self,
        caller: Caller,
        verb: str,
        resource: str,
        subresource: str = "",
        namespace: str = "",
        name: str = "",
        group: str = GROUP,
    ) -> AccessVerdict:
        """Return whether a caller may do something; see `Rights`."""
        right = ResourceRight(
            verb=verb,
            group=group,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
        )
        return self.judge(caller, right)

    def judge(self, caller: Caller, right: ResourceRight | PathRight) -> AccessVerdict:
        """Return whether a caller has a right."""
        if MASTERS in caller.groups:
            return _OK
        key = hashlib.sha256(msgspec.json.encode((caller, type(right).__name__, right))).digest()
        known = self._verdicts.get(key)
        if known is not None:
            return known
        try:
            spec = access_spec(_user_of(caller), right)
            answer = review(self._client, SUBJECT_ACCESS_REVIEWS, spec)
        except ApiFailure as failure:
            self._note(SUBJECT_ACCESS_REVIEWS, failure)
            verdict = AccessVerdict(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the API server could not be asked whether this is allowed: ask again",
            )
            self._verdicts.put(key, verdict, FAILED_SECONDS)
            return verdict
        verdict = _OK
        if not answer.get("allowed"):
            verdict = AccessVerdict(HTTPStatus.FORBIDDEN, forbidden_text(caller, right))
        self._trouble.end(_subject(SUBJECT_ACCESS_REVIEWS))
        self._verdicts.put(key, verdict, CACHED_SECONDS)
        return verdict

    def _note(self, kind: ResourceType[Review], failure: ApiFailure) -> None:
        text = str(failure)
        if isinstance(failure, Forbidden):
            text = (
                f"needs the right create on {kind.plural}.{kind.group}, which the ClusterRole "
                "system:auth-delegator has: every caller is answered 503"
            )
        self._trouble.begin(_subject(kind), text)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()  # the token itself is not kept


def _subject(kind: ResourceType[Review]) -> str:
    return f"review by {kind.kind}"


def _caller_of(user: dict[str, Any]) -> Caller | None:
    name = user.get("username", "")
    if not name:
        return None
    extra = {key: tuple(values) for key, values in (user.get("extra") or {}).items()}
    return Caller(name, user.get("uid", ""), tuple(user.get("groups") or ()), extra)


def _user_of(caller: Caller) -> dict[str, Any]:
    return {
        "username": caller.user,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra.items()},
    }
