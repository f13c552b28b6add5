"""What stands above the owner of a job: asked for once, and remembered for a while.

Which kind owns a job stands in the job. Who owns that owner stands in the owner, which may be of
any kind, so there is no cache of it: it is read, and only its metadata is looked at. That takes the
right to get the kind. The chart grants it for CronJobs, whoever has other kinds between a job and
its top grants it for them; what may not be read, or is not there, counts as the end of the walk.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import structlog

from shared_api.client.discovery import RawReader, served_kinds
from shared_api.client.errors import ApiFailure, Forbidden, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import OnlyMetadata
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.process.clock import Clock

BELIEVED_SECONDS: Final = 600.0
"""How long an answer counts: owners are set when an object is made, rights and kinds come by hand.
A kind that may not be read costs one refused request in this time."""

MAX_REMEMBERED: Final = 10_000
"""Owners, and kinds, that were asked for last and are surely remembered; at most twice as many are,
some MB."""

_GROUP_VERSION: Final = re.compile(r"[a-z0-9]([-.]?[a-z0-9])*(/[a-z0-9]+)?")
"""The API server takes nearly any text as the apiVersion of an owner."""

log = structlog.get_logger("owner_lookup")


class OwnerClient(RawReader, Protocol):
    """What is used of the `ResourceClient`."""

    def get(
        self, resource_type: ResourceType[OnlyMetadata], namespace: str, name: str
    ) -> OnlyMetadata:
        """Return one object; raises ApiFailure."""


class _Answer(msgspec.Struct, frozen=True):
    above: OwnerReference | None
    believed_until: float


class _Kind(msgspec.Struct, frozen=True):
    resource_type: ResourceType[OnlyMetadata] | None
    """None: not served, or not to be read."""
    believed_until: float


_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


class Remembered(Generic[_KeyT, _ValueT]):
    """A bounded dict for many threads: what was used last stays, the rest goes by and by.

    Two generations: what is set or found is in the young one, and when that is full it becomes the
    old one, whose place it takes. So nothing is forgotten that is in use, however much else comes.
    """

    # The two are replaced together, so that threads which find the young one full at once replace
    # the same two, and nobody's old generation is lost. What a thread puts into a young one that
    # has just become old is found there.

    def __init__(self) -> None:
        self._generations: tuple[dict[_KeyT, _ValueT], dict[_KeyT, _ValueT]] = ({}, {})

    def get(self, key: _KeyT) -> _ValueT | None:
        """Return the value, None where it is not remembered."""
        young, old = self._generations
        value = young.get(key)
        if value is None and (value := old.get(key)) is not None:
            self.put(key, value)
        return value

    def put(self, key: _KeyT, value: _ValueT) -> None:
        """Remember the value."""
        young, _ = self._generations
        if len(young) >= MAX_REMEMBERED and key not in young:
            young, _ = self._generations = ({}, young)
        young[key] = value


class OwnerReader:
    """Reads owners for the reconcilers; called on all of their threads.

    Two that ask for the same at once both ask the server, and remember the same.
    """

    def __init__(self, client: OwnerClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        # By all that was asked: a uid alone is a text that anybody may write into his job.
        self._answers: Remembered[tuple[str, str, str, str, Uid], _Answer] = Remembered()
        self._kinds: Remembered[tuple[str, str], _Kind] = Remembered()

    def __call__(self, namespace: str, owner: OwnerReference) -> OwnerReference | None:
        """Return the controller owner of an owner in a namespace; None where none is known.

        Raises:
            ApiFailure: the server could not be asked, and never was about this owner.
        """
        now = self._clock.monotonic()
        question = (namespace, owner.api_version, owner.kind, owner.name, owner.uid)
        answer = self._answers.get(question)
        if answer is not None and now < answer.believed_until:
            return answer.above
        try:
            above = self._read(namespace, owner, now)
        except ApiFailure:
            # A group whose own server is down must not keep a job from being looked at.
            if answer is None:
                raise
            above = answer.above
        self._answers.put(question, _Answer(above, now + BELIEVED_SECONDS))
        return above

    def _read(self, namespace: str, owner: OwnerReference, now: float) -> OwnerReference | None:
        try:
            resource_type = self._kind_of(owner, now)
            if resource_type is None:
                return None
            found = self._client.get(resource_type, namespace, owner.name)
        except NotFound:
            return None
        except Forbidden:
            log.warning("owners of this kind may not be read", kind=owner.kind)
            self._remember_kind(owner, None, now)
            return None
        return found.metadata.controller_owner if found.metadata.uid == owner.uid else None

    def _kind_of(self, owner: OwnerReference, now: float) -> ResourceType[OnlyMetadata] | None:
        known = self._kinds.get((owner.api_version, owner.kind))
        if known is None or known.believed_until <= now:
            return self._remember_kind(owner, self._discover(owner), now)
        return known.resource_type

    def _discover(self, owner: OwnerReference) -> ResourceType[OnlyMetadata] | None:
        if _GROUP_VERSION.fullmatch(owner.api_version) is None:
            return None
        group, slash, version = owner.api_version.partition("/")
        group, version = (group, version) if slash else ("", group)
        for each in served_kinds(self._client, group, version).values():
            if each.kind == owner.kind:
                return ResourceType(
                    group,
                    version,
                    each.plural,
                    each.kind,
                    namespaced=each.namespaced,
                    object_type=OnlyMetadata,
                )
        return None

    def _remember_kind(
        self, owner: OwnerReference, resource_type: ResourceType[OnlyMetadata] | None, now: float
    ) -> ResourceType[OnlyMetadata] | None:
        kind = _Kind(resource_type, now + BELIEVED_SECONDS)
        self._kinds.put((owner.api_version, owner.kind), kind)
        return resource_type
