"""The judge must be able to find fault.

A history that breaks no rule, and for each rule what more would break it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from tests.cluster.judgement import PARENT_LABEL, QUOTA_LABEL, History, Json, Seen, cpu_milli

MAX_CPU = 2


def quota(name: str, parent: str = "") -> tuple[str, Json]:
    labels = {PARENT_LABEL: parent} if parent else {}
    meta = {"name": name, "uid": f"quota-{name}", "labels": labels}
    return "elasticquotas", {"metadata": meta, "spec": {"max": {"cpu": str(MAX_CPU)}}}


def job(name: str, *, suspend: bool, complete: bool = False, of: str = "a") -> tuple[str, Json]:
    meta = {"name": name, "uid": f"job-{name}", "labels": {QUOTA_LABEL: of}}
    conditions = [{"type": "Complete", "status": "True"}] if complete else []
    body = {"metadata": meta, "spec": {"suspend": suspend}, "status": {"conditions": conditions}}
    return "jobs", body


def unit(
    name: str, phase: str, *, cpu: int = 1, uid: str = "", **status: object
) -> tuple[str, Json]:
    container = {"resources": {"requests": {"cpu": str(cpu)}}}
    pod_set = {"name": name, "count": 1, "template": {"spec": {"containers": [container]}}}
    meta = {"name": name, "uid": uid or f"unit-{name}", "labels": {QUOTA_LABEL: "a"}}
    spec = {"consumerRef": {"uid": f"job-{name}", "name": name}, "podSet": [pod_set]}
    return "queueunits", {"metadata": meta, "spec": spec, "status": {"phase": phase, **status}}


def pod(of: str, phase: str, *, cpu: str = "1", uid: str = "") -> tuple[str, Json]:
    owner = {"name": of, "uid": f"job-{of}", "controller": True}
    meta = {"name": of, "uid": uid or f"pod-{of}", "ownerReferences": [owner]}
    container = {"resources": {"requests": {"cpu": cpu}}}
    return "pods", {
        "metadata": meta,
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


def gone(thing: tuple[str, Json]) -> tuple[str, Json]:
    plural, body = thing
    return f"{plural} gone", body


def judge(things: Iterable[tuple[str, Json]]) -> History:
    history = History()
    numbers = count(1)
    seen = []
    for what, body in things:
        plural, _, is_gone = what.partition(" ")
        seen.append(Seen(next(numbers), plural, bool(is_gone), body))
    history.take_all(reversed(seen))  # the order of arrival is not the order of what happened
    return history


GOOD = [
    quota("top"),
    quota("a", "top"),
    job("x", suspend=True),
    unit("x", "Enqueued"),
    unit("x", "Dequeued"),
    job("x", suspend=False),
    pod("x", "Pending"),
    pod("x", "Running"),
]
GOOD_END = [
    pod("x", "Succeeded"),
    job("x", suspend=False, complete=True),
    unit("x", "Succeed"),
    gone(job("x", suspend=False, complete=True)),
    gone(unit("x", "Succeed")),
    gone(pod("x", "Succeeded")),
]
ADMITTED_Y = [job("y", suspend=True), unit("y", "Enqueued"), unit("y", "Dequeued")]


def test_a_history_without_fault() -> None:
    history = judge([*GOOD, *ADMITTED_Y, *GOOD_END])
    assert history.violations == []
    assert history.peaks == {"a": 2000, "top": 2000}
    assert history.used == {"a": 1000, "top": 1000}
    story = history.stories["job-x"]
    assert (story.admissions, story.releases, story.completions) == (1, 1, 1)
    assert (story.pods_made, story.pods_succeeded) == ({"pod-x"}, {"pod-x"})


@pytest.mark.parametrize(
    ("things", "want"),
    [
        pytest.param([unit("y", "Dequeued", cpu=2)], "takes quota a to 3000m", id="over-booked"),
        pytest.param([unit("y", "Reserved", cpu=2)], "takes quota a to 3000m", id="reserved"),
        pytest.param(
            [unit("y", "Dequeued"), unit("z", "Dequeued")], "quota top to 3000m", id="the parent"
        ),
        pytest.param(
            [unit("x", "Enqueued"), unit("y", "Dequeued", cpu=2)],
            "takes quota a to 3000m",
            id="booked on top of a living pod of an evicted unit",
        ),
        pytest.param(
            [gone(unit("x", "Succeed")), unit("y", "Dequeued", cpu=2)],
            "takes quota a to 3000m",
            id="booked on top of a living pod of a unit that is gone",
        ),
        pytest.param(
            [job("y", suspend=True), job("y", suspend=False)],
            "y was released without being admitted",
            id="released too early",
        ),
        pytest.param(
            [job("x", suspend=True), job("x", suspend=False)],
            "x was released a second time",
            id="released twice",
        ),
        pytest.param([pod("y", "Pending")], "y was made without admission", id="pod too early"),
        pytest.param(
            [*ADMITTED_Y, pod("y", "Pending")], "while that was suspended", id="pod of a held job"
        ),
        pytest.param([unit("x", "Enqueued", uid="2")], "x has 2 units", id="two units"),
        pytest.param([gone(unit("x", "Running"))], "vanished while it was Running", id="vanished"),
        pytest.param(
            [*GOOD_END[:2], GOOD[5], GOOD_END[1]], "completed a second time", id="completed twice"
        ),
    ],
)
def test_faults_are_found(things: list[tuple[str, Json]], want: str) -> None:
    found = judge([*GOOD, *things]).violations
    assert any(want in each for each in found), found


def unwatched(version: int, thing: tuple[str, Json], since: int) -> Seen:
    plural, _, is_gone = thing[0].partition(" ")
    return Seen(version, plural, bool(is_gone), thing[1], unwatched_since=since)


BEFORE = [*GOOD, job("y", suspend=True), unit("y", "Enqueued", cpu=2)]
"""Quota a has room for two CPUs, and x has one of them."""


def judge_after(*unseen: tuple[tuple[str, Json], int]) -> list[str]:
    """Judge what follows BEFORE: things with their versions, all within one unwatched time."""
    watched = [
        Seen(number, thing[0], is_gone=False, body=thing[1])
        for number, thing in enumerate(BEFORE, start=1)
    ]
    history = History()
    history.take_all([*watched, *(unwatched(version, thing, 50) for thing, version in unseen)])
    return history.violations


def test_what_ended_unwatched_may_have_ended_before_anything_else() -> None:
    ended = [pod("x", "Succeeded"), job("x", suspend=False, complete=True), unit("x", "Succeed")]
    begun = (unit("y", "Dequeued", cpu=2), 60)
    assert judge_after(begun, *((thing, 70) for thing in ended)) == []
    assert judge_after(begun, *((gone(thing), 70) for thing in ended)) == []
    faults = judge_after(begun, (ended[2], 70))  # the pod lives on
    assert faults[0].startswith("y takes quota a to 3000m")


def test_no_order_is_judged_where_nobody_watched() -> None:
    released = job("y", suspend=False)
    assert judge_after((released, 60), (pod("y", "Pending", cpu="0"), 61)) == []
    outside = Seen(200, *released[:1], is_gone=False, body=released[1])
    history = History()
    history.take_all(
        [
            *(Seen(n, thing[0], is_gone=False, body=thing[1]) for n, thing in enumerate(BEFORE, 1)),
            unwatched(60, unit("y", "Enqueued", cpu=1), 50),
            outside,
        ]
    )
    [fault] = history.violations
    assert fault.startswith("y was released without being admitted")


def test_a_job_that_ran_unwatched_was_admitted_once() -> None:
    history = History()
    watched = [Seen(n, thing[0], is_gone=False, body=thing[1]) for n, thing in enumerate(BEFORE, 1)]
    ended = [pod("y", "Succeeded"), job("y", suspend=False, complete=True), unit("y", "Succeed")]
    history.take_all([*watched, *(unwatched(60 + n, thing, 50) for n, thing in enumerate(ended))])
    story = history.stories["job-y"]
    assert history.violations == []
    assert (story.admissions, story.releases, story.completions) == (1, 1, 1)


def test_pods_beyond_those_admitted_are_noted_apart() -> None:
    """Job x was admitted with one CPU of two; a second pod of it fits, and a third does not."""
    pods = [pod("x", "Running", uid=f"again-{number}") for number in range(2)]
    history = judge([*GOOD, *pods])
    assert history.violations == []
    assert [(story.name, fault[:28]) for story, fault in history.overgrown] == [
        ("x", "x takes quota a to 3000m CPU"),
        ("x", "x takes quota top to 3000m C"),
    ]
    # What is admitted beyond a quota is a fault, whatever pods there are.
    more = [job("y", suspend=True), unit("y", "Dequeued", cpu=2)]
    faults = judge([*GOOD, *pods, *more]).violations
    assert faults[0].startswith("y takes quota a to 5000m CPU")


def test_what_was_given_back_is_not_charged() -> None:
    back = [{"name": "x", "count": 1}]
    things = [pod("x", "Succeeded"), unit("x", "Running", reclaimablePods=back)]
    assert judge([*GOOD, *things]).used["a"] == 0


@pytest.mark.parametrize(("text", "want"), [("2", 2000), ("0.5", 500), ("1500m", 1500)])
def test_amounts_are_read(text: str, want: int) -> None:
    assert cpu_milli(text) == want
