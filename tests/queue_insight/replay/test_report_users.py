"""Replays by user: how the policy Fair treats those who share a queue, and what reports say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from queue_insight.replay.report import MOST_USERS
from shared_api.testing.object_builders import queue_body
from tests.queue_insight.replay.replay_kit import Desk, quota
from tests.queue_insight.replay.test_html_report import draw

HEAD = "submit_seconds,run_seconds,quota,user,cpu"

Json = dict[str, Any]


def hours(user: str, count: int, submit: int = 0) -> list[str]:
    """Return jobs of an hour, each of which takes all."""
    return [f"{submit},3600,red,{user},2" for _ in range(count)]


@pytest.fixture
def shared(desk: Desk) -> Desk:
    """A quota of two cores, of which ann has ten jobs at once, and bob five a minute later."""
    desk.write("quotas.yaml", yaml.safe_dump(quota("red", 2, "")))
    desk.write("trace.csv", "\n".join((HEAD, *hours("ann", 10), *hours("bob", 5, 60))))
    return desk


def users_of(report: Json) -> dict[str, Json]:
    """Return what each run says of users, by its name."""
    return {run["name"]: run["users"] for run in report["runs"]}


def test_who_comes_later_takes_turns_under_fair(shared: Desk) -> None:
    users = users_of(shared.report("--policy=FIFO", "--compare", "Priority", "Fair"))
    worst = {name: each["waits"]["bob"]["max"] for name, each in users.items()}
    # Behind all of ann's: the last starts after 14 h. In turn it starts after 9 h: ann began.
    assert worst == {"FIFO": 14 * 3600 - 60, "Priority": 14 * 3600 - 60, "Fair": 9 * 3600 - 60}
    assert users["FIFO"]["waits"]["ann"]["max"] == 9 * 3600
    assert users["Fair"]["waits"]["ann"]["max"] == 14 * 3600
    # The stretch is the mean of (wait + 1 h) in hours, since all run for an hour.
    got = users["Fair"]["stretch"]
    assert got == {"ann": 9.0, "bob": pytest.approx(6.0, abs=0.02)}
    assert {name: each["jain"] for name, each in users.items()} == {
        "FIFO": pytest.approx(0.859, abs=0.001),
        "Priority": pytest.approx(0.859, abs=0.001),
        "Fair": pytest.approx(0.961, abs=0.001),
    }


def test_a_long_job_counts_for_as_long_as_it_runs(desk: Desk) -> None:
    """Nothing is decided while it runs: what it has used counts all the same."""
    desk.write("quotas.yaml", yaml.safe_dump(quota("red", 2, "")))
    rows = ["0,36000,red,ann,2", *hours("bob", 3, 36000), *hours("ann", 1, 36000)]
    desk.write("trace.csv", "\n".join((HEAD, rows[0], rows[-1], *rows[1:-1])))
    users = users_of(desk.report("--policy=Fair"))["Fair"]
    assert users["waits"]["ann"]["max"] == 3 * 3600, "bob's three are first, though hers is older"


def test_weights_come_from_the_queues_of_a_file(shared: Desk) -> None:
    queue = queue_body("red", policy="Fair")
    queue["spec"]["fairShare"] = {"weights": [{"users": ["ann"], "weight": 0}]}
    path = shared.write("queues.yaml", yaml.safe_dump(queue))
    users = users_of(shared.report(f"--queues={path}"))["as configured"]
    assert users["waits"]["bob"]["max"] == 5 * 3600 - 60, "behind the one that runs already"


def test_tenants_as_users_share_one_quota(shared: Desk) -> None:
    rows = [row.replace("red,ann", "ann,").replace("red,bob", "bob,") for row in hours("ann", 2)]
    rows += [row.replace("red,bob", "bob,") for row in hours("bob", 1, 60)]
    shared.write("trace.csv", "\n".join((HEAD, *rows)))
    flags = ("--tenants-as-users", "--default-quota=red", "--policy=Fair")
    run = shared.report(*flags)["runs"][0]
    assert list(run["waits"]["byTenant"]) == ["red"]
    assert {user: own["max"] for user, own in run["users"]["waits"].items()} == {
        "ann": 2 * 3600,
        "bob": 3600 - 60,
    }


def test_tenants_as_users_need_a_quota(shared: Desk) -> None:
    assert shared.run("--tenants-as-users") == 2
    assert "it names no quota; --default-quota gives such jobs one" in shared.err.getvalue()


def test_a_trace_without_users_has_none(desk: Desk) -> None:
    report = desk.report("--compare", "FIFO")
    assert users_of(report) == {"as configured": None, "FIFO": None}
    assert report["comparisons"][0]["users"] is None
    assert "user " not in desk.out.getvalue()


def test_a_job_without_a_user_counts_for_its_namespace(shared: Desk) -> None:
    shared.write("trace.csv", "\n".join((HEAD, *hours("", 1), *hours("ann", 1))))
    users = users_of(shared.report())["as configured"]
    assert sorted(users["waits"]) == ["ann", "namespace:red"]


def test_few_of_many_users_are_named_and_all_are_counted(shared: Desk) -> None:
    rows = [row for number in range(50) for row in hours(f"user-{number:02}", 1, number)]
    shared.write("trace.csv", "\n".join((HEAD, *rows)))
    report = shared.report("--policy=FIFO", "--compare", "Fair")
    for users in users_of(report).values():
        assert users["count"] == 50
        assert MOST_USERS <= len(users["waits"]) <= 2 * MOST_USERS
    assert "user-49" in users_of(report)["FIFO"]["waits"], "the last waits longest"
    names = {name for users in users_of(report).values() for name in users["waits"]}
    assert all(set(users["waits"]) == names for users in users_of(report).values())


def test_the_text_says_who_waits_and_jains_index(shared: Desk) -> None:
    assert shared.run("--policy=FIFO", "--compare", "Fair") == 0
    shown = shared.out.getvalue()
    assert shown.index("  user bob") < shown.index("  user ann"), "the worst first"
    assert "FIFO: Jain's index 1.000 of tenants, 0.859 of 2 users" in shown
    assert "Fair: Jain's index 1.000 of tenants, 0.961 of 2 users" in shown


def test_the_comparison_and_the_page_have_users(shared: Desk, tmp_path: Path) -> None:
    path = shared.folder / "report.html"
    report = shared.report("--policy=FIFO", "--compare", "Fair", f"--report={path}")
    compared = report["comparisons"][0]["users"]
    assert compared["waits"]["bob"]["max"] == -5 * 3600
    assert compared["jain"] == pytest.approx(0.102, abs=0.001)
    texts = draw(path.read_text(encoding="utf-8"), tmp_path)["texts"]
    assert texts.count("user bob") == 4, "the waits of both runs, what differs, and stretches"
    assert texts.count("Jain's index of users") == 1
    assert any(", of users +0.102." in str(each) for each in texts)
