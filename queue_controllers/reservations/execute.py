"""Carry out what `decide` said about reservations: one method per action.

Reservations are created one by one, under names that the attempt fixes: one that is there already
was created by an earlier try whose answer was lost. A unit whose reservation the server refuses
gets no nodes in this attempt, with the server's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from queue_controllers.jobframework.actions import Action, PatchUnitStatus, TellJob, TellUnit
from queue_controllers.jobframework.execute import EventSink, NotLeadingError, tell
from queue_controllers.jobframework.generic_job import JobFacts, PodOwner
from queue_controllers.reservations.decide import CreateReservations, DeleteReservations
from queue_controllers.reservations.node_blacklist import BlacklistError, read_blacklist
from queue_controllers.reservations.reservation_builder import build_reservation
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.client.errors import AlreadyExists, Forbidden, NotFound
from shared_api.client.resource_client import WRITE_SECONDS, ResourceClient
from shared_api.client.resource_types import CONFIG_MAPS, QUEUE_UNITS, RESERVATIONS
from shared_api.leader_election import Leadership
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.process.clock import Clock

BLACKLIST_BELIEVED_SECONDS: Final = 10.0
"""How long an answer counts: a hundred units whose turn comes at once ask once."""

log = structlog.get_logger("reservations")


class WrittenUnits(Protocol):
    """The cache of units."""

    def note_written(self, written: QueueUnit) -> bool:
        """Take in the object that the API server returned."""
        ...


class ReservationExecutor:
    """Sends the writes about reservations. Used from all workers.

    Args:
        client: The way to the API server.
        leadership: Who writes.
        events: Takes events.
        units: Told of what was written into units.
        note_reservation: Told of what was created.
        clock: How long the blacklist is believed, and how old its reports are.
        settings: Of all reservations.
    """

    def __init__(
        self,
        client: ResourceClient,
        leadership: Leadership,
        events: EventSink,
        *,
        units: WrittenUnits,
        note_reservation: Callable[[Reservation], object],
        clock: Clock,
        settings: ReservationSettings,
    ) -> None:
        self._client = client
        self._leadership = leadership
        self._events = events
        self._units = units
        self._note_reservation = note_reservation
        self._clock = clock
        self._settings = settings
        # Replaced whole by any worker; two that ask at once get equal answers.
        self._bad_nodes: tuple[float, tuple[str, ...]] = (0.0, ())

    def execute(self, action: Action, job: JobFacts | None, owners: dict[str, PodOwner]) -> None:
        """Carry out one action.

        Args:
            action: What `decide` said.
            job: The unit's, where it is known.
            owners: What the pods of its sets will be told by.

        Raises:
            NotLeadingError: it was not sent.
            ApiFailure: the server refused, or did not answer.
        """
        match action:
            case TellUnit():
                tell(self._events, action, QUEUE_UNITS, action.unit.metadata)
            case TellJob() if job is not None:
                tell(self._events, action, job.kind, job.metadata)
            case PatchUnitStatus():
                self._patch_status(action)
            case DeleteReservations():
                self._delete(action)
            case CreateReservations():
                assert job is not None, "nodes are asked for without a job"
                self._create(action, job, owners)
            case _:
                raise AssertionError(f"nobody carries out {action!r}")

    def _create(
        self, action: CreateReservations, job: JobFacts, owners: dict[str, PodOwner]
    ) -> None:
        bad_nodes = self._find_bad_nodes()
        for planned in action.planned:
            body = build_reservation(
                planned,
                job,
                action.unit,
                owners[planned.pod_set],
                bad_nodes=bad_nodes,
                settings=self._settings,
            )
            self._check_lead()
            try:
                self._note_reservation(self._client.create(RESERVATIONS, "", body))
            except AlreadyExists:
                # The answer of an earlier try was lost, and the watch has not brought it yet.
                self._note_reservation(self._client.get(RESERVATIONS, "", planned.name))

    def _delete(self, action: DeleteReservations) -> None:
        for each in action.reservations:
            self._check_lead()
            try:
                self._client.delete(RESERVATIONS, "", each.metadata.name, uid=each.metadata.uid)
            except NotFound:
                continue

    def _patch_status(self, action: PatchUnitStatus) -> None:
        self._check_lead()
        meta = action.unit.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": action.status,
        }
        written = self._client.patch(
            QUEUE_UNITS, meta.namespace, meta.name, body, subresource="status"
        )
        self._units.note_written(written)

    def _check_lead(self) -> None:
        if self._leadership.writable_seconds() < WRITE_SECONDS:
            raise NotLeadingError

    # --- the blacklist ----------------------------------------------------------------------------

    def _find_bad_nodes(self) -> tuple[str, ...]:
        """Return the nodes to keep off; none where nobody names any, or what names them is broken.

        A blacklist helps; that it can not be read is no reason to start nothing.
        """
        settings = self._settings
        believed_until, nodes = self._bad_nodes
        now = self._clock.monotonic()
        if not settings.blacklist_name or now < believed_until:
            return nodes
        nodes = ()
        try:
            found = self._client.get(
                CONFIG_MAPS, settings.blacklist_namespace, settings.blacklist_name
            )
            text = found.data.get(settings.blacklist_key, "")
            nodes = read_blacklist(text, self._clock.now(), settings.blacklist_seconds)
        except NotFound:
            pass
        except (Forbidden, BlacklistError) as error:
            where = f"{settings.blacklist_namespace}/{settings.blacklist_name}"
            log.warning(
                "the blacklist of nodes can not be read", config_map=where, error=str(error)
            )
        self._bad_nodes = (now + BLACKLIST_BELIEVED_SECONDS, nodes)
        return nodes
