"""Finds or builds the control plane's binaries; the last line of stdout is their folder."""

from __future__ import annotations

import sys

from tests.controlplane.binaries import find_or_build
from tests.controlplane.tool_cache import BinariesUnavailable


def main() -> int:
    """Return the exit status: 1 without the binaries, with the reason on stderr."""
    try:
        folder = find_or_build()
    except BinariesUnavailable as error:
        sys.stderr.write(f"controlplane: {error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
