"""A cluster in strict mode over the fake API server; tests play koord-scheduler and scheduler."""

from __future__ import annotations

from typing import Any

from queue_controllers.configuration import Configuration
from tests.queue_controllers.conftest import World
from tests.queue_controllers.reservations.reservation_kit import KoordScheduler

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
