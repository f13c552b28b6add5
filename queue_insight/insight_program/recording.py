"""Keeps what the program is told, and restores engines of earlier times from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.insight_views import RecordView
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed.messages import Checkpoint, Hello
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.sampler import Sampler
from queue_insight.insight_program.sources import Source
from queue_insight.insight_program.use_recording import UseRecorder
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.decision_log import DecisionLog
from queue_insight.record.log_query import LogPage, LogQuery, read_log
from queue_insight.record.record_file import bytes_of, read_store
from queue_insight.record.record_limits import DEFAULT_BYTES
from queue_insight.record.record_store import RecordStore
from queue_insight.record.record_tables import StoreError
from queue_insight.record.record_writer import RecordWriter
from queue_insight.record.sample_tables import Reach, TimedSample
from queue_insight.record.time_travel import TimeTravel, TooEarlyError
from queue_insight.record.use_sums import UsePart
from queue_insight.record.use_tables import TimedBlock, UseReach
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.cycles.engine_reader import OwnEngine

FILE: Final = "record"
"""The file in the folder of `--record-dir`."""

AnswerT = TypeVar("AnswerT")

log = structlog.get_logger("recording")


class EngineRecorder:
    """A `Recorder` that writes a file; its `step` is a thread of its own.

    Args:
        engine: The engine that follows; it has played what is recorded.
        path: The file.
        now: The wall time.
        limit_bytes: What all files of the record take at most.
        use: Has what accounts use; None: nothing is kept of it.
    """

    def __init__(
        self,
        engine: FollowedEngine,
        path: Path,
        now: Callable[[], datetime],
        limit_bytes: int = DEFAULT_BYTES,
        use: UseRecorder | None = None,
    ) -> None:
        self._engine = engine
        self._path = path
        self._now = now
        self._writer = RecordWriter(path, now, limit_bytes=limit_bytes)
        self._log = DecisionLog()
        self._sampler = Sampler(engine, now)
        self._use = use
        self._reported, self._refused = "", 0
        self._until: datetime | None = None
        self._since: datetime | None = None  # `Followed.since` of what is recorded

    # --- the feed's thread --------------------------------------------------------------------

    def on_hello(self, hello: Hello) -> None:
        """Take who sends; what is recorded begins with its checkpoint."""

    def on_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Begin again: calls between the last one and this engine are missing."""
        self._log = DecisionLog()
        self._writer.begin(checkpoint.number, self._engine.fork())
        self._since = checkpoint.wall

    def on_call(self, call: EngineCall, _encoded: bytes, answer: object) -> None:
        """Keep a call, and what was decided."""
        self._writer.add(call)
        entry = self._engine.ask(lambda engine: self._log.entry_of(call, answer, engine))
        if entry is not None:
            self._writer.add(entry)
        self._sampler.note(call, answer)
        if self._writer.needs_checkpoint(call.number):
            self._writer.checkpoint(call.number, self._engine.fork())

    def add_run(self, run: FinishedRun) -> None:
        """Keep a run that has ended."""
        self._writer.add(run)

    # --- the thread that writes ---------------------------------------------------------------

    def step(self) -> float:
        """Write what has come; return how many seconds to rest."""
        until = self._recorded_until()
        # Not on the thread of the feed: to look at all units takes longer than a call.
        batch = None if until is None else self._sampler.take()
        if batch is not None:
            self._writer.add_samples(batch)
            self._add_use(lambda use: use.take(batch))
        rest = self._writer.step(0.0 if until is None else until.timestamp())
        problem = self._writer.problem
        if problem and problem != self._reported:
            log.error("nothing is recorded now; it is tried again", problem=problem)
        elif self._reported and not problem:
            log.info("recording goes on")
        self._reported = problem
        if (refused := self._writer.parts_refused) > self._refused:
            log.warning("what was used is counted already: another process records it, or did")
        self._refused = refused
        if not problem and until is not None:
            self._until = until
        return rest

    def _recorded_until(self) -> datetime | None:
        """Return up to when this was told every call; None: that is not known now."""
        # Read before what has come is written: what comes meanwhile may be written or not.
        followed = self._engine.followed
        # Otherwise an engine was taken over of which this is told next. Calls that it has seen are
        # missing in the stretch before it, whose end must not be the time of that engine.
        return followed.state_at if followed is not None and followed.since == self._since else None

    def _add_use(self, take: Callable[[UseRecorder], list[UsePart]]) -> None:
        if self._use is not None:
            for part in take(self._use):
                self._writer.add_use(part)

    def close(self) -> None:
        """Write what has come, and close the file; call it after the threads have ended."""
        self._add_use(UseRecorder.take_last)
        self._writer.close()

    # --- questions ----------------------------------------------------------------------------

    @property
    def until(self) -> datetime | None:
        """Up to when everything is written; None: nothing is."""
        return self._until

    @property
    def is_opening(self) -> bool:
        """Whether the file is still to be opened or made: nothing was written, nothing failed."""
        return not self._writer.written_at and not self._writer.failures

    @property
    def failures(self) -> int:
        """How often recording has stopped."""
        return self._writer.failures

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is recorded now, because of an error."""
        return bool(self._writer.problem)

    def size_bytes(self) -> float:
        """Return what all files of the record take; NaN: it is not known."""
        try:
            return float(bytes_of(self._path))
        except OSError:
            return math.nan  # a file has gone since the folder was read

    def age_seconds(self) -> float:
        """Return how long ago the file was written; NaN: it was not."""
        at = self._writer.written_at
        return self._now().timestamp() - at if at else math.nan

    def view(self) -> RecordView:
        """Return what is kept."""
        writer = self._writer
        since = writer.complete_from
        return RecordView(
            state="stopped" if writer.problem else "recording",
            reason=writer.problem,
            complete_from=datetime.fromtimestamp(since, UTC) if since else None,
        )


def read_runs(path: Path, since: datetime, most: int = -1) -> list[FinishedRun]:
    """Return the runs of a record that have ended since a time, in order; none if it is broken.

    Args:
        path: The file.
        since: The time.
        most: How many, the newest; -1: all.
    """
    try:
        with closing(read_store(path)) as store:
            return list(store.finished_since(since.timestamp(), most))
    except (StoreError, msgspec.MsgspecError) as error:
        log.info("no runs are learned from the record", problem=str(error))
        return []


def read_last_run(path: Path, unit: str) -> FinishedRun | None:
    """Return the newest run of a unit (`namespace/name`) in a record; None: it is broken, or none.

    Args:
        path: The file.
        unit: The unit.
    """
    try:
        with closing(read_store(path)) as store:
            return next(store.finished_since(0.0, 1, unit), None)
    except (StoreError, msgspec.MsgspecError) as error:
        log.info("the last run of a unit cannot be read in the record", problem=str(error))
        return None


class RecordedPast:
    """A `Past` that reads the file.

    Args:
        path: The file.
        until: Returns up to when everything is written; None: nothing is.
        is_opening: Returns whether the file is still to be opened or made.
        is_leader: Returns whether the replica decides.
    """

    def __init__(
        self,
        path: Path,
        until: Callable[[], datetime | None],
        is_opening: Callable[[], bool],
        is_leader: Callable[[], bool],
    ) -> None:
        self._path = path
        self._travel = TimeTravel(path)
        self._until = until
        self._is_opening = is_opening
        self._is_leader = is_leader

    def at(self, moment: datetime) -> Source:
        """Return the engine as it was.

        Raises:
            NoStateError: The record does not reach that far, or cannot be read.
        """
        until = self._until()
        if until is None or moment > until:
            # Calls of that time may be on their way: an answer without them would be kept.
            last = "nothing is recorded yet" if until is None else f"up to {until.isoformat()}"
            msg = f"there is no state of {moment.isoformat()} in the record: {last}; ask again"
            raise NoStateError(msg)
        try:
            restored = self._travel.at(moment.timestamp())
        except (TooEarlyError, StoreError, CheckpointError) as error:
            raise NoStateError(f"there is no state of {moment.isoformat()}: {error}") from error
        # A copy, which the caller has for itself.
        return Source(OwnEngine(restored.engine), moment, self._is_leader(), lambda: moment)

    def log(self, query: LogQuery) -> LogPage:
        """Return a page of what was decided, the newest first.

        It is empty while the file is made, or moved aside since it is broken.

        Raises:
            NoStateError: The record cannot be read.
        """
        empty = LogPage(entries=(), cursor=None)
        return self._read(lambda store: read_log(store, query), empty)

    def samples(self, of: str, reach: Reach, now: float) -> list[TimedSample]:
        """Return samples up to a time, in order; see `SampleTables.read`.

        There are none while the file is made, or moved aside since it is broken.

        Raises:
            NoStateError: The record cannot be read.
        """
        return self._read(lambda store: store.samples.read(of, reach, now), [])

    def namespaces(self, start: int, end: int, now: int) -> list[str]:
        """Return whose use is recorded; see `UseTables`.

        Raises:
            NoStateError: The record cannot be read.
        """

        def read(store: RecordStore) -> list[str]:
            return store.use.namespaces(store.use.reach(start, end, now))

        return self._read(read, [])

    def visit(self, start: int, end: int, now: int, take: Callable[[TimedBlock], None]) -> UseReach:
        """Call `take` with each block of use of a time; return which time that was.

        Raises:
            NoStateError: The record cannot be read.
        """

        def read(store: RecordStore) -> UseReach:
            reach = store.use.reach(start, end, now)
            for block in store.use.read(reach):
                take(block)
            return reach

        return self._read(read, UseReach(start, end, None, max(0, min(end, now) - start)))

    def _read(self, question: Callable[[RecordStore], AnswerT], empty: AnswerT) -> AnswerT:
        # Asked first: the thread that writes may make the file while it is read here.
        is_opening = self._is_opening()
        try:
            with closing(read_store(self._path)) as store:
                return question(store)
        except StoreError as error:
            if is_opening:
                return empty
            raise NoStateError(f"the record cannot be read: {error}") from error
