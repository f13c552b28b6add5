"""TLS, logins, and proxies of the real transport."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from shared_api.client import http_transport
from shared_api.client.connection_settings import (
    ConnectionSettings,
    FixedLogin,
    Login,
    SettingsError,
    connection_settings,
)
from shared_api.client.errors import ConnectionLost, Timeout
from shared_api.client.http_transport import HttpTransport
from shared_api.client.transport import Request
from shared_api.process.clock import SystemClock
from tests.shared_api.client.scripted_server import (
    CA_PEM,
    CLIENT_KEY_PEM,
    CLIENT_PEM,
    PATIENCE_SECONDS,
    Peer,
    ScriptedServer,
    answers,
    scripted_server,
)

PATCH = Request("PATCH", "/api/v1/pods/p", body=b'{"a":1}')
SOON = 0.5
"""Seconds, for calls that must time out."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture
def tls_server() -> Iterator[ScriptedServer]:
    with scripted_server(tls=True, ask_client_certificate=True) as running:
        yield running


def transport_to(settings: ConnectionSettings) -> HttpTransport:
    return HttpTransport(settings, SystemClock())


# ------------------------------------------------------------------------------------------- TLS


def secure(
    server: ScriptedServer,
    login: Login | None = None,
    *,
    host: str = "127.0.0.1",
    verify: bool = True,
    tls_server_name: str = "",
) -> ConnectionSettings:
    return connection_settings(
        f"https://{host}:{server.port}",
        FixedLogin(login or Login(ca_pem=CA_PEM)),
        verify=verify,
        tls_server_name=tls_server_name,
    )


@pytest.mark.parametrize(
    ("verify", "ca_pem", "tls_server_name"),
    [
        pytest.param(True, CA_PEM, "", id="known authority, address in the certificate"),
        pytest.param(True, b"# \xc3\xa9\n" + CA_PEM, "api.test", id="name given separately"),
        pytest.param(False, b"", "", id="without verification"),
    ],
)
def test_a_trusted_server_is_accepted(
    tls_server: ScriptedServer, *, verify: bool, ca_pem: bytes, tls_server_name: str
) -> None:
    login = Login(ca_pem=ca_pem)
    settings = secure(tls_server, login, verify=verify, tls_server_name=tls_server_name)
    with closing(transport_to(settings)) as transport:
        assert transport.send(PATCH, PATIENCE_SECONDS).status == 200
        assert tls_server.client_certificates == [None]


@pytest.mark.parametrize(
    ("ca_pem", "tls_server_name", "want"),
    [
        pytest.param(b"", "", "self-signed certificate", id="unknown authority"),
        pytest.param(CA_PEM, "other.test", "Hostname mismatch", id="name of another server"),
    ],
)
def test_an_untrusted_server_is_refused(
    tls_server: ScriptedServer, ca_pem: bytes, tls_server_name: str, want: str
) -> None:
    settings = secure(tls_server, Login(ca_pem=ca_pem), tls_server_name=tls_server_name)
    with pytest.raises(ConnectionLost, match=f"certificate of .* is refused: .*{want}") as caught:
        transport_to(settings).send(PATCH, PATIENCE_SECONDS)
    assert not caught.value.sent
    assert tls_server.seen == []


def test_a_client_certificate_is_presented(tls_server: ScriptedServer) -> None:
    login = Login(certificate_pem=CLIENT_PEM, private_key_pem=CLIENT_KEY_PEM, ca_pem=CA_PEM)
    with closing(transport_to(secure(tls_server, login))) as transport:
        transport.send(PATCH, PATIENCE_SECONDS)
        assert "koord-queue-testers" in str(tls_server.client_certificates)


ENCRYPTED_KEY_PEM = (
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAhP\n"
    b"-----END ENCRYPTED PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "login",
    [
        pytest.param(Login(ca_pem=b"no certificate"), id="authorities"),
        pytest.param(Login(certificate_pem=b"no certificate"), id="certificate"),
        pytest.param(Login(certificate_pem=CLIENT_PEM), id="no key"),
        pytest.param(
            Login(certificate_pem=CLIENT_PEM, private_key_pem=ENCRYPTED_KEY_PEM), id="encrypted"
        ),
    ],
)
def test_unreadable_tls_files_are_found_at_once(tls_server: ScriptedServer, login: Login) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        transport_to(secure(tls_server, login))


def test_a_tls_handshake_that_times_out_counts_as_not_sent(tls_server: ScriptedServer) -> None:
    tls_server.greeting = tls_server.hangs
    with pytest.raises(Timeout) as caught:
        transport_to(secure(tls_server)).send(PATCH, SOON)
    assert not caught.value.sent


def test_the_handshake_has_its_own_timeout(
    tls_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "TLS_HANDSHAKE_SECONDS", SOON)
    tls_server.greeting = tls_server.hangs
    with pytest.raises(Timeout):
        transport_to(secure(tls_server)).send(PATCH, 100 * PATIENCE_SECONDS)


# ---------------------------------------------------------------------------------------- logins


class RotatingLogin:
    """Returns the next login of a list when one is rejected."""

    def __init__(self, *logins: Login) -> None:
        self.logins = list(logins)
        self.renewals = 0

    def current(self, limit_seconds: float = 0.0) -> Login:
        del limit_seconds
        return self.logins[0]

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        del limit_seconds
        self.renewals += 1
        if len(self.logins) > 1 and self.logins[0] == rejected:
            self.logins.pop(0)
        return self.logins[0]


