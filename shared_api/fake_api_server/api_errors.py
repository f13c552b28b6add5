"""Refusals of the fake API server, with the texts and reasons of the real one.

A `RequestFailed` travels from wherever the refusal is noticed to the router, which answers with
its `Status` object. Wording was taken from kube-apiserver 1.36.3; `details.causes` carries the
path to each field that is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from shared_api.fake_api_server.patching import Body, JsonValue


class NamedResource(Protocol):
    """What an error text tells of a kind."""

    @property
    def group(self) -> str:
        """API group, "" for the core."""

    @property
    def plural(self) -> str:
        """As in the path."""

    @property
    def kind(self) -> str:
        """As in objects."""


class Cause(msgspec.Struct, frozen=True):
    """One thing that is wrong with an object."""

    field: str
    """Path: "spec.podSet[0].count"."""
    reason: str
    """FieldValueRequired, FieldValueInvalid, ..."""
    message: str


class RequestFailed(Exception):
    """The request is refused.

    Attributes:
        code: HTTP status.
        reason: of the `Status` object, "" for none.
        message: the text.
        details: of the `Status` object, None for none.
        retry_after_seconds: sent as `Retry-After`, None for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Body | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds

    def status(self) -> Body:
        """The `Status` object."""
        status: Body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def qualified(name: str, group: str) -> str:
    """Return "jobs.batch", or just "pods" for the core group."""
    return f"{name}.{group}" if group else name


def named_details(resource: NamedResource, name: str, *, kind: str = "") -> Body:
    """`details` that name one object; `kind` is the plural unless said otherwise."""
    details: Body = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: NamedResource, name: str) -> RequestFailed:
    """404 for an object."""
    where = qualified(resource.plural, resource.group)
    return RequestFailed(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{where} "{name}" not found',
        details=named_details(resource, name),
    )


def no_such_path() -> RequestFailed:
    """404 for a path that nothing is served under."""
    return RequestFailed(
        HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource"
    )


def already_exists(resource: NamedResource, name: str) -> RequestFailed:
    """409 for a create of a name that is taken."""
    where = qualified(resource.plural, resource.group)
    return RequestFailed(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{where} "{name}" already exists',
        details=named_details(resource, name),
    )


def conflict(resource: NamedResource, name: str, why: str = "") -> RequestFailed:
    """409 for a guard that does not hold."""
    where = qualified(resource.plural, resource.group)
    text = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    return RequestFailed(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {where} "{name}": {text}',
        details=named_details(resource, name),
    )


def failed_precondition(resource: NamedResource, name: str, why: str) -> RequestFailed:
    """409 for a delete whose preconditions do not hold; the real one names the kind here."""
    where = qualified(resource.kind, resource.group)
    return RequestFailed(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {where} "{name}": {why}',
        details=named_details(resource, name, kind=resource.kind),
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> RequestFailed:
    """422 with all that is wrong."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    wrong = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Body = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    return RequestFailed(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'{qualified(kind, group)} "{name}" is invalid: {wrong}',
        details=details,
    )


def bad_request(message: str) -> RequestFailed:
    """400."""
    return RequestFailed(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def unpatchable() -> RequestFailed:
    """422 for a JSON patch that does not apply; the real server gives no detail either."""
    return RequestFailed(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )


def expired(message: str) -> RequestFailed:
    """410: the version or continue token is older than the history."""
    return RequestFailed(HTTPStatus.GONE, "Expired", message)


def forbidden(resource: NamedResource, name: str, why: str, cause: Cause | None) -> RequestFailed:
    """403."""
    details = named_details(resource, name)
    if cause is not None:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message, "field": cause.field}
        ]
    where = qualified(resource.plural, resource.group)
    return RequestFailed(
        HTTPStatus.FORBIDDEN, "Forbidden", f'{where} "{name}" is forbidden: {why}', details=details
    )


def method_not_allowed() -> RequestFailed:
    """405."""
    return RequestFailed(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
"""What kubectl sends built-in kinds in that it makes itself (`create job`, `auth can-i`)."""

_WITHOUT_PROTOBUF: Final = (
    ". This server reads no protobuf. Have kubectl write the object, and apply it:"
    " kubectl create ... --dry-run=client -o yaml | kubectl apply -f -"
)


def unsupported_media_type(accepted: Sequence[str], sent: str) -> RequestFailed:
    """415 for a body in a format that is not read; of protobuf the text says the way around."""
    return RequestFailed(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
        + (_WITHOUT_PROTOBUF if sent == PROTOBUF else ""),
    )


def version_too_large(asked: int, current: int) -> RequestFailed:
    """504: the version asked for has not come yet."""
    return RequestFailed(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )


def required(field: str, why: str = "") -> Cause:
    """A field is missing."""
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def invalid_value(field: str, value: JsonValue, why: str) -> Cause:
    """A field has a value that is not allowed."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_json(value)}: {why}")


def immutable(field: str, value: JsonValue) -> Cause:
    """A field must not change."""
    return invalid_value(field, value, "field is immutable")


def forbidden_field(field: str, why: str) -> Cause:
    """A field must not be set like this now."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def _json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
