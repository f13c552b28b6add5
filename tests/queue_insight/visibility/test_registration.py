"""How a replica publishes and withdraws the aggregated API."""

from __future__ import annotations

import contextlib
from base64 import b64encode

import pytest

from queue_insight.visibility.ca_bundle import has_authority
from queue_insight.visibility.registration import (
    GONE_SECONDS,
    LASTING_SECONDS,
    MISSING_SECONDS,
    TRIES,
    Registration,
)
from shared_api.client.errors import Conflict, NotFound
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_certificates import make_authority
from tests.queue_insight.api_service_kit import SERVICE, FakeApiServices

CLOCK = VirtualClock()
OWN = make_authority("own", CLOCK.now()).pem.encode()
OTHER = make_authority("other", CLOCK.now()).pem.encode()


def desk() -> tuple[FakeApiServices, Registration, VirtualClock]:
    services, clock = FakeApiServices(), VirtualClock()
    return services, Registration(services, SERVICE, clock), clock


def bundle(services: FakeApiServices) -> str:
    return services.read().spec.ca_bundle


def test_one_that_is_missing_is_created() -> None:
    services, registration, _ = desk()
    registration.publish(OWN)
    assert services.writes == ["create"]
    assert services.read().spec.service == SERVICE
    assert has_authority(bundle(services), OWN)


def test_one_without_a_service_is_replaced_once() -> None:
    """One that is given a Service later has no OpenAPI in the API server."""
    services, registration, clock = desk()
    services.put(None)
    began = clock.monotonic()
    registration.publish(OWN)
    registration.publish(OWN)
    assert services.writes == ["delete", "create"]
    assert services.read().spec.service == SERVICE
    assert clock.monotonic() - began == GONE_SECONDS


def test_one_that_is_installed_again_is_replaced_at_once() -> None:
    services, registration, _ = desk()
    registration.publish(OWN)
    services.now = None
    with pytest.raises(NotFound):
        registration.publish(OWN)
    services.put(None)
    registration.publish(OWN)
    assert services.writes == ["create", "delete", "create"]


def test_two_replicas_that_replace_one_publish_both() -> None:
    services, registration, _ = desk()
    services.put(None)

    def act() -> None:
        services.now = None

    services.before_write = act
    registration.publish(OTHER)
    Registration(services, SERVICE, VirtualClock()).publish(OWN)
    assert services.writes == ["create", "update"]
    assert has_authority(bundle(services), OTHER)
    assert has_authority(bundle(services), OWN)


def test_another_replica_keeps_its_authority() -> None:
    services, registration, _ = desk()
    services.put(SERVICE, b64encode(OTHER).decode())
    registration.publish(OWN)
    assert has_authority(bundle(services), OTHER)
    assert has_authority(bundle(services), OWN)


def test_a_conflict_is_tried_again_with_what_is_there_then() -> None:
    services, registration, _ = desk()
    services.put(None)
    services.before_write = lambda: services.put(SERVICE, b64encode(OTHER).decode())
    registration.publish(OWN)
    assert has_authority(bundle(services), OTHER)
    assert has_authority(bundle(services), OWN)


class BusyServices(FakeApiServices):
    """Somebody always writes first."""

    def _check(self, seen: object) -> None:
        self.writes.append("tried")
        raise Conflict(409, "Conflict", "it has changed")


def test_conflicts_without_end_are_given_up() -> None:
    services = BusyServices()
    services.put(None)
    with pytest.raises(Conflict):
        Registration(services, SERVICE, VirtualClock()).publish(OWN)
    assert services.writes == ["tried"] * TRIES


def test_one_that_is_deleted_is_created_again_only_later() -> None:
    services, registration, clock = desk()
    registration.publish(OWN)
    services.now = None
    with pytest.raises(NotFound):
        registration.publish(OWN)
    clock.advance(MISSING_SECONDS - 1)
    with pytest.raises(NotFound):
        registration.publish(OWN)
    clock.advance(1)
    registration.publish(OWN)
    assert services.writes == ["create", "create"]


def seconds_until_created(
    services: FakeApiServices, registration: Registration, clock: VirtualClock
) -> float:
    """Delete it; return how long it takes until it is created again."""
    services.now, before = None, clock.monotonic()
    created = services.writes.count("create")
    while services.writes.count("create") == created:
        with contextlib.suppress(NotFound):
            registration.publish(OWN)
        clock.advance(10)
    return clock.monotonic() - before - 10


def test_one_that_is_deleted_again_and_again_is_created_less_often() -> None:
    services, registration, clock = desk()
    registration.publish(OWN)
    waits = [seconds_until_created(services, registration, clock) for _ in range(9)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    clock.advance(LASTING_SECONDS)
    assert seconds_until_created(services, registration, clock) == MISSING_SECONDS


def test_the_last_replica_deletes_it() -> None:
    services, registration, _ = desk()
    registration.publish(OWN)
    registration.withdraw(OWN)
    assert services.now is None
    registration.withdraw(OWN)
    assert services.writes == ["create", "delete"]


def test_others_go_on_when_a_replica_ends() -> None:
    services, registration, _ = desk()
    services.put(SERVICE, b64encode(OTHER + OWN).decode())
    services.before_write = services.touch
    registration.withdraw(OWN)
    assert not has_authority(bundle(services), OWN)
    assert has_authority(bundle(services), OTHER)
    assert services.writes == ["update"]


def test_a_replica_that_came_meanwhile_is_not_deleted() -> None:
    services, registration, _ = desk()
    registration.publish(OWN)
    services.before_write = lambda: services.put(SERVICE, b64encode(OWN + OTHER).decode())
    registration.withdraw(OWN)
    assert has_authority(bundle(services), OTHER)


def test_what_belongs_to_others_alone_is_left() -> None:
    services, registration, _ = desk()
    services.put(SERVICE, b64encode(OTHER).decode())
    registration.withdraw(OWN)
    assert services.writes == []
