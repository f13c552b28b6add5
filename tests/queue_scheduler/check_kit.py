"""Units with admission checks over the fake API server: decided, written, answered."""

from __future__ import annotations

import random
from typing import Any

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.admission_checks import AdmissionCheckCycle
from shared_api.client.resource_types import QUEUES
from shared_api.timestamps import rfc3339
from tests.properties.engine_kit import build_check
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json, Line, ShellKit
from tests.queue_scheduler.unit_news import UnitNews, access_of

TIMEOUT = 600.0


class Checked:
    """A kit whose queue `team` lists the checks a and b, with the shells for its units."""

    def __init__(self, kit: ShellKit, *, timeout: float = TIMEOUT) -> None:
        self.kit = kit
        self.line = Line(kit)
        self.news = UnitNews(kit)
        self.reported: list[Notice] = []
        self.failed: list[tuple[str, Shortfall]] = []
        self.admitted: list[str] = []
        self._timeout = timeout
        self.ask("a", "b")
        self.cycle = self.restarted()

    def restarted(self) -> AdmissionCheckCycle:
        """Return a new cycle without knowledge; its informer begins with a list."""
        self.due = self.kit.work_queue()
        access = access_of(self.kit, self.due, report=self.reported.append)
        rng = random.Random(5)
        self.cycle = AdmissionCheckCycle(access, self.kit.clock, rng, self._timeout, self)
        self.news.forget()
        return self.cycle

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count (`CheckObserver`)."""
        assert waited_seconds >= 0.0
        self.admitted.append(queue)

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count (`CheckObserver`)."""
        self.failed.append((check, why))

    # --- what users and checks do -------------------------------------------------------------

    def ask(self, *checks: str, annotations: dict[str, str] | None = None) -> None:
        """Have the queue list these checks."""
        kit = self.kit
        before = kit.client.get(QUEUES, QUEUE_NAMESPACE, "team")
        patch = {
            "metadata": {"annotations": annotations or {}},
            "spec": {"admissionChecks": [{"name": name} for name in checks]},
        }
        kit.direct.patch("queues", "team", patch, namespace=QUEUE_NAMESPACE)
        kit.learn_queue("team")
        if hasattr(self, "cycle"):
            self.cycle.on_queue(before, kit.client.get(QUEUES, QUEUE_NAMESPACE, "team"))

    def activate(self, name: str, active: str, message: str = "") -> None:
        """Let an AdmissionCheck say whether it is active."""
        check = build_check(name, active, message)
        self.kit.shared.apply(Engine.on_admission_check, check)
        self.cycle.on_admission_check(None, check)

    def reserve(self, name: str = "u", **spec: Any) -> None:
        """Create a unit of one cpu, and have it decided and written."""
        self.kit.add_unit(name, **spec)
        self.line.cycle.carry_out(self.kit.dequeue())
        self.kit.send()
        assert self.kit.phase(name) in {"Reserved", "Dequeued"}

    def say(self, check: str, state: str, *, unit: str = "u", **more: Any) -> None:
        """Answer as the check's controller: its own entry, all others as they are."""
        entries = self.entries(unit)
        answer = {"state": state, "lastTransitionTime": self.stamp(), "message": "", **more}
        changed = [{**e, **answer} if e["name"] == check else e for e in entries]
        self.patch({"admissionChecks": changed}, unit=unit)

    def patch(self, status: Json, *, unit: str = "u") -> None:
        """Merge into a unit's status."""
        self.kit.direct.patch(
            "queueunits", unit, {"status": status}, namespace="default", subresource="status"
        )

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass, and every shell do what there is to do."""
        self.news.pass_time(self.cycle, seconds)
        self.due.validate()
        self.kit.engine.validate()

    # --- what there is ------------------------------------------------------------------------

    def stamp(self) -> str:
        """Return the time."""
        return rfc3339(self.kit.clock.now())

    def status(self, unit: str = "u") -> Json:
        """Return a unit's status."""
        found: Json = self.kit.unit(unit)["status"]
        return found

    def entries(self, unit: str = "u") -> list[Json]:
        """Return the entries of its checks."""
        found: list[Json] = self.status(unit).get("admissionChecks", [])
        return found

    def states(self, unit: str = "u") -> dict[str, str]:
        """Return the states of the checks."""
        return {entry["name"]: entry["state"] for entry in self.entries(unit)}
