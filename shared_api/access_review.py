"""Who may read: TokenReview says who asks, SubjectAccessReview what they may see.

Used for `/metrics` and for the debug API when they are reachable from outside the pod. Answers of
the API server are believed for a short time, so that a scrape costs it nothing.
"""

from __future__ import annotations

import hashlib
import threading
from http import HTTPStatus
from typing import Any, Final

import msgspec

from shared_api.client.errors import ApiFailure
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.process.clock import Clock

ALLOWED_SECONDS: Final = 60.0
REFUSED_SECONDS: Final = 5.0
"""How long an answer is believed (Kueue's dashboard backend has the same times)."""

MAX_REMEMBERED: Final = 1000
"""Bounds the memory that strangers with random tokens can take."""


class Review(msgspec.Struct, frozen=True):
    """A TokenReview or SubjectAccessReview, as it comes back."""

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


class Verdict(msgspec.Struct, frozen=True):
    """OK, or why not; `until` is the monotonic time up to which it is believed."""

    status: HTTPStatus
    detail: str
    until: float


class AccessReviewer:
    """Judges requests by their bearer token. From any thread."""

    def __init__(self, client: ResourceClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()  # guards _verdicts
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}

    def judge(self, authorization: str, *, path: str, namespace: str = "") -> Verdict:
        """Judge one GET.

        Args:
            authorization: Value of the Authorization header.
            path: The nonResourceURL that is asked for.
            namespace: Where given, `list queueunits` in it is needed instead of `get` on the path.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return self._refuse(HTTPStatus.UNAUTHORIZED, "a bearer token of the cluster is needed")
        # The token itself is not kept.
        digest = hashlib.sha256(token.encode()).hexdigest()
        key = (digest, namespace, "" if namespace else path)
        with self._lock:
            known = self._verdicts.get(key)
        if known is not None and known.until > self._clock.monotonic():
            return known
        verdict = self._ask(token, path, namespace)
        with self._lock:
            if len(self._verdicts) >= MAX_REMEMBERED:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def may_list_units(self, authorization: str, namespace: str) -> bool:
        """Return whether the bearer of a token may read the units of a namespace."""
        return self.judge(authorization, path="", namespace=namespace).status is HTTPStatus.OK

    def _ask(self, token: str, path: str, namespace: str) -> Verdict:
        try:
            who = self._review(TOKEN_REVIEWS, {"token": token})
            if not who.get("authenticated"):
                return self._refuse(HTTPStatus.UNAUTHORIZED, "the token is not valid")
            user = who.get("user", {})
            answer = self._review(SUBJECT_ACCESS_REVIEWS, _access_spec(user, path, namespace))
        except ApiFailure as failure:
            detail = f"the API server could not be asked: {failure}"
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, detail)
        if answer.get("allowed"):
            return Verdict(HTTPStatus.OK, "", self._clock.monotonic() + ALLOWED_SECONDS)
        wanted = f"list queueunits in namespace {namespace}" if namespace else f"get {path}"
        name = user.get("username") or "this user"
        return self._refuse(HTTPStatus.FORBIDDEN, f"{name} may not {wanted}")

    def _review(self, kind: ResourceType[Review], spec: dict[str, Any]) -> dict[str, Any]:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        return self._client.create(kind, "", body).status

    def _refuse(self, status: HTTPStatus, detail: str) -> Verdict:
        return Verdict(status, detail, self._clock.monotonic() + REFUSED_SECONDS)


def _access_spec(user: dict[str, Any], path: str, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "user": user.get("username", ""),
        "groups": user.get("groups", []),
        "uid": user.get("uid", ""),
        "extra": user.get("extra", {}),
    }
    if namespace:
        spec["resourceAttributes"] = {
            "namespace": namespace,
            "verb": "list",
            "group": "scheduling.x-k8s.io",
            "resource": "queueunits",
        }
    else:
        spec["nonResourceAttributes"] = {"path": path, "verb": "get"}
    return spec
