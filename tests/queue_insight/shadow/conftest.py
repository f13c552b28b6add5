"""Fixtures of the tests of the shadow's reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.queue_insight.shadow.shadow_kit import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A record with quota `team` of two cores."""
    return Desk(tmp_path)
