"""The certificates and keys of tests/data/tls, for servers on loopback and their clients."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "data" / "tls"

CA: Final = str(FOLDER / "test_only_ca.pem")
"""The authority of all certificates here."""

CERTIFICATE: Final = str(FOLDER / "test_only_server.pem")
KEY: Final = str(FOLDER / "test_only_server_key.pem")
"""The server's."""

CLIENT_CERTIFICATE: Final = str(FOLDER / "test_only_client.pem")
CLIENT_KEY: Final = str(FOLDER / "test_only_client_key.pem")


def server_context() -> ssl.SSLContext:
    """Return the context of a server that shows its certificate and asks for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def client_context() -> ssl.SSLContext:
    """Return the context of a client that trusts the authority and no other."""
    return ssl.create_default_context(cafile=CA)
