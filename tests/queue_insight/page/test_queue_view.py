"""What the views of the page show, to a visitor who may read all."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.debug_api.insight_views import LogEntryView, RecordView
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import queue
from tests.queue_insight.page.page_kit import ROOT, TENANT, Browser, LoginWorld, PageWorld, browser
from tests.queue_insight.page.test_hidden_sums import add
from tests.queue_scheduler.shell_kit import ShellKit

Json = dict[str, Any]


@pytest.fixture
def world(kit: ShellKit) -> PageWorld:
    """Units a (priority 1) to d of 1 CPU; a big one that does not fit."""
    for number, name in enumerate("abcd"):
        kit.add_unit(name, priority=number, consumerRef={"kind": "Job", "name": f"work-{name}"})
    add(kit, "big", "research", cpu=9, priority=-1)
    return PageWorld(kit.shared, kit.clock)


@pytest.fixture
def client(world: PageWorld) -> Iterator[Browser]:
    with browser(world) as client:
        yield client


def names(answer: Json) -> list[str]:
    return [each["name"] for each in answer["units"]]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("", ["d", "c", "b", "a", "big"]),
        ("sort=name", ["a", "b", "big", "c", "d"]),
        ("sort=-name", ["d", "c", "big", "b", "a"]),
        ("sort=priority&limit=2", ["big", "a"]),
        ("sort=-position&offset=3", ["c", "d"]),
        ("filter=b", ["b", "big"]),
        ("filter=WORK-C", ["c"]),
        ("filter=job:b", ["b"]),
        ("filter=namespace:res big", ["big"]),
        ("filter=kind:job name:d", ["d"]),
        ("filter=nothing", []),
    ],
)
def test_a_line_is_filtered_and_sorted(client: Browser, query: str, want: list[str]) -> None:
    got = client.get(f"/page/queues/team?{query}").json()
    assert names(got) == want
    assert got["others"] == 0
    assert got["queue"]["name"] == "team"


@pytest.mark.parametrize("query", ["sort=color", "filter=color:red", "limit=0", "offset=-1",
                                   "limit=1001", "filter=" + "x" * 501])  # fmt: skip
def test_a_question_about_a_line_that_is_wrong(client: Browser, query: str) -> None:
    assert client.get(f"/page/queues/team?{query}").status_code == 422


def test_the_total_is_that_of_the_filter(client: Browser) -> None:
    assert client.get("/page/queues/team?limit=1").json()["total"] == 5
    assert client.get("/page/queues/team?limit=1&filter=b").json()["total"] == 2


def test_a_line_as_a_table(client: Browser) -> None:
    answer = client.get("/page/queues/team.csv?sort=name&filter=kind:job")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(answer.text.splitlines()))
    assert [row["name"] for row in rows] == ["a", "b", "c", "d"]
    assert (rows[0]["position"], rows[0]["job"], rows[0]["demand"]) == ("4", "work-a", "cpu=1")


def test_no_cell_is_a_formula(client: Browser, kit: ShellKit) -> None:
    add(kit, "e", "default", cpu=1, consumerRef={"kind": "=1+1", "name": "@x"})
    (row,) = csv.DictReader(client.get("/page/queues/team.csv?filter=name:e").text.splitlines())
    assert (row["kind"], row["job"]) == ("'=1+1", "'@x")


@pytest.mark.usefixtures("world")
def test_a_tenant_has_a_table_of_its_own(kit: ShellKit) -> None:
    with browser(LoginWorld(kit), TENANT) as client:
        rows = list(csv.DictReader(client.get("/page/queues/team.csv").text.splitlines()))
    assert {row["namespace"] for row in rows} == {"default"}


@pytest.mark.parametrize(
    "path", ["/page/queues/x", "/page/queues/x.csv", "/page/units/x/y/changes", "/page/units/x",
             "/page/quotas/x", "/page/x"]
)  # fmt: skip
def test_what_is_unknown(client: Browser, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, list(answer.json())) == (404, ["detail"])


@pytest.mark.parametrize(
    "path", ["/page/overview", "/page/queues/team", "/page/units/default/a", "/page/quotas/team"]
)
def test_there_is_no_state_yet(client: Browser, world: PageWorld, path: str) -> None:
    world.failure = NoStateError("the scheduler fills its caches")
    answer = client.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (503, str(world.failure))


def test_a_time_that_is_not_recorded(client: Browser) -> None:
    answer = client.get("/page/queues/team?at=2026-01-01T00:00:00Z")
    assert answer.status_code == 503
    assert "--record-dir" in answer.json()["detail"]


def test_an_earlier_time(client: Browser, world: PageWorld, kit: ShellKit) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    world.past[at] = SharedEngine(kit.shared.fork(), lambda _: None)
    kit.add_unit("later", priority=99)
    then = "at=2026-01-01T00:00:00Z"
    assert names(client.get(f"/page/queues/team?{then}").json())[0] == "d"
    assert names(client.get("/page/queues/team").json())[0] == "later"
    first, *_ = csv.DictReader(client.get(f"/page/queues/team.csv?{then}").text.splitlines())
    assert (first["name"], first["starts"]) == ("d", "")
    first, *_ = csv.DictReader(client.get("/page/queues/team.csv").text.splitlines())
    assert first["name"] == "later"
    assert client.get(f"/page/units/default/later?{then}").json()["unit"] is None
    got = client.get(f"/page/units/default/a?{then}").json()
    assert (got["unit"]["position"], got["stateAt"]) == (4, "2026-01-01T00:00:00Z")
    assert client.get(f"/page/quotas/team?{then}").json()["quota"]["name"] == "team"


def entry(unit: str) -> LogEntryView:
    return LogEntryView(
        time=datetime(2026, 1, 1, tzinfo=UTC),
        number=1,
        kind="admitted",
        unit=unit,
        queue="team",
        quota="team",
        reason="",
        message="m",
        victims=[],
    )


def test_a_unit_has_its_log(client: Browser, world: PageWorld) -> None:
    assert client.get("/page/units/default/a").json()["log"] is None
    world.log = [entry("default/a"), entry("default/b")]
    got = client.get("/page/units/default/a").json()
    assert [each["unit"] for each in got["log"]] == ["default/a"]
    assert (got["unit"]["name"], got["explain"]["verdict"], got["forecast"]) == (
        "a",
        "waiting",
        None,
    )


def test_a_quota_has_its_family(client: Browser, kit: ShellKit) -> None:
    kit.add_quota("root", 9, is_parent=True)
    kit.add_quota("leaf", 9, parent="root")
    got = client.get("/page/quotas/leaf").json()
    assert ([each["name"] for each in got["parents"]], got["children"]) == (["root"], [])
    assert [each["name"] for each in client.get("/page/quotas/root").json()["children"]] == ["leaf"]


@pytest.fixture
def stranded(kit: ShellKit, world: PageWorld) -> None:
    """Two units without a quota, one of a queue that is not there, and one that is too large."""
    del world  # it adds its units first
    add(kit, "lost", "default", "not-there", cpu=1)
    add(kit, "lost-too", "research", "not-there", cpu=1)
    add(kit, "astray", "default", cpu=1, queue="nowhere")
    add(kit, "huge", "default", cpu=64)
    for _ in range(12):
        kit.decide()


@pytest.mark.usefixtures("stranded")
def test_units_that_need_a_user_are_wrong(client: Browser) -> None:
    got = client.get("/page/overview").json()
    reported = {each["name"]: (each["kind"], each["units"]) for each in got["problems"]}
    assert reported == {
        "ExceedsQuota": ("Units", ["default/huge", "research/big"]),
        "NoQueue": ("Units", ["default/astray"]),
        "NoQuota": ("Units", ["default/lost", "research/lost-too"]),
    }
    (message,) = (each["message"] for each in got["problems"] if each["name"] == "NoQuota")
    assert message == "2 units wait until a user acts."
    assert "koord-queue explain unit/lost -n default" in str(got["problems"])


@pytest.mark.usefixtures("stranded")
def test_units_in_no_queue_have_a_list_with_reasons(client: Browser) -> None:
    assert client.get("/page/overview").json()["unqueued"] == 3
    got = client.get("/page/unqueued").json()
    reported = [
        (each["name"], each["position"], each["refusal"]["reason"]) for each in got["units"]
    ]
    assert reported == [
        ("astray", 0, "NoQueue"),
        ("lost", 0, "NoQuota"),
        ("lost-too", 0, "NoQuota"),
    ]
    assert (got["total"], got["others"]) == (3, 0)
    assert {each["noStart"] for each in got["units"]} == {"not as things are"}
    some = client.get("/page/unqueued?filter=reason:noquota&sort=-name&limit=1").json()
    assert (names(some), some["total"]) == (["lost-too"], 2)


@pytest.mark.usefixtures("stranded")
def test_of_units_that_need_a_user_a_visitor_sees_its_own(kit: ShellKit) -> None:
    with browser(LoginWorld(kit), TENANT) as client:
        overview = client.get("/page/overview").json()
        reported = {each["name"]: each["units"] for each in overview["problems"]}
        assert reported["NoQuota"] == ["default/lost"]
        assert reported["ExceedsQuota"] == ["default/huge"], "and not that of research"
        assert overview["unqueued"] == 2
        got = client.get("/page/unqueued").json()
        assert (names(got), got["total"], got["others"]) == (["astray", "lost"], 2, 1)


def test_a_stopped_queue_is_wrong_once(client: Browser, kit: ShellKit) -> None:
    meta = {"annotations": {"koord-queue/stop-policy": "Hold"}, "resourceVersion": "99"}
    kit.shared.apply(Engine.on_queue, queue("team", policy="Priority", metadata=meta))
    (problem,) = client.get("/page/overview").json()["problems"]
    assert (problem["kind"], problem["name"]) == ("Queue", "team")


def test_the_overview_of_another_time_is_as_it_was(
    client: Browser, world: PageWorld, kit: ShellKit
) -> None:
    then = kit.clock.now()
    world.past[then] = SharedEngine(kit.shared.fork(), lambda _: None)
    kit.clock.advance(60.0)
    kit.dequeue()
    world.connected = False
    world.rates["team"] = 2.0
    while world.forecasts.age_seconds() is None:
        world.forecasts.step()
    at = then.astimezone(UTC).isoformat().replace("+00:00", "Z")
    got = client.get(f"/page/overview?at={at}").json()
    (team,) = got["queues"]
    assert (team["pending"], team["admitted"], team["admissionsPerHour"]) == (5, 0, None)
    assert (got["stateAt"], got["forecast"], got["problems"]) == (at, None, [])
    now = client.get("/page/overview").json()
    assert (now["queues"][0]["pending"], now["forecast"] is not None) == (4, True)
    assert client.get("/page/overview?at=2020-01-01T00:00:00Z").status_code == 503


def test_problems_are_told(client: Browser, world: PageWorld, kit: ShellKit) -> None:
    assert client.get("/page/overview").json()["problems"] == []
    world.connected = False
    world.record = RecordView(state="stopped", reason="no space")
    notes = {"koord-queue/stop-policy": "Hold", "koord-queue/max-depth": "many"}
    meta = {"annotations": notes, "resourceVersion": "99"}
    kit.shared.apply(Engine.on_queue, queue("team", policy="Priority", metadata=meta))
    got = client.get("/page/overview").json()
    reported = [(each["severity"], each["kind"], each["name"]) for each in got["problems"]]
    assert reported == [
        ("error", "Program", "koord-queue-scheduler"),
        ("error", "Program", "koord-queue-insight"),
        ("error", "Queue", "team"),
        ("warning", "Queue", "team"),
    ]
    assert all(each["next"] for each in got["problems"])
    assert got["record"] == {"on": False, "from": None, "to": None, "reason": "no space"}


QUESTION = {
    "edits": [{"kind": "ElasticQuota", "namespace": "default", "name": "team",
               "patch": {"spec": {"max": {"cpu": 12}}}}],
}  # fmt: skip


def test_what_if(client: Browser) -> None:
    answer = client.post("/page/what-if", json=QUESTION)
    assert answer.status_code == 200, answer.text
    starts = str(answer.json())
    assert "big" in starts


@pytest.mark.usefixtures("world")
def test_what_if_of_a_tenant(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    world.askers.add("ann")
    with browser(world, TENANT) as client:
        assert client.get("/page/session").json()["whatIf"] is True
        answer = client.post("/page/what-if", json=QUESTION)
        assert answer.status_code == 200, answer.text
        assert "big" not in answer.text
        edit = {"kind": "QueueUnit", "namespace": "research", "name": "big", "patch": None}
        refused = client.post("/page/what-if", json={"edits": [edit]})
    assert refused.status_code == 403


@pytest.mark.usefixtures("world")
def test_what_if_takes_the_right_of_the_debug_api(kit: ShellKit) -> None:
    with browser(LoginWorld(kit), TENANT) as client:
        assert client.get("/page/session").json()["whatIf"] is False
        refused = client.post("/page/what-if", json=QUESTION)
        assert (refused.status_code, "create /debug/what-if" in refused.text) == (403, True)
    with browser(LoginWorld(kit), ROOT) as client:
        assert client.get("/page/session").json()["whatIf"] is True
        assert client.post("/page/what-if", json=QUESTION).status_code == 200


@pytest.mark.parametrize("sent", [{"origin": "https://x"}, {"content-type": "text/plain"}])
def test_what_if_of_another_site(client: Browser, sent: dict[str, str]) -> None:
    assert client.post("/page/what-if", json=QUESTION, headers=sent).status_code in {403, 415}
