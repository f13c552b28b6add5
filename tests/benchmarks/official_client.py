"""The Kubernetes project's own client, as the control of ours."""

from __future__ import annotations

from kubernetes import client

from tests.tls_files import CA


def connect(port: int, authorization: str) -> client.ApiClient:
    """Return the official client of a server on loopback.

    Args:
        port: Of the server, with the certificate of the tests.
        authorization: Its header.
    """
    configuration = client.Configuration(host=f"https://127.0.0.1:{port}")
    configuration.ssl_ca_cert = str(CA)
    configuration.api_key = {"authorization": authorization}
    return client.ApiClient(configuration)
