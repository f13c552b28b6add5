"""What the recorded lives in tests/data/recordings come to, in short."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.operator_recordings import Line, replay

FOLDER = Path(__file__).parent / "data" / "recordings"


def lines_of(life: str) -> list[Line]:
    """Replay a life; it keeps the rules."""
    lines, broken = replay(FOLDER / f"{life}.json.gz")
    assert broken == []
    return lines


def told_states(life: str) -> list[str]:
    """Return the states of a life, each once as long as it lasts."""
    states = [line.state.state.value for line in lines_of(life)]
    return [state for before, state in zip(["", *states], states, strict=False) if state != before]


def demands_of(life: str) -> list[dict[str, str]]:
    """Return the demands of a life, each once as long as it lasts."""
    demands = [line.shown()["demand"] for line in lines_of(life)]
    return [each for before, each in zip([None, *demands], demands, strict=False) if each != before]
