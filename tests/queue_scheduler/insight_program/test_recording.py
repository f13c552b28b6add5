"""What the record answers before its file is made, and when it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from queue_scheduler.debug_api.engine_state import NoStateError
from queue_scheduler.insight_program.followed_engine import FollowedEngine
from queue_scheduler.insight_program.recording import FILE, EngineRecorder, RecordedPast
from queue_scheduler.record.log_query import LogQuery
from shared_api.testing.virtual_clock import VirtualClock


@contextmanager
def recorded(folder: Path) -> Iterator[tuple[EngineRecorder, RecordedPast]]:
    """Yield what records, before its first step, and what reads."""
    path = folder / FILE
    with closing(EngineRecorder(FollowedEngine(), path, VirtualClock().now)) as recorder:
        yield (
            recorder,
            RecordedPast(path, lambda: recorder.until, lambda: recorder.is_opening, lambda: True),
        )


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
    with recorded(tmp_path) as (recorder, past):
        for _ in range(2):
            assert past.log(LogQuery()).entries == ()
            recorder.step()
        assert recorder.view().state == "recording"


def test_a_log_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with recorded(tmp_path) as (recorder, past):
        recorder.step()
        assert recorder.view().state == "stopped"
        with pytest.raises(NoStateError, match="cannot be read"):
            past.log(LogQuery())


def test_a_log_that_breaks_later_is_told(tmp_path: Path) -> None:
    with recorded(tmp_path) as (recorder, past):
        recorder.step()
        (tmp_path / FILE).unlink()
        with pytest.raises(NoStateError, match="cannot be read"):
            past.log(LogQuery())
