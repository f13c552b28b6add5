"""A queue for two quotas below one, with reservations, in a time that the test lets pass."""

from __future__ import annotations

from typing import Any

from queue_scheduler.decision import ReservedWindow
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.queue_reservations import schedules_of
from queue_scheduler.reservations.schedules import Schedule
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_reservation import (
    QueueReservation,
    QueueReservationSpec,
    QueueReservationStatus,
    ReservationScope,
)
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE
from tests.budget_world import BudgetWorld
from tests.properties.engine_kit import build_queue

ALL = ReservationScope(all=True)


def build_spec(start: str = "2026-12-03T18:00", **fields: Any) -> QueueReservationSpec:
    """Return a spec: on that day in UTC for two hours, for all quotas."""
    return QueueReservationSpec(**{"scope": ALL, "start": start, "duration": "2h", **fields})


def build_reservation(
    name: str = "upgrade",
    spec: QueueReservationSpec | None = None,
    *,
    in_force: tuple[QueueReservationSpec, ...] = (),
    **meta: Any,
) -> QueueReservation:
    """Return a QueueReservation; `in_force`: what its status says."""
    return QueueReservation(
        metadata=ObjectMeta(
            **{
                "name": name,
                "namespace": DEFAULT_QUEUE_NAMESPACE,
                "uid": Uid(f"reservation-{name}"),
                "generation": 1,
                **meta,
            }
        ),
        spec=build_spec() if spec is None else spec,
        status=QueueReservationStatus(in_force=in_force),
    )


def schedules_at(reservation: QueueReservation, second: int) -> tuple[Schedule, ...]:
    """Return the schedules of a reservation, as found out at a second since the epoch."""
    return expand_all(sorted(schedules_of(reservation)), second)


class ReservedWorld(BudgetWorld):
    """The quotas top, vision and speech, and the queue q; it is 16:00 on a Thursday."""

    def __init__(
        self, now: str = "2026-12-03T16:00", policy: str = "Priority", **more: Any
    ) -> None:
        super().__init__(now, policy, keeps_accounts=False, **more)

    def reserve(
        self, name: str = "upgrade", start: str = "2026-12-03T18:00", **spec: Any
    ) -> list[str]:
        """Create or change a reservation; return which units start."""
        return self.tell(build_reservation(name, build_spec(start, **spec)))

    def tell(self, reservation: QueueReservation) -> list[str]:
        """Tell the engine a reservation, as the scheduler does; return which units start."""
        self.workers.wake(self.engine.on_schedules(schedules_at(reservation, self.second)))
        self.workers.wake(self.engine.on_reservation(reservation))
        return self.rest()

    def unreserve(self, name: str = "upgrade") -> list[str]:
        """Delete a reservation; return which units start."""
        self.workers.wake(self.engine.on_reservation_gone(name))
        return self.rest()

    def backfill(self) -> None:
        """Let the queue backfill."""
        policy = next(iter(self.engine.queues)).rules.api_object.spec.queue_policy
        written = {"koord-queue/backfill": "true"}
        self.workers.wake(
            self.engine.on_queue(build_queue("q", policy, takes="*", annotations=written))
        )

    def window(self, name: str) -> ReservedWindow:
        """Return the window that a unit waits for."""
        found = self.why(name).window
        assert found is not None, self.why(name)
        return found
