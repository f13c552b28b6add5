"""What the record answers before its file is made, in a gap, and when it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.insight_feed.messages import Checkpoint
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.recording import FILE, EngineRecorder, RecordedPast
from queue_insight.record.checkpoint import freeze
from queue_insight.record.log_query import LogQuery
from queue_insight.record.sample_tables import REACHES
from queue_insight.record.samples import WHOLE
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.insight_kit import new_engine


class Following(NamedTuple):
    """A program that follows and records, with both its threads stepped by a test."""

    clock: VirtualClock
    engine: FollowedEngine
    recorder: EngineRecorder
    past: RecordedPast

    def begin(self) -> Checkpoint:
        """Take over an engine a minute later; what is recorded is not told yet."""
        self.clock.advance(60)
        got = Checkpoint(number=0, wall=self.clock.now(), engine=freeze(new_engine()))
        self.engine.begin(got)
        return got


@contextmanager
def recorded(folder: Path) -> Iterator[Following]:
    """Yield what records, before its first step, and what reads."""
    path, clock, engine = folder / FILE, VirtualClock(), FollowedEngine()
    with closing(EngineRecorder(engine, path, clock.now)) as made:
        past = RecordedPast(path, lambda: made.until, lambda: made.is_opening, lambda: True)
        yield Following(clock, engine, made, past)


def no_file(_: Path) -> None:
    """Leave the folder empty."""


def begun_file(path: Path) -> None:
    """Make the file as the thread that writes does, before it has its tables."""
    path.touch()


def broken_file(path: Path) -> None:
    """Leave a file that the thread that writes is going to move aside."""
    path.write_bytes(b"not a database" * 100)


@pytest.mark.parametrize("before", [no_file, begun_file, broken_file])
def test_the_log_is_empty_until_its_file_is_made(
    tmp_path: Path, before: Callable[[Path], None]
) -> None:
    before(tmp_path / FILE)
    with recorded(tmp_path) as (_, _, recorder, past):
        for _ in range(2):
            assert past.log(LogQuery()).entries == ()
            recorder.step()
        assert recorder.view().state == "recording"


def test_a_log_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with recorded(tmp_path) as (_, _, recorder, past):
        recorder.step()
        assert recorder.view().state == "stopped"
        with pytest.raises(NoStateError, match="cannot be read"):
            past.log(LogQuery())


def test_a_log_that_breaks_later_is_told(tmp_path: Path) -> None:
    with recorded(tmp_path) as (_, _, recorder, past):
        recorder.step()
        (tmp_path / FILE).unlink()
        with pytest.raises(NoStateError, match="cannot be read"):
            past.log(LogQuery())


def test_samples_are_kept_from_the_first_minute_on(tmp_path: Path) -> None:
    with recorded(tmp_path) as following:
        clock, recorder, past = following.clock, following.recorder, following.past

        def begins() -> list[int]:
            now = clock.now().timestamp()
            return [each.begin for each in past.samples(WHOLE, REACHES["1h"], now)]

        recorder.step()
        assert begins() == [], "nothing is followed"
        recorder.on_checkpoint(following.begin())
        recorder.step()
        first = int(clock.now().timestamp()) // 60 * 60
        assert begins() == [first]
        recorder.on_checkpoint(following.begin())
        recorder.step()
        assert begins() == [first, first + 60]


def test_what_a_new_engine_makes_up_for_is_a_gap(tmp_path: Path) -> None:
    with recorded(tmp_path) as following:
        recorder, past = following.recorder, following.past
        first = following.begin()
        recorder.on_checkpoint(first)
        recorder.step()
        second = following.begin()
        recorder.step()  # of the other thread, before this one has told the recorder
        assert recorder.until == first.wall
        recorder.on_checkpoint(second)
        recorder.step()
        assert recorder.until == second.wall
        assert past.at(first.wall).state_at == first.wall
        assert past.at(second.wall).state_at == second.wall
        with pytest.raises(NoStateError, match="nothing was recorded after"):
            past.at(first.wall + timedelta(seconds=30))
