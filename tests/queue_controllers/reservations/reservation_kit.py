"""Units in strict mode and their reservations, for tests of what is decided about them."""

from __future__ import annotations

from typing import Any

from queue_controllers.configuration import Configuration
from queue_controllers.decision.actions import Action
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.reservations.decide import (
    CreateReservations,
    DeleteReservations,
    ReservationView,
    decide_reservations,
)
from queue_controllers.reservations.reservation_builder import plan_reservations
from shared_api.fake_api_server.direct_access import DirectAccess
from shared_api.fake_api_server.patching import Body
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation, ReservationStatus
from shared_api.well_known_labels import ATTEMPT, RELATED_QUEUE_UNIT, UNIT_UID
from tests.job_situations import ADMITTED, NOW, action_names, facts, unit
from tests.queue_controllers.controllers_world import World
from tests.sample_jobs import crd

SINCE = Timestamp("2026-11-01T09:59:30Z")


class KoordScheduler:
    """What koord-scheduler does with reservations, played by a test."""

    def __init__(self, direct: DirectAccess) -> None:
        self._direct = direct

    def install(self) -> None:
        """Let the API server have Reservations."""
        self._direct.create(crd("reservations"))

    def reservations(self) -> dict[str, Body]:
        """Return all of them by name."""
        return {each["metadata"]["name"]: each for each in self._direct.list("reservations")}

    def patch(self, name: str, body: Body) -> None:
        """Change one, as anybody may."""
        self._direct.patch("reservations", name, body)

    def answer(self, status: str, reason: str, *names: str, phase: str = "Pending") -> None:
        """Say this of some; none named: of all."""
        said = {"type": "Scheduled", "status": status, "reason": reason, "message": "0/3 nodes"}
        body: Body = {"status": {"phase": phase, "conditions": [said]}}
        for name in names or self.reservations():
            self._direct.patch("reservations", name, body, subresource="status")

    def grant(self, *names: str) -> None:
        """Give nodes to some; none named: to all."""
        self.answer("True", "Scheduled", *names, phase="Available")

    def refuse(self) -> None:
        """Have no nodes."""
        self.answer("False", "Unschedulable")


def strict(phase: str = "SchedReady", *, attempts: int = 1, **changes: Any) -> QueueUnit:
    """Return the unit of a job of two pods in a phase of strict mode."""
    return unit(phase, attempts=attempts, admissions=changes.pop("admissions", ADMITTED), **changes)


def said(status: str, reason: str = "", message: str = "", kind: str = "Scheduled") -> Condition:
    """Return what koord-scheduler says."""
    return Condition(type=kind, status=status, reason=reason, message=message)


YES = said("True", "Scheduled")
NO = said("False", "Unschedulable", "0/3 nodes are available")


def reservation(
    name: str = "r", *conditions: Condition, phase: str = "Pending", **changes: Any
) -> Reservation:
    """Return one of the unit's reservations."""
    labels = {
        UNIT_UID: changes.pop("unit_uid", "qu-1"),
        ATTEMPT: str(changes.pop("attempt", 1)),
    }
    meta = ObjectMeta(
        name=name,
        uid=Uid(f"uid-{name}"),
        labels=labels,
        annotations={RELATED_QUEUE_UNIT: "team/main"},
        deletion_timestamp=changes.pop("deleted", None),
    )
    assert not changes, changes
    return Reservation(metadata=meta, status=ReservationStatus(phase=phase, conditions=conditions))


def asked(
    of: QueueUnit, *conditions: Condition, phase: str = "Pending", job: JobFacts | None = None
) -> tuple[Reservation, ...]:
    """Return all reservations that an attempt asks for, each with the same conditions."""
    return tuple(
        reservation(each.name, *conditions, phase=phase, attempt=of.status.attempts)
        for each in plan_reservations(job or facts(), of)
    )


def do(of: QueueUnit | None, reservations: tuple[Reservation, ...] = (), **more: Any) -> list[str]:
    """Decide, and name the actions shortly: "create 2", "delete a b", "move SchedSucceed"."""
    view = view_of(of, reservations, **more)
    return names_of(decide_reservations(view).actions)


def view_of(
    of: QueueUnit | None, reservations: tuple[Reservation, ...] = (), **more: Any
) -> ReservationView:
    """Return the view of a unit whose job is known."""
    job = more.pop("job", facts())
    planned = None if of is None or job is None else plan_reservations(job, of)
    settings = {"planned": planned, "moment": NOW, **more}
    return ReservationView(unit=of, reservations=reservations, **settings)


def names_of(actions: tuple[Action, ...]) -> list[str]:
    """Name actions shortly."""
    names = []
    for action in actions:
        match action:
            case CreateReservations(planned=planned):
                names.append(f"create {len(planned)}")
            case DeleteReservations(reservations=gone):
                names.append(" ".join(["delete", *sorted(each.metadata.name for each in gone)]))
            case _:
                names += action_names((action,))
    return names


Json = dict[str, Any]


class StrictWorld(World):
    """A cluster with Koordinator, and a controller of reservations."""

    def __init__(self, *, reservations: bool = True) -> None:
        super().__init__()
        self.koord_scheduler = KoordScheduler(self.direct)
        if reservations:
            self.koord_scheduler.install()

    def begin(self, *, configuration: Configuration | None = None, **job: Any) -> None:
        """Start the controllers, and bring a Job of two pods to SchedReady."""
        self.start("--enable-reservation", configuration=configuration)
        self.job(**job)
        self.settle()
        self.ask_for_nodes()

    def ask_for_nodes(self, attempt: int = 1) -> None:
        """Write what the scheduler writes in strict mode when a unit's quota is reserved."""
        self.admit()
        self.patch_unit_status({"phase": "SchedReady", "attempts": attempt})
        self.settle()

    def free(self) -> None:
        """Write what the scheduler writes when a unit got no nodes."""
        self.patch_unit_status({"phase": "TimeoutBackoff", "admissions": []})
        self.settle()

    def reservations(self) -> dict[str, Json]:
        return self.koord_scheduler.reservations()

    def answer(self, status: str, reason: str, *names: str, phase: str = "Pending") -> None:
        self.koord_scheduler.answer(status, reason, *names, phase=phase)
        self.settle()

    def grant(self) -> None:
        self.koord_scheduler.grant()
        self.settle()

    def condition(self, condition_type: str) -> str:
        conditions = self.get_unit()["status"].get("conditions", ())
        return next((str(c["status"]) for c in conditions if c["type"] == condition_type), "")

    def message(self) -> str:
        return str(self.get_unit()["status"].get("message", ""))
