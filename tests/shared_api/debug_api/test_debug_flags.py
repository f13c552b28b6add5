"""The flags for the address of a debug API."""

from __future__ import annotations

import argparse

import pytest

from shared_api.debug_api.debug_flags import DebugFlags, add_debug_flags, read_debug_flags


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param((), DebugFlags(address="127.0.0.1:1"), id="the program's own port"),
        pytest.param(
            ("--debug-address=:2", "--debug-tls-certificate=c", "--debug-tls-key=k"),
            DebugFlags(address=":2", tls_certificate="c", tls_key="k"),
            id="for the cluster, with TLS",
        ),
        pytest.param(
            ("--debug-hosts=a.example.com, b,,",),
            DebugFlags(address="127.0.0.1:1", hosts=("a.example.com", "b")),
            id="names of this machine, without empty ones",
        ),
    ],
)
def test_the_flags(arguments: tuple[str, ...], want: DebugFlags) -> None:
    parser = argparse.ArgumentParser()
    add_debug_flags(parser, address="127.0.0.1:1")
    assert read_debug_flags(parser.parse_args(arguments)) == want
