"""The body of a POST, checked before it is parsed: where it comes from, its type and its size.

A route of a question declares its body like this::

    Question = Annotated[PostedBody, Depends(BodyReader(JSON))]

    def what_if(body: Question) -> WhatIfView:
        asked = read_json(body, WhatIfQuestion)

    post = app.post("/debug/what-if", openapi_extra=request_body({JSON: schema_of(WhatIfQuestion)}),
        responses=problems(*BODY_PROBLEMS))

FastAPI's own parameters for bodies are not used: it parses them before the guard is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from shared_api.debug_api.server import MAX_BODY_BYTES
from shared_api.question_errors import Code, QuestionError

JSON: Final = "application/json"
YAML: Final = "application/yaml"

BODY_PROBLEMS: Final = (400, 403, 411, 413, 415, 422)
"""Status codes of refused bodies, for a route's `responses`."""

MAX_ERRORS: Final = 5
"""Most mistakes that one answer names."""

_OWN_SITE: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site: a page of this server, or no page at all."""

ModelT = TypeVar("ModelT", bound=BaseModel)

Mistakes: TypeAlias = Sequence[Mapping[str, Any]]
"""Mistakes as pydantic lists them, each with `loc` and `msg`."""


class PostedBody(NamedTuple):
    """What a request sends: its media type, in lower case and without parameters, and its bytes."""

    media_type: str
    content: bytes


class BodyReader:
    """Returns the body of a request; a FastAPI dependency, called after the guard.

    Args:
        types: The media types that are accepted; "": none may be named as well. A page of another
            site cannot send these without asking this server first, which refuses.
        most: The longest body, in bytes.
    """

    def __init__(self, *types: str, most: int = MAX_BODY_BYTES) -> None:
        self._types = types
        self._most = most

    async def __call__(self, request: Request) -> PostedBody:
        """Return the body.

        Raises:
            HTTPException: A page of another site asks (403), or the body is too long (413), of
                another type (415), or not UTF-8 (415).
        """
        check_site(request)
        media_type = check_type(request, self._types)
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > self._most:
                raise _too_long(self._most)
            parts.append(part)
        return PostedBody(media_type, b"".join(parts))


def check_site(request: Request) -> None:
    """Refuse requests that a page of another site sends from a user's browser.

    Raises:
        HTTPException: 403.
    """
    site = request.headers.get("sec-fetch-site", "none").lower()
    origin = request.headers.get("origin")
    host = request.headers.get("host", "").lower()
    if site in _OWN_SITE and (origin is None or origin.lower().partition("://")[2] == host):
        return
    raise HTTPException(HTTPStatus.FORBIDDEN.value, "a page of another site may not ask this")


def check_type(request: Request, types: tuple[str, ...]) -> str:
    """Return the media type of a request's body, one of `types`.

    Raises:
        HTTPException: 415.
    """
    media_type, _, rest = request.headers.get("content-type", "").lower().partition(";")
    charset = rest.strip().removeprefix("charset=").strip('"')
    if media_type.strip() not in types or charset not in {"", "utf-8"}:
        detail = f"Content-Type is to be {' or '.join(filter(None, types))}, in UTF-8"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE.value, detail)
    return media_type.strip()


def _too_long(most: int) -> HTTPException:
    detail = f"a body may have at most {most} bytes"
    return HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE.value, detail)


def describe_errors(found: Mistakes) -> str:
    """Return mistakes that pydantic has found as one sentence, each with the name of its field."""
    said = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in found]
    more = f" (and {len(said) - MAX_ERRORS} more)" if len(said) > MAX_ERRORS else ""
    return "; ".join(said[:MAX_ERRORS]) + more


def read_json(
    body: PostedBody, model: type[ModelT], describe: Callable[[Mistakes], str] = describe_errors
) -> ModelT:
    """Return a JSON body as a model.

    Args:
        body: The body.
        model: The model.
        describe: Returns what is said of its mistakes.

    Raises:
        QuestionError: INVALID_ARGUMENT: it is not JSON, or not of the model; the detail is what
            `describe` returns.
    """
    try:
        return model.model_validate_json(body.content)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise QuestionError(Code.INVALID_ARGUMENT, describe(found)) from None


def request_body(schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a route's contract says of its body, for `openapi_extra`.

    Args:
        schemas: The schema of each media type.
    """
    content = {media_type: {"schema": dict(schema)} for media_type, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model, without references: these would not resolve in a contract."""
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})
    return dict(_resolve(schema, parts))


def _resolve(schema: Any, parts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a JSON value
    if isinstance(schema, list):
        return [_resolve(each, parts) for each in schema]
    if not isinstance(schema, dict):
        return schema
    named = schema.get("$ref", "").rpartition("/")[2]
    return (
        _resolve(parts[named], parts)
        if named
        else {key: _resolve(value, parts) for key, value in schema.items()}
    )
