"""`koord-queue shadow-report` over records of which the counterfactual is known by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from queue_insight.shadow.lines import Header, ObjectGone
from queue_insight.shadow.quota_mapping import QuotaMapping
from queue_insight.shadow.report import DRAWN
from shared_api.testing.object_builders import queue_body
from shared_api.well_known_labels import KUEUE_PRIORITY_CLASS
from tests.queue_insight.shadow.shadow_kit import BEGAN, Desk, Json, policy, quota

PAGE = Path(__file__).parents[3] / "docs" / "shadow.md"


def last_come_first_served(desk: Desk) -> None:
    """Let jobs of which each takes the whole quota run in an order that no queue would choose."""
    desk.job("a", 0)
    desk.job("b", 10)
    desk.job("c", 20)
    desk.ran("a", 0, 100)
    desk.ran("c", 100, 130)
    desk.ran("b", 130, 180)


def test_the_report_of_a_known_sequence_is_the_truth(desk: Desk) -> None:
    last_come_first_served(desk)
    report = desk.report()
    got = {
        job["job"]: (job["waitSeconds"], job["wouldWaitSeconds"], job["runSeconds"])
        for job in report["jobs"]
    }
    assert got == {"default/a": (0, 0, 100), "default/b": (120, 90, 50), "default/c": (80, 130, 30)}
    assert report["waits"]["all"] == {
        "jobs": 3,
        "compared": 3,
        "startedOnlyReally": 0,
        "startedOnlyInShadow": 0,
        "startedInNeither": 0,
        "real": {"mean": 66.667, "median": 80, "p90": 120, "max": 120},
        "shadow": {"mean": 73.333, "median": 90, "p90": 130, "max": 130},
    }
    assert report["waits"]["byQueue"] == {"team": report["waits"]["all"]}
    assert report["inversions"]["all"] == {"real": 1, "shadow": 0}
    assert report["use"] == {"team": {"cpu": {"limit": 2000, "real": 1, "shadow": 1}}}


def test_a_job_occupies_its_quota_here_for_as_long_as_it_really_ran(desk: Desk) -> None:
    for name in ("a", "b"):
        desk.job(name, 0)
    desk.ran("a", 500, 600)
    desk.ran("b", 700, 750)
    assert desk.starts() == {"a": 0, "b": 100}


def test_a_job_that_still_runs_occupies_its_quota_until_the_end(desk: Desk) -> None:
    desk.job("a", 0)
    desk.job("b", 10)
    desk.started("a", 50)
    desk.until(1000)
    report = desk.report()
    assert desk.starts() == {"a": 0, "b": None}
    assert report["record"]["runTimeUnknown"] == 1
    assert "quota team" in report["jobs"][1]["why"]
    assert report["waits"]["all"]["startedInNeither"] == 1


def test_what_ran_at_the_beginning_runs_on_and_does_not_count(desk: Desk) -> None:
    desk.job("old", -100, seen=0)
    desk.started("old", -50)
    desk.job("new", -20, seen=0)
    desk.ended("old", 70)
    desk.ran("new", 200, 210)
    report = desk.report()
    assert [(job["job"], job["ranBefore"]) for job in report["jobs"]] == [
        ("default/old", True),
        ("default/new", False),
    ]
    assert desk.starts()["new"] == 70, "its quota is free when the old one ends"
    assert report["waits"]["all"]["compared"] == 1
    assert report["jobs"][1]["wouldWaitSeconds"] == 90


def test_a_job_that_was_taken_back_leaves_at_that_time(desk: Desk) -> None:
    desk.job("runs", 0)
    desk.job("waits", 1)
    desk.job("last", 2)
    desk.ran("runs", 0, 100)
    desk.ended("waits", 130, "deleted")
    desk.ran("last", 200, 230)
    assert desk.starts() == {"runs": 0, "waits": 100, "last": 130}


def test_of_a_job_that_was_stopped_the_last_run_counts(desk: Desk) -> None:
    desk.job("a", 0)
    desk.job("b", 1)
    desk.started("a", 10)
    desk.stopped("a", 30)
    desk.ran("a", 100, 140)
    desk.ran("b", 150, 160)
    report = desk.report()
    assert desk.starts() == {"a": 0, "b": 40}
    assert report["jobs"][0]["evictions"] == 1


def test_a_later_job_of_a_name_is_another_one(desk: Desk) -> None:
    desk.job("a", 0)
    desk.ended("a", 5, "deleted")
    desk.job("again", 0, uid="uid-first")
    desk.lines.append(desk.lines[-1])  # seen again after a restart: nothing has changed
    desk.job("again", 7, uid="uid-second")
    desk.until(50)
    jobs = desk.report()["jobs"]
    got = {(job["job"], job["submitted"][-3:-1]): job["wouldWaitSeconds"] for job in jobs}
    assert got == {
        ("default/a", "00"): 0,
        ("default/again", "00"): 5,
        ("default/again", "07"): None,
    }


def test_changes_count_from_their_time_on(desk: Desk) -> None:
    desk.job("a", 0)
    desk.job("b", 1)
    desk.job("c", 2)
    desk.job("c", 2, seen=20, priority=5)
    desk.object(40, quota("team", 4))
    desk.ran("a", 300, 400)
    desk.ran("b", 400, 500)
    desk.ran("c", 500, 600)
    assert desk.starts("--policy=Priority") == {"a": 0, "b": 100, "c": 40}
    desk.lines.append(ObjectGone(at=BEGAN + 30, kind="ElasticQuota", key="kq/team"))
    assert desk.starts("--policy=Priority") == {"a": 0, "b": 100, "c": 40}, "it came back"


def test_a_quota_that_comes_later_gets_its_queue(tmp_path: Path) -> None:
    desk = Desk(tmp_path, cpu=0)
    desk.object(0, quota("other", 1))
    desk.job("a", 0)
    desk.object(60, quota("team", 2))
    desk.until(100)
    assert desk.starts() == {"a": 60}


def play_with(
    desk: Desk, said: Json, said_at: float, jobs: Sequence[tuple[str, str, float, float]]
) -> None:
    """Let jobs (name, user, start, end) run in a cluster that gets a policy then."""
    if not said_at:
        desk.object(0, said)
    for name, user, start, end in jobs:
        desk.job(name, start, user=user)
        desk.ran(name, start, end)
    if said_at:  # objects before the first job would be those of the beginning
        desk.object(said_at, said)


@pytest.mark.parametrize(
    ("said_at", "b_starts"), [(0, 40), (1.5, 1)], ids=["from the beginning", "later"]
)
def test_limits_of_a_policy_count_while_it_is_there(
    tmp_path: Path, said_at: float, b_starts: float
) -> None:
    desk = Desk(tmp_path, cpu=8)
    jobs = [("a", "ann", 0, 100), ("b", "ann", 1, 100), ("c", "bob", 1, 100), ("d", "ann", 2, 100)]
    play_with(desk, policy(userLimits=[{"users": ["ann"], "running": 1}]), said_at, jobs)
    desk.lines.append(ObjectGone(at=BEGAN + 40, kind="QuotaPolicy", key="kq/p"))
    assert desk.starts() == {"a": 0, "b": b_starts, "c": 1, "d": 40}


@pytest.mark.parametrize("said_at", [0, 10])
def test_budgets_of_a_policy_count_whenever_it_comes(desk: Desk, said_at: float) -> None:
    midnight = 14 * 3600  # it began at 10:00
    budget = {"resource": "cpu", "hours": 2, "period": "Day", "reserve": "None"}
    jobs = [("a", "ann", 20, 3620), ("b", "bob", 30, 3630)]
    play_with(desk, policy(budgets=[budget]), said_at, jobs)
    desk.until(midnight + 10)
    assert desk.starts() == {"a": 20, "b": midnight}


def test_what_a_policy_states_for_queues_counts_from_its_time_on(desk: Desk) -> None:
    for name, user, submitted in (("a", "zoe", 0), ("b", "bob", 5), ("c", "ann", 10)):
        desk.job(name, submitted, user=user)
    share = {"weights": [{"users": ["bob"], "weight": 0}]}
    desk.object(20, policy(queue={"fairShare": share}))
    desk.ran("a", 0, 100)
    desk.ran("b", 100, 200)
    desk.ran("c", 200, 300)
    assert desk.starts("--policy=Fair") == {"a": 0, "b": 200, "c": 100}
    desk.lines.append(ObjectGone(at=BEGAN + 50, kind="QuotaPolicy", key="kq/p"))
    assert desk.starts("--policy=Fair") == {"a": 0, "b": 100, "c": 200}, "it was taken away"


def test_places_say_the_quota_of_jobs_that_name_none(tmp_path: Path) -> None:
    places = QuotaMapping(kueue_queues={"default/main": "team"}, namespaces={"default": "rest"})
    desk = Desk(tmp_path, places=places)
    desk.object(0, quota("rest", 2))
    desk.object(0, quota("batch", 2))
    desk.job("mapped", 0, quota="", kueue_queue="main")
    desk.job("named", 1, quota="", kueue_queue="batch")
    desk.job("other", 2, quota="", kueue_queue="unknown")
    desk.job("own", 3, quota="team", kueue_queue="batch")
    desk.until(10)
    got = {job["job"]: job["quota"] for job in desk.report()["jobs"]}
    assert got == {
        "default/mapped": "team",
        "default/named": "batch",
        "default/other": "rest",
        "default/own": "team",
    }


def test_a_priority_class_of_kueue_counts(tmp_path: Path) -> None:
    desk = Desk(tmp_path, places=QuotaMapping(priorities={"urgent": 9}))
    desk.job("runs", 0)
    desk.job("first", 1)
    desk.job("urgent", 2, metadata={"labels": {KUEUE_PRIORITY_CLASS: "urgent"}})
    desk.ran("runs", 0, 10)
    desk.ran("first", 10, 20)
    desk.ran("urgent", 20, 30)
    assert desk.starts("--policy=Priority") == {"runs": 0, "urgent": 10, "first": 20}
    assert [job["priority"] for job in desk.report()["jobs"]] == [0, 0, 9]


def test_other_objects_and_policies_answer_other_questions(desk: Desk) -> None:
    last_come_first_served(desk)
    larger = """
