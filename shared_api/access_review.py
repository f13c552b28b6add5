"""Authorization of readers: TokenReview identifies them, SubjectAccessReview checks their rights.

It is used for `/metrics` and for the debug API when they are reachable from outside the pod.
Answers of the API server are cached for a short time, so that most scrapes cost it nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.process.clock import Clock

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 5.0
"""How long an answer is cached (Kueue's dashboard backend uses the same times)."""

MAX_REMEMBERED: Final = 1000
"""Most cached answers, which bounds the memory that clients with random tokens can take."""


class Review(msgspec.Struct, frozen=True):
    """The answer to a TokenReview or SubjectAccessReview."""

    status: dict[str, Any] = {}


TOKEN_REVIEWS: Final = ResourceType(
    "authentication.k8s.io",
    "v1",
    "tokenreviews",
    "TokenReview",
    namespaced=False,
    object_type=Review,
)
SUBJECT_ACCESS_REVIEWS: Final = ResourceType(
    "authorization.k8s.io",
    "v1",
    "subjectaccessreviews",
    "SubjectAccessReview",
    namespaced=False,
    object_type=Review,
)


class ResourceRight(msgspec.Struct, frozen=True, kw_only=True):
    """A verb on objects of a namespaced kind."""

    verb: str
    group: str
    resource: str
    """Plural name of the kind."""
    namespace: str
    """"" for all."""
    name: str = ""
    """Name of the object; "" for all."""
    subresource: str = ""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name else ""
        where = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"{self.verb} {self.resource}{named} in {where}"


def list_units_in(namespace: str) -> ResourceRight:
    """Return the right to list the units of a namespace."""
    group = "scheduling.x-k8s.io"
    return ResourceRight(verb="list", group=group, resource="queueunits", namespace=namespace)


class PathRight(msgspec.Struct, frozen=True):
    """A verb on a non-resource path."""

    path: str
    verb: str = "get"

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class TokenOnly(msgspec.Struct, frozen=True):
    """Any identity that the cluster knows."""


Right = ResourceRight | PathRight | TokenOnly
"""What a reader needs in addition to a valid token."""


class ReviewResult(msgspec.Struct, frozen=True):
    """OK, or a refusal with its detail; cached until the monotonic time `until`."""

    status: HTTPStatus
    detail: str
    until: float


class AccessReviewer:
    """Authorizes requests by their bearer token; callable from any thread."""

    def __init__(self, client: ResourceClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()  # guards _verdicts and _users
        self._verdicts: dict[tuple[str, Right], ReviewResult] = {}
        self._users: dict[str, tuple[str, float]] = {}  # by digest of their token; until when

    def judge(self, authorization: str, right: Right) -> ReviewResult:
        """Return whether one request is allowed.

        Args:
            authorization: Value of the Authorization header.
            right: The right that the request needs.
        """
        token = bearer_token(authorization)
        if not token:
            return self._refuse(HTTPStatus.UNAUTHORIZED, "a bearer token of the cluster is needed")
        key = (_digest(token), right)
        with self._lock:
            known = self._verdicts.get(key)
        if known is not None and known.until > self._clock.monotonic():
            return known
        verdict = self._ask(token, right)
        with self._lock:
            if len(self._verdicts) >= MAX_REMEMBERED:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def known_user(self, authorization: str) -> str:
        """Return who has sent a token that was reviewed lately; "": nobody known. Never waits."""
        with self._lock:
            user, until = self._users.get(_digest(bearer_token(authorization)), ("", 0.0))
        return user if until > self._clock.monotonic() else ""

    def identify(self, token: str) -> tuple[HTTPStatus, str]:
        """Return who has a token, as the API server knows it now: nothing is remembered.

        Returns:
            OK and the user's name; UNAUTHORIZED and ""; or SERVICE_UNAVAILABLE and why the API
            server could not be asked.
        """
        try:
            who = review(self._client, TOKEN_REVIEWS, {"token": token})
        except ApiFailure as failure:
            detail = f"the API server could not be asked: {failure}"
            return HTTPStatus.SERVICE_UNAVAILABLE, detail
        if not who.get("authenticated"):
            return HTTPStatus.UNAUTHORIZED, ""
        return HTTPStatus.OK, str(who.get("user", {}).get("username") or "")

    def may_list_units(self, authorization: str, namespace: str) -> bool:
        """Return whether the bearer of a token may read the units of a namespace."""
        return self.judge(authorization, list_units_in(namespace)).status is HTTPStatus.OK

    def _ask(self, token: str, right: Right) -> ReviewResult:
        try:
            who = review(self._client, TOKEN_REVIEWS, {"token": token})
            if not who.get("authenticated"):
                return self._refuse(HTTPStatus.UNAUTHORIZED, "the token is not valid")
            user = who.get("user", {})
            self._remember_user(token, str(user.get("username") or ""))
            allowed = isinstance(right, TokenOnly) or self._may(user, right)
        except ApiFailure as failure:
            detail = f"the API server could not be asked: {failure}"
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, detail)
        if allowed:
            return ReviewResult(HTTPStatus.OK, "", self._clock.monotonic() + ALLOWED_SECONDS)
        name = user.get("username") or "this user"
        return self._refuse(HTTPStatus.FORBIDDEN, f"{name} may not {right}")

    def _remember_user(self, token: str, user: str) -> None:
        with self._lock:
            if len(self._users) >= MAX_REMEMBERED:
                self._users.clear()
            self._users[_digest(token)] = (user, self._clock.monotonic() + ALLOWED_SECONDS)

    def _may(self, user: dict[str, Any], right: ResourceRight | PathRight) -> bool:
        answer = review(self._client, SUBJECT_ACCESS_REVIEWS, access_spec(user, right))
        return bool(answer.get("allowed"))

    def _refuse(self, status: HTTPStatus, detail: str) -> ReviewResult:
        return ReviewResult(status, detail, self._clock.monotonic() + REFUSED_SECONDS)


def bearer_token(authorization: str) -> str:
    """Return the bearer token of a header Authorization; "": it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(token: str) -> str:
    """Return what a token is remembered by: the token itself is not stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def review(
    client: ResourceClient, kind: ResourceType[Review], spec: dict[str, Any]
) -> dict[str, Any]:
    """Return the status of a review that the API server makes.

    Raises:
        ApiFailure: It cannot be asked, or this program may not ask.
    """
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
    return client.create(kind, "", body).status


def access_spec(user: Mapping[str, Any], right: ResourceRight | PathRight) -> dict[str, Any]:
    """Return the spec of a SubjectAccessReview.

    Args:
        user: `username`, `uid`, `groups` and `extra`, as in the status of a TokenReview.
        right: What it would do.
    """
    spec: dict[str, Any] = {
        "user": user.get("username", ""),
        "groups": user.get("groups", []),
        "uid": user.get("uid", ""),
        "extra": user.get("extra", {}),
    }
    if isinstance(right, PathRight):
        spec["nonResourceAttributes"] = {"path": right.path, "verb": right.verb}
    else:
        attributes = {
            "namespace": right.namespace,
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
        }
        more = {"name": right.name, "subresource": right.subresource}
        spec["resourceAttributes"] = attributes | {
            key: value for key, value in more.items() if value
        }
    return spec
