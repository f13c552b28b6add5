"""Selects the proxy that the environment asks for: HTTPS_PROXY, HTTP_PROXY, NO_PROXY.

Source: Go's golang.org/x/net/http/httpproxy, so that an environment in which kubectl works needs
nothing else. Python's `proxy_bypass_environment` does not support address ranges, which users
commonly give for clusters.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from shared_api.client.connection_settings import DEFAULT_PORTS


def proxy_from_environment(environment: Mapping[str, str], server: str) -> str:
    """Return the URL of the proxy for a server's URL, "" for none.

    The machine itself (localhost and loopback addresses) is never reached through a proxy.
    """
    parts = urlsplit(server)
    url = _variable(environment, f"{parts.scheme.upper()}_PROXY")
    host = parts.hostname or ""
    if not url or host == "localhost" or _is_loopback(host):
        return ""
    port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    exceptions = _variable(environment, "NO_PROXY").split(",")
    if any(_covers(entry.strip().lower(), host, port) for entry in exceptions):
        return ""
    return url


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _covers(entry: str, host: str, port: int) -> bool:
    """Return whether one entry of NO_PROXY matches this host.

    An entry is "*", an address, a range in CIDR form, or a domain (a leading "." or "*." excludes
    the domain itself); all but the range may end with a port.
    """
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        return _in_range(entry, host)
    entry, entry_port = _split_port(entry)
    if entry_port not in ("", str(port)):
        return False
    entry = entry.removeprefix("*")
    if entry.startswith("."):
        return host.endswith(entry)
    return host == entry or host.endswith(f".{entry}")


def _split_port(entry: str) -> tuple[str, str]:
    """Split "host:port", "[::1]:port" and "::1", the last of which has no port."""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        return host, rest.removeprefix(":")
    if entry.count(":") == 1:
        host, _, port = entry.partition(":")
        return host, port
    return entry, ""


def _in_range(entry: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:  # the host is a name, or the entry is not a range
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
