"""The OpenAPI document of a debug API as a file, for readers and for generators of clients.

Each program has a module `openapi` that writes its own; a test reports when one is stale.
"""

from __future__ import annotations

import msgspec
from fastapi import FastAPI


def encode_contract(app: FastAPI) -> bytes:
    """Return the OpenAPI document of an application as indented JSON, as it is checked in."""
    return msgspec.json.format(msgspec.json.encode(app.openapi()), indent=1) + b"\n"
