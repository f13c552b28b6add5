"""What the command of scores writes becomes rows of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.report.scores import add_scores, load_worlds, score_table


def horizon(n: float = 40, **scores: float) -> dict[str, Any]:
    forecast = {
        "medianRelativeError": 0.204,
        "coverageP90": 0.9,
        "coverageBand": 0.8,
        "errorPerMeanWait": 0.5,
    }
    against = {"last200": {"skill": 0.5}, "declared": {"skill": -0.25}, "position": {"skill": 0.9}}
    return {"n": n, "moments": 7, "forecast": {**forecast, **scores}, **against}


def written(folder: Path, *, paths: int = 20, **world: Any) -> Path:
    """Write what the command writes."""
    horizons = {"<1h": horizon(), "1-6h": horizon(9), ">24h": {"moments": 0, "n": 0}}
    got = {"policy": "FIFO", "load": 0.6, "declared": "near", "horizons": horizons, **world}
    path = folder / "written.json"
    trace = {"file": "philly-2017-09-11.csv.gz"}
    path.write_text(json.dumps({"paths": paths, "trace": trace, "worlds": [got]}))
    return path


def rows(folder: Path) -> list[str]:
    table = score_table(load_worlds(folder / "scores-philly.json")).splitlines()
    return [line for line in table if not line.startswith(("| world", "|---", "| aim"))]


def test_a_world_becomes_a_row_for_each_horizon(tmp_path: Path) -> None:
    """Those with fewer than ten forecasts are left out."""
    add_scores(written(tmp_path), tmp_path)
    assert rows(tmp_path) == [
        "| FIFO 0.6, ±20 % | below 1 h | 40 | 7 | 0.20 | 90 % | 80 % | 0.50 | 0.50 | -0.25 | 0.90 |"
    ]


def test_a_world_that_is_measured_again_replaces_its_row(tmp_path: Path) -> None:
    """One with more paths is a world of its own; worlds are in the order of their loads."""
    for world in ({"load": 0.9}, {}, {"horizons": {"<1h": horizon(99)}}, {"paths": 40}):
        add_scores(written(tmp_path, **world), tmp_path)
    names = [line.split("|")[1:4:2] for line in rows(tmp_path)]
    assert names == [
        [" FIFO 0.6, ±20 % ", " 99 "],
        [" FIFO 0.6, ±20 %, 40 paths ", " 40 "],
        [" FIFO 0.9, ±20 % ", " 40 "],
    ]


@pytest.mark.parametrize(
    ("declared", "score", "want"),
    [
        pytest.param("near", {"medianRelativeError": 0.206}, "**0.21**", id="of near times"),
        pytest.param("far", {"medianRelativeError": 0.9}, "0.90", id="one of far times has no aim"),
        pytest.param("near", {"coverageP90": 0.96}, "**96 %**", id="too much is covered"),
        pytest.param("near", {"coverageP90": 0.954}, "95 %", id="as it is shown, it is enough"),
        pytest.param("near", {"coverageBand": 0.744}, "**74 %**", id="too little is covered"),
        pytest.param("near", {"errorPerMeanWait": 0.91}, "**0.91**", id="an error beside waits"),
    ],
)
def test_what_misses_its_aim_is_bold(
    tmp_path: Path, declared: str, score: dict[str, float], want: str
) -> None:
    """The aims are those of the last row."""
    world: dict[str, Any] = {"declared": declared, "horizons": {"<1h": horizon(**score)}}
    add_scores(written(tmp_path, **world), tmp_path)
    assert f"| {want} |" in rows(tmp_path)[0]
