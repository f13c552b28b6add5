"""koord-scheduler's part in strict mode: it answers Reservations, as their API documents it.

A Reservation is scheduled like a pod: it becomes Available with a node, or it is marked as
unschedulable, which may change. While others are moved out for it (Preempted), that mark is not yet
a refusal. When its pod takes it, it is Succeeded. When it has expired, it is Failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from shared_api.fake_api_server.server import FakeApiServer
from tests.demo.unit_charge import controller_uid
from tests.object_states import is_living
from tests.simulation.change_feed import ChangeEvent, ChangeFeed, Json

NODE: Final = "node-0"
ANSWER_SECONDS: Final = (0.05, 2.0)
AGAIN_SECONDS: Final = (1.0, 20.0)
"""From a refusal to the next try."""
REFUSAL_CHANCE: Final = 0.15
PREEMPTED_CHANCE: Final = 0.3
"""Share of refusals while which others are being moved out."""
NOW: Final = "2026-11-01T00:00:00Z"

After = Callable[[tuple[float, float], Callable[[], None]], None]


class ReservationSide:
    """Answers reservations, one at a time.

    Attributes:
        is_full: whether no node has room.
    """

    def __init__(
        self, server: FakeApiServer, feed: ChangeFeed, after: After, rng: random.Random
    ) -> None:
        self.is_full = False
        self._direct = server.direct
        self._feed = feed
        self._after = after
        self._rng = rng
        feed.listen(self._on_change)

    def expire(self, name: str) -> None:
        """Let a reservation expire."""
        self._write(name, {"phase": "Failed"})

    def _on_change(self, event: ChangeEvent) -> None:
        if event.is_gone:
            return
        if event.plural == "reservations" and event.before is None:
            self._after(ANSWER_SECONDS, lambda: self._answer(event.key, event.uid))
        elif event.plural == "pods" and event.before is None:
            self._after((0.0, 0.2), lambda: self._take(event.key, controller_uid(event.body)))

    def _answer(self, name: str, uid: str) -> None:
        there = self._feed.all("reservations").get(name)
        if there is None or there["metadata"]["uid"] != uid or _phase_of(there) == "Failed":
            return
        if self.is_full or self._rng.random() < REFUSAL_CHANCE:
            refusal = [_condition("Scheduled", "False", "Unschedulable")]
            if self._rng.random() < PREEMPTED_CHANCE:
                refusal.append(_condition("Preempted", "True", "Preempting"))
            self._write(name, {"phase": "Pending", "conditions": refusal})
            self._after(AGAIN_SECONDS, lambda: self._answer(name, uid))
            return
        granted = [_condition("Scheduled", "True", "Scheduled")]
        self._write(name, {"phase": "Available", "nodeName": NODE, "conditions": granted})

    def _take(self, pod: str, owner: str) -> None:
        """Let a pod take a reservation made for the pods of its owner."""
        body = self._feed.all("pods").get(pod)
        if body is None or not is_living(body):
            return
        for name, there in sorted(self._feed.all("reservations").items()):
            owners = (each["controller"]["uid"] for each in there["spec"]["owners"])
            if owner in owners and _phase_of(there) == "Available":
                self._write(name, {"phase": "Succeeded"})
                return

    def _write(self, name: str, status: dict[str, Any]) -> None:
        if name in self._feed.all("reservations"):
            self._direct.patch("reservations", name, {"status": status}, subresource="status")


def _phase_of(reservation: Json) -> str:
    phase: str = reservation.get("status", {}).get("phase", "")
    return phase


def _condition(kind: str, status: str, reason: str) -> Json:
    times = {"lastProbeTime": NOW, "lastTransitionTime": NOW}
    return {"type": kind, "status": status, "reason": reason, "message": reason, **times}
