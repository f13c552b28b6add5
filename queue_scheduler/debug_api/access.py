"""Guards of the debug API.

On a loopback address everybody may read: whoever reaches it may port-forward to the pod, or is on
the machine. On any other address every request needs a bearer token of the cluster; routes about
one namespace need `list queueunits` there, all others `get` on their path.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request

from shared_api.access_review import AccessReviewer


def open_access(request: Request) -> None:
    """Let every request pass."""


class ReviewedAccess:
    """Lets those read whom the API server lets; a `Guard`."""

    def __init__(self, reviewer: AccessReviewer) -> None:
        self._reviewer = reviewer

    def __call__(self, request: Request) -> None:
        """Let the request pass, or raise HTTPException."""
        verdict = self._reviewer.judge(
            request.headers.get("authorization", ""),
            path=request.url.path,
            namespace=str(request.path_params.get("namespace", "")),
        )
        if verdict.status is not HTTPStatus.OK:
            raise HTTPException(verdict.status.value, verdict.detail)