OLD, NEW = Login(authorization="Bearer old"), Login(authorization="Bearer new")


@pytest.mark.parametrize(
    ("logins", "statuses", "want_status", "want_sent"),
    [
        pytest.param([OLD, NEW], [401, 200], 200, ["old", "new"], id="renewed"),
        pytest.param([OLD, NEW], [401, 401], 401, ["old", "new"], id="only once"),
        pytest.param([OLD], [401], 401, ["old"], id="there is no other"),
        pytest.param([OLD, NEW], [403], 403, ["old"], id="403 does not depend on the login"),
    ],
)
@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_401_renews_the_login_once(
    server: ScriptedServer,
    how: str,
    logins: list[Login],
    statuses: list[int],
    want_status: int,
    want_sent: list[str],
) -> None:
    source = RotatingLogin(*logins)
    with closing(transport_to(connection_settings(server.url, source))) as transport:
        server.plays(*(answers(status) for status in statuses))
        if how == "send":
            got = transport.send(PATCH, PATIENCE_SECONDS).status
        else:
            with closing(transport.stream(PATCH, PATIENCE_SECONDS)) as stream:
                got = stream.status
        assert got == want_status
        assert [seen.headers["authorization"] for seen in server.seen] == [
            f"Bearer {token}" for token in want_sent
        ]


def test_a_new_client_certificate_is_not_used_on_an_old_connection(
    tls_server: ScriptedServer,
) -> None:
    with_certificate = Login(
        certificate_pem=CLIENT_PEM, private_key_pem=CLIENT_KEY_PEM, ca_pem=CA_PEM
    )
    source = RotatingLogin(Login(ca_pem=CA_PEM), with_certificate)
    settings = connection_settings(f"https://127.0.0.1:{tls_server.port}", source)
    tls_server.plays(answers(401), answers(200))
    with closing(transport_to(settings)) as transport:
        assert transport.send(PATCH, PATIENCE_SECONDS).status == 200
        presented = [bool(certificate) for certificate in tls_server.client_certificates]
    assert presented == [False, True]


class NoLogin:
    """A login that has expired, or is refused, and whose renewal does not end in time."""

    def __init__(self, given: Login | None = None) -> None:
        self.given = given
        self.limits: list[float] = []

    def current(self, limit_seconds: float = 0.0) -> Login:
        if self.given is not None:
            return self.given
        return self.renew(OLD, limit_seconds)

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        self.limits.append(limit_seconds)
        raise SettingsError("the exec plugin p ended with 1")


def test_without_a_login_nothing_is_sent(server: ScriptedServer) -> None:
    source = NoLogin()
    transport = transport_to(connection_settings(server.url, source))
    with pytest.raises(ConnectionLost, match="no login: the exec plugin p ended with 1") as caught:
        transport.send(PATCH, PATIENCE_SECONDS)
    assert not caught.value.sent
    assert server.connections == 0
    (limit,) = source.limits
    assert 0 < limit <= PATIENCE_SECONDS


@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_refused_request_waits_for_a_login_at_most_until_its_timeout(
    server: ScriptedServer, how: str
) -> None:
    source = NoLogin(OLD)
    with closing(transport_to(connection_settings(server.url, source))) as transport:
        server.plays(answers(401))
        with pytest.raises(ConnectionLost, match="no login") as caught:
            getattr(transport, how)(PATCH, PATIENCE_SECONDS)
        assert not caught.value.sent
        (limit,) = source.limits
        assert 0 < limit <= PATIENCE_SECONDS


# --------------------------------------------------------------------------------------- proxies


def proxy_answering(answer: bytes, asked: list[bytes]) -> object:
    """Return a greeting that plays the proxy on a new connection; then the server takes over."""

    def greet(peer: Peer) -> None:
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            request += peer.sock.recv(1)
        asked.append(request)
        peer.send(answer)

    return greet


@pytest.mark.parametrize("tls", [True, False])
def test_a_proxy_is_asked_for_a_tunnel(*, tls: bool) -> None:
    asked: list[bytes] = []
    with scripted_server(tls=tls) as server:
        greeting = proxy_answering(b"HTTP/1.0 200 Connection established\r\nVia: p\r\n\r\n", asked)
        assert callable(greeting)
        server.greeting = greeting
        settings = connection_settings(
            f"{'https' if tls else 'http'}://api.test:6443",
            FixedLogin(Login(authorization="Bearer secret", ca_pem=CA_PEM)),
            proxy_url=f"http://user:p%40ss@127.0.0.1:{server.port}",
        )
        with closing(transport_to(settings)) as transport:
            for _ in range(2):  # the tunnel is reused too
                assert transport.send(PATCH, PATIENCE_SECONDS).status == 200
    want = (
        b"CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n"
        b"Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n"
    )
    assert asked == [want]
    assert server.seen[0].headers["host"] == "api.test:6443"


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refused CONNECT: HTTP/1.1 407"),
        (b"x" * 200_000, "gave no answer"),
    ],
)
def test_a_proxy_that_refuses_is_named(server: ScriptedServer, answer: bytes, want: str) -> None:
    greeting = proxy_answering(answer, [])
    assert callable(greeting)
    server.greeting = greeting
    settings = connection_settings(
        "https://api.test:6443", FixedLogin(Login()), proxy_url=f"http://127.0.0.1:{server.port}"
    )
    with pytest.raises(ConnectionLost, match=f"through the proxy 127.*{want}") as caught:
        transport_to(settings).send(PATCH, PATIENCE_SECONDS)
    assert not caught.value.sent
