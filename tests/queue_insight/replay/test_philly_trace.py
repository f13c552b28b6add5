"""The job log of the Philly clusters."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.replay.jobs import GPU, GPU_CORE, Job, TraceError
from queue_insight.replay.philly_trace import PhillyTrace


def entry(name: str, at: str | None, *attempts: tuple[str | None, str | None, list[int]]) -> Any:
    """Return a job; an attempt has the GPUs of each machine."""
    return {
        "status": "Pass",
        "vc": "red",
        "jobid": name,
        "user": "u",
        "submitted_time": at,
        "attempts": [
            {
                "start_time": start,
                "end_time": end,
                "detail": [{"ip": "m", "gpus": ["g"] * gpus} for gpus in machines],
            }
            for start, end, machines in attempts
        ],
    }


def at(second: int) -> str:
    return f"2017-10-09 07:00:{second:02}"


SAMPLE = [
    entry("late", at(30), (at(40), at(45), [2, 2])),
    entry("early", at(10), (at(20), at(25), [8, 4]), (at(26), at(30), [8, 4])),
    entry("never", at(11)),
    entry("open", at(12), (at(13), None, [1])),
    entry("lost", None, (at(13), at(14), [1])),
]


def test_a_sample() -> None:
    trace = PhillyTrace().read("t.json", io.StringIO(json.dumps(SAMPLE)))
    assert trace.began == datetime(2017, 10, 9, 7, 0, 10, tzinfo=UTC)
    assert trace.jobs == (
        Job(
            line=2,
            name="early",
            submit=0.0,
            run=9.0,
            tenant="red",
            user="u",
            requests={GPU: "12", GPU_CORE: "1200"},
        ),
        Job(
            line=1,
            name="late",
            submit=20.0,
            run=5.0,
            tenant="red",
            user="u",
            pods=2,
            requests={GPU: "2", GPU_CORE: "200"},
        ),
    )
    assert trace.skipped == {
        "it has no time of submission": 1,
        "it never ran": 1,
        "its end is not known": 1,
    }


@pytest.mark.parametrize(("text", "want"), [
    ("[{]", "t.json: JSON is malformed"),
    (json.dumps([{"submitted_time": at(1)}]),
     "t.json: Object missing required field `vc` - at `$[0]`"),
    (json.dumps([entry("x", at(1)), entry("y", "yesterday")]),
     "t.json, entry 2: submitted_time is 'yesterday', want a time such as 2017-10-09 07:02:29"),
], ids=["not JSON", "a missing field", "a time"])  # fmt: skip
def test_a_broken_log(text: str, want: str) -> None:
    with pytest.raises(TraceError) as raised:
        PhillyTrace().read("t.json", io.StringIO(text))
    assert str(raised.value).startswith(want)
    assert str(raised.value).endswith(
        '; docs/replay.md has the fields that are read, under "philly"'
    )
