"""The fixtures of the scheduler's tests, and a pair of engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_insight.insight_program import feed_server
from tests.queue_insight.insight_kit import Pair, paired
from tests.queue_scheduler.conftest import kit, line

__all__ = ["kit", "line", "pair"]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A feed and its receiver, which never waits."""
    monkeypatch.setattr(feed_server, "REST_SECONDS", 0.0)
    with paired(tmp_path) as made:
        yield made
