"""Which proxy the environment selects."""

from __future__ import annotations

import pytest

from shared_api.client.proxy_choice import proxy_from_environment

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("server", "no_proxy", "want"),
    [
        pytest.param("https://api.test:6443", "", PROXY, id="no exceptions"),
        pytest.param("https://api.test:6443", "*", "", id="all"),
        pytest.param("https://api.test:6443", "other.test, api.test", "", id="by name"),
        pytest.param("https://api.test:6443", "API.TEST", "", id="in capitals"),
        pytest.param("https://a.api.test", "api.test", "", id="a name within the domain"),
        pytest.param("https://myapi.test", "api.test", PROXY, id="a name with the same ending"),
        pytest.param("https://a.api.test", ".api.test", "", id="leading dot, within"),
        pytest.param("https://api.test", ".api.test", PROXY, id="leading dot, the domain itself"),
        pytest.param("https://a.api.test", "*.api.test", "", id="star, within"),
        pytest.param("https://api.test", "*.api.test", PROXY, id="star, the domain itself"),
        pytest.param("https://api.test:6443", "api.test:6443", "", id="its port"),
        pytest.param("https://api.test:6443", "api.test:443", PROXY, id="another port"),
        pytest.param("https://api.test", "api.test:443", "", id="its default port"),
        pytest.param("https://10.1.2.3:6443", "10.0.0.0/8", "", id="in a range"),
        pytest.param("https://11.1.2.3:6443", "10.0.0.0/8", PROXY, id="not in a range"),
        pytest.param("https://api.test", "10.0.0.0/8", PROXY, id="a name is in no range"),
        pytest.param("https://10.1.2.3", "10.1.2.3", "", id="by address"),
        pytest.param("https://[fd00::1]:6443", "fd00::/8", "", id="in a range, IPv6"),
        pytest.param("https://[fd00::1]:6443", "fd00::1", "", id="by address, IPv6"),
        pytest.param("https://[fd00::1]:6443", "[fd00::1]:6443", "", id="address and port, IPv6"),
        pytest.param("https://api.test", "nonsense/8, ,", PROXY, id="invalid entries"),
        pytest.param("https://localhost:6443", "", "", id="this machine by name"),
        pytest.param("https://127.0.0.1:6443", "", "", id="this machine by address"),
        pytest.param("https://[::1]:6443", "", "", id="this machine, IPv6"),
        pytest.param("http://api.test", "", "", id="the other scheme"),
    ],
)
def test_exceptions(server: str, no_proxy: str, want: str) -> None:
    got = proxy_from_environment({"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}, server)
    assert got == want


@pytest.mark.parametrize(
    ("environment", "server", "want"),
    [
        ({}, "https://api.test", ""),
        ({"https_proxy": PROXY}, "https://api.test", PROXY),
        ({"https_proxy": PROXY, "no_proxy": "api.test"}, "https://api.test", ""),
        ({"HTTPS_PROXY": "", "https_proxy": PROXY}, "https://api.test", PROXY),
        ({"HTTP_PROXY": PROXY}, "http://api.test", PROXY),
        ({"HTTP_PROXY": PROXY}, "https://api.test", ""),
    ],
)
def test_variables(environment: dict[str, str], server: str, want: str) -> None:
    assert proxy_from_environment(environment, server) == want
