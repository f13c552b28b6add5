"""What keeps the aggregated API reachable, and what is said when something is missing."""

from __future__ import annotations

import json
import random

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from queue_insight.visibility.ca_bundle import has_authority, read_bundle
from queue_insight.visibility.registration import Registration
from queue_insight.visibility.serving_certificate import RENEWED_AFTER, VALID
from queue_insight.visibility.tls_contexts import TlsContexts
from queue_insight.visibility.upkeep import LOOK_SECONDS, WAIT_SECONDS, Upkeep
from shared_api.client.errors import ApiFailure, Forbidden
from shared_api.fake_api_server.faults import Match
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_certificates import make_authority
from tests.client_kit import client_to
from tests.queue_insight.api_service_kit import SERVICE, FakeApiServices

PROXIES = make_authority("front-proxy-ca")
CONFIG = "extension-apiserver-authentication"


class RecordedContexts(TlsContexts):
    """Keeps what was served."""

    def __init__(self) -> None:
        super().__init__()
        self.served: list[tuple[bytes, str]] = []

    def change(self, chain_and_key: bytes, client_authorities: str) -> None:
        super().change(chain_and_key, client_authorities)
        self.served.append((chain_and_key, client_authorities))


class Desk:
    """An upkeep over an API server in memory."""

    def __init__(self, *, config: bool = True) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(7))
        self.services = FakeApiServices()
        self.services.put(SERVICE)
        self.contexts = RecordedContexts()
        self.is_ready = True
        client = client_to(self.server, self.clock)
        registration = Registration(self.services, SERVICE, self.clock)
        self.upkeep = Upkeep(
            client,
            registration,
            self.contexts,
            self.clock,
            lambda: self.is_ready,
            owner="pod",
            names=("a.b.svc",),
        )
        if config:
            self.write_config(PROXIES.pem)

    def write_config(self, authority: str) -> None:
        names = json.dumps(["X-Remote-User"])
        data = {
            "requestheader-client-ca-file": authority,
            "requestheader-username-headers": names,
        }
        meta = {"name": CONFIG, "namespace": "kube-system"}
        if self.server.direct.exists("configmaps", CONFIG, "kube-system"):
            self.server.direct.delete("configmaps", CONFIG, "kube-system")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        self.server.direct.create(body)

    def steps(self, count: int = 3) -> None:
        for _ in range(count):
            assert self.upkeep.step() == LOOK_SECONDS
            self.clock.advance(LOOK_SECONDS)

    @property
    def bundle(self) -> str:
        return self.services.read().spec.ca_bundle


def test_it_is_served_and_published_once() -> None:
    desk = Desk()
    assert desk.upkeep.seconds_left() != desk.upkeep.seconds_left()  # NaN
    desk.steps()
    assert len(desk.contexts.served) == 1
    assert desk.services.writes == ["update"]
    assert 0 < desk.upkeep.seconds_left() < VALID.total_seconds()
    assert desk.upkeep.certificates is not None


def test_nothing_is_published_before_there_is_anything_to_answer_from() -> None:
    desk = Desk()
    desk.is_ready = False
    assert [desk.upkeep.step() for _ in range(3)] == [WAIT_SECONDS] * 3
    assert not desk.server.journal
    desk.is_ready = True
    desk.steps()
    desk.is_ready = False
    desk.steps()
    assert desk.services.writes == ["update"]


def test_without_the_config_map_nothing_is_published() -> None:
    desk = Desk(config=False)
    with capture_logs() as logs:
        desk.steps()
    assert len(logs) == 1
    assert CONFIG in logs[0]["event"]
    assert desk.services.writes == []
    desk.write_config(PROXIES.pem)
    desk.steps()
    assert desk.services.writes == ["update"]


@pytest.mark.parametrize(
    ("pem", "said"),
    [("", "no requestheader-client-ca-file"), ("-----BEGIN CERTIFICATE-----", "cannot be read")],
)
def test_a_config_map_that_cannot_be_used(pem: str, said: str) -> None:
    desk = Desk()
    desk.steps()
    before = desk.upkeep.certificates
    desk.write_config(pem)
    with capture_logs() as logs:
        desk.steps()
    assert [said in line["event"] for line in logs] == [True]
    assert desk.upkeep.certificates is before


def test_a_missing_right_is_one_line_each() -> None:
    desk = Desk()
    refusal: ApiFailure = Forbidden(403, "Forbidden", "no")
    desk.services.failure = refusal
    desk.server.faults.fail(403, times=3, match=Match(plural="configmaps"))
    with capture_logs() as logs:
        desk.steps(6)
    said = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert len(said) == 2
    assert "the right get on configmaps kube-system/extension-apiserver-authentication" in said[0]
    assert "get, create, patch and delete on apiservices v1alpha1.visibility" in said[1]
    desk.services.failure = None
    desk.steps()
    assert desk.services.read().spec.service == SERVICE


def test_an_authority_is_followed() -> None:
    desk = Desk()
    desk.steps()
    new = make_authority("front-proxy-ca")
    desk.write_config(new.pem)
    desk.steps()
    assert [authorities for _, authorities in desk.contexts.served] == [
        PROXIES.pem.strip(),
        new.pem.strip(),
    ]


def test_a_new_certificate_is_published_before_it_is_served() -> None:
    desk = Desk()
    desk.steps()
    desk.clock.advance(RENEWED_AFTER.total_seconds())
    desk.services.failure = Forbidden(403, "Forbidden", "no")
    desk.steps()
    assert len(desk.contexts.served) == 1
    desk.services.failure = None
    desk.steps()
    assert len(desk.contexts.served) == 2
    assert len(read_bundle(desk.bundle)) == 2


def test_an_expired_certificate_is_replaced_at_once() -> None:
    desk = Desk()
    desk.steps()
    desk.clock.advance(VALID.total_seconds())
    desk.services.failure = Forbidden(403, "Forbidden", "no")
    desk.steps(1)
    served = [x509.load_pem_x509_certificate(chain) for chain, _ in desk.contexts.served]
    assert len(served) == 2
    assert served[1].not_valid_after_utc > desk.clock.now()


def test_the_registration_is_taken_back() -> None:
    desk = Desk()
    desk.upkeep.withdraw()
    desk.steps()
    desk.upkeep.withdraw()
    assert desk.services.now is None


def test_the_bundle_has_what_is_served() -> None:
    desk = Desk()
    desk.steps()
    authority = read_bundle(desk.bundle)[0]
    served = x509.load_pem_x509_certificate(desk.contexts.served[0][0])
    served.verify_directly_issued_by(authority)
    assert not has_authority("", PROXIES.pem.encode())
