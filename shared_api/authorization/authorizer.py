"""Authorizes callers by reviews of the API server, whose results count for a while.

What holds for every door, whatever its policy is:

- A token is kept as a digest only, and so is what was asked about a right.
- A positive result counts from when the API server was asked, so it is never older than the policy
  says. Token and rights are cached apart: a right is reviewed once, whichever token is sent.
- New tokens have a rate of their own within that of all reviews. Anybody can make up tokens, and
  callers who are known do not wait behind them.
- A new token waits for its review, and is not refused because others have sent many: no more wait
  in front of it than a port has places for them, of which one address has half at most.
- Invalid tokens do not displace valid ones from the cache, as long as their time is short enough.
- While the API server does not answer, everybody without a cached result is refused, and the log
  says so once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final

import msgspec

from shared_api.authorization.caller import Caller, bearer_token
from shared_api.authorization.review_cache import ReviewCache
from shared_api.authorization.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Review,
    ReviewResult,
    review_right,
    review_token,
)
from shared_api.authorization.rights import ReviewedRight, Right, TokenOnly
from shared_api.client.errors import ApiFailure, Forbidden
from shared_api.client.flow_control import FlowControl, Lane
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.process.clock import Clock
from shared_api.process.trouble_log import TroubleLog

MASTERS: Final = "system:masters"
"""The group that may do everything: the API server asks no authorizer about it either, and its own
check whether the aggregated API is available comes as one of them."""

NEW_TOKEN_SECONDS: Final = 2.0
"""How long a new token waits for its turn to be reviewed."""


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How long results of reviews are cached, and how many reviews are made.

    Attributes:
        allowed_seconds: How long a valid token or a right counts, after it was taken away.
        refused_seconds: How long an invalid token or a missing right is refused, after it was
            given.
        failed_seconds: How long the same review is not tried again after the API server did not
            answer: each try keeps a thread of the door waiting.
        entries: The most results of tokens that are cached, and as many of rights.
        new_tokens_per_second: How many tokens without a cached result are reviewed, in the long
            run. All reviews together are bounded by the flow control of the client.
        new_tokens_at_once: The same after a pause.
    """

    allowed_seconds: float
    refused_seconds: float
    failed_seconds: float
    entries: int = 1000
    new_tokens_per_second: float = 20.0
    new_tokens_at_once: int = 40


_NO_TOKEN: Final = ReviewResult(HTTPStatus.UNAUTHORIZED, "a bearer token of the cluster is needed")
_NO_TURN: Final = ReviewResult(
    HTTPStatus.SERVICE_UNAVAILABLE, "the API server could not be asked: too many new tokens"
)
_MASTER: Final = ReviewResult(HTTPStatus.OK, until=math.inf)


class Authorizer:
    """Identifies callers by their tokens, and reviews their rights; callable from any thread.

    Args:
        client: The client of the API server.
        clock: The time.
        policy: The policy of the door.
    """

    def __init__(self, client: ResourceClient, clock: Clock, policy: Policy) -> None:
        self._client = client
        self._clock = clock
        self._policy = policy
        self._tokens = ReviewCache(policy.entries, clock)
        self._rights = ReviewCache(policy.entries, clock)
        self._new_tokens = FlowControl(
            policy.new_tokens_per_second, policy.new_tokens_at_once, clock
        )
        self._trouble = TroubleLog("authorization")

    def cached_token(self, token: str) -> ReviewResult | None:
        """Return the cached review of a token, or None; never blocks."""
        return self._tokens.get(_digest_token(token))

    def cached_user(self, authorization: str) -> str:
        """Return the cached user of a header Authorization, or ""; never blocks."""
        cached = self.cached_token(bearer_token(authorization))
        return cached.caller.user if cached is not None and cached.caller is not None else ""

    def identify(self, token: str, *, anew: bool = False) -> ReviewResult:
        """Return the review of a token; may wait for the API server.

        Args:
            token: The token; "" is refused.
            anew: Whether to ignore the cache and ask the API server.
        """
        if not token:
            return _NO_TOKEN
        cached = None if anew else self.cached_token(token)
        if cached is not None:
            return cached
        if not self._new_tokens.acquire(Lane.NORMAL, NEW_TOKEN_SECONDS):
            return _NO_TURN
        cached = None if anew else self.cached_token(token)  # another request has asked meanwhile
        if cached is not None:
            return cached
        ask = partial(review_token, self._client, token)
        return self._review(TOKEN_REVIEWS, ask, self._tokens, _digest_token(token), anew=anew)

    def cached_right(self, caller: Caller, right: ReviewedRight) -> ReviewResult | None:
        """Return the cached review of a right, or None; never blocks."""
        return _MASTER if MASTERS in caller.groups else self._rights.get(_digest(caller, right))

    def judge(self, caller: Caller, right: ReviewedRight, *, anew: bool = False) -> ReviewResult:
        """Return whether a caller has a right; may wait for the API server.

        Args:
            caller: Who asks.
            right: What it would do.
            anew: Whether to ignore the cache and ask the API server.
        """
        cached = None if anew else self.cached_right(caller, right)
        if cached is not None:
            return cached
        ask, digest = partial(review_right, self._client, caller, right), _digest(caller, right)
        return self._review(SUBJECT_ACCESS_REVIEWS, ask, self._rights, digest, anew=anew)

    def judge_bearer(self, authorization: str, right: Right) -> ReviewResult:
        """Return whether one request is allowed; may wait for the API server.

        Args:
            authorization: Value of the header Authorization.
            right: The right that the request needs.
        """
        identity = self.identify(bearer_token(authorization))
        if identity.caller is None or isinstance(right, TokenOnly):
            return identity
        return self.judge(identity.caller, right)

    def _review(
        self,
        kind: ResourceType[Review],
        ask: Callable[[], ReviewResult],
        cache: ReviewCache,
        digest: bytes,
        *,
        anew: bool,
    ) -> ReviewResult:
        subject, began = f"review by {kind.kind}", self._clock.monotonic()
        try:
            result = ask()
        except ApiFailure as failure:
            self._trouble.begin(subject, _text_of(failure, kind))
            detail = f"the API server could not be asked: {failure}"
            until = self._clock.monotonic() + self._policy.failed_seconds
            result = ReviewResult(HTTPStatus.SERVICE_UNAVAILABLE, detail, until)
            # What is cached may still count, for example of a request that came later.
            if not anew and cache.get(digest) is None:
                cache.put(digest, result)
            return result
        self._trouble.end(subject)
        is_ok = result.status is HTTPStatus.OK
        seconds = self._policy.allowed_seconds if is_ok else self._policy.refused_seconds
        result = msgspec.structs.replace(result, until=began + seconds)
        cache.put(digest, result)
        return result


def _digest_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _digest(caller: Caller, right: ReviewedRight) -> bytes:
    return hashlib.sha256(msgspec.json.encode((caller, type(right).__name__, right))).digest()


def _text_of(failure: ApiFailure, kind: ResourceType[Review]) -> str:
    if not isinstance(failure, Forbidden):
        return str(failure)
    return (
        f"needs the right create on {kind.plural}.{kind.group}, which the ClusterRole "
        "system:auth-delegator has: every caller is answered 503"
    )
