"""Fixtures of the tests of replays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.queue_insight.replay.replay_kit import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder with a trace of five jobs, and quotas org, red and blue."""
    return Desk(tmp_path)
