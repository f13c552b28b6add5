"""What counts as a fault of a flood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.flood.bystanders import DISCOVERY, Sample
from tests.flood.judgement import Figures, Memory, Quiet, Window, faults, unrest

USER = "a unit on the page"
WELL = Memory(before=100, peak=200, after=120, limit=1024)


def window(
    users: Sequence[float] = (0.1,) * 100,
    probes: Sequence[float] = (0.1,) * 100,
    *,
    starts: int = 100,
    status: int = 200,
    cores: float = 0.1,
) -> Window:
    samples = [Sample(USER, 0.0, took, status) for took in users]
    samples += [Sample(DISCOVERY, 0.0, took, 200) for took in probes]
    return Window(seconds=10.0, samples=samples, starts=[0.1] * starts, cores={"insight": cores})


def figures(flooded: Window, memory: Memory = WELL, rest: float | None = 3.0) -> Figures:
    return Figures(
        quiet=Quiet([window()]),
        flooded=flooded,
        memory={"insight": memory},
        rest_seconds=rest,
        unrest=[] if rest else ["insight uses 0.90 cores"],
    )


@pytest.mark.parametrize(
    "flooded",
    [
        pytest.param(window(), id="all as without the flood"),
        pytest.param(window((0.1,) * 99 + (5.0,)), id="one slow answer of a hundred"),
        pytest.param(window((1.09,) * 100), id="a second longer than without the flood"),
        pytest.param(window(starts=90), id="nine of ten jobs start"),
        pytest.param(window(cores=1.0), id="a program is busy during the flood"),
    ],
)
def test_what_is_no_fault(flooded: Window) -> None:
    assert faults(figures(flooded)) == []


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param(
            figures(window((0.1,) * 98 + (5.0,) * 2)),
            f"{USER} takes 5.00 s (without the flood 0.10)",
            id="two slow answers of a hundred",
        ),
        pytest.param(
            figures(window(probes=(0.1,) * 99 + (5.0,))),
            f"{DISCOVERY} takes 5.00 s (without the flood 0.10)",
            id="one slow probe",
        ),
        pytest.param(
            figures(window((0.1,) * 10, status=429)),
            f"{USER} is refused 10 of 10 times (429)",
            id="a refusal",
        ),
        pytest.param(
            figures(window(starts=80)),
            "jobs start at 0.80 of the rate without the flood",
            id="fewer jobs",
        ),
        pytest.param(
            figures(window(), Memory(before=100, peak=1100, after=100, limit=1024)),
            "insight takes 1100 MiB of 1024",
            id="more memory than the chart allows",
        ),
        pytest.param(
            figures(window(), Memory(before=100, peak=900, after=300, limit=1024)),
            "insight keeps 200 MiB",
            id="memory that is not given back",
        ),
        pytest.param(
            figures(window(), rest=None), "after 30 s: insight uses 0.90 cores", id="no rest"
        ),
    ],
)
def test_faults(seen: Figures, want: str) -> None:
    assert faults(seen) == [want]


def test_of_two_times_without_the_flood_the_worse_counts() -> None:
    slow = window((2.0,) * 100, starts=50, cores=0.9)
    quiet = Quiet([window(), slow])
    assert unrest(quiet, window((2.5,) * 100, starts=45, cores=1.0)) == []
    assert len(unrest(quiet, window((3.5,) * 100, starts=40, cores=1.5))) == 3


@pytest.mark.parametrize(
    ("seen", "want"),
    [
        pytest.param(window(), [], id="at rest"),
        pytest.param(window(cores=0.9), ["insight uses 0.90 cores"], id="still computing"),
        pytest.param(window(starts=10), ["1.0 jobs start in a second, of 10.0"], id="behind"),
        pytest.param(
            window((0.1,), status=503), [f"{USER} is refused 1 of 1 times (503)"], id="refused"
        ),
    ],
)
def test_unrest(seen: Window, want: list[Any]) -> None:
    assert unrest(Quiet([window()]), seen) == want


def test_a_program_that_renews_its_forecast_may_be_busy() -> None:
    assert unrest(Quiet([window()]), window(cores=0.9), apart_from=("insight",)) == []
