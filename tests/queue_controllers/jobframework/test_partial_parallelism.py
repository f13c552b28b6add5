"""The minimum that a job's user allows, and the note of a release."""

from __future__ import annotations

import pytest

from queue_controllers.jobframework.partial_parallelism import (
    Parallelism,
    read_min_parallelism,
    read_parallelism,
    why_no_minimum,
    write_note,
)

OURS = "koord-queue/min-parallelism"
LEGACY = "kube-queue/min-parallelism"
KUEUES = "kueue.x-k8s.io/job-min-parallelism"
NOTE = "koord-queue/released-parallelism"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, None),
        ({OURS: "3"}, 3),
        ({LEGACY: "3"}, 3),
        ({KUEUES: "3"}, 3),
        ({OURS: "2", KUEUES: "3"}, 2),
        ({OURS: "", KUEUES: "3"}, 3),
        ({OURS: "10"}, 10),
        ({OURS: "11"}, None),
        ({OURS: "0"}, None),
        ({OURS: "-1"}, None),
        ({OURS: "half"}, None),
        ({OURS: "half", KUEUES: "3"}, None),
    ],
)
def test_the_minimum_is_a_number_from_one_to_all(
    annotations: dict[str, str], want: int | None
) -> None:
    assert read_min_parallelism(annotations, 10) == want


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, None),
        ({OURS: "10"}, None),
        ({OURS: ""}, None),
        ({LEGACY: "0"}, (LEGACY, "0", "a whole number from 1 on")),
        ({KUEUES: "many"}, (KUEUES, "many", "a whole number from 1 on")),
        ({OURS: "11"}, (OURS, "11", "at most its parallelism, 10")),
    ],
)
def test_an_invalid_minimum_is_reported(
    annotations: dict[str, str], want: tuple[str, str, str] | None
) -> None:
    assert why_no_minimum(annotations, 10) == want


@pytest.mark.parametrize(
    ("note", "said", "want"),
    [
        pytest.param(None, 4, Parallelism(4, None), id="no note"),
        pytest.param(write_note(4, 10), 4, Parallelism(10, 4), id="four of ten"),
        pytest.param(write_note(4, 10), 6, Parallelism(6, None), id="edited: the new one counts"),
        pytest.param(write_note(4, 10), 10, Parallelism(10, None), id="edited back to all"),
        pytest.param("4/3", 4, Parallelism(4, None), id="no less than all"),
        pytest.param("4 of 10", 4, Parallelism(4, None), id="not our note"),
        pytest.param("0/10", 0, Parallelism(0, None), id="no job is released with zero pods"),
    ],
)
def test_the_note_counts_while_the_parallelism_is_the_released_one(
    note: str | None, said: int, want: Parallelism
) -> None:
    annotations = {} if note is None else {NOTE: note}
    assert read_parallelism(annotations, said) == want
