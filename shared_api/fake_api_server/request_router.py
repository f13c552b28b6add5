"""Routes an HTTP request to the write path or the read path, and returns the answer.

`parse_target` reads which object a path names; `RequestRouter.answer` processes a request and
returns a complete response, `RequestRouter.open_watch` a stream. Faults, locks, and sockets are
not handled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import msgspec

from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.access_reviews import REVIEW_KINDS, AccessReviews
from shared_api.fake_api_server.api_errors import (
    RequestFailed,
    bad_request,
    method_not_allowed,
    no_such_path,
    not_found,
    qualified,
    unpatchable,
    unsupported_media_type,
)
from shared_api.fake_api_server.custom_resources import (
    CRD_TABLE,
    CUSTOM_RESOURCE_DEFINITIONS,
    resources_of,
)
from shared_api.fake_api_server.discovery_documents import OPENAPI_V2_TYPE, document
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.fake_api_server.list_and_watch import ReadPath
from shared_api.fake_api_server.object_storage import (
    ObjectStorage,
    StoredChange,
    StoredObject,
    Table,
)
from shared_api.fake_api_server.patching import (
    Body,
    JsonValue,
    PatchFailed,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from shared_api.fake_api_server.resource_registry import ResourceRegistry, ServedResource
from shared_api.fake_api_server.response_formats import AnswerWriter, requested_form
from shared_api.fake_api_server.watch_stream import FakeStream
from shared_api.fake_api_server.writes import (
    BodyChange,
    DeleteOptions,
    WriteOptions,
    WritePath,
    stored_form,
)
from shared_api.process.clock import Clock

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
_NAME_AND_SUBRESOURCE: Final = 2
_TRUE: Final = frozenset({"true", "1"})
_HEALTH: Final = frozenset({"/healthz", "/livez", "/readyz"})
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Target(msgspec.Struct, frozen=True):
    """The object or kind that a path names."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_target(path: str) -> Target | None:
    """Return what a path of objects names; None for all other paths."""
    plain = unquote(path) if "%" in path else path
    match plain.strip("/").split("/"):
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", name, sub] if sub in _NAMESPACE_SUBRESOURCES:
            return Target(group, version, "namespaces", "", name, sub)
        case ["namespaces", namespace, plural, *more] if len(more) <= _NAME_AND_SUBRESOURCE:
            return Target(group, version, plural, namespace, *more)
        case [plural, *more] if len(more) <= _NAME_AND_SUBRESOURCE:
            return Target(group, version, plural, "", *more)
        case _:
            return None


class ParsedRequest(msgspec.Struct, frozen=True):
    """A parsed request."""

    request: Request
    info: RequestInfo
    query: Mapping[str, str]
    accept: str
    content_type: str
    target: Target | None


def take_apart(request: Request) -> ParsedRequest:
    """Parse the path, query, and headers of a request."""
    query = dict(request.query)
    headers = {name.lower(): value for name, value in request.headers}
    target = parse_target(request.path)
    verb = _verb(request.method, target, query) if target is not None else ""
    parsed = target or Target("", "", "")
    info = RequestInfo(
        verb=verb,
        path=request.path,
        group=parsed.group,
        plural=parsed.plural,
        namespace=parsed.namespace,
        name=parsed.name,
        subresource=parsed.subresource,
        user_agent=headers.get("user-agent", ""),
    )
    content_type = headers.get("content-type", JSON).partition(";")[0].strip()
    return ParsedRequest(request, info, query, headers.get("accept", JSON), content_type, target)


def _verb(method: str, target: Target, query: Mapping[str, str]) -> str:
    match method:
        case "GET" if target.name:
            return "get"
        case "GET":
            return "watch" if query.get("watch") in _TRUE else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if target.name else "deletecollection"
        case _:
            return method.lower()


