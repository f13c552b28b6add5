"""Whom certificates and headers identify."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from queue_insight.visibility.front_proxy import (
    CertificateReader,
    FrontProxyError,
    read_trust,
)
from shared_api.authorization.caller import Caller
from shared_api.process.http_exchange import Request
from tests.client_certificates import NOW, Identity, make_authority, sign_client

PROXIES = make_authority("front-proxy-ca")
USERS = make_authority("cluster-ca")
FOREIGN = make_authority("front-proxy-ca")  # the same name, another key
PROXY = sign_client(PROXIES, "aggregator")

DATA = {
    "requestheader-client-ca-file": PROXIES.pem,
    "client-ca-file": USERS.pem,
    "requestheader-allowed-names": json.dumps(["aggregator"]),
    "requestheader-username-headers": json.dumps(["X-Remote-User"]),
    "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
    "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
    "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
}
ANN = (("x-remote-user", "ann"),)
SELF = "system:authenticated"


def identify(
    client: Identity | None, lines: tuple[tuple[str, str], ...] = ANN, **changes: str
) -> Caller | None:
    reader = CertificateReader(
        read_trust(DATA | {k.replace("_", "-"): v for k, v in changes.items()})
    )
    request = Request("GET", "/", {}, lines=lines, certificate=client.der if client else b"")
    return reader.identify(request, NOW)


@pytest.mark.parametrize(
    ("client", "want"),
    [
        pytest.param(PROXY, Caller("ann", groups=(SELF,)), id="the front proxy"),
        pytest.param(None, None, id="nobody without a certificate"),
        pytest.param(sign_client(PROXIES, "mallory"), None, id="not a name that is not allowed"),
        pytest.param(sign_client(FOREIGN, "aggregator"), None, id="not a foreign authority's"),
        pytest.param(
            sign_client(USERS, "aggregator", ["dev"]),
            Caller("aggregator", groups=("dev", SELF)),
            id="a user with the proxy's name is itself",
        ),
        pytest.param(
            sign_client(USERS, "bob", ["a", "b"]),
            Caller("bob", groups=("a", "b", SELF)),
            id="a user's headers count for nothing",
        ),
        pytest.param(PROXIES, None, id="not the authority itself"),
    ],
)
def test_who_is_believed(client: Identity | None, want: Caller | None) -> None:
    assert identify(client) == want


def test_an_empty_list_allows_every_name() -> None:
    other = sign_client(PROXIES, "other")
    assert identify(other, requestheader_allowed_names="[]") == Caller("ann", groups=(SELF,))


@pytest.mark.parametrize(
    ("client", "days"),
    [
        pytest.param(PROXY, 30, id="its authority's end"),
        pytest.param(sign_client(PROXIES, "aggregator", days=1), 1, id="its own end"),
        pytest.param(sign_client(USERS, "bob", days=1), 1, id="its own end, of a user's"),
    ],
)
def test_a_certificate_counts_until(client: Identity, days: int) -> None:
    reader = CertificateReader(read_trust(DATA))
    request = Request("GET", "/", {}, lines=ANN, certificate=client.der)
    for passed, is_known in ((0, True), (days * 24 - 1, True), (days * 24 + 1, False), (0, True)):
        got = reader.identify(request, NOW + timedelta(hours=passed))
        assert (got is not None) == is_known
    assert reader.identify(request, NOW - timedelta(hours=2)) is None


def test_every_header_is_read() -> None:
    lines = (
        ("x-remote-user", "Zo\u00eb".encode().decode("latin-1")),
        ("x-remote-uid", "u-1"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b, c"),
        ("x-remote-extra-example.org%2fscope", "one"),
        ("x-remote-extra-example.org%2fscope", "two"),
    )
    extra: dict[str, tuple[str, ...]] = {"example.org/scope": ("one", "two")}
    assert identify(PROXY, lines) == Caller("Zo\u00eb", "u-1", ("a", "b, c", SELF), extra)


def test_who_is_not_known_stays_unknown() -> None:
    lines = (("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated"))
    want = Caller("system:anonymous", groups=("system:unauthenticated",))
    assert identify(PROXY, lines) == want


@pytest.mark.parametrize(
    "lines", [(), (("x-remote-user", ""),), (("x-remote-user", "\xff\xfe"),), (("x-user", "ann"),)]
)
def test_a_proxy_that_names_nobody(lines: tuple[tuple[str, str], ...]) -> None:
    assert identify(PROXY, lines) is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"requestheader-client-ca-file": ""}, "no requestheader-client-ca-file"),
        ({"requestheader-client-ca-file": "-----BEGIN CERTIFICATE-----\nx"}, "cannot be read"),
        ({"requestheader-allowed-names": "aggregator"}, "allowed-names is no list"),
    ],
)
def test_what_cannot_be_used(changes: dict[str, str], said: str) -> None:
    with pytest.raises(FrontProxyError, match=said):
        read_trust(DATA | changes)


@pytest.mark.parametrize(
    ("names", "users", "want"),
    [("[]", PROXIES.pem, True), ('["x"]', PROXIES.pem, False), ("[]", USERS.pem, False)],
)
def test_users_who_could_claim_to_be_others(names: str, users: str, want: bool) -> None:
    trust = read_trust(DATA | {"requestheader-allowed-names": names, "client-ca-file": users})
    assert trust.believes_every_user is want
