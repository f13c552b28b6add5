"""TokenReview and SubjectAccessReview: which user a token belongs to, and what it may do.

A test sets the answers. The fake server itself checks no credentials and no permissions; a 401 or
403 comes from `faults`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from shared_api.fake_api_server.api_errors import bad_request
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.resource_registry import ServedResource

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"

REVIEW_KINDS: Final = tuple(
    ServedResource(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        namespaced=kind.startswith("Local"),
        verbs=("create",),
    )
    for group, kind in (
        (AUTHENTICATION, "TokenReview"),
        (AUTHORIZATION, "SubjectAccessReview"),
        (AUTHORIZATION, "SelfSubjectAccessReview"),
        (AUTHORIZATION, "LocalSubjectAccessReview"),
    )
)


def _allow_all(_spec: Body) -> bool:
    return True


class AccessReviews:
    """The answers to reviews.

    Attributes:
        users: the user of each token, as `{"username": ..., "groups": [...]}`; other tokens are
            invalid.
        allows: whether the access in a review's spec (user, groups, resourceAttributes,
            nonResourceAttributes) is allowed; by default always.
    """

    def __init__(self) -> None:
        self.users: dict[str, Body] = {}
        self.allows: Callable[[Body], bool] = _allow_all

    def answer(self, resource: ServedResource, review: Body) -> Body:
        """Return a review with its status.

        Raises:
            RequestFailed: 400, the review has no spec.
        """
        spec = review.get("spec")
        if not isinstance(spec, dict):
            raise bad_request(f"{resource.kind} without a spec")
        named = {"kind": resource.kind, "apiVersion": resource.api_version}
        return {**named, "metadata": {}, "spec": spec, "status": self._status(resource, spec)}

    def _status(self, resource: ServedResource, spec: Body) -> dict[str, JsonValue]:
        if resource.kind != "TokenReview":
            return {"allowed": self.allows(spec)}
        user = self.users.get(spec.get("token", ""))
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": user}
