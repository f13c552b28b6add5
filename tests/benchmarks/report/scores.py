"""The tables of forecast scores: of what `koord-queue replay --score-forecasts --json` writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.benchmarks.report.results import FOLDER, write_json

FEWEST: Final = 10
"""Forecasts of a horizon below which it is left out."""
USUAL_PATHS: Final = 20
DECLARED: Final = {
    "near": "±20 %",
    "far": "× 1 to 10",  # noqa: RUF001 - a product, not a letter
    "none": "none",
}
POLICIES: Final = ("FIFO", "Priority", "backfill")
HORIZONS: Final = {
    "<1h": "below 1 h",
    "1-6h": "1 to 6 h",
    "6-24h": "6 to 24 h",
    ">24h": "over 24 h",
}
HEAD: Final = """\
| world, declared times | p50 | n | moments | median rel. error | p90 covers | p10 to p90 \
| MAE / mean wait | skill against last 200 | against declared | against position |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""
AIMS: Final = """\
| aim | | ≥ 100 | | ≤ 0.2 with ±20 % | 85 to 95 % | 75 to 85 % | ≤ 0.9 | ≥ 0.30 | | ≥ 0.10 |"""


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The scores of one horizon of a world.

    Attributes:
        n: How many forecasts.
        moments: At how many moments they were made.
        error: Median relative error of p50.
        p90: Share of waits that p90 covers.
        band: Share of waits between p10 and p90.
        wait: Mean absolute error of p50, in mean waits.
        last200, declared, position: Skill against these forecasts; None: there was none.
    """

    n: int
    moments: int
    error: float
    p90: float
    band: float
    wait: float
    last200: float | None = None
    declared: float | None = None
    position: float | None = None


class World(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One world of a trace, and its scores by horizon.

    Attributes:
        policy, load, declared: As in the command's options.
        paths: Of each forecast.
        is_stored: Whether the scores are the command's; else they were taken over from the report
            as it was written by hand, with its digits.
        horizons: By the command's name of a horizon.
    """

    policy: str
    load: float
    declared: str
    paths: int = USUAL_PATHS
    is_stored: bool = True
    horizons: dict[str, Score]

    @property
    def place(self) -> tuple[float, int, int, int]:
        """Its place in the table, which is also what it is known by."""
        by_declared = list(DECLARED).index(self.declared)
        return self.load, POLICIES.index(self.policy), by_declared, self.paths


def add_scores(path: Path, folder: Path = FOLDER) -> Path:
    """Take the worlds of a file of the command into the scores of its trace; return their file."""
    got = msgspec.json.decode(path.read_bytes())
    trace = got["trace"]["file"].partition("-")[0]
    target = folder / f"scores-{trace}.json"
    worlds = {each.place: each for each in load_worlds(target)}
    for world in got["worlds"]:
        read = read_world(world, got["paths"])
        worlds[read.place] = read
    store_worlds(target, worlds.values())
    return target


def read_world(got: Mapping[str, Any], paths: int) -> World:
    """Return a world of the command's JSON."""
    return World(
        policy=got["policy"],
        load=got["load"],
        declared=got["declared"],
        paths=paths,
        horizons={
            name: _read_score(got["horizons"][name])
            for name in HORIZONS
            if got["horizons"].get(name, {"n": 0})["n"] >= FEWEST
        },
    )


def _read_score(got: Mapping[str, Any]) -> Score:
    def skill(against: str) -> float | None:
        return (got.get(against) or {}).get("skill")

    scored = got["forecast"]
    return Score(
        n=got["n"],
        moments=got["moments"],
        error=scored["medianRelativeError"],
        p90=scored["coverageP90"],
        band=scored["coverageBand"],
        wait=scored["errorPerMeanWait"],
        last200=skill("last200"),
        declared=skill("declared"),
        position=skill("position"),
    )


def load_worlds(path: Path) -> list[World]:
    """Return the worlds of a trace."""
    return msgspec.json.decode(path.read_bytes(), type=list[World]) if path.exists() else []


def store_worlds(path: Path, worlds: Iterable[World]) -> None:
    """Write the worlds of a trace, in the order of the table."""
    write_json(path, sorted(worlds, key=lambda world: world.place))


def score_table(worlds: Iterable[World]) -> str:
    """Return a table of worlds, in the order of their loads, and how many are not stored."""
    worlds = sorted(worlds, key=lambda world: world.place)
    rows = [row for world in worlds for row in _rows(world)]
    stored = sum(world.is_stored for world in worlds)
    note = f"Of {len(worlds)} worlds {stored} are stored; the others stand as they stood here."
    return "\n".join([HEAD, *rows, AIMS, *(["", note] if stored < len(worlds) else [])])


def _rows(world: World) -> Iterator[str]:
    more = "" if world.paths == USUAL_PATHS else f", {world.paths} paths"
    name = f"{world.policy} {world.load:g}, {DECLARED[world.declared]}{more}"
    for key, horizon in HORIZONS.items():
        if key in world.horizons:
            cells = _cells(world.horizons[key], world.declared)
            yield f"| {name} | {horizon} | {' | '.join(cells)} |"


def _cells(score: Score, declared: str) -> list[str]:
    """Return the cells of a row; what is outside of its aim, as it is shown, is in bold."""
    is_near, is_declared = declared == "near", declared != "none"
    return [
        str(score.n),
        str(score.moments),
        _cell(score.error, most=0.205 if is_near else None),
        _percent(score.p90, 0.845, 0.955),
        _percent(score.band, 0.745, 0.855),
        _cell(score.wait, most=0.905),
        _cell(score.last200, least=0.295),
        _cell(score.declared) if is_declared else "",
        _cell(score.position, least=0.095),
    ]


def _cell(value: float | None, *, least: float | None = None, most: float | None = None) -> str:
    if value is None:
        return ""
    is_bad = (least is not None and value < least) or (most is not None and value > most)
    return f"**{value:.2f}**" if is_bad else f"{value:.2f}"


def _percent(share: float, least: float, below: float) -> str:
    text = f"{share * 100:.0f} %"
    return text if least <= share < below else f"**{text}**"
