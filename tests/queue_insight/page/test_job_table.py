"""All jobs at one moment; rows are made anew only where something has changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queue_insight.debug_api.engine_state import NoStateError
from queue_insight.insight_program.sources import Source
from queue_insight.page import job_table
from queue_insight.page.job_table import JobTable, JobTables, read_jobs
from queue_insight.page.known_state import KnownStates
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import queue_unit_body, to_struct
from tests.queue_insight.page.job_kit import NOW, run, tell_unit
from tests.queue_insight.page.page_kit import PageWorld
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def world(kit: ShellKit) -> PageWorld:
    for name, phase in (("a", ""), ("b", "Running"), ("c", "Succeed")):
        tell_unit(kit, name, phase)
    return PageWorld(kit.shared, kit.clock)


def read(world: PageWorld, before: JobTable | None = None) -> JobTable:
    state = Source(world.shared, world.clock.now(), is_leader=True, now=world.clock.now)
    return read_jobs(state, 1, world.ended, before)


def states(table: JobTable) -> dict[str, str]:
    return {job.name: job.state.value for job in (*table.units, *table.gone)}


def forget(kit: ShellKit, name: str, namespace: str = "default") -> None:
    meta = {"uid": f"uid-{namespace}-{name}", "resourceVersion": "9999"}
    body = queue_unit_body(name, namespace=namespace, metadata=meta)
    kit.shared.apply(Engine.on_queue_unit_gone, to_struct(QueueUnit, body))


def test_rows_are_used_again_where_nothing_has_changed(world: PageWorld, kit: ShellKit) -> None:
    first = read(world)
    tell_unit(kit, "a", "Running")
    tell_unit(kit, "d")
    second = read(world, first)
    assert states(second) == {"a": "running", "b": "running", "c": "finished", "d": "waiting"}
    (old,) = (job for job in first.units if job.name == "b")
    (new,) = (job for job in second.units if job.name == "b")
    assert new is old
    assert states(first)["a"] == "waiting"


def test_a_unit_that_is_gone_is_there_if_its_run_is_known(world: PageWorld, kit: ShellKit) -> None:
    first = read(world)
    for name in "ab":
        forget(kit, name)
    world.ended.add(run("b", ended=NOW, ended_by="deleted"))
    second = read(world, first)
    assert states(second) == {"b": "finished", "c": "finished"}
    assert [job.name for job in second.gone] == ["b"]


def test_the_next_unit_of_a_name_is_another_job(world: PageWorld) -> None:
    world.ended.add(run("a", uid="of-the-one-before"))
    table = read(world)
    assert [(job.uid, job.state) for job in table.gone] == [("of-the-one-before", "finished")]
    assert len(table.units) == 3


@pytest.mark.parametrize("seconds", [0.0, job_table.LATE_SECONDS - 1.0])
def test_a_run_that_is_told_late_is_seen(world: PageWorld, kit: ShellKit, seconds: float) -> None:
    kit.clock.advance(seconds)
    first = read(world)
    world.ended.add(run("c", ended=NOW))
    (job,) = (job for job in read(world, first).units if job.name == "c")
    assert job.ran(NOW) == 100.0
    assert [job.name for job in read(world, first).gone] == []


def test_long_after_an_end_its_row_is_used_again(world: PageWorld, kit: ShellKit) -> None:
    kit.clock.advance(job_table.LATE_SECONDS + 1.0)
    first = read(world)
    assert all(new is old for new, old in zip(read(world, first).units, first.units, strict=True))


def test_of_an_earlier_time_later_ends_are_not_known(world: PageWorld, kit: ShellKit) -> None:
    world.ended.add(run("old", ended=NOW - 60.0))
    world.ended.add(run("b", ended=NOW + 60.0))
    (running,) = (job for job in read(world).units if job.name == "b")
    assert (running.state, running.ended) == ("running", None)
    kit.clock.advance(120.0)
    forget(kit, "b")
    assert states(read(world))["b"] == "finished"
    then = datetime.fromtimestamp(NOW, UTC)
    world.past[then] = SharedEngine(kit.shared.fork(), lambda _: None)
    tables = JobTables(world.sources(), KnownStates(world.sources()))
    assert {"old", "a", "c"} == states(tables.at(then)).keys()
    with pytest.raises(NoStateError):
        tables.at(then - timedelta(days=1))


def test_a_table_is_used_for_a_second(world: PageWorld, kit: ShellKit) -> None:
    sources = world.sources()._replace(kept_seconds=1.0)
    known = KnownStates(sources)
    tables = JobTables(sources, known)
    first = tables.at(None)
    tell_unit(kit, "d")
    kit.clock.advance(0.5)
    assert tables.at(None) is first
    known.look()  # whoever is told of this one is shown no older one
    second = tables.at(None)
    assert "d" in states(second)
    kit.clock.advance(1.0)
    assert tables.at(None) is not second
    world.failure = NoStateError("the scheduler is gone")
    with pytest.raises(NoStateError):
        tables.at(None)
