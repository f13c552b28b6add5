"""A pair of engines for the tests of the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_insight.insight_program import feed_server
from tests.queue_insight.insight_kit import Pair, paired


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """A feed and its receiver, which never waits."""
    monkeypatch.setattr(feed_server, "REST_SECONDS", 0.0)
    with paired(tmp_path) as made:
        yield made
