"""Carry out what `decide` returned about reservations: one method per action.

Reservations are created one by one, under names that the attempt fixes: one that exists already was
created by an earlier try whose answer was lost. One without the labels by which it is watched would
be waited for in vain: it is deleted, and created anew. A unit whose reservation the server refuses
gets no nodes in this attempt, with the server's words; so does one whose name is taken, and the
next attempt has other names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import structlog

from queue_controllers.decision.actions import (
    Action,
    EventType,
    PatchUnitStatus,
    RecordJobEvent,
    RecordUnitEvent,
)
from queue_controllers.jobframework.generic_job import JobFacts, PodOwner
from queue_controllers.reconcile.execute import EventSink, NotLeadingError, record_event
from queue_controllers.reservations.decide import CreateReservations, DeleteReservations
from queue_controllers.reservations.node_blacklist import Blacklist, BlacklistError, read_blacklist
from queue_controllers.reservations.reservation_builder import (
    PlannedReservation,
    build_reservation,
    is_of_attempt,
    marks_of,
)
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.client.errors import AlreadyExists, Forbidden, NotFound
from shared_api.client.resource_client import WRITE_SECONDS, ResourceClient
from shared_api.client.resource_types import CONFIG_MAPS, QUEUE_UNITS, RESERVATIONS
from shared_api.leader_election import Leadership
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.process.clock import Clock

BLACKLIST_BELIEVED_SECONDS: Final = 10.0
"""How long an answer counts: a hundred units that are reconciled at once read it once."""

BLACKLIST_UNREAD: Final = "BlacklistUnreadable"
"""Event: some of the nodes to avoid cannot be parsed."""

MAX_MESSAGE_CHARS: Final = 500
"""Limit of the text about it in an event."""

log = structlog.get_logger("reservations")


class NotOursError(Exception):
    """A reservation of the attempt's name is not this unit's; the message is one line."""


class WrittenUnits(Protocol):
    """The cache of units."""

    def note_written(self, written: QueueUnit) -> bool:
        """Store the object that the API server returned."""


class ReservationExecutor:
    """Sends the writes about reservations. Used from all workers.

    Args:
        client: The way to the API server.
        leadership: Whether this process may write.
        events: Takes events.
        units: Receives what was written into units.
        note_reservation: Called with each created reservation.
        clock: How long the blacklist counts, and how old its reports are.
        settings: Those of all reservations.
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
        # Replaced whole by any worker; two that read at once get equal answers.
        self._blacklist: tuple[float, Blacklist] = (0.0, Blacklist())

    def execute(self, action: Action, job: JobFacts | None, owners: dict[str, PodOwner]) -> None:
        """Carry out one action.

        Args:
            action: An action of `decide`.
            job: The unit's, if it is known.
            owners: What identifies the pods of its sets.

        Raises:
            NotLeadingError: It was not sent.
            NotOursError: The object of a reservation's name cannot be used, now or later.
            ApiFailure: The server refused, or did not answer.
        """
        match action:
            case RecordUnitEvent():
                record_event(self._events, action, QUEUE_UNITS, action.unit.metadata)
            case RecordJobEvent() if job is not None:
                record_event(self._events, action, job.kind, job.metadata)
            case PatchUnitStatus():
                self._patch_status(action)
            case DeleteReservations():
                self._delete(action)
            case CreateReservations():
                assert job is not None, "nodes are asked for without a job"
                self._create(action, job, owners)
            case _:
                raise AssertionError(f"unknown action {action!r}")

    def _create(
        self, action: CreateReservations, job: JobFacts, owners: dict[str, PodOwner]
    ) -> None:
        blacklist = self._find_blacklist()
        if blacklist.unread:
            event = RecordJobEvent(
                reason=BLACKLIST_UNREAD, message=blacklist.unread, type=EventType.WARNING
            )
            record_event(self._events, event, job.kind, job.metadata)
        for planned in action.planned:
            body = build_reservation(
                planned,
                job,
                action.unit,
                owners[planned.pod_set],
                bad_nodes=blacklist.nodes,
                settings=self._settings,
            )
            self._note_reservation(self._create_one(planned, action.unit, body))

    def _create_one(
        self, planned: PlannedReservation, unit: QueueUnit, body: dict[str, Any]
    ) -> Reservation:
        """Return the reservation of a name, which certainly bears the labels of the attempt."""
        self._check_lead()
        try:
            made = self._client.create(RESERVATIONS, "", body)
        except AlreadyExists:
            made = self._client.get(RESERVATIONS, "", planned.name)
            if is_of_attempt(made, unit):
                # The answer of an earlier try was lost, and its watch event has not come yet.
                return made
            if not {unit.metadata.key, unit.metadata.uid} & {*marks_of(made)}:
                message = f"{planned.name} is there already, and does not name this unit"
                raise NotOursError(message) from None
            log.warning("a reservation has lost its labels", reservation=planned.name)
            self._delete_one(made)
            raise  # it is created anew when it is gone, which may take a while
        if not is_of_attempt(made, unit):
            self._delete_one(made)
            raise NotOursError(f"the labels of {planned.name} are changed as it is made")
        return made

    def _delete(self, action: DeleteReservations) -> None:
        for each in action.reservations:
            self._delete_one(each)

    def _delete_one(self, reservation: Reservation) -> None:
        self._check_lead()
        meta = reservation.metadata
        try:
            self._client.delete(RESERVATIONS, "", meta.name, uid=meta.uid)
        except NotFound:
            log.debug("a reservation is gone already", reservation=meta.name)

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

    def _find_blacklist(self) -> Blacklist:
        """Return the nodes to avoid; none if none are named, or none can be parsed.

        A blacklist is optional: an unreadable one is no reason to start nothing.
        """
        settings = self._settings
        believed_until, found = self._blacklist
        now = self._clock.monotonic()
        if not settings.blacklist_name or now < believed_until:
            return found
        found = self._read_blacklist()
        if found.unread:
            log.warning("the blacklist of nodes cannot all be read", why=found.unread)
        self._blacklist = (now + BLACKLIST_BELIEVED_SECONDS, found)
        return found

    def _read_blacklist(self) -> Blacklist:
        settings = self._settings
        try:
            config_map = self._client.get(
                CONFIG_MAPS, settings.blacklist_namespace, settings.blacklist_name
            )
            text = config_map.data.get(settings.blacklist_key, "")
            read = read_blacklist(text, self._clock.now(), settings.blacklist_seconds)
        except NotFound:
            return Blacklist()
        except (Forbidden, BlacklistError) as error:
            read = Blacklist(unread=str(error))
        if not read.unread:
            return read
        where = f"{settings.blacklist_namespace}/{settings.blacklist_name}"
        text = f"ConfigMap {where} names nodes to keep off, and cannot all be read: {read.unread}"
        return Blacklist(nodes=read.nodes, unread=text[:MAX_MESSAGE_CHARS])
