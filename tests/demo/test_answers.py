"""The questions of the demo, and their answers as lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.demo.answers import Questions, ask_past, ask_turn, ask_what_if, ask_when, ask_why
from tests.demo.clusters import ROOT

Json = dict[str, Any]

HEAD: Json = {
    "namespace": "a",
    "name": "train",
    "quota": "q",
    "refusal": {"reason": "OverQuotaMax"},
}
PATCH = {"kind": "ElasticQuota", "name": "q", "patch": {}}
CHANGES = [
    {"kind": "quotaMax", "description": "Raise it.", "sufficient": True, "patches": [PATCH]},
    {"kind": "request", "description": "No.", "sufficient": False, "patches": []},
    {"kind": "wait", "description": "It waits, and starts.", "sufficient": True, "patches": []},
]
TOLD = {
    "namespace": "a",
    "name": "train",
    "verdict": "waiting",
    "summary": "It waits.",
    "changes": CHANGES,
}
NOW = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def shown(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).astimezone().strftime("%H:%M:%S")


class Desk:
    """Answers what it has, and notes what it is posted."""

    def __init__(self, **answers: Any) -> None:
        queues: list[Json] = [
            {"name": "e", "head": None, "pending": 0, "policy": "Priority"},
            {"name": "q", "head": HEAD, "pending": 3, "policy": "Fair"},
        ]
        self.answers: Json = {
            "/debug/queues?limit=100": {"items": [queues[0], queues[1]]},
            "/debug/queueunits/a/train/explain?changes=true": TOLD,
            **answers,
        }
        self.posted: list[Json] = []

    def __call__(self, path: str, body: Json | None = None) -> object:
        if body is not None:
            self.posted.append(body)
        return self.answers.get(path)


def test_the_first_unit_that_waits_is_explained() -> None:
    assert list(ask_why(Desk())) == [
        "asked why a/train waits:",
        "  It waits.",
        "  Any one of these would start it now:",
        "  - Raise it.",
        "  It waits, and starts.",
    ]


def test_nothing_is_said_to_start_a_unit_that_no_change_starts() -> None:
    reported = {**TOLD, "changes": CHANGES[1:2]}
    desk = Desk(**{"/debug/queueunits/a/train/explain?changes=true": reported})
    assert list(ask_why(desk)) == ["asked why a/train waits:", "  It waits."]
    assert list(ask_what_if(desk)) == []


@pytest.mark.parametrize(
    ("head", "reported"),
    [
        pytest.param(None, None, id="no unit waits"),
        pytest.param({**HEAD, "refusal": None}, TOLD, id="it is not refused"),
        pytest.param(HEAD, {**TOLD, "verdict": "admitted"}, id="it has started meanwhile"),
        pytest.param(HEAD, None, id="no answer"),
    ],
)
def test_nothing_is_said_while_nothing_waits(head: Json | None, reported: Any) -> None:
    queue = {"name": "q", "head": head, "pending": 0, "policy": "Fair"}
    desk = Desk(
        **{
            "/debug/queues?limit=100": {"items": [queue]},
            "/debug/queueunits/a/train/explain?changes=true": reported,
        }
    )
    assert list(ask_why(desk)) == []


PAGE_OF_UNITS = "/debug/queues/q?limit=100"
LAST = "/debug/queueunits/a/last/explain"
BEHIND = {
    "reason": "BehindAccount",
    "message": "waits behind units of others, who have used less of its queue: its user has ...",
}


def turns_desk(*blockers: Json, **answers: Any) -> Desk:
    units = [("first", 1), ("last", 2), ("held", 0)]
    listed = [{"namespace": "a", "name": name, "position": place} for name, place in units]
    return Desk(**{PAGE_OF_UNITS: {"units": listed}, LAST: {"blockers": [*blockers]}, **answers})


def test_the_last_unit_of_a_queue_with_fair_shares_is_asked_about() -> None:
    full = {"reason": "OverQuotaMax", "message": "needs more"}
    assert list(ask_turn(turns_desk(full, BEHIND))) == [
        "asked why a/last is not the first of queue q:",
        f"  It {BEHIND['message']}.",
    ]


@pytest.mark.parametrize(
    ("blockers", "answers"),
    [
        pytest.param([], {}, id="the first is of the same user"),
        pytest.param([BEHIND], {LAST: None}, id="it has just started"),
        pytest.param([BEHIND], {PAGE_OF_UNITS: None}, id="no answer"),
        pytest.param([BEHIND], {PAGE_OF_UNITS: {"units": []}}, id="all have just started"),
    ],
)
def test_while_users_do_not_differ_it_is_asked_again(blockers: list[Json], answers: Json) -> None:
    assert list(ask_turn(turns_desk(*blockers, **answers))) == []


@pytest.mark.parametrize("change", [{"policy": "Priority"}, {"pending": 1}])
def test_turns_are_asked_about_where_they_are_taken(change: Json) -> None:
    queue = {"name": "q", "head": HEAD, "pending": 2, "policy": "Fair", **change}
    desk = turns_desk(BEHIND, **{"/debug/queues?limit=100": {"items": [queue]}})
    assert list(ask_turn(desk)) == []


def test_the_patches_of_a_change_are_asked_about() -> None:
    wait = {"before": {"p50": 40.0}, "after": {"p50": 10.0}, "isClear": True}
    horizon = {"seconds": 60.0, "queues": [{"name": "q", "waitP50": wait}]}
    units = [{"unit": f"a/{name}"} for name in "xyzw"]
    reported = {"started": units, "startedCount": 4, "evictedCount": 1, "horizon": horizon}
    reported["noHorizon"] = ""
    desk = Desk(**{"/debug/what-if": reported})
    assert list(ask_what_if(desk)) == [
        "asked what would follow: Raise it.",
        "  At once a/x, a/y, a/z and 1 more would start; 1 unit would be evicted.",
        "  Within 60 s the median wait in queue q would go from 40 s to 10 s.",
    ]
    assert desk.posted[0]["edits"] == [PATCH]
    early = {**reported, "horizon": None, "noHorizon": "not known yet: 1 of 5 runs"}
    assert list(ask_what_if(Desk(**{"/debug/what-if": early}))) == [], "it is asked again"


def page(computed: float) -> Json:
    times = {"startP10": at(1), "startP50": at(2), "startP90": at(3), "endP50": at(9)}
    unit = {**times, "namespace": "a", "name": "x", "computedAt": at(computed), "ageSeconds": 4.2}
    unit["outlook"] = "times"
    first = {**unit, "name": "w"}
    late = dict.fromkeys(times, None)
    return {"queue": "q", "total": 7, "units": [first, unit, {**unit, **late, "name": "y"}]}


def test_a_forecast_is_told_once_it_is_new_enough() -> None:
    desk = Desk(**{"/debug/queues/q/forecast?limit=100": page(0)})
    likely = f"in half of the futures by {shown(2)}, and ends at {shown(9)}"
    assert list(ask_when(desk, NOW)) == [
        "asked when a/x starts:",
        f"  Between {shown(1)} and {shown(3)}, {likely}: a forecast of 4 s ago.",
        "  Of the 7 units that waited in queue q, a/y starts last: beyond the horizon.",
    ]
    assert list(ask_when(desk, NOW + timedelta(seconds=1))) == []


def test_a_forecast_without_times_is_asked_for_again() -> None:
    early = page(0)
    for unit in early["units"]:
        unit["outlook"] = "notKnownYet"
    desk = Desk(**{"/debug/queues/q/forecast?limit=100": early})
    assert list(ask_when(desk, NOW)) == []
    early["units"][0]["outlook"] = "times"
    assert next(ask_when(desk, NOW)) == "asked when a/w starts:"


def test_the_past_is_compared_with_the_present() -> None:
    before = {"items": [{"name": "q", "head": None, "pending": 9}]}
    then = (NOW - timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")
    desk = Desk(
        **{
            "/debug/insight": {"stateAt": at(0)},
            f"/debug/queues?limit=100&at={then}": before,
        }
    )
    assert list(ask_past(desk)) == ["asked what was 20 s ago:", "  9 units waited then, 3 now."]


def test_each_question_is_answered_once() -> None:
    entry = {"time": at(0), "kind": "Refused", "unit": "a/x", "reason": "OverQuotaMax"}
    desk = Desk(
        **{
            "/debug/log?limit=5": {"items": [entry] * 5},
            "/debug/try": {"jobs": [{"summary": "It would start now."}]},
        }
    )
    questions = Questions(desk, NOW)
    reported = [line for answer in questions.answers() for line in answer]
    assert "  It would start now." in reported
    assert f"  {shown(0)} Refused  a/x  OverQuotaMax" in reported
    assert list(questions.answers()) == []
    assert questions.unanswered() == ["fair share", "time travel", "what-if", "forecast"]


def test_the_readme_shows_what_is_printed() -> None:
    desk = turns_desk(BEHIND, **{"/debug/queues/q/forecast?limit=100": page(0)})
    answers = Questions(desk, NOW).answers()
    reported = [_without_names(line) for answer in answers for line in answer]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = readme.partition("prints the answers:\n\n")[2].partition("\n\n")[0].splitlines()
    asked = [_without_names(line.strip()) for line in lines if line.startswith("    asked ")]
    assert len(asked) == 3
    assert [line for line in asked if line not in reported] == []


def _without_names(line: str) -> str:
    return re.sub(r"\S+/\S+|queue [\w-]+|\d\d:\d\d:\d\d", "...", line)


def test_a_debug_api_that_does_not_answer() -> None:
    questions = Questions(lambda _path, _body=None: None, NOW)
    assert list(questions.answers()) == []
    assert len(questions.unanswered()) == 7
