"""Faults of the fake API server, at the import path for tests of plugins."""

from __future__ import annotations

from shared_api.fake_api_server.faults import (
    ANY_REQUEST,
    EVERY_TIME,
    Fault,
    Faults,
    Match,
    RequestInfo,
)

__all__ = [
    "ANY_REQUEST",
    "EVERY_TIME",
    "Fault",
    "Faults",
    "Match",
    "RequestInfo",
]
