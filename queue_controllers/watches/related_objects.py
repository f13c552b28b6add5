"""What other objects say about jobs: read when a job is reconciled, and remembered for a while.

For some kinds a job's own object does not say which pods it makes: another does, which the job
controls. To watch those would keep all of a kind in memory for the few that are needed; they change
with their job, and so are read again whenever the job's spec has changed. That takes the right to
get the kind. Of some, how many pods they stand for is watched all the same (`job_sizes`): an answer
about such an object counts until the object changes.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

import msgspec
import structlog

from queue_controllers.jobframework.generic_job import OtherObject
from queue_controllers.watches.owner_lookup import Remembered, memory_of
from shared_api.client.errors import ApiFailure, Forbidden, NotFound
from shared_api.client.resource_client import ResourceType
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.process.clock import Clock

BELIEVED_SECONDS: Final = 60.0
"""How long an answer counts while the job is unchanged: others may change the object."""

ObjectT = TypeVar("ObjectT")

log = structlog.get_logger("related_objects")


class RelatedObjectClient(Protocol):
    """What is used of the `ResourceClient`."""

    def get(self, resource_type: ResourceType[ObjectT], namespace: str, name: str) -> ObjectT:
        """Return one object; raises ApiFailure."""


class _Answer(msgspec.Struct, frozen=True):
    content: Any
    generation: int
    """The generation of the job for which it was read."""
    believed_until: float

    def counts_for(self, job: ObjectMeta, other: OtherObject, now: float) -> bool:
        if other.generation:  # it is watched
            meta = self.content.metadata
            return bool(meta.uid == other.uid and meta.generation >= other.generation)
        return self.generation == job.generation and now < self.believed_until


class RelatedObjectReader:
    """Reads objects for the reconcilers; called on all of their threads."""

    def __init__(self, client: RelatedObjectClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._answers: Remembered[Uid, _Answer] = Remembered(memory_of)

    def __call__(self, job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the related object; None if none is known, or it is another job's.

        One that existed once counts until it can be read again: its job may be about to create it
        anew.

        Raises:
            ApiFailure: The server could not be asked, and never was about this job.
        """
        now = self._clock.monotonic()
        answer = self._answers.get(job.uid)
        if answer is not None and answer.counts_for(job, other, now):
            return answer.content
        try:
            content = self._read(job, other)
        except ApiFailure:
            if answer is None:
                raise
            content = None
        if content is None:
            return None if answer is None else answer.content
        self._answers.put(job.uid, _Answer(content, job.generation, now + BELIEVED_SECONDS))
        return content

    def recall(self, job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        """Return the object as it was read last, None if it never was; sends no request."""
        answer = self._answers.get(job.uid)
        return None if answer is None else answer.content

    def _read(self, job: ObjectMeta, other: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        resource_type = ResourceType(
            other.group,
            other.version,
            other.plural,
            other.kind,
            namespaced=True,
            object_type=other.object_type,
        )
        try:
            content = self._client.get(resource_type, job.namespace, other.name)
        except NotFound:
            return None
        except Forbidden:
            log.warning("objects of this kind may not be read", kind=other.kind)
            return None
        if not other.is_child:
            return content
        owner = content.metadata.controller_owner
        return content if owner is not None and owner.uid == job.uid else None
