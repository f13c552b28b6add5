"""What the program keeps of accounts while it follows: by minutes, and over its own restarts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight_feed.messages import Checkpoint, State
from queue_insight.insight_program import use_recording
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.recording import FILE, EngineRecorder
from queue_insight.insight_program.use_recording import UseRecorder
from queue_insight.record.checkpoint import freeze
from queue_insight.record.record_file import read_store
from queue_insight.record.use_meter import UseMeter
from queue_insight.record.use_sums import UseRow
from queue_insight.record.use_tables import UseReach
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.insight_kit import new_engine


def engine_with_accounts() -> Engine:
    engine = new_engine()
    engine.usage.ledger = Ledger()
    engine.on_quota(elastic_quota("team", max={"cpu": 4}))
    engine.on_queue(queue("team"))
    return engine


class Following(NamedTuple):
    """A program that follows and records, with its threads stepped by a test."""

    folder: Path
    clock: VirtualClock
    engine: FollowedEngine
    recorder: EngineRecorder
    use: UseRecorder

    def call(self, name: str, *args: object) -> object:
        """Play a call, and the second before it."""
        answer: object = None
        for each, about in (("on_time", (self.clock.now(),)), (name, args)):
            number = self.engine._number + 1  # noqa: SLF001 - what it expects
            call = EngineCall(number, self.clock.now().timestamp(), each, about)
            answer = self.engine.play(call)
            self.recorder.on_call(call, b"x", answer)
            self.use.on_call(call, b"x", answer)
        return answer

    def submit(self, name: str, user: str) -> None:
        meta = {
            "uid": name,
            "resourceVersion": "1",
            "labels": {"koord-queue/user": user},
            "creationTimestamp": self.clock.now().isoformat()[:19] + "Z",
        }
        unit = queue_unit(name, quota="team", requests={"cpu": 1}, metadata=meta)
        self.call("on_queue_unit", unit)

    def start(self, name: str, user: str) -> None:
        """Have a unit of one core admitted, which has waited for a minute."""
        self.submit(name, user)
        self.let_pass(60)
        self.call("decide_next", "team", self.clock.monotonic(), self.clock.now())

    def let_pass(self, seconds: int) -> None:
        """Let time pass, in which the scheduler says each half minute that it is there."""
        for _ in range(seconds // 30):
            self.clock.advance(30)
            number = self.engine._number  # noqa: SLF001 - of the last call
            self.engine.note_state(State(number=number, wall=self.clock.now(), is_leader=True))
            self.recorder.step()

    def read(self) -> tuple[list[UseRow], UseReach]:
        """Return the rows of all that is kept, by user, and what it reaches."""
        now = int(self.clock.now().timestamp())
        with closing(read_store(self.folder / FILE)) as store:
            reach = store.use.reach(now - 86_400, now, now)
            rows = [row for each in store.use.read(reach) for row in each.block.rows]
        return sorted(rows, key=lambda row: row.key.user), reach


@contextmanager
def following(
    folder: Path, clock: VirtualClock | None = None, engine: Engine | None = None
) -> Iterator[Following]:
    """Yield a program that has taken over an engine."""
    clock, taken = clock or VirtualClock(), engine or engine_with_accounts()
    meter = UseMeter()
    followed = FollowedEngine(meter)
    use = UseRecorder(followed, meter)
    with closing(EngineRecorder(followed, folder / FILE, clock.now, use=use)) as recorder:
        taken.on_time(clock.now())
        begun = Checkpoint(number=0, wall=clock.now(), engine=freeze(taken.fork()))
        followed.begin(begun)
        recorder.on_checkpoint(begun)
        yield Following(folder, clock, followed, recorder, use)


def test_use_and_waits_are_written_each_minute(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        world.start("u", "ann")
        began = world.clock.now()
        world.let_pass(600)
        ((row,), _) = world.read()
        wanted = (world.clock.now() - began).total_seconds() * 1000
    assert row.key.user == "ann"
    assert wanted - 90_000 <= row.used["cpu"] <= wanted
    assert sum(row.waits.values()) == 1


def test_who_only_waits_has_a_row(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        for number in range(4):
            world.start(f"u{number}", "ann")
        world.submit("v", "eve")
        world.let_pass(120)
        assert [(row.key.user, bool(row.used)) for row in world.read()[0]] == [
            ("ann", True),
            ("eve", False),
        ]


def test_an_evicted_run_is_told(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        world.start("u", "ann")
        world.let_pass(120)
        world.call("on_time", world.clock.now())
        run = FinishedRun(unit="default/u", uid="u", charge={}, created=0, ended=0)
        world.use.add_run(run)
        world.let_pass(60)
        assert world.read()[0][0].evictions == 0
        world.use.add_run(replace(run, ended_by="evicted"))
        world.let_pass(120)
        (row,) = world.read()[0]
        assert row.evictions == 1
        assert row.lost["cpu"] > 60_000


def test_the_rest_is_written_at_the_end(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        world.start("u", "ann")
        world.let_pass(600)
        before = world.read()[0][0].used["cpu"]
        world.clock.advance(17)
        number = world.engine._number  # noqa: SLF001 - of the last call
        world.engine.note_state(State(number=number, wall=world.clock.now(), is_leader=True))
    assert world.read()[0][0].used["cpu"] == 617_000 > before


def test_a_restart_loses_what_was_not_written_and_says_so(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        world.start("u", "ann")
        world.let_pass(600)
        before = world.read()[0][0].used["cpu"]
        clock, copy = world.clock, world.engine.fork()
    # What was left is written at the end; for two minutes nothing follows then.
    clock.advance(120)
    copy.on_time(clock.now())
    with following(tmp_path, clock, copy) as world:
        world.let_pass(300)
        rows, reach = world.read()
    assert len(rows) == 1
    assert before < rows[0].used["cpu"] <= before + 90_000 + 300_000
    assert reach.complete_from == int(clock.now().timestamp()) - 300
    assert reach.complete_from is not None


def test_two_programs_count_nothing_twice(tmp_path: Path) -> None:
    with following(tmp_path) as world:
        world.start("u", "ann")
        world.let_pass(300)
        with following(tmp_path, world.clock, world.engine.fork()) as second:
            for _ in range(20):
                second.clock.advance(30)
                for each in (world, second):
                    number = each.engine._number  # noqa: SLF001 - of the last call
                    state = State(number=number, wall=world.clock.now(), is_leader=True)
                    each.engine.note_state(state)
                    each.recorder.step()
            (row,) = world.read()[0]
            assert row.used["cpu"] <= 900_000 + 60_000


def test_without_accounts_nothing_is_kept(tmp_path: Path) -> None:
    engine = engine_with_accounts()
    engine.usage.ledger = None
    with following(tmp_path, engine=engine) as world:
        world.start("u", "ann")
        world.let_pass(300)
        assert world.read()[0] == []


def test_many_rows_are_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use_recording, "MANY_ROWS", 1)
    with following(tmp_path) as world:
        world.start("u", "ann")
        world.let_pass(1200)
        rows, _ = world.read()
        with closing(read_store(tmp_path / FILE)) as store:
            ((_, until),) = store.statements.run("SELECT began, until FROM use_spans")
        assert rows
        assert 60 < world.clock.now().timestamp() - until < 400
