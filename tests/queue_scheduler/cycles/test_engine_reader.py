"""An engine of one thread is asked like one that many share."""

from __future__ import annotations

from queue_scheduler.cycles.engine_reader import EngineReader, OwnEngine
from queue_scheduler.engine.engine import Engine
from tests.queue_scheduler.shell_kit import ShellKit


def test_both_kinds_answer_alike(kit: ShellKit) -> None:
    kit.add_unit("a")
    readers: list[EngineReader] = [kit.shared, OwnEngine(kit.shared.fork())]
    for reader in readers:
        record = reader.ask(Engine.record, "default/a")
        assert record is not None
        assert record.key == "default/a"
        assert reader.fork().record("default/a") == record


def test_a_copy_of_it_is_the_callers(kit: ShellKit) -> None:
    kit.add_unit("a")
    reader = OwnEngine(kit.shared.fork())
    reader.fork().on_queue_gone("team")
    assert reader.ask(lambda engine: engine.queues.find("team")) is not None
