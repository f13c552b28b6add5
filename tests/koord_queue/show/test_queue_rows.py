"""Queues as rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from koord_queue.show.queue_rows import COLUMNS, cells_of, state_of
from shared_api.objects.queue import Queue


def queue(stop: str = "", ready: str | None = "True") -> Queue:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready, "message": "why"}]
    status: dict[str, Any] = {"pending": 2, "stopPolicyInForce": stop, "conditions": conditions}
    meta = {"name": "team", "creationTimestamp": "2026-11-26T11:00:00Z"}
    return msgspec.convert(
        {"metadata": meta, "spec": {"queuePolicy": "FIFO"}, "status": status}, Queue
    )


@pytest.mark.parametrize(
    ("shown", "want"),
    [
        (queue(), "Open"),
        (queue("Hold", "False"), "Stopped"),
        (queue("HoldAndDrain", "False"), "Draining"),
        (queue("None", "False"), "NotReady"),
        (queue(ready=None), "Unknown"),
    ],
)
def test_states(shown: Queue, want: str) -> None:
    assert state_of(shown) == want


def test_cells_fit_their_headings() -> None:
    cells = cells_of(queue(ready="False"), datetime(2026, 11, 26, 12, 0, tzinfo=UTC))
    assert cells == ["team", "FIFO", "2", "0", "NotReady", "60m", "why"]
    assert len(cells) == len(COLUMNS)
