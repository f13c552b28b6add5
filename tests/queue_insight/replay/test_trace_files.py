"""Opening traces, and finding their format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.trace_files import FORMATS, read_trace
from tests.queue_insight.replay.test_csv_traces import NORMALIZED_TEXT, OPENB_TEXT, OWN_TEXT
from tests.queue_insight.replay.test_philly_trace import SAMPLE as PHILLY
from tests.queue_insight.replay.test_swf_trace import SAMPLE as SWF

FILES = {
    "koord-queue": ("t.csv", OWN_TEXT),
    "normalized": ("t.csv", NORMALIZED_TEXT),
    "swf": ("t.swf", SWF),
    "philly": ("t.json", json.dumps(PHILLY)),
    "openb": ("t.csv", OPENB_TEXT),
}


def test_there_is_a_sample_of_each_format() -> None:
    assert set(FILES) == set(FORMATS)


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_format_is_found(tmp_path: Path, form: str, is_packed: bool) -> None:
    name, text = FILES[form]
    path = tmp_path / (f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    got, trace = read_trace(path)
    assert got == form
    assert trace.jobs


def test_a_named_format_counts_and_a_byte_order_mark_does_not(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xef\xbb\xbf" + OWN_TEXT.encode())
    assert read_trace(path, "koord-queue")[0] == "koord-queue"


HEAD = "submit_seconds,run_seconds,cpu\n"
UNKNOWN_HEADER = (
    "{path}, line 1: the format is not known: no column submit_seconds or submit_time_s or"
    f" gpu_milli; name it with --format ({', '.join(FORMATS)})"
)
WRONG = {
    "a missing file": (None, "", "{path}: No such file or directory"),
    "an empty file": (b" \n", "", "{path}: it is empty"),
    "no job": (HEAD.encode(), "", "{path}: it has no job"),
    "no job that ran": (
        f"{HEAD}0,,1\n".encode(),
        "",
        "{path}: it has no job; rows that are none: 1 where it never ran",
    ),
    "not text": (HEAD.encode() + b"0,1,\xff", "", "{path}, line 2: it is not UTF-8 text"),
    "an unknown header": (
        b"a,b\n1,2\n",
        "",
        UNKNOWN_HEADER,
    ),
    "an unknown format": (b"x", "excel", f"--format excel: there are {', '.join(FORMATS)}"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_file(tmp_path: Path, name: str) -> None:
    data, form, want = WRONG[name]
    path = tmp_path / "t.csv"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(TraceError) as raised:
        read_trace(path, form)
    assert str(raised.value) == want.format(path=path)


def test_half_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(OWN_TEXT.encode())[:-9])
    with pytest.raises(TraceError, match="it is not a whole gzip file"):
        read_trace(path)
