"""Which program has written a part of the record: a checkpoint has the classes of one version."""

from __future__ import annotations

import sys

from shared_api.version import VERSION


def describe_writer() -> str:
    """Return version and interpreter of this program: only the same reads its checkpoints."""
    python = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
    return f"version {VERSION} on {python}"
