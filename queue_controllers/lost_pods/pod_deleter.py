"""Deletes one pod at once, unless its node is there again.

The node is read anew right before: a cache may be behind by as much as a node takes to come back.
What happens between that answer and the deletion cannot be excluded. The deletion names the pod's
uid and version, and a node that comes back soon writes the status of its pods.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.jobframework.generic_job import JobKind
from queue_controllers.lost_pods.lost_nodes import WatchedNode, unreachable_since
from queue_controllers.reconcile.execute import EventSink, NotLeadingError, record_event
from shared_api.client.errors import NotFound
from shared_api.client.resource_client import WRITE_SECONDS, ResourceClient, ResourceType
from shared_api.client.resource_types import NODES, PODS
from shared_api.leader_election import Leadership
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod

WATCHED_NODES: Final[ResourceType[WatchedNode]] = ResourceType(
    NODES.group, NODES.version, NODES.plural, NODES.kind, namespaced=False, object_type=WatchedNode
)
"""Nodes, as they are read here."""

DELETED: Final = "LostPodDeleted"
"""Event on the job."""


class PodDeleter:
    """Sends the requests about lost pods.

    Args:
        client: The way to the API server.
        leadership: Whether this process may write.
        events: Takes events.
    """

    def __init__(self, client: ResourceClient, leadership: Leadership, events: EventSink) -> None:
        self._client = client
        self._leadership = leadership
        self._events = events

    def read_loss(self, node: str, deleted_since: datetime) -> datetime | None:
        """Return since when a node is lost, as the API server knows it now; None: it is not.

        Args:
            node: Its name.
            deleted_since: The answer if it does not exist.

        Raises:
            ApiFailure: The server did not say.
        """
        try:
            return unreachable_since(self._client.get(WATCHED_NODES, "", node))
        except NotFound:
            return deleted_since

    def delete(self, pod: Pod) -> None:
        """Delete this very version of a pod, without waiting for its node.

        Raises:
            NotLeadingError: It was not sent.
            Conflict: The pod has changed.
            NotFound: It is gone.
            ApiFailure: The server refused, or did not answer.
        """
        if self._leadership.writable_seconds() < WRITE_SECONDS:
            raise NotLeadingError
        self._client.delete_at_once(PODS, pod.metadata)

    def report(self, kind: JobKind | ResourceType[Any], job: ObjectMeta, message: str) -> None:
        """Record on a job that a pod of it is deleted."""
        event = RecordJobEvent(reason=DELETED, message=message, type=EventType.WARNING)
        record_event(self._events, event, kind, job)
