"""Programs of others that tests need: without one a test is skipped, and in CI it fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.tool_cache import BinariesUnavailable

IN_CI: Final = os.environ.get("CI", "").lower() == "true"


def require(find: Callable[[], Path], name: str, how: str = "") -> Path:
    """Return a program, or a folder of them.

    Args:
        find: Finds or builds it; raises BinariesUnavailable.
        name: What the reason calls it.
        how: How to get it.
    """
    try:
        return find()
    except BinariesUnavailable as error:
        if IN_CI:
            pytest.fail(f"{name} is not optional in CI: {error}", pytrace=False)
        pytest.skip(f"needs {name}{how and f' ({how})'}: {error}")
