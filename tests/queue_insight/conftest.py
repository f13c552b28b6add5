"""The fixtures of the scheduler's tests."""

from __future__ import annotations

from tests.queue_scheduler.conftest import kit, line

__all__ = ["kit", "line"]
