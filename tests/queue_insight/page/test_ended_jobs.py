"""The newest jobs that have ended."""

from __future__ import annotations

from queue_insight.page.ended_jobs import EndedJobs
from tests.queue_insight.page.job_kit import NOW, run


def test_the_newest_are_kept() -> None:
    ended = EndedJobs(NOW - 60.0, most=2)
    for number, name in enumerate("abc"):
        ended.add(run(name, ended=NOW + number))
    assert [job.name for job in ended.by_uid().values()] == ["b", "c"]
    assert ended.since == NOW, "what has ended before is not complete"


def test_the_oldest_end_is_left_out_first() -> None:
    ended = EndedJobs(NOW - 60.0, most=2)
    for number, name in enumerate("abac"):
        ended.add(run(name, ended=NOW + number))
    assert [job.name for job in ended.by_uid().values()] == ["a", "c"]


def test_all_are_known_from_its_beginning() -> None:
    ended = EndedJobs(NOW - 60.0, most=2)
    ended.add(run("a"))
    assert ended.since == NOW - 60.0


def test_of_a_unit_the_last_end_counts() -> None:
    ended = EndedJobs(NOW)
    for number, by in enumerate(("deleted", "evicted", "finished", "evicted")):
        ended.add(run("a", ended=NOW + number, ended_by=by))
    (job,) = ended.by_uid().values()
    assert (job.result, job.ended) == ("succeeded", NOW + 2)


def test_who_reads_sees_no_later_change() -> None:
    ended = EndedJobs(NOW)
    seen = ended.by_uid()
    ended.add(run("a"))
    assert seen == {}
