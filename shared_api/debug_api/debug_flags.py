"""The flags of a debug API: where it listens, and with what; the same in both programs."""

from __future__ import annotations

import argparse

import msgspec


class DebugFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags, read. The address is a text; `shared_api.process.probes` parses it."""

    address: str
    hosts: tuple[str, ...] = ()
    """Names in addition to this machine's own under which the plain debug API may be asked."""
    tls_certificate: str = ""
    tls_key: str = ""


def add_debug_flags(parser: argparse.ArgumentParser, *, address: str) -> None:
    """Add them to a program's parser."""
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
        help="names besides localhost that requests may have in their header Host, on a loopback"
        " address without TLS",
    )
    add("--debug-tls-certificate", default="", help="PEM file; needed off the loopback address")
    add("--debug-tls-key", default="", help="PEM file of the certificate's key")


def read_debug_flags(got: argparse.Namespace) -> DebugFlags:
    """Return what a parser with these flags has read."""
    return DebugFlags(
        address=got.debug_address,
        hosts=tuple(filter(None, (each.strip() for each in got.debug_hosts.split(",")))),
        tls_certificate=got.debug_tls_certificate,
        tls_key=got.debug_tls_key,
    )
