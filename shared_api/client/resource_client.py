"""Get, list, watch, create, patch and delete of any kind, through flow control and transport.

Reads are retried if they fail for a temporary reason. Writes are retried if the server certainly
has not acted, or if a guard (`metadata.resourceVersion`, a uid as precondition) makes a repetition
harmless; an unknown outcome is reported as such, and `after_retry` marks an answer that may result
from an earlier try.

One time limit covers a whole call: waiting for its turn, all tries, and the pauses between them.
For a write it is at most `WRITE_SECONDS`, so a caller that starts one with that much of a lease
left knows that no try is made after the lease. The server is given the same limit.

A 429 with `Retry-After` holds every request of its lane (`flow_control`), of all clients that share
the flow control. One that answers a list or watch does not: it may be about this one resource,
whose cache the server is still filling, and must not delay other resources. Lists and watches pause
by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from shared_api.client.errors import (
    ApiError,
    ConnectionLost,
    DecodeFailure,
    NotFound,
    Timeout,
    TooManyRequests,
    error_of,
)
from shared_api.client.flow_control import FlowControl, Lane, may_have_acted, retry_pause
from shared_api.client.response_decoding import (
    AnswerReader,
    Page,
    WatchEvent,
    WatchEventType,
    WatchStream,
)
from shared_api.client.transport import Request, Response, ResponseStream, Transport

if TYPE_CHECKING:
    from shared_api.objects.meta import ObjectMeta, Uid
    from shared_api.process.clock import Clock

__all__ = [
    "DecodeFailure",
    "Lane",
    "Page",
    "PatchType",
    "RequestObserver",
    "ResourceClient",
    "ResourceType",
    "WatchEvent",
    "WatchEventType",
    "WatchStream",
]

T = TypeVar("T")
_Answer = TypeVar("_Answer", Response, ResponseStream)

WRITE_SECONDS: Final = 4.0
"""Time limit of a write with all its tries: a new leader waits that long for the last write of its
predecessor."""
READ_SECONDS: Final = 30.0
"""Time limit of a get or a page of a list with all its tries."""
MIN_TRY_SECONDS: Final = 0.1
"""The least time left for another try."""
PAGE_LIMIT: Final = 500
"""Objects per page of a list; client-go's pager and kubectl use the same."""
MAX_ERROR_LINES: Final = 100
"""Most lines that are read of an error that answers a watch."""
DRY_RUN: Final = "dry-run"
"""The verb of a create that stores nothing, for the observer: a refusal of it is an answer."""
_FIRST_ERROR_STATUS: Final = 400
_encoder: Final = msgspec.json.Encoder()


_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST: Final = _METADATA.replace("Metadata;", "MetadataList;")
"""A server that does not support this form (an aggregated API, perhaps) sends whole objects."""


class ResourceType(msgspec.Struct, Generic[T], frozen=True):
    """A kind of object, where it is served, and the struct that its objects are decoded into."""

    group: str
    """API group; "" for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    object_type: type[T]
    salvage: Callable[[Any, str], T] | None = None
    """Makes an object from JSON that cannot be decoded as it is, and the error; raises msgspec's
    error if it cannot. None: not supported."""
    only_metadata: bool = False
    """Whether reads request only metadata (PartialObjectMetadata)."""

    @property
    def api_version(self) -> str:
        """Group and version as in manifests: "v1", "batch/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path of a collection, of one of its objects, or of a subresource.

        The namespace "" means the collection over all namespaces, or a cluster-scoped kind.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{_escape(namespace)}" if namespace and self.namespaced else ""
        rest = f"/{_escape(name)}" if name else ""
        if subresource:
            rest = f"{rest}/{_escape(subresource)}"
        return f"{root}{scope}/{self.plural}{rest}"


_APPLIED_BY_FORCE: Final = (("fieldManager", "koord-queue"), ("force", "true"))


