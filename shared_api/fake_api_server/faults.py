"""Faults of the fake API server, switched on by a test.

A fault is armed for requests that match, for a number of times, and spent as they come; the first
armed one that matches a request is used. All are deterministic: with `probability` below one, the
server's own seeded generator decides.

    server.faults.fail(503, times=2, match=Match(verb="patch", plural="queueunits"))
    server.faults.lose_answer(match=Match(subresource="status"))      # written, but nobody knows
    server.faults.delay(3.0, match=Match(plural="leases"))
    server.drop_watches(Match(plural="jobs")); server.compact()       # at once; see FakeApiServer
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec

from shared_api.fake_api_server.api_errors import RequestFailed

EVERY_TIME: Final = 2**62

_REASONS: Final = {
    HTTPStatus.UNAUTHORIZED: ("Unauthorized", "Unauthorized"),
    HTTPStatus.FORBIDDEN: ("Forbidden", "forbidden by a fault"),
    HTTPStatus.CONFLICT: (
        "Conflict",
        "the object has been modified; please apply your changes to the latest version",
    ),
    HTTPStatus.GONE: ("Expired", "too old resource version"),
    HTTPStatus.UNPROCESSABLE_ENTITY: ("Invalid", "invalid by a fault"),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "TooManyRequests",
        "Too many requests, please try again later.",
    ),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("InternalError", "Internal error occurred"),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "ServiceUnavailable",
        "the server is currently unable to handle the request",
    ),
    HTTPStatus.GATEWAY_TIMEOUT: ("Timeout", "request did not complete within the allotted timeout"),
}


class RequestInfo(msgspec.Struct, frozen=True):
    """What a request is about."""

    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection; "" for other paths."""
    path: str
    group: str = ""
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user_agent: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return self.verb in {"create", "update", "patch", "delete", "deletecollection"}


class Match(msgspec.Struct, frozen=True):
    """Which requests; a field that is None does not matter."""

    verb: str | None = None
    plural: str | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    when: Callable[[RequestInfo], bool] | None = None
    """Any further condition."""

    def holds(self, info: RequestInfo) -> bool:
        """Whether a request matches."""
        for wanted, got in (
            (self.verb, info.verb),
            (self.plural, info.plural),
            (self.namespace, info.namespace),
            (self.name, info.name),
            (self.subresource, info.subresource),
        ):
            if wanted is not None and wanted != got:
                return False
        return self.when is None or self.when(info)


ANY_REQUEST: Final = Match()


class Fault(msgspec.Struct, frozen=True):
    """What happens to a request. The defaults are "nothing"."""

    failure: RequestFailed | None = None
    """Answered instead of being carried out."""
    loses_request: bool = False
    """The connection breaks before the server sees the request."""
    loses_answer: bool = False
    """It is carried out, and the connection breaks before the answer."""
    delay_seconds: float = 0.0
    """Passes before it is looked at. Longer than the caller waits: carried out, but a timeout."""


@dataclass
class _Armed:
    fault: Fault
    match: Match
    times: int
    probability: float


class Faults:
    """The armed faults. Arming is safe from any thread; the server takes under its lock."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._armed: list[_Armed] = []

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        match: Match = ANY_REQUEST,
        retry_after_seconds: int | None = None,
        message: str = "",
        probability: float = 1.0,
    ) -> None:
        """Answer with an error status instead of carrying the request out."""
        reason, text = _REASONS.get(HTTPStatus(status), ("", HTTPStatus(status).phrase))
        failure = RequestFailed(
            status, reason, message or text, retry_after_seconds=retry_after_seconds
        )
        self.arm(Fault(failure=failure), times=times, match=match, probability=probability)

    def lose_request(
        self, *, times: int = 1, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Break the connection before the server sees the request: surely not carried out."""
        self.arm(Fault(loses_request=True), times=times, match=match, probability=probability)

    def lose_answer(
        self, *, times: int = 1, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Carry the request out and break the connection: the caller cannot know."""
        self.arm(Fault(loses_answer=True), times=times, match=match, probability=probability)

    def delay(
        self,
        seconds: float,
        *,
        times: int = 1,
        match: Match = ANY_REQUEST,
        probability: float = 1.0,
    ) -> None:
        """Let time pass before the request is looked at."""
        self.arm(Fault(delay_seconds=seconds), times=times, match=match, probability=probability)

    def arm(
        self, fault: Fault, *, times: int, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Arm any fault; `EVERY_TIME` until `clear`."""
        self._armed.append(_Armed(fault, match, times, probability))

    def clear(self) -> None:
        """Disarm all."""
        self._armed.clear()

    @property
    def armed_count(self) -> int:
        """How many are still to come: a test can check that its faults did happen."""
        return sum(one.times for one in self._armed)

    def take(self, info: RequestInfo) -> Fault | None:
        """Return the fault for a request, and spend it; None for most requests."""
        if not self._armed:
            return None
        for one in self._armed:
            if one.match.holds(info) and (
                one.probability >= 1.0 or self._rng.random() < one.probability
            ):
                one.times -= 1
                if not one.times:
                    self._armed.remove(one)
                return one.fault
        return None
