"""The certificate that is served: for whom, how long, and by whom it is signed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509

from queue_insight.visibility.serving_certificate import VALID, make_serving_certificate
from tests.client_certificates import NOW

NAMES = ("insight.queue.svc", "insight.queue.svc.cluster.local")


def test_it_is_signed_by_its_own_authority_for_its_names() -> None:
    made = make_serving_certificate("pod-" + "x" * 70, NAMES, NOW)
    authority = x509.load_pem_x509_certificate(made.authority)
    certificate = x509.load_pem_x509_certificate(made.chain_and_key)
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == NAMES
    assert certificate.not_valid_after_utc == made.ends == NOW + VALID
    assert b"PRIVATE KEY" in made.chain_and_key
    assert b"PRIVATE KEY" not in made.authority


@pytest.mark.parametrize(
    ("after", "want"),
    [
        pytest.param(timedelta(), False, id="new"),
        pytest.param(VALID * 2 / 3 - timedelta(minutes=1), False, id="before two thirds"),
        pytest.param(VALID * 2 / 3, True, id="after two thirds"),
        pytest.param(timedelta(days=-1), True, id="a clock that was turned back"),
    ],
)
def test_when_it_is_renewed(after: timedelta, want: bool) -> None:
    assert make_serving_certificate("pod", NAMES, NOW).is_to_be_renewed(NOW + after) is want


def test_no_two_are_alike() -> None:
    one, two = (make_serving_certificate("pod", NAMES, NOW) for _ in range(2))
    assert one.authority != two.authority
