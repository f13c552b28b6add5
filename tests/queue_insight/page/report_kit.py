"""A record of use, as some tenants of a busy cluster leave it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from queue_insight.record.samples import DAY, HOUR, bin_of
from queue_insight.record.use_sums import (
    QuotaUse,
    UseBlock,
    UseKey,
    UseRow,
    join_hour,
    join_hours,
)
from queue_insight.record.use_tables import TimedBlock, UseReach

TENANTS: Final = (
    UseKey("vision", "vision", "default", "lab", "ann", "PyTorchJob"),
    UseKey("vision", "vision", "default", "lab", "bob", "Job"),
    UseKey("speech", "speech", "team-b", "", "eve", "RayJob"),
)


class PlayedUse:
    """A `UseRecord` in which each tenant uses something in each hour, the first of them most.

    Attributes:
        tenants: Whose use there is; without any, nothing is recorded yet.
        missing_seconds: How much of each time was not counted.
    """

    def __init__(self, tenants: Sequence[UseKey] = TENANTS) -> None:
        self.tenants = tuple(tenants)
        self.missing_seconds = 0

    def namespaces(self, start: int, end: int, now: int) -> list[str]:
        del start, end, now
        return sorted({key.namespace for key in self.tenants})

    def visit(self, start: int, end: int, now: int, take: Callable[[TimedBlock], None]) -> UseReach:
        seconds = HOUR if end - start <= DAY else DAY
        for begin in range(start, min(end, now), seconds) if self.tenants else ():
            hours = [self._hour(begin + at) for at in range(0, min(seconds, now - begin), HOUR)]
            take(TimedBlock(begin, seconds, join_hours(hours)))
        return UseReach(start, end, start if self.tenants else None, self.missing_seconds)

    def _hour(self, begin: int) -> UseBlock:
        rows = []
        for number, key in enumerate(self.tenants):
            wave = 2 + math.sin(begin / 9_000 + number)
            gpus = int(8 * HOUR * wave / (number + 1))
            used = {"cpu": gpus * 8_000, "memory": gpus * 2**34, "nvidia.com/gpu": gpus}
            row = UseRow(key, used, {bin_of(60.0 * (number + 1)): 3, bin_of(3_600.0): 1}, 0, {})
            if number == 1 and begin // HOUR % 6 == 0:
                row.evictions, row.lost = 1, {"nvidia.com/gpu": gpus // 4}
            rows.append(row)
        quotas = {
            "vision": QuotaUse({"nvidia.com/gpu": 2 * HOUR}, {}, (("default",),)),
            "speech": QuotaUse({}, {"nvidia.com/gpu": HOUR}, (("team-b",),)),
        }
        return join_hour([UseBlock(rows, quotas)])
