"""The authorities of all replicas in one `caBundle`."""

from __future__ import annotations

from base64 import b64decode, b64encode
from datetime import timedelta

import pytest

from queue_insight.visibility.ca_bundle import (
    MAX_AUTHORITIES,
    has_authority,
    read_bundle,
    with_authority,
    without_authority,
)
from tests.client_certificates import NOW, Identity, make_authority

OWN = make_authority("own")
OTHER = make_authority("other")
OLD = make_authority("old", NOW - timedelta(days=40))


def bundle(*pems: str) -> str:
    return b64encode("".join(pems).encode()).decode()


@pytest.mark.parametrize(
    ("before", "want"),
    [
        pytest.param("", [OWN], id="an empty one"),
        pytest.param(bundle(OTHER.pem), [OTHER, OWN], id="another replica's stays"),
        pytest.param(bundle(OLD.pem, OTHER.pem), [OTHER, OWN], id="an expired one leaves"),
        pytest.param(bundle(OWN.pem, OTHER.pem), [OTHER, OWN], id="its own is there once"),
        pytest.param(bundle(OTHER.pem, OTHER.pem), [OTHER, OWN], id="no other is there twice"),
        pytest.param("%%%", [OWN], id="one that is no base64"),
        pytest.param(bundle("-----BEGIN CERTIFICATE-----\nx"), [OWN], id="one that is no PEM"),
    ],
)
def test_an_authority_is_added(before: str, want: list[Identity]) -> None:
    got = with_authority(before, OWN.pem.encode(), NOW)
    assert b64decode(got).decode() == "".join(each.pem for each in want)
    assert has_authority(got, OWN.pem.encode())


def test_there_are_only_so_many() -> None:
    many = [make_authority(str(each), days=each + 1) for each in range(MAX_AUTHORITIES + 3)]
    got = read_bundle(with_authority(bundle(*(each.pem for each in many)), OWN.pem.encode(), NOW))
    assert got == [each.certificate for each in (*many[4:], OWN)]


def test_an_authority_is_taken_out() -> None:
    both = bundle(OLD.pem, OWN.pem, OTHER.pem)
    assert without_authority(both, OWN.pem.encode(), NOW) == bundle(OTHER.pem)
    assert without_authority(bundle(OLD.pem, OWN.pem), OWN.pem.encode(), NOW) == ""
    assert not has_authority(bundle(OTHER.pem), OWN.pem.encode())
