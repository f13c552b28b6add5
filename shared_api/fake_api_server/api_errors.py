"""Refusals of the fake API server, with the texts and reasons of the real one.

A `RequestFailed` is raised where a request is refused, and the router answers with its `Status`
object. The texts are those of kube-apiserver 1.36.3; `details.causes` has the path of each invalid
field.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from shared_api.fake_api_server.patching import Body, JsonValue


class NamedResource(Protocol):
    """What an error text needs to know of a kind."""

    @property
    def group(self) -> str:
        """API group, "" for the core group."""

    @property
    def plural(self) -> str:
        """The plural, as in paths."""

    @property
    def kind(self) -> str:
        """The kind, as in objects."""


class Cause(msgspec.Struct, frozen=True):
    """One reason why an object is invalid."""

    field: str
    """The path, such as "spec.podSet[0].count"."""
    reason: str
    """FieldValueRequired, FieldValueInvalid, ..."""
    message: str


class RequestFailed(Exception):
    """The request is refused.

    Attributes:
        code: the HTTP status.
        reason: `reason` of the `Status` object, "" for none.
        message: `message` of the `Status` object.
        details: `details` of the `Status` object, None for none.
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
        """Return the `Status` object."""
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
    """Return `details` that name one object; `kind` defaults to the plural."""
    details: Body = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: NamedResource, name: str) -> RequestFailed:
    """Return a 404 for an object."""
    where = qualified(resource.plural, resource.group)
    return RequestFailed(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{where} "{name}" not found',
        details=named_details(resource, name),
    )


def no_such_path() -> RequestFailed:
    """Return a 404 for a path under which nothing is served."""
    return RequestFailed(
        HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource"
    )


def already_exists(resource: NamedResource, name: str) -> RequestFailed:
    """Return a 409 for creating an object under a name that is taken."""
    where = qualified(resource.plural, resource.group)
    return RequestFailed(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{where} "{name}" already exists',
        details=named_details(resource, name),
    )


def conflict(resource: NamedResource, name: str, why: str = "") -> RequestFailed:
    """Return a 409 for a version or uid that does not match; `why` defaults to the usual text."""
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
    """Return a 409 for a delete whose preconditions fail, with the kind, as the real server."""
    where = qualified(resource.kind, resource.group)
    return RequestFailed(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {where} "{name}": {why}',
        details=named_details(resource, name, kind=resource.kind),
    )


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> RequestFailed:
    """Return a 422 with all causes."""
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
    """Return a 400."""
    return RequestFailed(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def unpatchable() -> RequestFailed:
    """Return a 422 for a JSON patch that does not apply, without details, as the real server."""
    return RequestFailed(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        "the server rejected our request due to an error in our request",
        details={},
    )


def expired(message: str) -> RequestFailed:
    """Return a 410: the version or continue token is older than the history."""
    return RequestFailed(HTTPStatus.GONE, "Expired", message)


def forbidden(resource: NamedResource, name: str, why: str, cause: Cause | None) -> RequestFailed:
    """Return a 403 for an object."""
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
    """Return a 405."""
    return RequestFailed(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    )


PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
"""The format in which kubectl sends built-in kinds that it builds (`create job`, `auth can-i`)."""

_WITHOUT_PROTOBUF: Final = (
    ". This server reads no protobuf. Have kubectl write the object, and apply it:"
    " kubectl create ... --dry-run=client -o yaml | kubectl apply -f -"
)


def unsupported_media_type(accepted: Sequence[str], sent: str) -> RequestFailed:
    """Return a 415 for a body in an unsupported format; for protobuf, it states the workaround."""
    return RequestFailed(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
        + (_WITHOUT_PROTOBUF if sent == PROTOBUF else ""),
    )


def version_too_large(requested: int, current: int) -> RequestFailed:
    """Return a 504: the requested version does not exist yet."""
    return RequestFailed(
        HTTPStatus.GATEWAY_TIMEOUT,
        "Timeout",
        f"Timeout: Too large resource version: {requested}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )


def required(field: str, why: str = "") -> Cause:
    """Return the cause for a missing field."""
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def invalid_value(field: str, value: JsonValue, why: str) -> Cause:
    """Return the cause for a value that is not allowed."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {_json(value)}: {why}")


def immutable(field: str, value: JsonValue) -> Cause:
    """Return the cause for a change of an immutable field."""
    return invalid_value(field, value, "field is immutable")


def forbidden_field(field: str, why: str) -> Cause:
    """Return the cause for a field that must not be set in this state."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def _json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
