"""What quotas used at each hour of the last day, from the record; of a young one, more often.

An engine of the past takes some seconds to restore. It does not change any more, so what all quotas
used then is kept, and nothing else of it: each has units of its own, of some 30 MB at 10,000. No
answer waits for it: after one, a few are restored for the next.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.page.known_state import KnownState, read_state
from queue_insight.page.sources import PageSources

HOURS: Final = 24
YOUNG: Final = timedelta(hours=2)
"""A record that begins later than so long ago has hardly an hour to show."""
STEP: Final = timedelta(minutes=10)
"""The step through a young record: the writer keeps a checkpoint as often."""
BUDGET_SECONDS: Final = 1.0
"""The time of one request after which no further engine is restored."""


class QuotaHistory:
    """Reads the past; callable from any thread.

    Args:
        sources: Returns engines of earlier times.
    """

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._turn = threading.Lock()  # held while engines are restored
        # Replaced as a whole by the thread that restores; read by all.
        self._kept: dict[datetime, KnownState | None] = {}

    def states(self) -> list[KnownState]:
        """Return the states that are known, the oldest first; it waits for nothing.

        They have only what was known of quotas: `trees` and `users`.
        """
        return [each for _, each in sorted(self._kept.items()) if each is not None]

    def read(self) -> None:
        """Restore a few of those that are missing, if no other thread does."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._read()
        finally:
            self._turn.release()

    def _read(self) -> None:
        clock = self._sources.clock
        now = clock.now().astimezone(UTC)
        last = now.replace(minute=0, second=0, microsecond=0)
        wanted = _times_of(now, self._sources.insight().record.complete_from)
        self._kept = {at: each for at, each in self._kept.items() if at in wanted}
        until = clock.monotonic() + BUDGET_SECONDS
        for at in wanted:
            if at in self._kept:
                continue
            if clock.monotonic() >= until:
                return
            try:
                self._keep(at, _quotas_of(read_state(self._sources.at(at), 0)))
            except NoStateError:
                if at < last:  # what is newer may not be written yet
                    self._keep(at, None)

    def _keep(self, at: datetime, state: KnownState | None) -> None:
        self._kept = {**self._kept, at: state}


def _quotas_of(state: KnownState) -> KnownState:
    """Return a state without what grows with the number of units and queues."""
    return msgspec.structs.replace(
        state,
        queues=(),
        waiting={},
        to_act=(),
        not_running=(),
        unqueued=(),
        records={},
    )


def _times_of(now: datetime, begin: datetime | None) -> list[datetime]:
    """Return the times of the history, the newest first; `begin`: of the record, None: none."""
    if begin is None:
        return []
    last = now.replace(minute=0, second=0, microsecond=0)
    hours = [last - timedelta(hours=each) for each in range(HOURS)]
    begin = begin.astimezone(UTC)
    if begin <= now - YOUNG:
        return [each for each in hours if each >= begin]
    # A record of some minutes has no full hour: what there is begins with it.
    return [begin + each * STEP for each in range((now - begin) // STEP, -1, -1)]
