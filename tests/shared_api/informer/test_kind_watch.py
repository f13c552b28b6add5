"""A watch of a kind that may not be installed."""

from __future__ import annotations

import random

from shared_api.client.errors import ServerError
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.informer.kind_watch import POLL_SECONDS, KindWatch
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to


class Kind:
    """A kind that can be installed and removed, and a watch of it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.served: bool | None = False
        self.version = 0
        self.gone = 0
        self.why_not = ""
        self.made: list[str] = []
        rng = random.Random(1)
        server = FakeApiServer(clock=self.clock, rng=rng)
        client = client_to(server, self.clock)

        def make(version: ResourceType[AdmissionCheck]) -> SharedInformer[AdmissionCheck]:
            self.made.append(version.version)
            settings = InformerSettings(wait_seconds=0.0)
            return SharedInformer(client, version, clock=self.clock, rng=rng, settings=settings)

        self.watch: KindWatch[AdmissionCheck] = KindWatch(
            "Thing", find=self.find, make_informer=make, clock=self.clock, on_gone=self.on_gone
        )

    def find(self) -> ResourceType[AdmissionCheck] | str | None:
        if self.served is None:
            raise ServerError(503)
        if self.why_not:
            return self.why_not
        return ADMISSION_CHECK_VERSIONS[self.version] if self.served else None

    def on_gone(self) -> None:
        self.gone += 1

    def look(self) -> None:
        self.clock.advance(POLL_SECONDS)
        self.watch.step()


def test_a_missing_kind_is_awaited_and_does_not_affect_readiness() -> None:
    kind = Kind()
    assert kind.watch.check() == (False, "Thing: not looked for yet")
    kind.look()
    assert not kind.watch.is_served()
    assert kind.watch.is_ready()
    assert kind.watch.check() == (True, "Thing is not served, waiting for its CRD")


def test_a_kind_that_waits_for_another_reports_it() -> None:
    kind = Kind()
    kind.why_not = "waits for another"
    kind.look()
    assert kind.watch.is_ready()
    assert kind.watch.check() == (True, "Thing waits for another")
    kind.why_not = ""
    kind.look()
    assert kind.watch.check() == (True, "Thing is not served, waiting for its CRD")


def test_a_kind_is_released_to_another_at_the_second_check() -> None:
    kind = Kind()
    kind.served = True
    kind.look()
    kind.why_not = "waits for another"
    kind.look()
    assert (kind.watch.is_served(), kind.gone) == (True, 0)
    kind.look()
    assert (kind.watch.is_served(), kind.gone) == (False, 1)
    assert kind.watch.check() == (True, "Thing waits for another")


def test_it_is_checked_often_enough_to_be_found_within_ten_seconds() -> None:
    kind = Kind()
    kind.look()
    kind.served = True
    assert kind.watch.step() <= POLL_SECONDS < 10.0
    kind.look()
    assert kind.watch.is_served()
    assert not kind.watch.is_ready()  # it is not listed yet


def test_a_removed_kind_is_missed_at_the_second_check() -> None:
    kind = Kind()
    kind.served = True
    kind.look()
    kind.served = False
    kind.look()
    assert kind.watch.is_served()
    kind.look()
    assert not kind.watch.is_served()
    assert kind.gone == 1
    kind.served = True
    kind.look()
    assert kind.watch.is_served()


def test_without_an_answer_the_kind_stays_as_it_was() -> None:
    kind = Kind()
    kind.served = None
    kind.look()
    assert not kind.watch.is_ready()
    ok, detail = kind.watch.check()
    assert not ok
    assert "503" in detail
    kind.served = True
    kind.look()
    kind.served = None
    for _ in range(5):
        kind.look()
    assert kind.watch.is_served()


def test_a_better_version_is_watched_in_place_of_the_old_one() -> None:
    kind = Kind()
    kind.served, kind.version = True, 1
    kind.look()
    kind.look()
    kind.version = 0
    kind.look()
    assert kind.made == ["v1beta1", "v1beta2"]
    assert kind.watch.resource_type == ADMISSION_CHECK_VERSIONS[0]
    assert kind.gone == 0, "the kind has always been served"
