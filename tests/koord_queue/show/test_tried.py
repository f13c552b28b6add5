"""What becomes of a manifest, in sentences."""

from __future__ import annotations

from datetime import UTC, datetime

from koord_queue.answers.explanation import Change, Explanation
from koord_queue.answers.refusal import Refusal
from koord_queue.answers.tried import Tried, TriedError, TriedJob, TriedProblem
from koord_queue.show.forecasts import Wall
from koord_queue.show.tried import tried_lines

WALL = Wall(datetime(2026, 11, 26, tzinfo=UTC), UTC)


def reported(answer: Tried) -> list[tuple[str, str]]:
    return [(line.style, line.text) for line in tried_lines(answer, WALL) if line.text]


def test_a_job_that_starts_and_what_is_evicted_for_it() -> None:
    job = TriedJob(
        kind="Job", namespace="x", name="a", summary="It would start now.", starts_now=True,
        unit="a-job", quota="team", priority=5, request={"cpu": "2", "memory": "1Gi"},
        also_starts=("x/b",), evicts=("x/c",), other_units=1,
        warnings=(TriedProblem(reason="KeyWithoutEffect", message="Label b has no effect"),),
    )  # fmt: skip
    assert reported(Tried(jobs=(job,), defaulted=True)) == [
        ("good", "Job x/a: It would start now."),
        ("warn", "KeyWithoutEffect: Label b has no effect"),
        ("dim", "unit a-job, quota team, priority 5; requests cpu 2, memory 1Gi"),
        ("", "starts before it: x/b"),
        ("warn", "evicted for it: x/c and 1 other"),
    ]


def test_a_job_that_waits_and_what_would_start_it() -> None:
    explanation = Explanation(
        verdict="waiting",
        blockers=(Refusal(reason="OverQuotaMax", message="needs more"),),
        changes=(Change(description="Raise it.", sufficient=True),),
    )
    job = TriedJob(kind="Job", name="a", summary="Not now.", unit="a", explanation=explanation)
    assert reported(Tried(jobs=(job,), no_forecast="it is off", not_looked_up=("owners",))) == [
        ("warn", "Job a: Not now."),
        ("dim", "unit a, quota none, priority 0; requests nothing"),
        ("bold", "What keeps it from starting:"),
        ("", "1. OverQuotaMax: needs more"),
        ("bold", "Any one of these would start it now:"),
        ("", "1. Raise it."),
        ("dim", "No forecast: it is off"),
        ("dim", "Not looked up: owners."),
        ("dim", "Defaults and webhooks of the API server are not in this answer."),
    ]


def test_a_job_that_has_started_before_is_as_good_as_one_that_starts() -> None:
    job = TriedJob(kind="Job", name="a", summary="It exists already.", unit="a", exists=True)
    assert reported(Tried(jobs=(job,), defaulted=True))[0] == ("good", "Job a: It exists already.")


def test_objects_that_are_refused_or_not_managed() -> None:
    wrong = TriedJob(kind="Job", name="a", errors=(TriedError(field="spec", message="is wrong"),))
    other = TriedJob(kind="Secret", name="b", summary="It is no job.")
    assert reported(Tried(jobs=(wrong, other), defaulted=True)) == [
        ("bad", "Job a: "),
        ("bad", "error: spec: is wrong"),
        ("warn", "Secret b: It is no job."),
    ]
