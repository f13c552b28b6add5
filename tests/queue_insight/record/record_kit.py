"""An engine whose calls are recorded on disk, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from queue_insight.record.decision_log import DecisionLog
from queue_insight.record.record_limits import DEFAULT_BYTES
from queue_insight.record.record_pruning import Retention
from queue_insight.record.record_writer import RecordWriter
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_queue, build_quota
from tests.properties.real_quotas import new_engine


class Recorded:
    """Quota and queue `a` with 2 cores, and the record of everything since."""

    def __init__(
        self,
        path: Path,
        retention: Retention | None = None,
        limit_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self.path = path
        self.clock = VirtualClock()
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.on_quota(build_quota("a", cpu=2))
        self.engine.on_queue(build_queue("a"))
        self.writer = RecordWriter(path, self.clock.now, retention, limit_bytes)
        self.number = 0
        self._log = DecisionLog()
        self.writer.begin(0, self.engine.fork())

    @property
    def wall(self) -> float:
        return self.clock.now().timestamp()

    def call(self, name: str, *args: Any) -> object:
        """Make a call, one second after the last one, and record it."""
        self.clock.advance(1.0)
        self.number += 1
        call = EngineCall(self.number, self.wall, name, args)
        answer = play(self.engine, call)
        self.writer.add(call)
        entry = self._log.entry_of(call, answer, self.engine)
        if entry is not None:
            self.writer.add(entry)
        return answer

    def checkpoint(self) -> None:
        self.writer.checkpoint(self.number, self.engine.fork())

    def write(self) -> None:
        """Write everything until now."""
        self.writer.step(self.wall)
