"""TLS whose certificate changes while it is served: `test_server` has the connections."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from queue_insight.visibility.serving_certificate import make_serving_certificate
from queue_insight.visibility.tls_contexts import TlsContexts
from tests.client_certificates import NOW


def test_there_is_nothing_to_show_at_first() -> None:
    with socket.socket() as plain, pytest.raises(ssl.SSLError, match="no certificate yet"):
        TlsContexts().wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def test_the_key_is_in_no_file_and_no_descriptor_is_left() -> None:
    made = make_serving_certificate("pod", ("a.b.svc",), NOW)
    contexts = TlsContexts()
    contexts.change(made.chain_and_key, made.authority.decode())
    left = [_target(each) for each in Path("/proc/self/fd").iterdir()]
    assert [each for each in left if "serving-key" in each] == []


@pytest.mark.parametrize("authorities", ["-----BEGIN CERTIFICATE-----\nx", "nothing"])
def test_what_cannot_be_read_changes_nothing(authorities: str) -> None:
    made = make_serving_certificate("pod", ("a.b.svc",), NOW)
    contexts = TlsContexts()
    with pytest.raises(ssl.SSLError):
        contexts.change(made.chain_and_key, authorities)
    with socket.socket() as plain, pytest.raises(ssl.SSLError, match="no certificate yet"):
        contexts.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""