class PatchType(Enum):
    """How the body of a patch is applied; the value is its media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    """For built-in kinds only: items of lists are identified by a key."""
    APPLY = "application/apply-patch+yaml"
    """Server-side apply, which creates what is missing; fields of other managers are taken over."""


class RequestObserver(Protocol):
    """Counts requests, for metrics. Called on the requesting thread, after each try."""

    def on_request(self, *, verb: str, method: str, host: str, code: str, seconds: float) -> None:
        """Count one request; `code` is its status code, or "<error>" if there was no answer."""


class _Call(msgspec.Struct, frozen=True):
    """One request, and how it may be retried."""

    verb: str
    request: Request
    seconds: float
    lane: Lane = Lane.NORMAL
    is_write: bool = False
    harmless: bool = True
    """Whether sending it twice does no harm."""


class ResourceClient:
    """Reads and writes objects of the API server. Used from many threads at once."""

    def __init__(  # noqa: PLR0913 - collaborators and settings, each by its name
        self,
        transport: Transport,
        *,
        flow: FlowControl,
        clock: Clock,
        rng: random.Random,
        request_timeout_seconds: float = READ_SECONDS,
        user_agent: str = "koord-queue",
        host: str = "",
        observer: RequestObserver | None = None,
    ) -> None:
        """Make a client.

        Args:
            transport: Sends the requests.
            flow: Limits their rate; shared by all clients of a process.
            clock: The time, for limits and pauses.
            rng: Source of the jitter of pauses.
            request_timeout_seconds: Time limit of a read with all its tries. A write has less.
            user_agent: Sent to the server; the part before "/" is the field manager.
            host: Name of the server, for the observer.
            observer: Counts requests; None if they are not counted.
        """
        self._transport = transport
        self._flow = flow
        self._clock = clock
        self._rng = rng
        self._read_seconds = request_timeout_seconds
        self._write_seconds = min(WRITE_SECONDS, request_timeout_seconds)
        self._headers = (("Accept", "application/json"), ("User-Agent", user_agent))
        self._metadata_headers = (("Accept", _METADATA), self._headers[1])
        self._metadata_list_headers = (("Accept", _METADATA_LIST), self._headers[1])
        self._host = host
        self._observer = observer
        # Filled on first use. Two threads at once may make two equal readers; either may be kept.
        self._readers: dict[type[Any], AnswerReader[Any]] = {}

    # ------------------------------------------------------------------------------- reads

    def get(self, resource_type: ResourceType[T], namespace: str, name: str) -> T:
        """Return one object in its current state.

        Raises:
            ApiError: NotFound and others.
            ConnectionLost: There was no answer.
            UndecodableObject: The object does not fit the struct.
        """
        headers = self._metadata_headers if resource_type.only_metadata else self._headers
        request = Request("GET", resource_type.path(namespace, name), (), headers)
        response = self._run(_Call("get", request, self._read_seconds))
        return self._reader(resource_type).read_object(response.body)

    def get_raw(self, path: str) -> bytes:
        """Return the body of the answer for any other path: discovery, /version.

        Raises:
            ApiFailure: As `get`.
        """
        request = Request("GET", path, (), self._headers)
        return self._run(_Call("get", request, self._read_seconds)).body

    def list_page(
        self,
        resource_type: ResourceType[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_LIMIT,
        continue_token: str = "",
        lane: Lane = Lane.NORMAL,
    ) -> Page[T]:
        """Return one page of a list of the most recent state.

        Args:
            resource_type: What to list.
            namespace: "" for all.
            label_selector: As in kubectl.
            field_selector: As in kubectl.
            limit: Objects per page; 0 for all.
            continue_token: The one of the previous page; all pages are of one version.
            lane: Whose budget is charged.

        Raises:
            Gone: The continue token has expired.
            ApiFailure: As `get`.
            MalformedAnswer: The answer is not a list. Objects that do not fit their struct raise
                nothing.
        """
        query = _query(
            labelSelector=label_selector,
            fieldSelector=field_selector,
            limit=str(limit) if limit else "",
            **{"continue": continue_token},
        )
        headers = self._metadata_list_headers if resource_type.only_metadata else self._headers
        request = Request("GET", resource_type.path(namespace), query, headers)
        response = self._run(_Call("list", request, self._read_seconds, lane))
        return self._reader(resource_type).read_page(response.body)

    def watch(
        self,
        resource_type: ResourceType[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: int = 300,
    ) -> WatchStream[T]:
        """Open a watch, with bookmarks, of the changes after a version. It is tried once.

        Args:
            resource_type: What to watch.
            namespace: "" for all.
            label_selector: As in kubectl.
            field_selector: As in kubectl.
            resource_version: The version after which to begin.
            timeout_seconds: After how long the server should end the watch.

        Raises:
            Gone: The version is too old.
            ApiFailure: As `get`.
        """
        query = _query(
            watch="true",
            allowWatchBookmarks="true",
            labelSelector=label_selector,
            fieldSelector=field_selector,
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_seconds),
        )
        headers = self._metadata_headers if resource_type.only_metadata else self._headers
        request = Request("GET", resource_type.path(namespace), query, headers)
        call = _Call("watch", request, self._read_seconds)
        self._wait_for_turn(call, call.seconds)
        stream = self._observed(call, lambda: self._transport.stream(request, self._read_seconds))
        if stream.status < _FIRST_ERROR_STATUS:
            return WatchStream(stream, self._reader(resource_type))
        try:
            raise error_of(stream.status, stream.headers, _read_rest(stream, self._read_seconds))
        finally:
            stream.close()

    # ------------------------------------------------------------------------------ writes

    def create(
        self,
        resource_type: ResourceType[T],
        namespace: str,
        body: Mapping[str, Any],
        *,
        lane: Lane = Lane.NORMAL,
        dry_run: bool = False,
    ) -> T:
        """Create an object and return it as the server stored it.

        With `dry_run` the server does everything but store it, so it can be repeated safely.

        Raises:
            AlreadyExists: The name is taken.
            ApiError: The server refuses.
            ConnectionLost: `sent` says whether the object may exist all the same.
            UndecodableObject: It was created, but does not fit the struct.
        """
        path = resource_type.path(namespace)
        query = (("dryRun", "All"),) if dry_run else ()
        verb = DRY_RUN if dry_run else "create"
        response = self._write(verb, "POST", path, body, "application/json", lane=lane, query=query)
        return self._reader(resource_type).read_object(response.body)

    def patch(
        self,
        resource_type: ResourceType[T],
        namespace: str,
        name: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.MERGE,
        lane: Lane = Lane.NORMAL,
    ) -> T:
        """Patch an object and return its new state.

        Raises:
            Conflict: The resourceVersion in the patch is not the newest.
            Invalid: The schema, a wrong uid, or a failed test of a JSON patch.
            ApiError: The server refuses for another reason. With `after_retry`, read the object
                before deciding.
            ConnectionLost: `sent` says whether the patch may be in effect all the same.
            UndecodableObject: It was patched, but does not fit the struct.
        """
        path = resource_type.path(namespace, name, subresource)
        query = _APPLIED_BY_FORCE if patch_type is PatchType.APPLY else ()
        response = self._write(
            "patch", "PATCH", path, body, patch_type.value, lane=lane, query=query
        )
        return self._reader(resource_type).read_object(response.body)

    def delete(
        self,
        resource_type: ResourceType[T],
        namespace: str,
        name: str,
        *,
        uid: Uid | None = None,
        version: str | None = None,
        propagation: str | None = None,
        lane: Lane = Lane.NORMAL,
    ) -> None:
        """Delete an object; if it has finalizers, it is removed later.

        Args:
            resource_type: Its kind.
            namespace: "" for a cluster-scoped kind.
            name: Name of the object.
            uid: Precondition: the object has this uid; None for any.
            version: Precondition: the object has this resourceVersion; None for any.
            propagation: "Foreground", "Background", "Orphan"; None: the kind's default.
            lane: Whose budget is charged.

        Raises:
            NotFound: There is no such object.
            Conflict: A precondition does not hold.
            ApiError: The server refuses.
            ConnectionLost: `sent` says whether it may be deleted all the same.
        """
        options: dict[str, Any] = {"propagationPolicy": propagation} if propagation else {}
        expected = {"uid": uid, "resourceVersion": version}
        if any(expected.values()):
            options["preconditions"] = {key: each for key, each in expected.items() if each}
        self._delete(resource_type.path(namespace, name), options, lane)

    def delete_at_once(self, resource_type: ResourceType[T], meta: ObjectMeta) -> None:
        """Delete this very version of a pod, without waiting until its node has ended it.

        Args:
            resource_type: Pods.
            meta: Its metadata.

        Raises:
            NotFound: It does not exist.
            Conflict: It has changed.
            ApiError: The server refuses.
            ConnectionLost: `sent` says whether it may be deleted all the same.
        """
        expected = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        options = {"gracePeriodSeconds": 0, "preconditions": expected}
        self._delete(resource_type.path(meta.namespace, meta.name), options, Lane.NORMAL)

    def _delete(self, path: str, options: Mapping[str, Any], lane: Lane) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            self._write("delete", "DELETE", path, options, "application/json", lane=lane)
        except NotFound as gone:
            if not gone.after_retry:  # otherwise an earlier try of this call may have deleted it
                raise

    def _write(
        self,
        verb: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        media_type: str,
        *,
        lane: Lane,
        query: tuple[tuple[str, str], ...] = (),
    ) -> Response:
        headers = (*self._headers, ("Content-Type", media_type))
        request = Request(method, path, query, headers, _encoder.encode(body))
        call = _Call(
            verb,
            request,
            self._write_seconds,
            lane,
            is_write=True,
            harmless=bool(query) or is_guarded(verb, body),
        )
        return self._run(call)

    # --------------------------------------------------------------------------- the tries

    def _run(self, call: _Call) -> Response:
        """Send until there is a final answer, or no try is left."""
        deadline = self._clock.monotonic() + call.seconds
        in_doubt = False  # an earlier try of this write may have been carried out
        for attempt in count():
            try:
                return self._try(call, deadline)
            except (ApiError, ConnectionLost) as failure:
                pause = retry_pause(failure, attempt, harmless=call.harmless, rng=self._rng)
                if pause is None or self._seconds_until(deadline) < pause + MIN_TRY_SECONDS:
                    failure.after_retry = in_doubt
                    if isinstance(failure, ConnectionLost):
                        failure.sent |= in_doubt
                    raise
                in_doubt |= call.is_write and may_have_acted(failure)
            self._clock.sleep(pause)
        raise AssertionError("the loop ends by returning or raising")

    def _try(self, call: _Call, deadline: float) -> Response:
        self._wait_for_turn(call, self._seconds_until(deadline))
        seconds = self._seconds_until(deadline)
        if seconds <= 0:  # the machine or this process was suspended: too late for a write
            raise Timeout("time was up before the request was sent", sent=False)
        request = call.request
        if call.is_write:
            limit = ("timeout", f"{max(1, int(seconds * 1000))}ms")
            request = msgspec.structs.replace(request, query=(*request.query, limit))
        response = self._observed(call, lambda: self._transport.send(request, seconds))
        if response.status >= _FIRST_ERROR_STATUS:
            error = error_of(response.status, response.headers, response.body)
            if isinstance(error, TooManyRequests) and call.verb != "list":
                self._flow.hold(call.lane, error.retry_after_seconds)
            raise error
        return response

    def _wait_for_turn(self, call: _Call, limit_seconds: float) -> None:
        if not self._flow.acquire(call.lane, limit_seconds - MIN_TRY_SECONDS):
            raise Timeout(
                f"no turn in the {call.lane.value} lane within the time",
                sent=False,
                retry_after_seconds=self._flow.seconds_until(call.lane),
            )

    def _seconds_until(self, deadline: float) -> float:
        return deadline - self._clock.monotonic()

    def _observed(self, call: _Call, send: Callable[[], _Answer]) -> _Answer:
        if self._observer is None:
            return send()
        sent_at = self._clock.monotonic()
        code = "<error>"
        try:
            answer = send()
            code = str(answer.status)
            return answer
        finally:
            self._observer.on_request(
                verb=call.verb,
                method=call.request.method,
                host=self._host,
                code=code,
                seconds=self._clock.monotonic() - sent_at,
            )

    def _reader(self, resource_type: ResourceType[T]) -> AnswerReader[T]:
        reader = self._readers.get(resource_type.object_type)
        if reader is None:
            reader = AnswerReader(resource_type.object_type, resource_type.salvage)
            self._readers[resource_type.object_type] = reader
        return reader


def is_guarded(verb: str, body: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a write states the version that it expects, so that repeating it is harmless.

    A uid alone guards a deletion, which happens only once. It does not guard a patch: between two
    tries of "resume this job" a user may have suspended it.
    """
    if isinstance(body, Mapping):
        part = "preconditions" if verb == "delete" else "metadata"
        key = "uid" if verb == "delete" else "resourceVersion"
        return verb != "create" and bool(body.get(part, {}).get(key))
    return any(
        step.get("op") == "test" and step.get("path") == "/metadata/resourceVersion"
        for step in body
    )


def _read_rest(stream: ResponseStream, seconds: float) -> bytes:
    lines: list[bytes] = []
    while len(lines) < MAX_ERROR_LINES and (line := stream.read_line(seconds)) is not None:
        lines.append(line)
    return b"\n".join(lines)


def _query(**parameters: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in parameters.items() if value)


def _escape(part: str) -> str:
    return quote(part, safe="")
