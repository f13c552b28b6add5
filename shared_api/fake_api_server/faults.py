"""Injected faults of the fake API server.

A test arms a fault for a number of matching requests. Each of them uses it up once; if several
faults match, the one armed first applies. All of it is deterministic: with `probability` below 1,
the server's seeded generator decides.

    server.faults.fail(503, times=2, match=Match(verb="patch", plural="queueunits"))
    server.faults.lose_answer(match=Match(subresource="status"))      # written, unconfirmed
    server.faults.delay(3.0, match=Match(plural="leases"))
    server.watches.drop(Match(plural="jobs")); server.compact()       # at once; see FakeApiServer
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
    """The verb and the object of a request."""

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
        """Whether the request may change objects."""
        return self.verb in {"create", "update", "patch", "delete", "deletecollection"}


class Match(msgspec.Struct, frozen=True):
    """A condition on requests; a field that is None matches every request."""

    verb: str | None = None
    plural: str | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    when: Callable[[RequestInfo], bool] | None = None
    """A further condition."""

    def holds(self, info: RequestInfo) -> bool:
        """Return whether a request matches."""
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
    """What happens to a request; with the defaults, nothing."""

    failure: RequestFailed | None = None
    """The answer, without processing the request."""
    loses_request: bool = False
    """The connection breaks before the server sees the request."""
    loses_answer: bool = False
    """The request is processed, and the connection breaks before the answer."""
    delay_seconds: float = 0.0
    """The delay before processing. After the client's timeout, the request is processed anyway."""


@dataclass
class _Armed:
    fault: Fault
    match: Match
    times: int
    probability: float


class Faults:
    """The armed faults. They can be armed from any thread; the server takes them under its lock.

    Common arguments: `times` is how many matching requests are affected, `EVERY_TIME` for all until
    `clear`; `probability`, from 0 to 1, is the chance of each matching request to be affected.
    """

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
        """Answer with an error instead of processing the request.

        Args:
            status: the HTTP status; `reason` and the default message follow from it.
            times: see the class.
            match: the requests that are affected.
            retry_after_seconds: the `Retry-After` header, None for none.
            message: the text, "" for the usual one.
            probability: see the class.
        """
        reason, text = _REASONS.get(HTTPStatus(status), ("", HTTPStatus(status).phrase))
        failure = RequestFailed(
            status, reason, message or text, retry_after_seconds=retry_after_seconds
        )
        self.arm(Fault(failure=failure), times=times, match=match, probability=probability)

    def lose_request(
        self, *, times: int = 1, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Break the connection before the server sees the request: it is not processed."""
        self.arm(Fault(loses_request=True), times=times, match=match, probability=probability)

    def lose_answer(
        self, *, times: int = 1, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Process the request and break the connection before the answer."""
        self.arm(Fault(loses_answer=True), times=times, match=match, probability=probability)

    def delay(
        self,
        seconds: float,
        *,
        times: int = 1,
        match: Match = ANY_REQUEST,
        probability: float = 1.0,
    ) -> None:
        """Delay the processing of the request by this many seconds of the server's clock."""
        self.arm(Fault(delay_seconds=seconds), times=times, match=match, probability=probability)

    def arm(
        self, fault: Fault, *, times: int, match: Match = ANY_REQUEST, probability: float = 1.0
    ) -> None:
        """Arm a fault; see the class for `times` and `probability`."""
        self._armed.append(_Armed(fault, match, times, probability))

    def clear(self) -> None:
        """Disarm all faults."""
        self._armed.clear()

    @property
    def armed_count(self) -> int:
        """How many faults are left, so that a test can check that its faults happened."""
        return sum(one.times for one in self._armed)

    def take(self, info: RequestInfo) -> Fault | None:
        """Return the fault for a request and use it up once; None if no fault matches."""
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
