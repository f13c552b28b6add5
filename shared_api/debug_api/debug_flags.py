"""The flags of a debug API, which are the same in both programs: address, hosts, TLS."""

from __future__ import annotations

import argparse

import msgspec


class DebugFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed flags. The address is a text; `shared_api.process.probes` parses it."""

    address: str
    hosts: tuple[str, ...] = ()
    """Host names, in addition to this machine's own, that requests to a plain debug API may use."""
    tls_certificate: str = ""
    tls_key: str = ""


def add_debug_flags(parser: argparse.ArgumentParser, *, address: str) -> None:
    """Add the flags to a program's parser; `address` is the default address."""
    add = parser.add_argument
    add(
        "--debug-address",
        default=address,
        help="debug API; port 0 picks a free one (default: %(default)s)",
    )
    add(
        "--debug-hosts",
        default="",
        metavar="NAMES",
        help="names, in addition to localhost, that the header Host may have on a loopback address"
        " without TLS",
    )
    add(
        "--debug-tls-certificate",
        default="",
        help="PEM file; required on other addresses than loopback",
    )
    add("--debug-tls-key", default="", help="PEM file of the certificate's key")


def read_debug_flags(got: argparse.Namespace) -> DebugFlags:
    """Return the values that a parser with these flags has read."""
    return DebugFlags(
        address=got.debug_address,
        hosts=tuple(filter(None, (each.strip() for each in got.debug_hosts.split(",")))),
        tls_certificate=got.debug_tls_certificate,
        tls_key=got.debug_tls_key,
    )