kind: ElasticQuota
metadata: {name: team, namespace: kq}
spec: {min: {cpu: 4}, max: {cpu: 4}}
---
kind: ShadowPlaces
namespaces: {default: team}
"""
    path = desk.write("larger.yaml", larger)
    assert desk.starts(f"--objects={path}") == {"a": 0, "b": 10, "c": 60}


def test_the_text_and_the_page_say_the_same(desk: Desk) -> None:
    last_come_first_served(desk)
    desk.lines.append(Header(at=BEGAN + 300, format=1, version="1"))
    page = desk.folder / "page.html"
    assert desk.type(f"--html={page}") == 0, desk.err.getvalue()
    text = desk.out.getvalue()
    for line in ("nothing was watched from 2026-11-01T10:03:00Z", "default/b ", "3 jobs from"):
        assert line in text
    content = page.read_text("utf-8")
    for part in ("Shadow of record", '"wouldStart":"2026-11-01T10:01:40Z"', "Order inversions"):
        assert part in content


def test_a_page_of_many_jobs_has_those_that_differ_most(desk: Desk) -> None:
    for number in range(DRAWN):
        desk.job(f"same-{number:04}", 10, cpu=0)
        desk.ran(f"same-{number:04}", 10, 20)
    desk.job("other", 30)
    desk.ran("other", 90, 100)
    page = desk.folder / "page.html"
    assert desk.type(f"--html={page}") == 0, desk.err.getvalue()
    content = page.read_text("utf-8")
    assert content.count('"job":"default/') == DRAWN
    assert '"job":"default/other"' in content


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param("", "it has no header", id="an empty file"),
        pytest.param('{"type":"what"}\n', "line 1", id="a line of another kind"),
        pytest.param(
            '{"type":"header","at":1,"format":9,"version":"2"}\n',
            "version 9 of the record",
            id="a later version",
        ),
    ],
)
def test_a_record_that_is_wrong_is_named(desk: Desk, content: str, want: str) -> None:
    assert desk.read(desk.write("shadow.jsonl", content)) == 2
    assert want in desk.err.getvalue()


def test_a_queue_of_the_record_has_its_policy(desk: Desk) -> None:
    desk.object(0, queue_body("team", namespace="kq", policy="Priority", metadata={"uid": "q"}))
    desk.job("runs", 0)
    desk.job("first", 1)
    desk.job("urgent", 2, priority=9)
    desk.ran("runs", 0, 10)
    desk.ran("first", 10, 20)
    desk.ran("urgent", 20, 30)
    assert desk.starts() == {"runs": 0, "urgent": 10, "first": 20}
    desk.object(9, queue_body("team", namespace="kq", policy="FIFO", metadata={"uid": "q"}))
    assert desk.starts() == {"runs": 0, "first": 10, "urgent": 20}


def test_the_example_of_the_page_is_what_is_printed(desk: Desk) -> None:
    last_come_first_served(desk)
    assert desk.type() == 0
    assert f"```\n{desk.out.getvalue()}```\n" in PAGE.read_text("utf-8")


def test_users_of_a_record_take_turns_under_fair(desk: Desk) -> None:
    # Really first come, first served: ann's four, then bob's two.
    for number in range(4):
        desk.job(f"a{number}", number, user="ann")
        desk.ran(f"a{number}", 1000 * number, 1000 * (number + 1))
    for number in range(2):
        desk.job(f"b{number}", 10 + number, user="bob")
        desk.ran(f"b{number}", 4000 + 1000 * number, 5000 + 1000 * number)
    desk.until(7000)
    users = desk.report("--policy=Fair")["waits"]["users"]
    assert (users["count"], list(users["waits"])) == (2, ["ann", "bob"]), (
        "the worst of either side first: ann's last would start at 5000"
    )
    assert users["waits"]["bob"]["real"]["max"] == 4989
    assert users["waits"]["bob"]["shadow"]["max"] == 2989, "after ann's first two"
    assert users["jain"]["shadow"] > users["jain"]["real"] + 0.03
    page = desk.folder / "page.html"
    assert desk.type("--policy=Fair", f"--html={page}") == 0
    shown = desk.out.getvalue()
    assert "user bob, shadow" in shown
    assert "JAIN'S INDEX OF 2 USERS" in shown
    assert '"users":{"count":2' in page.read_text(encoding="utf-8")


def test_a_record_without_users_has_none(desk: Desk) -> None:
    last_come_first_served(desk)
    assert desk.report()["waits"]["users"] is None
