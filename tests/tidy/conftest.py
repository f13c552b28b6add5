"""The time that rules have: they read the whole tree, and so wait for nothing but the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

TREE_SECONDS = 900
"""The first rule to ask parses every file: ten seconds of the processor, which others may use."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of this folder that set no timeout one for a busy machine."""
    for item in items:
        is_here = Path(__file__).parent in item.path.parents
        if is_here and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TREE_SECONDS))
