"""koord-scheduler's part in strict queues, played: what it says of Reservations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from tests.cluster.queue_world import MERGE, QueueWorld
from tests.controlplane.api_client import ApiError

Json = dict[str, Any]

RESERVATIONS: Final = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


def reservations(world: QueueWorld) -> list[Json]:
    """Return all of them."""
    found: list[Json] = world.api.request("GET", RESERVATIONS)["items"]
    return found


def count_reservations(world: QueueWorld, job: str) -> int:
    """Return how many there are for the pods of one job."""
    labels = [each["metadata"]["labels"] for each in reservations(world)]
    return sum(each["reserved-job-name"] == job for each in labels)


def answer(world: QueueWorld, status: str, reason: str, phase: str) -> None:
    """Say this of all reservations, as koord-scheduler does.

    The others may be gone when it has been said of one.
    """
    said = {"type": "Scheduled", "status": status, "reason": reason, "message": "0/4 nodes"}
    body = {"status": {"phase": phase, "conditions": [said]}}
    for each in reservations(world):
        path = f"{RESERVATIONS}/{each['metadata']['name']}/status"
        try:
            world.api.request("PATCH", path, body, content_type=MERGE)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
