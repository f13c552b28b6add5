"""Submitted jobs are followed: what is said of a change, when it ends, and what is asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from koord_queue.cli.waiting import Job, Waiting
from koord_queue.errors import CommandError
from koord_queue.reach.questions import Question
from koord_queue.reach.resources import Resource
from shared_api.client.transport import Request
from shared_api.fake_api_server.faults import RequestInfo
from shared_api.fake_api_server.watch_stream import FakeStream, StreamPlan
from shared_api.queue_unit_phases import JOB_IS_DELETED
from shared_api.testing.object_builders import consumer_ref, job_body, queue_unit_body
from shared_api.timestamps import rfc3339
from tests.koord_queue.session.played_session import NoAnswers, PlayedSession

Json = dict[str, Any]

JOBS = Resource("batch", "v1", "jobs")
GRANTED = [{"name": "main", "replicas": 2, "running": 0}]
RUNNING = [{"name": "main", "replicas": 2, "running": 2}]


@pytest.fixture(autouse=True)
def command() -> Iterator[click.Context]:
    with click.Context(click.Command("submit"), info_name="koord-queue") as context:
        yield context


def submitted(session: PlayedSession, *names: str) -> list[Job]:
    found = []
    for name in names:
        body = session.server.direct.create(job_body(name))
        found.append(Job.of(JOBS, json.dumps(body).encode()))
    return found


def managed(session: PlayedSession, name: str) -> None:
    job = session.server.direct.get("jobs", name, "default")
    unit = queue_unit_body(f"{name}-unit", queue="night", consumerRef=consumer_ref(job))
    session.server.direct.create(unit)


def moved(session: PlayedSession, name: str, phase: str, **status: Any) -> None:
    patch = {"status": {"phase": phase, **status}}
    place: Json = {"namespace": "default", "subresource": "status"}
    session.server.direct.patch("queueunits", f"{name}-unit", patch, **place)


def play(session: PlayedSession, *steps: Callable[[], None]) -> None:
    """Let one step happen at each rest, and then nothing more."""
    left = iter(steps)

    def meanwhile() -> None:
        step = next(left, None)
        if step is not None:
            step()

    session.clock.meanwhile = meanwhile


def life(session: PlayedSession, name: str, end: str = "Succeed") -> list[Callable[[], None]]:
    return [
        lambda: managed(session, name),
        *[lambda: None] * 6,
        lambda: moved(session, name, "Dequeued", admissions=GRANTED),
        lambda: moved(session, name, "Running", admissions=RUNNING),
        lambda: None,
        lambda: moved(session, name, end, admissions=[], message="Failed: no luck"),
    ]


def test_in_a_pipe_each_change_is_a_line() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")
    play(session, *life(session, "train"))
    assert Waiting(session, jobs).follow(None) == 0
    assert session.out_text.getvalue().splitlines() == [
        "job.batch/train has no queue unit yet",
        "job.batch/train waits in queue night",
        "job.batch/train is starting: 0 of 2 pods run",
        "job.batch/train is running: 2 of 2 pods run",
        "job.batch/train succeeded",
    ]
    assert session.err_text.getvalue() == (
        "note: positions and forecasts are not known: nobody answers the explanation of a unit.\n"
    )


def test_on_a_terminal_several_jobs_are_counted_and_then_listed() -> None:
    session = PlayedSession(is_terminal=True)
    jobs = submitted(session, "a", "b")
    play(session, *life(session, "a"), *life(session, "b", "Failed"))
    assert Waiting(session, jobs).follow(None) == 1
    shown = session.out_text.getvalue()
    assert "\r2 jobs: 1 waiting, 1 succeeded\x1b[K" in shown
    assert shown.splitlines()[-2:] == ["job.batch/a succeeded", "job.batch/b failed: no luck"]


class Advisor(NoAnswers):
    """Says the same of each unit, and a later start each time."""

    def __init__(self, error: CommandError | None = None) -> None:
        self.asked = 0
        self._error = error

    def answer(self, question: Question[Any]) -> bytes:
        if question.name.startswith("the forecast"):
            return json.dumps({"startP50": f"2030-01-01T10:0{self.asked}:00Z"}).encode()
        self.asked += 1
        if self._error is not None:
            raise self._error
        blockers = [{"message": "full"}, {"message": "stopped"}]
        return json.dumps({"queue": "night", "position": 2, "blockers": blockers}).encode()


def test_a_forecast_alone_is_no_news_and_is_asked_for_every_five_seconds() -> None:
    session = PlayedSession()
    session.source = Advisor()
    jobs = submitted(session, "train")
    play(session, lambda: managed(session, "train"))
    assert Waiting(session, jobs).follow(20.0) == 3
    lines = session.out_text.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("job.batch/train waits in queue night at position 2, may start ")
    assert lines[1].endswith(": full")
    assert session.source.asked == 4


def test_a_question_that_is_refused_for_now_is_asked_again() -> None:
    session = PlayedSession()
    session.source = Advisor(CommandError("too many questions"))
    jobs = submitted(session, "train")
    play(session, lambda: managed(session, "train"))
    assert Waiting(session, jobs).follow(11.0) == 3
    assert session.source.asked == 3
    assert "positions" not in session.err_text.getvalue()


def test_a_timeout_ends_the_wait_and_says_how_to_go_on() -> None:
    session = PlayedSession()
    begun = session.clock.monotonic()
    jobs = submitted(session, "train")
    assert Waiting(session, jobs).follow(2.5) == 3
    assert session.clock.monotonic() - begun == pytest.approx(2.5)
    want = (
        "note: job.batch/train was not seen to end in time, and goes on:"
        " look with `koord-queue describe job/train`\n"
    )
    assert session.err_text.getvalue() == want


def replaced(session: PlayedSession) -> None:
    session.server.direct.delete("jobs", "train", "default")
    session.server.direct.create(job_body("train"))


def test_a_job_that_is_replaced_by_one_of_its_name_was_deleted() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")
    play(session, lambda: replaced(session))
    assert Waiting(session, jobs).follow(None) == 3
    assert session.out_text.getvalue().splitlines()[-1] == "job.batch/train was deleted"


def ended(session: PlayedSession, name: str, kind: str) -> None:
    # As the Job controller does: the API server refuses an end without these.
    before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    now = rfc3339(session.clock.now())
    conditions = [{"type": each, "status": "True", "message": "no luck"} for each in (before, kind)]
    status: Json = {"startTime": now, "conditions": conditions}
    if kind == "Complete":
        status["completionTime"] = now
    place: Json = {"namespace": "default", "subresource": "status"}
    session.server.direct.patch("jobs", name, {"status": status}, **place)


def gone(session: PlayedSession, name: str) -> None:
    """Delete a job and its unit, as the TTL of a finished job and the garbage collector do."""
    session.server.direct.delete("jobs", name, "default")
    if session.server.direct.exists("queueunits", f"{name}-unit", "default"):
        session.server.direct.delete("queueunits", f"{name}-unit", "default")


@pytest.mark.parametrize("has_unit", [True, False], ids=["with a unit", "before it has a unit"])
@pytest.mark.parametrize(
    ("end", "want", "code"),
    [
        pytest.param("Complete", "succeeded", 0, id="it had succeeded"),
        pytest.param("Failed", "failed: no luck", 1, id="it had failed"),
        pytest.param("", "was deleted", 3, id="a user has deleted it"),
    ],
)
def test_a_job_that_is_gone_at_once_ended_as_it_was_last(
    end: str, want: str, code: int, *, has_unit: bool
) -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")

    def finish() -> None:
        if end:
            ended(session, "train", end)
        gone(session, "train")

    begin = [lambda: managed(session, "train"), *[lambda: None] * 100] if has_unit else []
    play(session, *begin, finish)
    assert Waiting(session, jobs).follow(None) == code
    assert session.out_text.getvalue().splitlines()[-1] == f"job.batch/train {want}"
    assert session.err_text.getvalue().count("note: ") == int(has_unit), "of the advice alone"


def test_the_last_word_of_a_unit_counts_for_jobs_without_conditions() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")

    def finish() -> None:
        moved(session, "train", "Succeed", admissions=[])
        gone(session, "train")

    play(session, lambda: managed(session, "train"), lambda: None, lambda: None, finish)
    assert Waiting(session, jobs).follow(None) == 0


def test_a_job_in_its_deletion_has_ended_as_it_says() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")

    def finish() -> None:
        ended(session, "train", "Complete")
        moved(session, "train", "Failed", admissions=[], message=JOB_IS_DELETED)

    play(session, lambda: managed(session, "train"), lambda: None, lambda: None, finish)
    assert Waiting(session, jobs).follow(None) == 0


class NoWatches(PlayedSession):
    """A session that may not watch."""

    def stream(self, request: Request, timeout_seconds: float) -> Any:
        refused = {"reason": "Forbidden", "message": "you may not watch", "code": 403}
        answer = FakeStream(RequestInfo("watch", request.path), self.time, StreamPlan(status=403))
        answer.push(json.dumps(refused).encode())
        return answer


def test_without_the_right_to_watch_a_job_that_is_gone_was_deleted() -> None:
    session = NoWatches()
    jobs = submitted(session, "train")
    play(session, lambda: gone(session, "train"))
    assert Waiting(session, jobs).follow(None) == 3
    want = "note: how job.batch/train ended is not known: you may not watch\n"
    assert session.err_text.getvalue() == want


def test_objects_that_are_no_jobs_are_not_waited_for() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")
    other = b'{"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default", "uid": "1"}}'
    config = Job.of(Resource("", "v1", "configmaps"), other)
    play(session, *life(session, "train"))
    assert Waiting(session, [config, *jobs]).follow(None) == 0


def test_a_unit_that_does_not_come_is_looked_for_less_and_less_often() -> None:
    session = PlayedSession()
    jobs = submitted(session, "train")
    assert Waiting(session, jobs).follow(60.0) == 3
    assert session.server.counts["list", "queueunits", ""] == 6, "at 0, 1, 3, 7, 15, 23"
    assert session.out_text.getvalue().splitlines() == [
        "job.batch/train has no queue unit yet",
        "job.batch/train is not managed by the queue: it has no queue unit",
    ]
    assert "runs without the queue" in session.err_text.getvalue()
