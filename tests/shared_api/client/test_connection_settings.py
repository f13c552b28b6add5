"""URLs of servers and proxies."""

from __future__ import annotations

import pytest

from shared_api.client.connection_settings import (
    FixedLogin,
    Login,
    Proxy,
    SettingsError,
    WithoutCredentials,
    connection_settings,
)

LOGIN = FixedLogin(Login(authorization="Bearer a"))


@pytest.mark.parametrize(
    ("server", "want", "want_host_header"),
    [
        ("https://api.test", ("api.test", 443, True, ""), "api.test:443"),
        ("http://api.test:8080/", ("api.test", 8080, False, ""), "api.test:8080"),
        ("https://gw.test:1/k8s/c-1/", ("gw.test", 1, True, "/k8s/c-1"), "gw.test:1"),
        ("https://[fd00::1]:6443", ("fd00::1", 6443, True, ""), "[fd00::1]:6443"),
    ],
)
def test_a_server_is_read_from_its_url(
    server: str, want: tuple[str, int, bool, str], want_host_header: str
) -> None:
    got = connection_settings(server, LOGIN)
    assert (got.host, got.port, got.tls, got.path_prefix) == want
    assert got.host_header == want_host_header
    assert got.proxy is None


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("http://proxy.test:3128", Proxy("proxy.test", 3128)),
        ("proxy.test:3128", Proxy("proxy.test", 3128)),
        ("http://proxy.test", Proxy("proxy.test", 80)),
        ("http://u:p%3Aq@proxy.test:1", Proxy("proxy.test", 1, "Basic dTpwOnE=")),
        ("http://u@proxy.test:1", Proxy("proxy.test", 1, "Basic dTo=")),
    ],
)
def test_a_proxy_is_read_from_its_url(url: str, want: Proxy) -> None:
    assert connection_settings("https://api.test", LOGIN, proxy_url=url).proxy == want


@pytest.mark.parametrize(
    ("server", "proxy", "want"),
    [
        ("api.test:6443", "", "server URL 'api.test://None' does not have the form"),
        ("ftp://api.test", "", "server URL 'ftp://api.test' does not have the form"),
        ("https://", "", "does not have the form"),
        ("https://api.test:0", "", "does not have the form"),
        ("https://api.test:99999", "", "server URL cannot be read"),
        ("https://[fd00::1", "", "server URL cannot be read"),
        ("https://api.test", "https://u:secret@proxy.test", "proxy URL 'https://proxy.test' does"),
        ("https://api.test", "socks5://proxy.test:1080", "proxy URL 'socks5://proxy.test' does"),
    ],
)
def test_an_invalid_url_is_named_without_its_secrets(server: str, proxy: str, want: str) -> None:
    with pytest.raises(SettingsError) as caught:
        connection_settings(server, LOGIN, proxy_url=proxy)
    assert want in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_login_with_another_token_can_use_the_same_connection() -> None:
    one, other = Login(authorization="a", ca_pem=b"c"), Login(authorization="b", ca_pem=b"c")
    assert one.tls_identity == other.tls_identity
    assert one.tls_identity != Login(authorization="a", ca_pem=b"d").tls_identity
    assert LOGIN.renew(LOGIN.current(), 1.0) == LOGIN.current()


def test_the_authorities_of_a_login_are_given_without_its_credentials() -> None:
    own = Login(
        authorization="Bearer own",
        certificate_pem=b"c",
        private_key_pem=b"k",
        ca_pem=b"authorities",
    )
    login = WithoutCredentials(FixedLogin(own))
    want = Login(ca_pem=b"authorities")
    assert login.current() == want
    assert login.renew(want, 1.0) == want
