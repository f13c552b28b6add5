"""The meter: hours, evicted runs, waits, kinds, bounds, and engines one after the other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.record import use_meter
from queue_insight.record.use_meter import HOUR, MOST_HOURS, UseMeter
from queue_insight.record.use_sums import UseKey, UsePart, UseRow, join_hours
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.ledger import Ledger
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import (
    elastic_quota,
    queue,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import CHECKPOINTED_AT

BEGIN = 1_800_000_000 // HOUR * HOUR


def wall_of(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


class Metered:
    """An engine with the quota and queue `team`, a clock, and its meter."""

    def __init__(self, *, keeps_accounts: bool = True) -> None:
        plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()])
        ledger = Ledger() if keeps_accounts else None
        self.engine = Engine(plugins, BUILT_IN_POLICIES, ledger=ledger)
        self.engine.on_quota(elastic_quota("team", max={"cpu": 1000}))
        self.engine.on_queue(queue("team"))
        self.meter = UseMeter()
        self.now, self.version = BEGIN, 0
        self.engine.on_time(wall_of(self.now))
        self.meter.begin(self.engine, self.now)

    def call(self, name: str, *args: Any) -> None:
        for each in (
            EngineCall(0, self.now, "on_time", (wall_of(self.now),)),
            EngineCall(0, self.now, name, args),
        ):
            self.meter.on_call(each)
            play(self.engine, each)

    def put(
        self, name: str, phase: str = "Running", user: str = "ann", kind: str = "Job", **more: Any
    ) -> None:
        """Bring a unit of 2 cores, admitted unless its phase says otherwise."""
        checkpoint = more.pop("checkpoint", None)
        marks = {CHECKPOINTED_AT: rfc3339(wall_of(checkpoint))} if checkpoint else {}
        labels = {"koord-queue/user": user} if user else {}
        job = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name}
        self.version += 1
        meta = {"uid": name, "resourceVersion": str(self.version), "labels": labels}
        meta["annotations"] = marks
        body = queue_unit_body(
            name, quota="team", requests={"cpu": 2}, metadata=meta, consumerRef=job, **more
        )
        grant = {"name": "main", "replicas": 1, "running": 1, "resources": {"cpu": "2"}}
        body = with_status(body, phase=phase, admissions=[grant] if phase == "Running" else [])
        self.call("on_queue_unit", to_struct(QueueUnit, body))

    def pass_seconds(self, seconds: int) -> None:
        self.now += seconds

    def take(self) -> list[UsePart]:
        self.meter.advance(self.now)
        return self.meter.take()

    def rows(self) -> dict[str, UseRow]:
        """Return the rows since the last call, by user."""
        whole = join_hours([part.block for part in self.take()])
        return {row.key.user: row for row in whole.rows}


def test_use_is_divided_among_hours_at_rest() -> None:
    world = Metered()
    world.pass_seconds(3000)
    world.put("u")
    world.pass_seconds(HOUR + 700)
    got = [(each.since - BEGIN, each.until - BEGIN, each.block.rows) for each in world.take()]
    key = UseKey("team", "", "default", "", "ann", "Job")
    want = [
        (0, HOUR, [UseRow(key, {"cpu": 600 * 2000})]),
        (HOUR, 2 * HOUR, [UseRow(key, {"cpu": HOUR * 2000})]),
        (2 * HOUR, 2 * HOUR + 100, [UseRow(key, {"cpu": 100 * 2000})]),
    ]
    assert [(a, b, [r.used for r in rows]) for a, b, rows in got] == [
        (a, b, [r.used for r in rows]) for a, b, rows in want
    ]
    assert [row.key._replace(queue="") for _, _, rows in got for row in rows] == [key] * 3


def test_nothing_is_counted_without_accounts() -> None:
    world = Metered(keeps_accounts=False)
    world.put("u")
    world.pass_seconds(HOUR)
    assert world.take() == []
    assert not world.meter.is_on
    assert world.engine.usage.watch is None


@pytest.mark.parametrize(
    ("saved", "want"),
    [
        pytest.param(60, 40, id="what it has used since then"),
        pytest.param(-60, 100, id="from before its start"),
        pytest.param(100, 100, id="in the future when it was told"),
    ],
)
def test_what_a_run_has_saved_is_not_lost(saved: int, want: int) -> None:
    world = Metered()
    world.put("u")
    world.pass_seconds(80)
    world.put("u", checkpoint=BEGIN + saved)
    world.pass_seconds(20)
    world.put("u", phase="Backoff")
    world.meter.on_end(Uid("u"), is_evicted=True)
    assert world.rows()["ann"].lost == {"cpu": want * 2000}


def test_of_two_checkpoints_the_last_counts() -> None:
    world = Metered()
    world.put("u")
    for _ in range(2):
        world.pass_seconds(50)
        world.put("u", checkpoint=world.now)
    world.put("u", checkpoint=BEGIN + 50)
    world.pass_seconds(7)
    world.put("u", phase="Backoff")
    world.meter.on_end(Uid("u"), is_evicted=True)
    assert world.rows()["ann"].lost == {"cpu": 7 * 2000}


def test_what_an_evicted_run_has_used_is_lost_and_that_of_others_is_not() -> None:
    world = Metered()
    world.put("u")
    world.put("v", user="bob")
    world.pass_seconds(100)
    world.put("u", phase="Backoff")
    world.meter.on_end(Uid("u"), is_evicted=True)
    world.put("v", phase="Succeed", user="bob")
    world.meter.on_end(Uid("v"), is_evicted=False)
    got = world.rows()
    assert (got["ann"].evictions, got["ann"].lost) == (1, {"cpu": 200_000})
    assert (got["bob"].evictions, got["bob"].lost) == (0, {})
    world.put("u")
    world.pass_seconds(10)
    world.put("u", phase="Backoff")
    world.meter.on_end(Uid("u"), is_evicted=True)
    got = world.rows()
    assert (got["ann"].evictions, got["ann"].lost) == (1, {"cpu": 20_000}), "each run by itself"


def test_what_pods_of_an_evicted_run_use_until_they_are_gone_is_lost_as_well() -> None:
    world = Metered()
    world.put("u")
    world.pass_seconds(100)
    world.call("on_time", wall_of(world.now))
    world.meter.on_end(Uid("u"), is_evicted=True)
    assert world.rows()["ann"].lost == {"cpu": 200_000}
    world.pass_seconds(30)
    world.put("u", phase="Backoff")
    got = world.rows()["ann"]
    assert (got.evictions, got.lost) == (0, {"cpu": 60_000}), "it was counted once"


def test_the_end_of_a_run_that_nobody_has_seen_is_no_eviction() -> None:
    world = Metered()
    world.meter.on_end(Uid("gone"), is_evicted=True)
    world.meter.on_admitted(Uid("gone"), 3)
    assert world.rows() == {}


def test_waits_are_counted_for_whose_unit_it_is() -> None:
    world = Metered()
    world.put("u")
    world.meter.on_admitted(Uid("u"), 7)
    world.meter.on_admitted(Uid("u"), 7)
    world.pass_seconds(1)
    assert world.rows()["ann"].waits == {7: 2}


def test_who_waits_has_a_row_without_use() -> None:
    world = Metered()
    world.meter.note_waiting([UseKey("team", "q", "ns", "", "eve", "Job")])
    world.pass_seconds(1)
    assert world.rows()["eve"].used == {}


def test_many_names_from_one_namespace_count_as_the_namespace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(use_meter, "MAX_KEYS_OF_NAMESPACE", 2)
    world = Metered()
    for number in range(5):
        world.put(f"u{number}", user=f"made-up-{number}", kind=f"Kind{number}")
    world.pass_seconds(10)
    got = world.rows()
    assert set(got) == {"made-up-0", "made-up-1", "namespace:default"}
    assert got["namespace:default"].used == {"cpu": 60_000}
    assert got["namespace:default"].key.kind == ""
    for number in range(5):
        world.put(f"u{number}", phase="Succeed", user=f"made-up-{number}", kind=f"Kind{number}")
    world.pass_seconds(10)
    world.take()
    world.put("soon", user="one-more")
    world.pass_seconds(10)
    assert set(world.rows()) == {"namespace:default"}, "the hour has its keys"
    world.put("soon", phase="Succeed", user="one-more")
    world.pass_seconds(HOUR)
    world.take()
    world.put("later", user="another")
    world.pass_seconds(10)
    assert set(world.rows()) == {"another"}, "in a later hour there is room again"


def test_another_engine_goes_on_and_the_time_between_is_not_counted() -> None:
    world = Metered()
    world.put("u")
    world.pass_seconds(100)
    world.meter.advance(world.now)
    other = world.engine.fork()
    world.pass_seconds(50)
    world.meter.begin(other, world.now)
    world.engine = other
    world.pass_seconds(10)
    parts = world.take()
    assert [(each.since - BEGIN, each.until - BEGIN) for each in parts] == [(0, 100), (150, 160)]
    assert [row.used for each in parts for row in each.block.rows] == [
        {"cpu": 200_000},
        {"cpu": 20_000},
    ]


def test_a_clock_that_is_set_back_counts_nothing_twice() -> None:
    world = Metered()
    world.put("u")
    world.pass_seconds(100)
    world.take()
    other = world.engine.fork()
    world.now -= 50
    world.meter.begin(other, world.now)
    world.engine = other
    world.pass_seconds(60)
    assert [(each.since - BEGIN, each.until - BEGIN) for each in world.take()] == [(100, 110)]


def test_a_clock_that_is_set_far_ahead_counts_nothing() -> None:
    world = Metered()
    world.put("u")
    world.pass_seconds(10)
    world.take()
    world.pass_seconds(400 * 24 * HOUR)
    assert world.take() == []
    world.pass_seconds(10)
    ((since, until, block),) = world.take()
    assert until - since == 10
    assert [row.used for row in block.rows] == [{"cpu": 20_000}]
    world.pass_seconds(MOST_HOURS * HOUR)
    assert len(world.take()) >= MOST_HOURS


def test_kinds_are_those_of_jobs_also_of_units_from_before() -> None:
    world = Metered()
    world.put("u", kind="PyTorchJob")
    other = world.engine.fork()
    world.meter.begin(other, world.now)
    world.engine = other
    world.pass_seconds(5)
    assert world.rows()["ann"].key.kind == "PyTorchJob"
