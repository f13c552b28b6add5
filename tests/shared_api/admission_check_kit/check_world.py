"""A check controller with the fake API server, with every step called on one thread."""

from __future__ import annotations

import random
from typing import Any, Final

from shared_api.admission_check_kit.check_controller import CheckController
from shared_api.admission_check_kit.judging import Judge
from shared_api.crds import QUEUE_UNIT
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.leader_election import Leadership, SoleLeader
from shared_api.testing.object_builders import queue_unit_body
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.sample_jobs import crd
from tests.stepped_host import SteppedHost, settle

Json = dict[str, Any]

CONTROLLER: Final = "example.com/rule"
TICK_SECONDS: Final = 0.1


class CheckWorld:
    """A cluster, and what a test does in it; the kind AdmissionCheck is installed by default."""

    def __init__(self, *crds: str, controller_name: str = CONTROLLER) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.direct = self.server.direct
        self.direct.create(QUEUE_UNIT.body())
        for name in crds or ("admissionchecks",):
            self.install(name)
        self.controller_name = controller_name
        self.controller: CheckController | None = None

    def install(self, name: str) -> None:
        """Let the API server have the kind of a file."""
        self.direct.create(crd(name))

    def start(self, judge: Judge, *, leadership: Leadership | None = None) -> None:
        """Start a controller, in place of the previous one."""
        self.host = SteppedHost(self.server, self.clock, leadership or SoleLeader("test"))
        self.controller = CheckController(
            self.host, self.controller_name, judge, informer_wait_seconds=0.0
        )
        self.settle()

    def settle(self, seconds: float = 3.0) -> None:
        """Call all steps repeatedly for this long."""
        assert self.controller is not None
        settle(self.controller.steps, self.clock, seconds, tick=TICK_SECONDS)

    # --- actions of users and other programs -----------------------------------------------------

    def add_check(self, name: str = "check", **spec: Any) -> Json:
        """Create an AdmissionCheck of this controller."""
        return self.direct.create(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "AdmissionCheck",
                "metadata": {"name": name},
                "spec": {"controllerName": self.controller_name, **spec},
            }
        )

    def add_unit(self, name: str = "unit", *checks: str, **more: Any) -> Json:
        """Create a unit that waits for these checks, as the scheduler leaves it."""
        self.direct.create(queue_unit_body(name, **more))
        return self.reserve(name, *checks)

    def reserve(self, name: str = "unit", *checks: str) -> Json:
        """Reserve a unit's quota as the scheduler does, with all checks pending."""
        fresh = {"state": "Pending", "message": "", "lastTransitionTime": self.now()}
        states = [{"name": check, **fresh} for check in checks or ("check",)]
        return self.patch_status(
            name, phase="Reserved", admissionChecks=states, lastAllocateTime=self.now()
        )

    def move(self, name: str, phase: str) -> None:
        """Move a unit to another phase."""
        self.patch_status(name, phase=phase)

    def patch_status(self, name: str, **status: Any) -> Json:
        """Merge into the status of a unit."""
        return self.direct.patch(
            "queueunits", name, {"status": status}, namespace="default", subresource="status"
        )

    def set_state(self, name: str, check: str, **fields: Any) -> None:
        """Write the state of a check as another client."""
        states = [{**s, **fields} if s["name"] == check else s for s in self.states(name)]
        self.patch_status(name, admissionChecks=states)

    # --- what is stored -------------------------------------------------------------------------

    def now(self) -> str:
        return rfc3339(self.clock.now())

    def states(self, name: str = "unit") -> list[Json]:
        found: list[Json] = self.unit(name)["status"].get("admissionChecks", [])
        return found

    def unit(self, name: str = "unit") -> Json:
        return self.direct.get("queueunits", name, "default")

    def state(self, name: str = "unit", check: str = "check") -> Json:
        return next(each for each in self.states(name) if each["name"] == check)

    def activity(self, check: str = "check") -> tuple[str, str]:
        """Return status and reason of Active, empty if it is not set."""
        found = self.direct.get("admissionchecks", check).get("status", {}).get("conditions", [])
        active: Json = next((each for each in found if each["type"] == "Active"), {})
        return active.get("status", ""), active.get("reason", "")

    def events(self) -> set[tuple[str, str]]:
        """Return (name, reason) of all events; they are sent as time passes."""
        self.settle(2.0)
        events = self.direct.list("events.events.k8s.io")
        return {(event["regarding"]["name"], event["reason"]) for event in events}
