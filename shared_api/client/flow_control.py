"""Limits the rate of requests and decides which of them are retried, and when.

There are two lanes, each with its own token bucket. Writes that decide about a job go through the
normal lane; those that only report (events, counts, reasons) go through the low lane, which has an
additional fifth of the rate and cannot take a token from the normal lane.

A server that answers 429 with `Retry-After` is busy, whatever the request was about: until then the
lane is held, for all requests alike. A hold of the normal lane holds the low one as well, since
reports are never more urgent. A hold of the low lane does not affect the normal one: the server has
separate limits for events.

One pure function, `retry_pause`, decides which requests may be repeated, and after how long.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from shared_api.backoff import Backoff
from shared_api.client.errors import ApiFailure, ConnectionLost, ServerError, TooManyRequests

if TYPE_CHECKING:
    from shared_api.process.clock import Clock

DEFAULT_QPS: Final = 500.0
DEFAULT_BURST: Final = 1000
LOW_LANE_SHARE: Final = 0.2
"""The low lane's share of rate and burst, in addition to the normal lane's. In other queueing
systems events and status summaries are half of all writes; here they come second."""
MAX_TRIES: Final = 5
"""Most attempts of one call, including the first."""
RETRY_BACKOFF: Final = Backoff(base_seconds=0.1, cap_seconds=2.0, jitter=0.25)
"""Five tries take 1.5 s: waiting for a server that restarts is up to the caller."""
MAX_PATIENCE_SECONDS: Final = 4.0
"""Longest time for which a call itself waits because the server asked for it: what a write may
take. For longer pauses the caller rests, which ends early when the program stops."""
_NEVER: Final = float("-inf")


class Lane(Enum):
    """Which budget a request is charged to."""

    # Members are singletons; Enum's own hash is a Python function, called a dozen times per write.
    __hash__ = object.__hash__

    NORMAL = "normal"
    LOW = "low"


class FlowControl:
    """Limits the rate of requests; shared by all threads of a process."""

    def __init__(
        self,
        qps: float,
        burst: int,
        clock: Clock,
        *,
        can_be_held: bool = True,
        on_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Start with full buckets.

        Args:
            qps: Requests per second in the long run; 0 or less means no limit.
            burst: Requests at once after a pause; at least 1.
            clock: Used for waiting.
            can_be_held: Whether `hold` has an effect; False suits a caller that is slow by itself
                and would lose more by waiting than the server would gain.
            on_wait: Called with the seconds for which a request has waited, if it has.
        """
        self._clock = clock
        self._can_be_held = can_be_held
        self._on_wait = on_wait
        # Guards buckets and holds; one hold is read without it. No thread waits while holding it: a
        # token is reserved first and then waited for.
        self._lock = threading.Lock()
        self._held_until = dict.fromkeys(Lane, _NEVER)
        self._buckets: Mapping[Lane, TokenBucket] = {}
        if qps > 0:
            now = clock.monotonic()
            low_burst = max(1.0, burst * LOW_LANE_SHARE)
            self._buckets = {
                Lane.NORMAL: TokenBucket(qps, max(1.0, burst), now),
                Lane.LOW: TokenBucket(qps * LOW_LANE_SHARE, low_burst, now),
            }

    def acquire(self, lane: Lane, limit_seconds: float) -> bool:
        """Wait until one request may be sent, for at most `limit_seconds`; return whether it may.

        Returns False at once, and takes no token, if the wait would take longer, or if the lane is
        held for longer than `MAX_PATIENCE_SECONDS`.
        """
        deadline = self._clock.monotonic() + limit_seconds
        bucket = self._buckets.get(lane)
        if bucket is not None:
            with self._lock:
                wait = bucket.seconds_until_token(self._clock.monotonic())
                held = self._held_seconds(lane)
                if wait > limit_seconds or held > min(limit_seconds, MAX_PATIENCE_SECONDS):
                    return False
                bucket.take()
            if wait > 0:
                self._clock.sleep(wait)
                self._on_wait(wait)
        # After the wait for a token: the server may have asked for a pause meanwhile.
        while (held := self._held_seconds(lane)) > 0:
            if held > min(deadline - self._clock.monotonic(), MAX_PATIENCE_SECONDS):
                return False
            self._clock.sleep(held)
            self._on_wait(held)
        return True

    def seconds_until(self, lane: Lane) -> float:
        """Return the seconds for which a request would wait now; take no token."""
        held = max(self._held_seconds(lane), 0.0)
        bucket = self._buckets.get(lane)
        if bucket is None:
            return held
        with self._lock:
            return max(held, bucket.seconds_until_token(self._clock.monotonic()))

    def hold(self, lane: Lane, seconds: float) -> None:
        """Hold the lane for `seconds`, as the server asked when it refused a request of it."""
        if not self._can_be_held:
            return
        until = self._clock.monotonic() + seconds
        with self._lock:
            for held in Lane if lane is Lane.NORMAL else (lane,):
                self._held_until[held] = max(self._held_until[held], until)

    def _held_seconds(self, lane: Lane) -> float:
        return self._held_until[lane] - self._clock.monotonic()


class TokenBucket:
    """A token bucket that may be in debt to waiting callers.

    Args:
        rate: Tokens per second.
        burst: The most tokens that are saved up; it begins with as many.
        now: Monotonic seconds.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._filled_at = now

    def seconds_until_token(self, now: float) -> float:
        """Refill the bucket up to `now`; return the seconds until there is a whole token."""
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        return max(0.0, (1.0 - self._tokens) / self._rate)

    def take(self) -> None:
        """Take a token, on credit if there is none."""
        self._tokens -= 1.0


def may_have_acted(failure: ApiFailure) -> bool:
    """Return whether the server may have carried out the request that failed so.

    After a 5xx this is unknown: 504 means that the server gave up waiting for its own write. Only a
    503 with `Retry-After` is sent before any work is done (overload, shutdown).
    """
    match failure:
        case ConnectionLost():
            return failure.sent
        case ServerError(status=503) if failure.retry_after_seconds:
            return False
        case ServerError():
            return True
        case _:
            return False


def is_surely_not_done(failure: ApiFailure) -> bool:
    """Return whether a call and all its retries certainly had no effect, for a temporary reason.

    False for a refusal (403, 409, 422 ...): it has had no effect either, but is not temporary.
    """
    if isinstance(failure, (TooManyRequests, ServerError, ConnectionLost)):
        return not failure.after_retry and not may_have_acted(failure)
    return False


def retry_pause(
    failure: ApiFailure, attempt: int, *, harmless: bool, rng: random.Random
) -> float | None:
    """Return the seconds to wait before the same request is sent again; None if it must not be.

    Args:
        failure: The error of the last attempt.
        attempt: The number of that attempt, from 0.
        harmless: Whether repeating does no harm even if the server has acted: True for reads and
            guarded writes.
        rng: Source of the jitter.
    """
    if attempt + 1 >= MAX_TRIES:
        return None
    if not isinstance(failure, (TooManyRequests, ServerError, ConnectionLost)):
        return None
    if may_have_acted(failure) and not harmless:
        return None
    pause = RETRY_BACKOFF.seconds(attempt, rng)
    requested = failure.retry_after_seconds
    if not requested:
        return pause
    if requested > MAX_PATIENCE_SECONDS:
        return None
    # Jitter is added to the pause that the server asked for, never subtracted from it.
    return requested + pause * RETRY_BACKOFF.jitter
