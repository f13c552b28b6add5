"""Discovers which kinds the API server has.

That a kind is missing is an answer: its CRD is not installed. That the server is down or refuses
the request is a failure, and nothing is known. The caller decides whether to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from shared_api.client.errors import ApiFailure, MalformedAnswer, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.process.clock import Clock

T = TypeVar("T")

PROBE_SECONDS: Final = 5.0
"""How long an answer about a kind that may be missing is reused."""


class RawReader(Protocol):
    """The part of `ResourceClient` that discovery uses."""

    def get_raw(self, path: str) -> bytes:
        """Return the body of the answer for a path; raises ApiFailure."""


class ServedKind(msgspec.Struct, frozen=True):
    """A kind of a group and version."""

    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()


class _Resource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Resource, ...] | None = None


_resource_list: Final = msgspec.json.Decoder(_ResourceList)


def served_kinds(client: RawReader, group: str, version: str) -> dict[str, ServedKind]:
    """Return the kinds of a group and version that the server has, by plural name.

    Empty if the server does not know the group or version: no CRD of it is installed.

    Raises:
        ApiFailure: The server could not be asked, so it is unknown which kinds it has.
    """
    try:
        body = client.get_raw(f"/apis/{group}/{version}" if group else f"/api/{version}")
    except NotFound:
        return {}
    try:
        resources = _resource_list.decode(body).resources or ()
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise MalformedAnswer(f"the answer to discovery cannot be read: {error}") from error
    return {
        each.name: ServedKind(
            each.kind, each.name, each.namespaced, each.verbs, _subresources(each.name, resources)
        )
        for each in resources
        if "/" not in each.name
    }


def is_served(client: RawReader, group: str, version: str, plural: str) -> bool:
    """Return whether the server has this resource.

    Raises:
        ApiFailure: The server could not be asked.
    """
    return plural in served_kinds(client, group, version)


def served_version(
    client: RawReader, versions: Sequence[ResourceType[T]]
) -> ResourceType[T] | None:
    """Return the first of the versions of a kind that the server has; None if it has none.

    Args:
        client: Queried once for each version until one is served.
        versions: The versions of one kind that can be decoded, the preferred one first.

    Raises:
        ApiFailure: The server could not be asked.
    """
    for each in versions:
        if is_served(client, each.group, each.version, each.plural):
            return each
    return None


def _subresources(plural: str, resources: tuple[_Resource, ...]) -> tuple[str, ...]:
    prefix = f"{plural}/"
    return tuple(r.name.removeprefix(prefix) for r in resources if r.name.startswith(prefix))


class KindProbe:
    """Knows whether the server has an optional kind; asks it at most every `PROBE_SECONDS`.

    Args:
        client: Queried for discovery.
        resource_type: The kind.
        clock: The time, for the interval between queries.
    """

    def __init__(self, client: RawReader, resource_type: ResourceType[Any], clock: Clock) -> None:
        self._client = client
        self._resource_type = resource_type
        self._clock = clock
        self._served = True
        self._ask_at = 0.0

    def may_be_served(self) -> bool:
        """Return False only if the server has recently answered that it has no such kind."""
        now = self._clock.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + PROBE_SECONDS
            try:
                kind = self._resource_type
                self._served = is_served(self._client, kind.group, kind.version, kind.plural)
            except ApiFailure:
                self._served = True
        return self._served
