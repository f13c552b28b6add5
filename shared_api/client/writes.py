"""Writes as values, their possible outcomes, and how two writes are merged. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import msgspec

from shared_api.client.errors import ApiError, ApiFailure, ServerError
from shared_api.client.flow_control import Lane, is_surely_not_done
from shared_api.client.resource_client import ResourceType

if TYPE_CHECKING:
    from shared_api.objects.meta import ObjectMeta, Uid

T = TypeVar("T")


class Verb(Enum):
    """What a write does."""

    CREATE = "create"
    PATCH = "patch"
    DELETE = "delete"


class Write(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A write to be sent; a merge patch unless the verb says otherwise."""

    resource_type: ResourceType[T]
    namespace: str
    name: str
    body: Mapping[str, Any] = {}
    verb: Verb = Verb.PATCH
    subresource: str = ""
    lane: Lane = Lane.NORMAL
    uid: Uid | None = None
    """Precondition of a DELETE: the object has this uid. None: any object of the name."""


class Written(msgspec.Struct, Generic[T], frozen=True):
    """The write was carried out."""

    object: T
    """The object after the write; None after a DELETE."""


class Rejected(msgspec.Struct, frozen=True):
    """The server refused. With `error.after_retry`, read the object before deciding."""

    error: ApiError


class Unknown(msgspec.Struct, frozen=True):
    """The write may have been carried out; read the object."""

    failure: ApiFailure


class Dropped(msgspec.Struct, frozen=True):
    """The write was certainly not carried out."""

    reason: str
    retry_after_seconds: float = 0.0
    """If submitted again sooner, it would be dropped again."""


Outcome = Written[T] | Rejected | Unknown | Dropped


class WriteSink(Protocol):
    """Takes writes to be sent (`WriteDispatcher`)."""

    def submit(self, write: Write[Any], on_outcome: Callable[[Outcome[Any]], None]) -> None:
        """Send a write later; call `on_outcome` exactly once with its outcome."""


_ABSENT: Final = object()


def status_report(
    resource_type: ResourceType[T], namespace: str, name: str, body: Mapping[str, Any]
) -> Write[T]:
    """Return a patch of a status that only informs: it yields to writes that decide."""
    return Write(
        resource_type=resource_type,
        namespace=namespace,
        name=name,
        body=body,
        subresource="status",
        lane=Lane.LOW,
    )


def status_change(
    resource_type: ResourceType[T], meta: ObjectMeta, status: Mapping[str, Any]
) -> Write[T]:
    """Return a patch of a status, guarded by the version of the object that it is based on."""
    return Write(
        resource_type=resource_type,
        namespace=meta.namespace,
        name=meta.name,
        body={"metadata": {"resourceVersion": meta.resource_version}, "status": status},
        subresource="status",
    )


def outcome_of(failure: ApiFailure) -> Outcome[Any]:
    """Return the outcome of a write that failed with this error."""
    if is_surely_not_done(failure):
        return Dropped(str(failure), failure.retry_after_seconds)
    # A 5xx does not mean that the server refused the write, so it is not a rejection.
    if isinstance(failure, ApiError) and not isinstance(failure, ServerError):
        return Rejected(failure)
    return Unknown(failure)


def _is_same_patch(one: Write[Any], other: Write[Any]) -> bool:
    both_patch = one.verb is Verb.PATCH and other.verb is Verb.PATCH
    return both_patch and one.subresource == other.subresource


def is_pointless_beside(new: Write[Any], waiting: Write[Any]) -> bool:
    """Return whether a new low patch need not be sent because a normal one of the object waits."""
    lanes = (new.lane, waiting.lane)
    return lanes == (Lane.LOW, Lane.NORMAL) and _is_same_patch(new, waiting)


def supersedes(new: Write[Any], waiting: Write[Any]) -> bool:
    """Return whether a new patch makes a waiting low one pointless.

    A normal patch always does. A low one does if it is based on a newer version of the object: the
    older one would only end in a conflict.
    """
    if waiting.lane is not Lane.LOW or not _is_same_patch(new, waiting):
        return False
    return new.lane is Lane.NORMAL or _guards_of(new) != _guards_of(waiting)


def merge(waiting: Write[Any], new: Write[Any]) -> Write[Any] | None:
    """Return one write that does what `waiting` and then `new` would do; None if there is none.

    There is none if they expect different versions: under the newer guard the older patch would
    change an object that its author has never seen. There is none if two decisions on one version
    contradict each other: the newer one must end in a conflict with the older, as it would if that
    had been sent already. Of two patches that only inform, the newer one replaces the older.
    """
    if waiting.lane is not new.lane or not _is_same_patch(waiting, new):
        return None
    guards = _guards_of(new)
    if _guards_of(waiting) != guards:
        return None
    is_decided = new.lane is Lane.NORMAL and bool(guards[0])
    if is_decided and contradict(waiting.body, new.body):
        return None
    body = combine_patches(waiting.body, new.body)
    return None if body is None else msgspec.structs.replace(new, body=body)


def _guards_of(write: Write[Any]) -> tuple[str, str]:
    """Return the resourceVersion and the uid that a patch expects; "" for any."""
    metadata = write.body.get("metadata", {})
    return metadata.get("resourceVersion", ""), metadata.get("uid", "")


def contradict(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two merge patches set some field to different values.

    A list counts as one value: to change one item is to write all of them.
    """
    for key in one.keys() & other.keys():
        left, right = one[key], other[key]
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if contradict(left, right):
                return True
        elif left != right:
            return True
    return False


def combine_patches(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return one merge patch that does what `old` and then `new` would do; None if there is none.

    There is none if `old` replaces a whole value (by null, a text, a list) into which `new` then
    merges.

    Source: RFC 7386.
    """
    merged = dict(old)
    for key, value in new.items():
        before = merged.get(key, _ABSENT)
        if isinstance(value, Mapping) and before is not _ABSENT:
            if not isinstance(before, Mapping):
                return None
            inner = combine_patches(before, value)
            if inner is None:
                return None
            merged[key] = inner
        else:
            merged[key] = value
    return merged
