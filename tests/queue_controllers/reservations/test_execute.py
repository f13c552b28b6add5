"""Reservations are created once, regardless of earlier attempts."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queue_controllers.extensions.batch_job import BatchJob, BatchJobAdapter
from queue_controllers.reconcile.execute import NotLeadingError
from queue_controllers.reservations.decide import CreateReservations, DeleteReservations
from queue_controllers.reservations.execute import NotOursError, ReservationExecutor
from queue_controllers.reservations.reservation_builder import (
    build_reservation,
    plan_reservations,
)
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.client.errors import AlreadyExists
from shared_api.client.event_recorder import Event
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.leader_election import SoleLeader
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import ATTEMPT, RELATED_QUEUE_UNIT, UNIT_UID
from tests.client_kit import client_to
from tests.job_situations import facts
from tests.queue_controllers.reservations.reservation_kit import KoordScheduler, strict

JOB = BatchJob(metadata=ObjectMeta(name="main", namespace="team", uid=Uid("uid-1")))
OWNERS = {"main": BatchJobAdapter().pod_owner(JOB, "main")}
UNIT = strict()
PLANNED = plan_reservations(facts(), UNIT)


class Nothing:
    """An event sink and a cache that keep nothing."""

    def record(self, event: Event) -> None:
        """Take an event."""

    def note_written(self, written: QueueUnit) -> bool:
        """Take a unit."""
        return True


class Desk:
    """An executor over a server with the kind, and its results."""

    def __init__(self) -> None:
        clock, rng = VirtualClock(), random.Random(1)
        server = FakeApiServer(clock=clock, rng=rng)
        self.koord_scheduler = KoordScheduler(server.direct)
        self.koord_scheduler.install()
        self.noted: list[Reservation] = []
        self.leadership = SoleLeader("test")
        self.executor = ReservationExecutor(
            client_to(server, clock),
            self.leadership,
            Nothing(),
            units=Nothing(),
            note_reservation=self.noted.append,
            clock=clock,
            settings=ReservationSettings(),
        )

    def create(self) -> None:
        action = CreateReservations(unit=UNIT, planned=PLANNED)
        self.executor.execute(action, facts(), OWNERS)

    def names(self) -> list[str]:
        return [each.metadata.name for each in self.noted]


def test_an_existing_one_counts_as_created() -> None:
    desk = Desk()
    desk.create()
    uids = [each.metadata.uid for each in desk.noted]
    desk.create()
    assert [each.metadata.uid for each in desk.noted] == uids * 2
    assert set(desk.koord_scheduler.reservations()) == set(desk.names())


def test_a_missing_one_counts_as_deleted() -> None:
    desk = Desk()
    desk.create()
    action = DeleteReservations(reservations=tuple(desk.noted))
    for _ in range(2):
        desk.executor.execute(action, None, {})
    assert desk.koord_scheduler.reservations() == {}


def patch(desk: Desk, name: str, **metadata: Any) -> None:
    desk.koord_scheduler.patch(name, {"metadata": metadata})


@pytest.mark.parametrize("label", [UNIT_UID, ATTEMPT])
@pytest.mark.parametrize("value", [None, "another"])
def test_one_of_ours_without_its_labels_is_replaced(label: str, value: str | None) -> None:
    desk = Desk()
    desk.create()
    first = desk.noted[0].metadata
    patch(desk, first.name, labels={label: value})
    with pytest.raises(AlreadyExists):
        desk.create()
    assert first.name not in desk.koord_scheduler.reservations()
    desk.create()
    made = desk.koord_scheduler.reservations()[first.name]["metadata"]
    assert made["labels"][label]
    assert made["uid"] != first.uid


def test_one_that_is_not_ours_is_left_alone() -> None:
    desk = Desk()
    desk.create()
    first = desk.noted[0].metadata
    patch(desk, first.name, labels={UNIT_UID: None}, annotations={RELATED_QUEUE_UNIT: "team/x"})
    with pytest.raises(NotOursError, match=f"^{first.name} is there already"):
        desk.create()
    assert desk.koord_scheduler.reservations()[first.name]["metadata"]["uid"] == first.uid


def test_one_whose_labels_are_changed_at_creation_is_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A webhook does it; here the server gets the object as a webhook would change it."""

    def build(*of: Any, **more: Any) -> Any:
        body = build_reservation(*of, **more)
        body["metadata"]["labels"][UNIT_UID] = "another"
        return body

    desk = Desk()
    monkeypatch.setattr("queue_controllers.reservations.execute.build_reservation", build)
    with pytest.raises(NotOursError, match="are changed as it is made"):
        desk.create()
    assert desk.koord_scheduler.reservations() == {}
    assert desk.noted == []


def test_without_the_lead_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    monkeypatch.setattr(desk.leadership, "writable_seconds", lambda: 1.0)
    with pytest.raises(NotLeadingError):
        desk.create()
    assert desk.koord_scheduler.reservations() == {}
