"""What another process knew is taken over, and followed with the next fact."""

from __future__ import annotations

from queue_scheduler.cache.recalled_units import recall_turn
from queue_scheduler.decision import Rest
from tests.properties.engine_kit import build_queue, build_quota, build_unit, new_engine


def test_a_turn_is_taken_over_and_looked_up_again_with_the_next_fact() -> None:
    engine, _ = new_engine()
    engine.on_quota(build_quota("a", cpu=4))
    engine.on_queue(build_queue("a"))
    engine.on_queue_unit(build_unit("u", "a"))
    _, generation, served, _ = engine.turns.standing_of("a")
    recall_turn(engine.units, "a", generation, served + 3, 7.0)
    assert engine.turns.standing_of("a")[1:] == (generation, served + 3, 7.0)
    assert "a" in engine.units.changed_queues
    engine.forget_pod("")
    assert not engine.units.changed_queues
    assert engine.decide_next("a", now=1.0) == Rest(until=7.0)
    engine.validate()
