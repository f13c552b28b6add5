"""Summaries of the recorded lives in tests/data/recordings."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.operator_recordings import Line, replay

FOLDER = Path(__file__).parent / "data" / "recordings"


def lines_of(life: str) -> list[Line]:
    """Return the lines of a replayed life, which must keep the rules."""
    lines, broken = replay(FOLDER / f"{life}.json.gz")
    assert broken == []
    return lines


def told_states(life: str) -> list[str]:
    """Return the states of a life, without repetitions."""
    states = [line.state.state.value for line in lines_of(life)]
    return [state for before, state in zip(["", *states], states, strict=False) if state != before]


def demands_of(life: str) -> list[dict[str, str]]:
    """Return the demands of a life, without repetitions."""
    demands = [line.shown()["demand"] for line in lines_of(life)]
    return [each for before, each in zip([None, *demands], demands, strict=False) if each != before]
