"""The table fits the terminal and has the expected content."""

from __future__ import annotations

import dataclasses
import re

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.refusal_texts import full_message
from tests.demo.cluster_picture import QueueRow
from tests.demo.queue_table import (
    Progress,
    QueueWords,
    build_table,
    clock,
    plain_line,
    usage_bar,
)
from tests.demo.terminal import WIDTH

PROGRESS = Progress(
    seconds=83,
    planned=311,
    submitted=200,
    ended=150,
    used=31,
    total=32,
    events=4000,
    violations=0,
)
ROW = QueueRow(
    name="vc-6c71a0",
    waiting=20,
    running=2,
    done=100,
    used=12,
    least=6,
    most=12,
    longest_wait_seconds=28.19,
)
REFUSAL = "needs more nvidia.com/gpu than the max of quota vc-6c71a0 leaves: missing 2 (limit 12"


def test_the_table_shows_the_state_of_a_queue() -> None:
    words = {"vc-6c71a0": QueueWords(policy="Block", refusal=REFUSAL)}
    text = "\n".join(build_table([ROW], words, PROGRESS))
    for part in ("vc-6c71a0", "Block", "12 of  6 / 12", "28.2 s", "1:23", "31 of 32", "4000"):
        assert part in text
    assert "needs more GPU than the max of quota vc-6c71a0 leaves" in text


def test_no_line_is_wider_than_the_display() -> None:
    words = {"vc-6c71a0": QueueWords(policy="Block", refusal=REFUSAL * 3)}
    lines = build_table([ROW], words, PROGRESS)
    assert max(map(len, lines)) == WIDTH
    assert lines[-1].endswith("...")


@pytest.mark.parametrize(
    "reason",
    [
        Reason.OVER_QUOTA_MAX,
        Reason.OVER_PARENT_MAX,
        Reason.OVER_RUNTIME,
        Reason.OVER_PARENT_RUNTIME,
        Reason.OVER_MIN,
        Reason.NON_PREEMPTIBLE_OVER_MIN,
        Reason.GUARANTEE_OF_OTHERS,
        Reason.NO_CAPACITY,
    ],
)
@pytest.mark.parametrize("length", [9, 20, 28, 36, 63])
def test_the_missing_amount_is_never_cut(reason: Reason, length: int) -> None:
    name, many = "q" * length, 10**9
    refusal = full_message(
        Refusal(
            reason=reason,
            quota=name,
            other=name,
            resource="nvidia.com/gpu",
            limit=many,
            used=many,
            requested=many,
            is_least=True,
        )
    )
    row = dataclasses.replace(
        ROW, name=name, waiting=many, running=many, done=many, longest_wait_seconds=many
    )
    lines = build_table([row], {name: QueueWords(policy="Block", refusal=refusal)}, PROGRESS)
    assert max(map(len, lines)) <= WIDTH
    assert re.search(r": missing 1G( |$)", lines[-1]), lines[-1]


def test_an_empty_queue_has_no_reason() -> None:
    idle = QueueRow(
        name="a", waiting=0, running=0, done=1, used=0, least=1, most=2, longest_wait_seconds=0
    )
    words = {"a": QueueWords(policy="Priority", refusal="is of yesterday")}
    assert build_table([idle], words, PROGRESS)[-1] == ""


def test_admitted_jobs_that_fit_no_node_are_shown() -> None:
    row = dataclasses.replace(
        ROW, unplaced_pods=2, why_unplaced="0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    )
    assert build_table([row], {}, PROGRESS)[-1] == (
        "   \u2514 admitted, but no node for 2 pods: 0/4 nodes are available: 4 Insufficient GPU."
    )


def test_violations_are_shown() -> None:
    broken = Progress(**{**PROGRESS.__dict__, "violations": 2})
    assert "2 VIOLATIONS" in build_table([], {}, broken)[1]


@pytest.mark.parametrize(
    ("used", "least", "most", "want"),
    [
        pytest.param(0, 4, 8, "........|........", id="idle"),
        pytest.param(4, 4, 8, "########|........", id="all of its own"),
        pytest.param(8, 4, 8, "########|########", id="as much borrowed"),
        pytest.param(9, 0, 8, "|################", id="over its max"),
        pytest.param(0, 0, 0, " " * 16, id="no quota"),
    ],
)
def test_the_bar(used: int, least: int, most: int, want: str) -> None:
    assert usage_bar(used, least, most) == want


def test_a_log_gets_one_line() -> None:
    assert plain_line([ROW], PROGRESS) == (
        " 1:23 200/311 jobs, 20 waiting, 2 running, 150 done, 31/32 GPUs,"
        " longest wait 28.2 s (vc-6c71a0)"
    )
    assert plain_line([], PROGRESS).endswith("31/32 GPUs")


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 60, 754)] == [
        " 0:00",
        " 0:59",
        " 1:00",
        "12:34",
    ]
