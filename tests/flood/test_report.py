"""A round as people and programs read it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.flood.bystanders import DISCOVERY, Sample
from tests.flood.flooding import Answers
from tests.flood.http_connection import Question
from tests.flood.judgement import Figures, Memory, Quiet, Window
from tests.flood.questions import Port, User
from tests.flood.report import details, line, write
from tests.flood.rounds import Dear, Round

UNIT = "a unit on the page"


def window(took: float) -> Window:
    samples = [Sample(UNIT, 0.0, took, 200), Sample(DISCOVERY, 0.0, 0.25, 200)]
    return Window(seconds=10.0, samples=samples, starts=[0.1] * 50, cores={"insight": 0.5})


ROUND = Round(
    port=Port.PAGE,
    user=User.VIEW,
    dearest=[Dear(Question("/page/overview", "/page/overview", {}), 0.04, 200)],
    answers=Answers(Counter({200: 70, 429: 9, 0: 2}), open=199.6, cores=0.25),
    figures=Figures(
        quiet=Quiet([window(0.1)]),
        flooded=window(2.5),
        memory={"insight": Memory(before=100, peak=222, after=110, limit=1024)},
        rest_seconds=3.0,
    ),
)


def test_a_line_has_what_was_asked_for_and_what_others_saw() -> None:
    assert line(ROUND).split() == [
        *("page", "view", "70", "9", "2", "200", "0.25", "2.50", "0.25", "1.00", "3"),
        *("insight", "222"),
    ]


def test_below_it_are_the_questions_and_the_faults() -> None:
    assert details(ROUND) == [
        "    asked /page/overview 40 ms (200); answered 0: 2, 200: 70, 429: 9; cores insight 0.50",
        f"    FAULT {UNIT} takes 2.50 s (without the flood 0.10)",
    ]


def test_the_figures_are_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "build" / "flood.json"
    write(path, [ROUND])
    (got,) = json.loads(path.read_text())
    assert (got["port"], got["user"], got["ratio"]) == ("page", "view", 1.0)
    assert got["statuses"] == {"200": 70, "429": 9, "0": 2}
    assert got["during"] == {UNIT: 2.5, DISCOVERY: 0.25}
    assert got["memory"]["insight"]["peak"] == 222
    assert len(got["faults"]) == 1
