"""The list of all jobs, as visitors with different rights are answered."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest

from queue_insight.page import job_answers
from queue_insight.page.job_answers import JobAnswers, find_jobs
from queue_insight.page.job_filter import FIELDS, sort_keys
from queue_insight.page.known_state import KnownStates
from queue_insight.page.login import MAX_REVIEWS
from queue_insight.page.queue_view import UnitQuery
from queue_insight.page.visitors import Visitor
from queue_scheduler.cycles.shared_engine import SharedEngine
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_insight.page.page_kit import ROOT, TENANT, Browser, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

Json = dict[str, Any]

SECRET: Final = "hush"
"""In each text that only namespace `b` has."""


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    """Jobs of ann in `default`, and of somebody else in `b`."""
    tell_unit(kit, "runs", "Running", user="ann")
    tell_unit(kit, "waits", user="ann", created="2026-01-01T00:00:05Z")
    others = {"namespace": "b", "user": f"{SECRET}-user"}
    tell_unit(kit, f"{SECRET}-runs", "Running", **others)
    tell_unit(kit, f"{SECRET}-waits", **others, consumerRef={"kind": SECRET, "name": SECRET})
    tell_unit(kit, f"{SECRET}-ended", "Failed", **others)
    tell_unit(kit, f"{SECRET}-lost", quota=f"{SECRET}-quota", **others)
    world = LoginWorld(kit)
    world.ended.add(run("done", user="ann"))
    world.ended.add(run(f"{SECRET}-done", namespace="b", user=SECRET, kind=SECRET, quota=SECRET))
    return world


@pytest.fixture
def tenant(world: LoginWorld) -> Iterator[Browser]:
    with browser(world, TENANT) as client:
        yield client


@pytest.fixture
def root(world: LoginWorld) -> Iterator[Browser]:
    with browser(world, ROOT) as client:
        yield client


def names(answer: Json) -> list[str]:
    return [each["name"] for each in answer["units"]]


def test_a_reader_of_all_sees_all(root: Browser) -> None:
    got = root.get("/page/jobs").json()
    assert (got["total"], got["others"], len(got["units"])) == (8, 0, 8)
    assert got["endedSince"] == "2026-11-01T10:00:00Z"
    (done,) = (each for each in got["units"] if each["name"] == "done")
    assert (done["state"], done["result"], done["phase"]) == ("finished", "succeeded", "")
    assert (done["waitedSeconds"], done["ranSeconds"], done["requests"]) == (10, 100, {"cpu": "1"})
    assert (done["user"], done["queue"], done["quota"], done["kind"]) == (
        "ann",
        "team",
        "team",
        "Job",
    )


def test_of_a_job_that_waits_it_is_said_why_no_start_is_told(root: Browser) -> None:
    got = root.get("/page/jobs?filter=name=hush-lost").json()
    (lost,) = got["units"]
    assert (lost["state"], lost["starts"], lost["noStart"]) == (
        "on hold",
        None,
        "not as things are",
    )


def test_a_tenant_sees_its_own_and_a_number(tenant: Browser) -> None:
    answer = tenant.get("/page/jobs")
    assert SECRET not in answer.text
    got = answer.json()
    assert {*names(got)} == {"runs", "waits", "done"}
    assert (got["total"], got["others"]) == (3, 3), "what has ended is not counted"


def visitor_of(*readable: str, user: str = "ann") -> Visitor:
    return Visitor(user, reads_all=False, may_read=readable.__contains__, refusal_of=lambda _: None)


PROBES: Final = (
    *(f"filter={field}{sign}{SECRET}" for field in FIELDS for sign in (":", "%3D")),
    *(f"filter={word}" for word in (SECRET, "b", "namespace:b", "namespace%3Db", "user:bob")),
    "filter=state:finished+result:failed",
)


def test_no_filter_tells_of_others(tenant: Browser) -> None:
    """Each is answered as one that nothing matches."""

    def asked(query: str) -> Json:
        return {**tenant.get(f"/page/jobs?{query}").json(), "stateAt": ""}

    nothing = asked("filter=user%3Dnobody-has-this-name")
    assert (nothing["total"], nothing["others"]) == (0, 3)
    assert [probe for probe in PROBES if asked(probe) != nothing] == []


def test_no_order_tells_of_others(tenant: Browser, kit: ShellKit) -> None:
    keys = sort_keys(0.0)

    def orders() -> list[Json]:
        paths = [f"/page/jobs?sort={sign}{key}" for key in keys for sign in ("", "-")]
        return [tenant.get(path).json()["units"] for path in paths]

    before = orders()
    assert {len(each) for each in before} == {3}
    for number in range(5):
        tell_unit(kit, f"{SECRET}-{number}", namespace="b", user=f"{SECRET}-{number}")
    assert orders() == before


def test_thousands_of_namespaces_that_are_gone_hide_no_jobs(
    tenant: Browser, world: LoginWorld
) -> None:
    """A request reviews the rights to few namespaces."""
    for number in range(2 * MAX_REVIEWS):
        world.ended.add(run("job", namespace=f"ci-{number:03}", ended=NOW - 1000.0))
    assert names(tenant.get("/page/jobs?sort=name").json())[-2:] == ["runs", "waits"]


def test_a_table_has_what_may_be_read(tenant: Browser, root: Browser) -> None:
    answer = tenant.get("/page/jobs.csv?sort=name")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert SECRET not in answer.text
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert [row["name"] for row in rows] == ["done", "runs", "waits"]
    assert (rows[0]["state"], rows[0]["waited_seconds"], rows[0]["requests"]) == (
        "finished",
        "10",
        "cpu=1",
    )
    of_all = root.get("/page/jobs.csv?filter=state:finished").text
    assert len(list(csv.DictReader(of_all.splitlines()))) == 3


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff20"])
def test_no_cell_of_a_table_is_a_formula(root: Browser, kit: ShellKit, begin: str) -> None:
    tell_unit(kit, "e", consumerRef={"kind": f"{begin}1+1", "name": f"{begin}x"})
    text = io.StringIO(root.get("/page/jobs.csv?filter=name=e").text, newline="")
    (row,) = csv.DictReader(text)
    assert (row["kind"], row["job"]) == (f"'{begin}1+1", f"'{begin}x")


def test_a_table_is_bounded(world: LoginWorld) -> None:
    answers = JobAnswers(world.sources(), KnownStates(world.sources()))
    text = answers.table(visitor_of("default", "b"), UnitQuery(limit=3), None)
    assert len(text.splitlines()) == 1 + 3


def test_a_question_that_is_wrong(root: Browser) -> None:
    wrong = ("sort=color", "filter=color:red", "limit=0", "limit=1001", "offset=-1")
    for query in (*wrong, "filter=" + "x" * 501):
        assert root.get(f"/page/jobs?{query}").status_code == 422, query


def test_an_earlier_time_that_is_not_recorded(root: Browser) -> None:
    for path in ("/page/jobs", "/page/jobs.csv"):
        answer = root.get(f"{path}?at=2020-01-01T00:00:00Z")
        assert answer.status_code == 503
        assert "--record-dir" in answer.json()["detail"]


def test_a_right_that_is_taken_counts_at_once(world: LoginWorld) -> None:
    """What is kept for visitors is kept by what these may read now."""
    sources = world.sources()._replace(kept_seconds=60.0, number=lambda: 1)
    answers = JobAnswers(sources, KnownStates(sources))
    before, after = visitor_of("default", "b"), visitor_of("default")
    assert SECRET in answers.page(before, UnitQuery(), None).decode()
    assert SECRET not in answers.page(after, UnitQuery(), None).decode()
    assert SECRET not in answers.table(after, UnitQuery(), None)


def test_an_answer_is_computed_once_for_those_with_the_same_rights(
    world: LoginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def counted(*args: Any) -> Any:
        asked.append(args)
        return find_jobs(*args)

    monkeypatch.setattr(job_answers, "find_jobs", counted)
    sources = world.sources()._replace(kept_seconds=60.0, number=lambda: 1)
    answers = JobAnswers(sources, KnownStates(sources))
    for user in ("ann", "bob"):
        visitor = Visitor(
            user, reads_all=False, may_read="default".__eq__, refusal_of=lambda _: None
        )
        for offset in (0, 1, 2):
            answers.page(visitor, UnitQuery(offset=offset), None)
    assert len(asked) == 1


def test_a_running_job_runs_on(root: Browser, kit: ShellKit) -> None:
    path = "/page/jobs?filter=name=runs"
    assert root.get(path).json()["units"][0]["ranSeconds"] == kit.clock.now().timestamp() - NOW
    kit.clock.advance(9.0)
    assert root.get(path).json()["units"][0]["ranSeconds"] == 9


def test_what_is_likely_is_told_of_now_only(world: LoginWorld, kit: ShellKit) -> None:
    while world.forecasts.age_seconds() is None:
        world.forecasts.step()
    then = kit.clock.now()
    world.past[then] = SharedEngine(kit.shared.fork(), lambda _: None)
    answers = JobAnswers(world.sources(), KnownStates(world.sources()))

    def likely(at: datetime | None) -> dict[str, tuple[bool, bool]]:
        answer = json.loads(answers.page(visitor_of("default"), UnitQuery(), at))
        units = answer["units"]
        return {each["name"]: (bool(each["starts"]), bool(each["ends"])) for each in units}

    assert likely(None) == {"waits": (True, False), "runs": (False, True), "done": (False, False)}
    assert {*likely(then).values()} == {(False, False)}
