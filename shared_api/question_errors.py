"""Why a question has no answer: what is raised by code that answers, and knows nothing of HTTP.

Whoever passes answers on translates: `shared_api.debug_api.debug_app` to statuses of HTTP, the
command line to a message.
"""

from __future__ import annotations

from enum import Enum


class Code(Enum):
    """The kind of a reason, by the name and number that gRPC has for it."""

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    INTERNAL = 13
    UNAVAILABLE = 14


class QuestionError(Exception):
    """A question that is not answered.

    Attributes:
        code: The kind of the reason.
        detail: The reason, for the caller.
        retry_after: Whole seconds after which to ask again; None: nothing is known of that.
    """

    def __init__(self, code: Code, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
