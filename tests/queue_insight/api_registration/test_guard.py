"""When the scheduler withdraws the aggregated API."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from queue_insight.api_registration.guard import LOOK_SECONDS, VisibilityGuard
from shared_api.client.errors import ApiFailure, ConnectionLost, Forbidden
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.api_service_kit import SERVICE, FakeApiServices

PATIENCE = 20.0


def desk() -> tuple[FakeApiServices, VisibilityGuard, VirtualClock]:
    services, clock = FakeApiServices(), VirtualClock()
    return services, VisibilityGuard(services, clock, PATIENCE), clock


def look_for(guard: VisibilityGuard, clock: VirtualClock, seconds: float) -> None:
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        assert guard.step() == LOOK_SECONDS
        clock.advance(LOOK_SECONDS)


def test_one_that_stays_unavailable_is_deleted() -> None:
    services, guard, clock = desk()
    services.put(SERVICE, is_down=True)
    look_for(guard, clock, PATIENCE)
    assert services.writes == []
    look_for(guard, clock, LOOK_SECONDS)
    assert services.writes == ["delete"]
    look_for(guard, clock, 100)
    assert services.writes == ["delete"]


def test_one_that_comes_back_stays() -> None:
    services, guard, clock = desk()
    for _ in range(5):
        services.put(SERVICE, is_down=True)
        look_for(guard, clock, PATIENCE)
        services.put(SERVICE)
        look_for(guard, clock, LOOK_SECONDS)
    assert services.writes == []


def test_one_that_is_served_nowhere_stays() -> None:
    services, guard, clock = desk()
    services.put(None, is_down=True)
    look_for(guard, clock, 100)
    assert services.writes == []


def test_one_that_is_published_meanwhile_stays() -> None:
    services, guard, clock = desk()
    services.put(SERVICE, is_down=True)
    services.before_write = lambda: services.put(SERVICE)
    look_for(guard, clock, 100)
    assert services.now is not None


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Forbidden(403, "Forbidden", "no"), "needs the rights get and delete on apiservices v1"),
        (ConnectionLost("gone", sent=False), "gone"),
    ],
)
def test_what_is_in_the_way_is_one_line(failure: ApiFailure, said: str) -> None:
    services, guard, clock = desk()
    services.failure = failure
    with capture_logs() as logs:
        look_for(guard, clock, 100)
        services.failure = None
        services.put(SERVICE)
        look_for(guard, clock, 100)
    assert [line["log_level"] for line in logs] == ["warning", "info"]
    assert said in logs[0]["event"]
