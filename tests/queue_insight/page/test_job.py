"""One job as a row of the list of all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_insight.page.job import Job, job_of_record, job_of_run
from queue_insight.page.job_list import no_outlook, show_jobs
from shared_api.testing.virtual_clock import EPOCH
from shared_api.timestamps import rfc3339
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_scheduler.shell_kit import ShellKit


def job(kit: ShellKit, name: str, ended: Job | None = None) -> Job:
    key = f"default/{name}"
    record = kit.shared.fork().record(key)
    assert record is not None
    return job_of_record(key, record, ended)


@pytest.mark.parametrize(
    ("phase", "state", "waited", "ran"),
    [
        pytest.param("", "waiting", 70.0, None, id="it waits until now"),
        pytest.param("Dequeued", "starting", 70.0, None, id="it waits for its pods"),
        pytest.param("Running", "running", 60.0, 10.0, id="it ran until now"),
        pytest.param("Succeed", "finished", None, None, id="nothing is known of its run"),
    ],
)
def test_how_long_it_waited_and_ran(
    kit: ShellKit, phase: str, state: str, waited: float | None, ran: float | None
) -> None:
    created = rfc3339(EPOCH - timedelta(seconds=60))
    tell_unit(kit, "a", phase, user="Ann", created=created)
    got, later = job(kit, "a"), NOW + 10.0
    assert (got.state, got.waited(later), got.ran(later)) == (state, waited, ran)
    assert (got.user, got.kind, got.job, got.quota) == ("Ann", "Job", "work-a", "team")


@pytest.mark.parametrize(
    ("phase", "reason", "want"),
    [
        pytest.param("", "UserLimit", "UserLimit", id="it waits"),
        pytest.param("", "Pending", "", id="it was not asked yet"),
        pytest.param("Succeed", "Succeeded", "", id="it has ended"),
    ],
)
def test_why_it_is_pending(kit: ShellKit, phase: str, reason: str, want: str) -> None:
    tell_unit(kit, "a", phase, reason=reason)
    assert job(kit, "a").reason == want


def test_a_time_in_the_future_is_no_wait(kit: ShellKit) -> None:
    tell_unit(kit, "a", "Running", created="2999-01-01T00:00:00Z")
    got = job(kit, "a")
    assert (got.waited(NOW), got.ran(NOW - 60.0)) == (0.0, 0.0)


@pytest.mark.parametrize("created", ["", "yesterday", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_is_none(kit: ShellKit, created: str) -> None:
    tell_unit(kit, "a", created=created)
    got = job(kit, "a")
    assert (got.created, got.waited(NOW)) == (None, None)


def test_of_a_unit_that_has_ended_the_record_knows_the_run(kit: ShellKit) -> None:
    tell_unit(kit, "a", "Failed")
    assert (job(kit, "a").result, job(kit, "a").ended) == ("failed", NOW)
    ended = job_of_run(run("a", ended=NOW + 5.0))
    got = job(kit, "a", ended)
    assert (got.ended, got.ran(NOW), got.queue) == (NOW + 5.0, 100.0, "team")


@pytest.mark.parametrize(
    ("ended_by", "want"),
    [("finished", "succeeded"), ("failed", "failed"), ("deleted", "deleted"), ("evicted", None)],
)
def test_how_it_ended(ended_by: str, want: str | None) -> None:
    got = job_of_run(run("a", ended_by=ended_by))
    assert (got and got.result) == want


def test_a_job_whose_unit_is_gone() -> None:
    got = job_of_run(run("a", namespace="b", user="Bob"))
    assert got is not None
    assert (got.key, got.namespace, got.name, got.state) == ("b/a", "b", "a", "finished")
    assert (got.waited(NOW), got.ran(NOW), got.words) == (10.0, 100.0, "a b bob")


def test_a_time_at_the_end_of_time_is_shown(kit: ShellKit) -> None:
    """A status may have any time, and the list of all is shown to all."""
    tell_unit(kit, "late", created="9999-12-31T23:59:59.999999Z")
    (row,) = show_jobs([job(kit, "late")], no_outlook, NOW)
    assert row.created == "9999-12-31T23:59:59Z"
