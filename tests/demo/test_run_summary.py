"""The numbers of the summary."""

from __future__ import annotations

import pytest

from tests.demo.cluster_picture import GpuUse, JobStory
from tests.demo.run_summary import (
    MOST_COMPLAINTS,
    SPARK_CELLS,
    RunFacts,
    build_summary,
    quantile,
    spark_line,
)


def story(namespace: str, submitted: float, released: float, ended: float) -> JobStory:
    return JobStory(
        namespace=namespace,
        submitted_at=submitted,
        released_at=released,
        ended_at=ended,
        succeeded=True,
    )


def facts(**changes: object) -> RunFacts:
    use = GpuUse()
    use.change("a", 2, at=10.0)
    use.change("b", 1, at=10.0)
    use.add_up(20.0)
    values: dict[str, object] = {
        "namespaces": ("a", "b"),
        "jobs": [story("a", 10.0, 10.5, 20.0), story("b", 10.0, 13.0, 20.0)],
        "use": use,
        "total_gpus": 4,
        "seconds_to_ready": 1.5,
        "writes": {"koord-queue-scheduler": 5, "koord-queue-controllers": 8},
        "writes_by_kind": {"patch jobs": 2},
        "events": 77,
    }
    return RunFacts(**{**values, **changes})  # type: ignore[arg-type]  # each test changes one


def test_the_summary_has_the_numbers() -> None:
    lines = "\n".join(build_summary(facts()))
    for part in (
        "2 of 2 jobs completed in 10 s",
        "30 of 40 GPU-seconds used (75 % of 4 GPUs)",
        "API writes per job: 6.50 (koord-queue-scheduler 2.50, koord-queue-controllers 4.00)",
        "patch jobs 1.00",
        "77 events",
        "no quota exceeded",
    ):
        assert part in lines


def test_each_tenant_has_waits_and_a_share() -> None:
    lines = {line.split()[0]: line.split() for line in build_summary(facts()) if line}
    assert lines["a"][1:] == ["1", "0.50", "s", "0.50", "s", "20", "67", "%"]
    assert lines["b"][1:] == ["1", "3.00", "s", "3.00", "s", "10", "33", "%"]
    assert lines["all"][1:] == ["2", "0.50", "s", "3.00", "s", "30", "100", "%"]


def test_complaints_are_listed_up_to_a_limit() -> None:
    complaints = [f"fault {number}" for number in range(MOST_COMPLAINTS + 3)]
    text = "\n".join(build_summary(facts(complaints=complaints)))
    assert "23 complaints" in text
    assert "fault 19" in text
    assert "fault 20" not in text
    assert "and 3 more" in text
    assert "no quota exceeded" not in text


def test_a_run_without_jobs_has_a_summary() -> None:
    assert "0 of 0 jobs" in "\n".join(build_summary(facts(jobs=[], use=GpuUse(), writes={})))


@pytest.mark.parametrize(
    ("values", "fraction", "want"),
    [
        pytest.param([], 0.5, 0.0, id="nothing"),
        pytest.param([3.0], 0.99, 3.0, id="one"),
        pytest.param([4.0, 1.0, 3.0, 2.0], 0.5, 2.0, id="the middle"),
        pytest.param([float(n) for n in range(1, 101)], 0.99, 99.0, id="of a hundred"),
    ],
)
def test_quantile(values: list[float], fraction: float, want: float) -> None:
    assert quantile(values, fraction) == want


def test_the_line_shows_the_use_over_time() -> None:
    half = spark_line([(0.0, 4), (30.0, 0)], 0.0, 60.0, total=4)
    assert len(half) == SPARK_CELLS
    assert half == "\u2588" * 30 + " " * 30


def test_use_before_and_after_the_run_is_not_shown() -> None:
    assert spark_line([(-60.0, 4)], 0.0, 60.0, total=4) == "\u2588" * SPARK_CELLS
    assert spark_line([], 0.0, 0.0, total=4) == ""
