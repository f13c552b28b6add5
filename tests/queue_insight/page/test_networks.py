"""Which addresses are of a network."""

from __future__ import annotations

import pytest

from queue_insight.page.networks import is_within, read_networks

ADDRESSES = [
    pytest.param("10.1.2.3", True, id="an address of the network"),
    pytest.param("11.1.2.3", False, id="another address"),
    pytest.param("192.168.7.7", True, id="a single address"),
    pytest.param("192.168.7.8", False, id="the one after it"),
    pytest.param("::ffff:10.1.2.3", True, id="one of IPv4 on a port for both families"),
    pytest.param("fd00::9", True, id="one of IPv6"),
    pytest.param("fd01::9", False, id="another one of IPv6"),
    pytest.param("fe80::1%eth0", False, id="one with a zone"),
    pytest.param("", False, id="an address that is not known"),
]


@pytest.mark.parametrize(("address", "want"), ADDRESSES)
def test_an_address_is_within(address: str, *, want: bool) -> None:
    networks = read_networks(["10.0.0.0/8", "192.168.7.7", "fd00::/64"])
    assert is_within(address, networks) is want
    assert not is_within(address, ())


@pytest.mark.parametrize("text", ["10.0.0.1/8", "here", "10.0.0.0/33"])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_networks(["10.0.0.0/8", text])
