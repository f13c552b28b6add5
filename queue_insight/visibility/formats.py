"""In which form an answer is given: an object, or a `Table` for kubectl."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from queue_insight.visibility.resources import KindView
from queue_insight.visibility.statuses import StatusError
from shared_api.debug_api.json_body import JSON

_ANY_JSON: Final = frozenset({JSON, "application/*", "*/*"})
_TABLE: Final = {"as": "Table", "g": "meta.k8s.io", "v": "v1"}


def wants_table(request: Request) -> bool:
    """Return whether a `Table` is asked for: the first form of the header Accept that there is.

    Raises:
        StatusError: 406: only other forms are asked for.
    """
    accepted = request.headers.get("accept", "") or JSON
    for each in accepted.split(","):
        media_type, *rest = (part.strip() for part in each.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {name.strip(): value.strip() for name, _, value in pairs}
        if media_type == JSON and {**parameters, **_TABLE} == parameters:
            return True
        if media_type in _ANY_JSON and "as" not in parameters:
            return False
    message = f"only {JSON} is offered, as an object or as a Table of meta.k8s.io/v1"
    raise StatusError(HTTPStatus.NOT_ACCEPTABLE, message)


def answer(view: KindView, code: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return an object."""
    return Response(to_json(view, by_alias=True), code, media_type=JSON)


def answer_json(content: dict[str, Any]) -> Response:
    """Return a document."""
    return Response(msgspec.json.encode(content), media_type=JSON)
