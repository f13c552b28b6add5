"""A unit's view: who is ahead, which changes are known, and what is left of one that is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queue_insight.debug_api.explanations import ExplainAnswers
from queue_insight.debug_api.insight_views import LogEntryView
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.page.kept_changes import KEPT_SECONDS
from queue_insight.page.sources import PageSources
from queue_insight.page.units_ahead import MAX_NAMED
from queue_scheduler.engine.engine import Engine
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUE_UNITS
from shared_api.testing.object_builders import elastic_quota_body, queue_unit_body
from shared_api.testing.virtual_clock import EPOCH
from shared_api.timestamps import rfc3339
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_insight.page.page_kit import (
    PATIENCE_SECONDS,
    ROOT,
    TENANT,
    Browser,
    LoginWorld,
    PageWorld,
    browser,
    served_page,
)
from tests.queue_scheduler.shell_kit import ShellKit

THEN = datetime(2026, 1, 1, tzinfo=UTC)


class RunWorld(PageWorld):
    """A world whose record has one run of `default/gone`."""

    run = FinishedRun(
        unit="default/gone",
        uid="u",
        kind="Job",
        queue="team",
        quota="team",
        charge={},
        created=THEN.timestamp(),
        started=THEN.timestamp() + 60,
        ended=THEN.timestamp() + 3600,
        ended_by="deleted",
    )

    def sources(self) -> PageSources:
        runs = {self.run.unit: self.run}
        return super().sources()._replace(last_run=runs.get)


@pytest.fixture
def world(kit: ShellKit) -> RunWorld:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    for name, priority in (("low", 0), ("old", 1), ("high", 5), ("new", 1)):
        kit.add_unit(name, cpu=2, priority=priority)
        kit.clock.advance(10)
    kit.decide()
    return RunWorld(kit.shared, kit.clock)


@pytest.fixture
def client(world: RunWorld) -> Iterator[Browser]:
    with browser(world) as found:
        yield found


def entry(unit: str, time: datetime) -> LogEntryView:
    return LogEntryView(
        time=time, number=1, kind="Admitted", unit=unit, queue="team", quota="team", reason="",
        message="m", victims=[],
    )  # fmt: skip


def test_units_ahead_are_named_with_what_puts_them_there(client: Browser) -> None:
    ahead = client.get("/page/units/default/new").json()["ahead"]
    told = [(each["name"], each["position"], each["why"]) for each in ahead["units"]]
    assert told == [("high", 1, "its priority is higher: 5"), ("old", 2, "it is older")]
    assert ahead["total"] == 2
    assert client.get("/page/units/default/high").json()["ahead"] == {"total": 0, "units": []}
    assert client.get("/page/units/default/run").json()["ahead"] is None


def test_in_a_queue_in_order_of_time_priority_puts_nothing_ahead(
    kit: ShellKit, client: Browser
) -> None:
    kit.direct.create(elastic_quota_body("line", max={"cpu": 1}, min={"cpu": 1}))
    kit.shared.apply(Engine.on_quota, kit.client.get(ELASTIC_QUOTAS, "default", "line"))
    kit.add_queue("line", policy="FIFO")
    for name, priority in (("first", 0), ("second", 9)):
        kit.add_unit(name, "line", cpu=2, priority=priority)
        kit.clock.advance(10)
    (ahead,) = client.get("/page/units/default/second").json()["ahead"]["units"]
    assert (ahead["name"], ahead["why"]) == ("first", "it is older")


def add_to(kit: ShellKit, namespace: str, name: str, priority: int) -> None:
    kit.direct.create(
        queue_unit_body(
            name, namespace=namespace, quota="team", requests={"cpu": 2}, priority=priority
        )
    )
    kit.shared.apply(Engine.on_queue_unit, kit.client.get(QUEUE_UNITS, namespace, name))


def test_who_may_read_some_is_told_of_these_wherever_they_are(
    kit: ShellKit, world: RunWorld
) -> None:
    del world
    kit.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    for number in range(MAX_NAMED + 5):
        add_to(kit, "other", f"secret-{number}", 9)
    with browser(LoginWorld(kit), TENANT) as ann:
        answer = ann.get("/page/units/default/new")
        ahead = answer.json()["ahead"]
        assert [each["name"] for each in ahead["units"]] == ["high", "old"]
        assert (ahead["total"], "secret" in answer.text) == (MAX_NAMED + 7, False)
    with browser(LoginWorld(kit), ROOT) as root:
        named = root.get("/page/units/default/new").json()["ahead"]["units"]
        assert {each["namespace"] for each in named} == {"other"}
        assert len(named) == MAX_NAMED


def test_a_unit_says_who_submitted_it_and_how_its_pods_run(
    kit: ShellKit, world: RunWorld, client: Browser
) -> None:
    def run_of(name: str) -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/page/units/default/{name}").json()["run"]
        return found

    created = rfc3339(EPOCH - timedelta(minutes=5))
    tell_unit(kit, "runs", "Running", user="ann", created=created)
    tell_unit(kit, "broken", "Failed", user="bob", created=created)
    world.ended.add(run("broken", user="bob", ended=NOW, ended_by="failed"))
    ran = kit.clock.now().timestamp() - NOW
    of_ann = run_of("runs")
    assert (of_ann["user"], of_ann["started"]) == ("ann", rfc3339(EPOCH))
    assert (of_ann["waitedSeconds"], of_ann["ranSeconds"]) == (300, ran)
    of_bob = run_of("broken")
    assert (of_bob["user"], of_bob["ended"], of_bob["ranSeconds"]) == ("bob", rfc3339(EPOCH), 100)
    waits = run_of("new")
    assert (waits["user"], waits["started"], waits["ends"]) == ("", None, None)
    assert client.get("/page/units/default/gone").json()["run"] is None


def test_changes_that_were_found_are_shown_for_a_while(
    kit: ShellKit, world: RunWorld, client: Browser
) -> None:
    path = "/page/units/default/high"
    assert client.get(path).json()["changes"] is None
    found = client.get(f"{path}/changes").json()["changes"]
    known = client.get(path).json()["changes"]
    assert (known["changes"], known["complete"]) == (found, True)
    assert known["foundAt"] == world.clock.now().isoformat().replace("+00:00", "Z")
    assert client.get("/page/units/default/new").json()["changes"] is None
    kit.clock.advance(KEPT_SECONDS)
    assert client.get(path).json()["changes"] is None


def test_a_unit_that_is_gone_has_what_is_recorded(world: RunWorld, client: Browser) -> None:
    world.log = [entry("default/gone", THEN + timedelta(minutes=1))]
    answer = client.get("/page/units/default/gone")
    got = answer.json()
    assert (answer.status_code, got["unit"], got["explain"]) == (200, None, None)
    assert [each["kind"] for each in got["log"]] == ["Admitted"]
    remembered = got["remembered"]
    assert remembered["seen"] == "2026-01-01T01:00:00Z"
    run = remembered["run"]
    assert (run["endedBy"], run["queue"], run["started"]) == (
        "deleted",
        "team",
        "2026-01-01T00:01:00Z",
    )


def test_a_unit_that_never_was_is_no_error(client: Browser) -> None:
    got = client.get("/page/units/default/never").json()
    assert (got["unit"], got["log"]) == (None, None)
    assert got["remembered"] == {"seen": None, "run": None}


def test_a_search_in_the_record_holds_up_no_other_view(kit: ShellKit) -> None:
    searched, go_on = threading.Event(), threading.Event()

    def search(_: str) -> None:
        searched.set()
        assert go_on.wait(PATIENCE_SECONDS)

    class SlowRecord(LoginWorld):
        def sources(self) -> PageSources:
            return super().sources()._replace(last_run=search, kept_seconds=60.0)

    world = SlowRecord(kit)
    world.reviews.users["token-of-eve"] = {"username": "eve"}
    world.readable["eve"] = {""}
    with served_page(world) as url, Browser(url) as root, Browser(url) as eve:
        root.log_in(ROOT)
        eve.log_in("token-of-eve")
        with ThreadPoolExecutor(2) as threads:
            slow = threads.submit(root.get, "/page/units/default/never")
            assert searched.wait(PATIENCE_SECONDS)
            other = threads.submit(eve.get, "/page/overview")
            try:
                assert other.result(5.0).status_code == 200
            finally:
                go_on.set()
            assert slow.result().json()["remembered"] == {"seen": None, "run": None}


def test_changes_found_for_a_unit_are_not_those_of_the_next_of_its_name(
    kit: ShellKit, world: RunWorld, client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain = ExplainAnswers.explain_with_changes

    def explain_and_replace(*asked: Any) -> Any:
        found = explain(*asked)
        kit.shared.apply(Engine.on_queue_unit_gone, kit.client.get(QUEUE_UNITS, "default", "high"))
        kit.direct.delete("queueunits", "high", "default")
        kit.add_unit("high", cpu=2, priority=5)
        return found

    del world
    monkeypatch.setattr(ExplainAnswers, "explain_with_changes", explain_and_replace)
    assert client.get("/page/units/default/high/changes").json()["changes"]
    assert client.get("/page/units/default/high").json()["changes"] is None


def test_at_an_earlier_time_nothing_later_is_remembered(world: RunWorld, client: Browser) -> None:
    world.past[THEN] = world.shared
    world.log = [entry("default/gone", THEN + timedelta(minutes=1))]
    got = client.get("/page/units/default/gone?at=2026-01-01T00:00:00Z").json()
    assert (got["log"], got["remembered"]) == ([], {"seen": None, "run": None})
