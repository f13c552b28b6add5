"""The Standard Workload Format."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest

from queue_insight.replay.jobs import Job, TraceError
from queue_insight.replay.swf_trace import SwfTrace

SAMPLE = """\
; Version: 2.2
; UnixStartTime: 1027839845
;     a note

    1    10   5   3600   4  -1  -1   8   7200  2048  1  3   2  -1  1  -1  -1  -1
2 0 0 60 1 -1 -1 -1 -1 -1 0 5 -1 -1 1 -1 -1 -1
3 7 -1 -1 1 -1 -1 1 -1 -1 5 5 1 -1 1 -1 -1 -1
4 8 0 10 -1 -1 -1 -1 -1 -1 1 5 1 -1 1 -1 -1 -1
5 9 0 10 1 -1 -1 -1 -1 -1 1 -1 -1 -1 1 -1 -1 -1
"""


def test_a_sample() -> None:
    trace = SwfTrace().read("t.swf", io.StringIO(SAMPLE))
    assert trace.began == datetime(2002, 7, 28, 7, 4, 5, tzinfo=UTC)
    assert trace.jobs == (
        Job(
            line=6,
            name="2",
            submit=0.0,
            run=60.0,
            tenant="user-5",
            user="user-5",
            requests={"cpu": "1"},
        ),
        Job(line=9, name="5", submit=9.0, run=10.0, requests={"cpu": "1"}),
        Job(
            line=5,
            name="1",
            submit=10.0,
            run=3600.0,
            tenant="group-2",
            user="user-3",
            pods=8,
            requests={"cpu": "1", "memory": str(2048 * 1024)},
            limit=7200,
        ),
    )
    assert trace.skipped == {"it asks for no processor": 1, "it never ran": 1}


@pytest.mark.parametrize(("line", "want"), [
    ("1 2 3", "line 10: it has 3 fields, want 18"),
    ("6 x 0 10 1 -1 -1 -1 -1 -1 1 -1 -1 -1 1 -1 -1 -1",
     "line 10: submit is 'x', want seconds, 0 or more"),
], ids=["too few fields", "a word"])  # fmt: skip
def test_a_broken_line(line: str, want: str) -> None:
    with pytest.raises(TraceError) as raised:
        SwfTrace().read("t.swf", io.StringIO(SAMPLE + line))
    look = 'docs/replay.md has the fields that are read, under "swf"'
    assert str(raised.value) == f"t.swf, {want}; {look}"
