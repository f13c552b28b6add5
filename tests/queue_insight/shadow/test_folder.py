"""The record on disk: crashes, its limit, and errors with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_insight.shadow.folder import FILE, RecordError, RecordFile, read_lines
from queue_insight.shadow.lines import Alive, JobStarted, Line

MOST = 1 << 20


def write(folder: Path, *lines: Line, most: int = MOST) -> RecordFile:
    file = RecordFile(folder, most)
    for line in lines:
        file.write(line)
    file.close()
    return file


def test_a_line_that_a_crash_has_cut_off_does_not_count(tmp_path: Path) -> None:
    first, second = Alive(at=1.5), JobStarted(at=2, uid="u")
    write(tmp_path, first)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes() + b'{"type":"alive","at":')
    assert list(read_lines(tmp_path)) == [first]
    write(tmp_path, second)
    assert list(read_lines(path)) == [first, second], "the file itself can be named as well"


def test_a_full_file_stays_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, *(Alive(at=number) for number in range(100)), most=200)
    assert file.is_full
    assert 200 <= (tmp_path / FILE).stat().st_size < 300
    assert write(tmp_path, Alive(at=1000), most=200).size == file.size


def test_an_error_names_file_and_line(tmp_path: Path) -> None:
    write(tmp_path, Alive(at=1))
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes() + b'{"type":"started","at":"x","uid":"u"}\n')
    with pytest.raises(RecordError, match=r"shadow\.jsonl, line 2: Expected `float`"):
        list(read_lines(tmp_path))
    with pytest.raises(RecordError, match="nowhere: No such file"):
        list(read_lines(tmp_path / "nowhere"))
