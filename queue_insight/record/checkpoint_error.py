"""What reading and writing an engine as bytes can end with."""

from __future__ import annotations


class CheckpointError(ValueError):
    """An engine cannot be written as bytes, or the bytes are none that `freeze` has written."""