class RequestRouter:
    """Answers requests. Not thread-safe: the server's lock guards it."""

    def __init__(
        self,
        storage: ObjectStorage,
        registry: ResourceRegistry,
        writes: WritePath,
        reads: ReadPath,
        clock: Clock,
    ) -> None:
        self.reviews = AccessReviews()
        self._storage = storage
        self._registry = registry
        self._writes = writes
        self._reads = reads
        self._clock = clock
        for resource in (CUSTOM_RESOURCE_DEFINITIONS, *REVIEW_KINDS):
            registry.add(resource)
        storage.observers.append(self._on_change)

    # ---------------------------------------------------------------------- the two ways in

    def answer(self, parsed: ParsedRequest) -> Response:
        """Process a request and return the answer, including refusals."""
        try:
            return self._answer(parsed)
        except RequestFailed as refused:
            return refusal(refused)

    def open_watch(
        self, parsed: ParsedRequest, on_close: Callable[[FakeStream], None]
    ) -> FakeStream:
        """Open a watch; `on_close` is called once with the stream when it is over.

        Raises:
            RequestFailed: The watch is refused before it starts.
        """
        resource = self._resource(parsed)
        writer = self._writer(resource, parsed)
        return self._reads.watch(resource, parsed.info, parsed.query, writer, on_close)

    def _answer(self, parsed: ParsedRequest) -> Response:
        path = parsed.request.path
        if parsed.request.method == "GET":
            if path.partition("/verbose")[0] in _HEALTH:
                return Response(HTTPStatus.OK, {"content-type": "text/plain"}, b"ok")
            if path == "/openapi/v2":
                return Response(HTTPStatus.OK, {"content-type": OPENAPI_V2_TYPE}, b"")
            found = document(path, self._registry)
            if found is not None:
                return _json(HTTPStatus.OK, _encode(found))
        if parsed.target is None:
            return _page_not_found()
        if not self._registry.has_version(parsed.target.group, parsed.target.version):
            return _page_not_found()
        resource = self._resource(parsed)
        if parsed.target.subresource not in {"", "status"}:
            raise not_found(resource, parsed.target.name)
        if parsed.target.subresource == "status" and not resource.has_status:
            raise no_such_path()
        return self._carry_out(resource, parsed)

    def _carry_out(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        match parsed.info.verb:
            case "get":
                key = (parsed.info.namespace, parsed.info.name)
                return self._object(resource, parsed, self._reads.get(resource, key))
            case "list":
                page = self._reads.list_page(resource, parsed.info.namespace, parsed.query)
                return _json(HTTPStatus.OK, self._writer(resource, parsed).page(page))
            case "create":
                return self._create(resource, parsed)
            case "update":
                return self._update(resource, parsed)
            case "patch":
                return self._patch(resource, parsed)
            case "delete":
                return self._delete(resource, parsed)
            case "deletecollection":
                return self._delete_all(resource, parsed)
            case _:
                raise method_not_allowed()

    # ------------------------------------------------------------------------------ writes

    def _create(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        if parsed.info.name:
            raise method_not_allowed()
        if parsed.content_type != JSON:
            raise unsupported_media_type([JSON], parsed.content_type)
        body = _object_body(parsed.request.body)
        if resource in REVIEW_KINDS:
            return _json(HTTPStatus.CREATED, _encode(self.reviews.answer(resource, body)))
        options = _write_options(parsed.query)
        stored = self._writes.create(resource, parsed.info.namespace, body, options)
        return self._object(resource, parsed, stored, HTTPStatus.CREATED)

    def _update(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        if parsed.content_type != JSON:
            raise unsupported_media_type([JSON], parsed.content_type)
        body = _object_body(parsed.request.body)
        stored = self._writes.update(
            resource,
            (parsed.info.namespace, parsed.info.name),
            lambda _old: stored_form(resource, body),
            _write_options(parsed.query),
            is_status=parsed.info.subresource == "status",
            is_patch=False,
        )
        return self._object(resource, parsed, stored)

    def _patch(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        stored = self._writes.update(
            resource,
            (parsed.info.namespace, parsed.info.name),
            _patcher(resource, parsed.content_type, parsed.request.body),
            _write_options(parsed.query),
            is_status=parsed.info.subresource == "status",
        )
        return self._object(resource, parsed, stored)

    def _delete(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        options = _delete_options(parsed)
        deleted = self._writes.delete(resource, (parsed.info.namespace, parsed.info.name), options)
        if not deleted.is_gone or resource.graceful:
            return self._object(resource, parsed, deleted.object)
        details: Body = {"name": parsed.info.name, "group": resource.group, "kind": resource.plural}
        details = {key: value for key, value in details.items() if value}
        details["uid"] = deleted.object.body["metadata"]["uid"]
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return _json(HTTPStatus.OK, _encode({**status, "details": details}))

    def _delete_all(self, resource: ServedResource, parsed: ParsedRequest) -> Response:
        options = _delete_options(parsed)
        page = self._reads.list_page(resource, parsed.info.namespace, parsed.query)
        for stored in page.objects:
            self._writes.delete(resource, stored.key, options)
        return _json(HTTPStatus.OK, self._writer(resource, parsed).page(page))

    # ----------------------------------------------------------------------------- private

    def _resource(self, parsed: ParsedRequest) -> ServedResource:
        target = parsed.target
        if target is None:
            raise no_such_path()
        resource = self._registry.at(target.group, target.version, target.plural)
        if resource is None:
            raise no_such_path()
        if parsed.info.verb not in resource.verbs:
            raise method_not_allowed()
        # A write of a namespaced kind needs a namespace, and one of a cluster-scoped kind has none.
        if bool(target.namespace) != resource.namespaced and (target.namespace or target.name):
            raise no_such_path()
        if resource.namespaced and not target.namespace and parsed.info.verb == "create":
            raise method_not_allowed()
        return resource

    def _writer(self, resource: ServedResource, parsed: ParsedRequest) -> AnswerWriter:
        form = requested_form(parsed.accept)
        include = parsed.query.get("includeObject", "")
        return AnswerWriter(resource, form, include, self._now())

    def _object(
        self,
        resource: ServedResource,
        parsed: ParsedRequest,
        stored: StoredObject,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        if parsed.accept == JSON:
            return _json(status, resource.object_json(stored))
        return _json(status, self._writer(resource, parsed).one(stored))

    def _now(self) -> datetime:
        return self._clock.now()

    def _on_change(self, table: Table, change: StoredChange) -> None:
        """Serve the kinds of a CRD as soon as it is stored."""
        if table.key != CRD_TABLE:
            return
        spec = change.current.body["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self._registry.remove(group, plural)
        if change.type == "DELETED":
            self._storage.drop_table((group, plural))
            return
        for resource in resources_of(change.current.body):
            self._registry.add(resource)


def refusal(refused: RequestFailed) -> Response:
    """Return the response for a refusal."""
    headers = {"content-type": JSON}
    if refused.retry_after_seconds is not None:
        headers["retry-after"] = str(refused.retry_after_seconds)
    return Response(refused.code, headers, _encode(refused.status()))


def _json(status: int, body: bytes) -> Response:
    return Response(status, {"content-type": JSON}, body)


def _page_not_found() -> Response:
    headers = {"content-type": "text/plain; charset=utf-8"}
    return Response(HTTPStatus.NOT_FOUND, headers, b"404 page not found\n")


def _json_value(body: bytes) -> JsonValue:
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error


def _object_body(body: bytes) -> Body:
    value = _json_value(body)
    if not isinstance(value, dict):
        raise bad_request("the object provided is unrecognized: not a JSON object")
    return value


def _patcher(resource: ServedResource, content_type: str, body: bytes) -> BodyChange:
    """Return a function from the stored body to the wanted one."""
    accepted = [JSON_PATCH, MERGE_PATCH]
    if resource.strategic:
        accepted.append(STRATEGIC_PATCH)
    if content_type not in accepted:
        raise unsupported_media_type(accepted, content_type)
    patch = _json_value(body)
    wanted_type = list if content_type == JSON_PATCH else dict
    if not isinstance(patch, wanted_type):
        raise bad_request(f"error decoding patch: json: cannot unmarshal into {wanted_type}")

    def change(old: Body) -> Body:
        shown = old if resource.to_wire is None else resource.to_wire(old)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **shown}
        return stored_form(resource, _patched(whole, content_type, patch))

    return change


def _patched(whole: Body, content_type: str, patch: JsonValue) -> JsonValue:
    if content_type == MERGE_PATCH:
        return merge_patch(whole, patch)
    if content_type == STRATEGIC_PATCH:
        return strategic_merge_patch(whole, patch)
    try:
        return json_patch(whole, patch)
    except PatchFailed as error:
        raise unpatchable() from error


def _write_options(query: Mapping[str, str]) -> WriteOptions:
    return WriteOptions(
        dry_run=_is_dry_run(query.get("dryRun", "")),
        strict=query.get("fieldValidation") == "Strict",
    )


def _is_dry_run(text: str) -> bool:
    if text not in {"", "All"}:
        raise bad_request(f'dryRun: Unsupported value: "{text}": supported values: "All"')
    return bool(text)


def _delete_options(parsed: ParsedRequest) -> DeleteOptions:
    """Return the options in the body, or else in the query."""
    body = _object_body(parsed.request.body) if parsed.request.body else {}
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None and parsed.query.get("gracePeriodSeconds", "").isdecimal():
        grace = int(parsed.query["gracePeriodSeconds"])
    dry_run = parsed.query.get("dryRun") or "".join(body.get("dryRun") or ())
    propagation = body.get("propagationPolicy") or parsed.query.get("propagationPolicy", "")
    if propagation not in {"", "Background", "Foreground", "Orphan"}:
        where = qualified(parsed.info.plural, parsed.info.group)
        raise bad_request(f'{where}: propagationPolicy: Unsupported value: "{propagation}"')
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=propagation,
        grace_seconds=grace,
        dry_run=_is_dry_run(dry_run),
    )
