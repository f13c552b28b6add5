"""The reviews that the API server makes: TokenReview and SubjectAccessReview."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from shared_api.authorization.caller import Caller
from shared_api.authorization.rights import PathRight, ReviewedRight
from shared_api.client.resource_client import ResourceClient, ResourceType


class ReviewResult(msgspec.Struct, frozen=True):
    """The result of a review of a token, or of a caller's right.

    Attributes:
        status: OK; UNAUTHORIZED: the token is not valid; FORBIDDEN: the caller does not have the
            right; SERVICE_UNAVAILABLE: the API server could not be asked.
        detail: Why, for a person; "" if OK.
        until: How long it counts, in monotonic seconds.
        caller: Who has the token; None for any other result than OK, and for that of a right.
    """

    status: HTTPStatus
    detail: str = ""
    until: float = 0.0
    caller: Caller | None = None


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


def review_token(client: ResourceClient, token: str) -> ReviewResult:
    """Return who has a token.

    Raises:
        ApiFailure: The API server cannot be asked, or this program may not ask.
    """
    # Without audiences the API server takes its own: a token for another service is not valid.
    status = _review(client, TOKEN_REVIEWS, {"token": token})
    user = status.get("user") or {}
    if not status.get("authenticated") or not user.get("username"):
        return ReviewResult(HTTPStatus.UNAUTHORIZED, "the token is not valid")
    extra = {key: tuple(values or ()) for key, values in (user.get("extra") or {}).items()}
    groups = tuple(user.get("groups") or ())
    caller = Caller(user["username"], user.get("uid", ""), groups, extra)
    return ReviewResult(HTTPStatus.OK, caller=caller)


def review_right(client: ResourceClient, caller: Caller, right: ReviewedRight) -> ReviewResult:
    """Return whether a caller has a right.

    Raises:
        ApiFailure: The API server cannot be asked, or this program may not ask.
    """
    spec = {
        "user": caller.user,
        "groups": list(caller.groups),
        "uid": caller.uid,
        "extra": {key: list(values) for key, values in caller.extra.items()},
        **_attributes_of(right),
    }
    if _review(client, SUBJECT_ACCESS_REVIEWS, spec).get("allowed"):
        return ReviewResult(HTTPStatus.OK)
    return ReviewResult(HTTPStatus.FORBIDDEN, f"{caller.user} may not {right}")


def _attributes_of(right: ReviewedRight) -> dict[str, dict[str, str]]:
    if isinstance(right, PathRight):
        return {"nonResourceAttributes": {"path": right.path, "verb": right.verb}}
    attributes = {
        "namespace": right.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
    }
    more = {"name": right.name, "subresource": right.subresource}
    return {"resourceAttributes": attributes | {key: value for key, value in more.items() if value}}


def _review(
    client: ResourceClient, kind: ResourceType[Review], spec: dict[str, Any]
) -> dict[str, Any]:
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
    return client.create(kind, "", body).status
