"""Which jobs a filter lets through, and their order."""

from __future__ import annotations

import time

import pytest

from queue_insight.page.job import Job, job_of_record, job_of_run
from queue_insight.page.job_filter import FIELDS, filter_jobs, sort_jobs, sort_keys
from shared_api.question_errors import QuestionError
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_scheduler.shell_kit import ShellKit

RUNNER = "system:serviceaccount:team-a:runner"


@pytest.fixture
def jobs(kit: ShellKit) -> list[Job]:
    """One of each state, of ann and bob, in two namespaces."""
    kit.add_quota("team-b", 9)
    tell_unit(kit, "waits", user="Ann", created="2026-01-01T00:00:05Z", reason="UserLimit")
    tell_unit(kit, "starts", "Dequeued", user="bob", created="2026-01-01T00:00:04Z")
    tell_unit(kit, "runs", "Running", user="bob", namespace="b", created="2026-01-01T00:00:03Z")
    tell_unit(kit, "books", "Reserved", quota="team-b", created="2026-01-01T00:00:02Z")
    tell_unit(kit, "idle", active=False, user=RUNNER, created="2026-01-01T00:00:01Z")
    units = [job_of_record(each.key, each) for each in kit.shared.fork().units]
    ended = job_of_run(run("failed", user="annette", ended_by="failed"))
    assert ended is not None
    return [*units, ended]


def names(jobs: list[Job]) -> list[str]:
    return [job.name for job in jobs]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", {"waits", "starts", "runs", "books", "idle", "failed"}),
        ("user:ann", {"waits", "failed"}),
        ("user=ann", {"waits"}),
        ("USER=ANN", {"waits"}),
        ("user=", {"books"}),
        (f"user={RUNNER}", {"idle"}),
        ("user:serviceaccount:team-a", {"idle"}),
        ("bob", {"starts", "runs"}),
        ("work-wa", {"waits"}),
        ("default bob", {"starts"}),
        ("state:running", {"runs"}),
        ("state=running", {"runs"}),
        ("state:admitted", {"starts", "runs", "books"}),
        ("state=admitted queue=team", {"starts", "runs"}),
        ("queue:team state:admitted", {"starts", "runs", "books"}),
        ("state:pending", {"waits", "idle"}),
        ("state:on-hold", {"idle"}),
        ("state=hold", set()),
        ("state:finished", {"failed"}),
        ("result:failed", {"failed"}),
        ("namespace=b", {"runs"}),
        ("kind=job quota=team-b", {"books"}),
        ("phase:dequeued", {"starts"}),
        ("name:s name=runs", {"runs"}),
        ("job=work-runs", {"runs"}),
        ("user=ann:x", set()),
        ("user:=", set()),
        (".* waits", set()),
        ("ann default", {"waits", "failed"}),
        ("ann default " * 4 + "is-no-longer-looked-for", {"waits", "failed"}),
    ],
)
def test_what_a_filter_lets_through(jobs: list[Job], text: str, want: set[str]) -> None:
    assert {*names(filter_jobs(jobs, text))} == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("reason=userlimit", {"waits"}),
        ("reason:limit state:pending", {"waits"}),
        ("reason=", {"starts", "runs", "books", "idle", "failed"}),
    ],
)
def test_reasons_that_a_filter_lets_through(jobs: list[Job], text: str, want: set[str]) -> None:
    assert {*names(filter_jobs(jobs, text))} == want


@pytest.mark.parametrize("text", ["color:red", ":x", "=x", "record:x", "__class__:x", "words=x"])
def test_an_unknown_field_is_said(jobs: list[Job], text: str) -> None:
    with pytest.raises(QuestionError, match="is none of name, namespace, state"):
        filter_jobs(jobs, text)


@pytest.mark.parametrize(
    ("sort", "want"),
    [
        ("", ["waits", "starts", "runs", "books", "idle"]),
        ("created", ["idle", "books", "runs", "starts", "waits"]),
        ("name", ["books", "failed", "idle", "runs", "starts", "waits"]),
        ("-state", ["failed", "runs", "starts", "books", "waits", "idle"]),
        ("queue", ["books"]),
        ("-waited", ["idle", "books", "starts", "waits"]),
        ("ran", ["failed", "runs"]),
        ("-ran", ["runs", "failed"]),
        ("ended", ["failed"]),
    ],
)
def test_an_order(jobs: list[Job], sort: str, want: list[str]) -> None:
    got = names(sort_jobs(jobs, sort, NOW + 1000.0))
    assert len(got) == len(jobs)
    known = {"queue": ["books", *got[1:]]}.get(sort, got)
    assert [each for each in known if each in want][: len(want)] == want


def test_what_is_not_known_comes_last_in_both_directions(jobs: list[Job]) -> None:
    for sort in ("started", "-started", "ended", "-ended", "ran", "-ran"):
        ordered = sort_jobs(jobs, sort, NOW)
        field = sort_keys(NOW)[sort.removeprefix("-")]
        missing = [field(job) is None for job in ordered]
        assert missing == sorted(missing), sort
        assert any(missing)
        assert not all(missing)


def test_equal_ones_keep_their_order(jobs: list[Job]) -> None:
    for sort in ("kind", "-kind"):
        assert names(sort_jobs(jobs, sort, NOW)) == names(jobs)


@pytest.mark.parametrize("sort", ["color", "--name", "-", "words", "record", "Name"])
def test_an_unknown_order_is_said(jobs: list[Job], sort: str) -> None:
    with pytest.raises(QuestionError, match="sort is to be one of"):
        sort_jobs(jobs, sort, NOW)


def test_no_filter_is_slow() -> None:
    """Of texts as long as they may be, and filters as long as they may be."""
    jobs = [
        job for n in range(200) if (job := job_of_run(run("a" * 253, user="a" * 63, uid=str(n))))
    ]
    bad = "a" * 30 + "b"
    texts = (f"{bad} " * 16, f"user:{bad} " * 14, ("a" * 249 + "b ") * 2, "a:" * 250, "=" * 500)
    began = time.process_time()
    for text in texts:
        try:
            filter_jobs(jobs, text[:500])
        except QuestionError:
            continue
    assert time.process_time() - began < 1.0


def test_all_fields_are_texts(jobs: list[Job]) -> None:
    assert all(isinstance(read(job), str) for read in FIELDS.values() for job in jobs)
