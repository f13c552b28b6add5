"""A call that is played again: its answer, its error, and what it leaves behind."""

from __future__ import annotations

import inspect

from queue_scheduler.cycles.engine_call import CALLS, EngineCall, play
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import elastic_quota
from tests.properties.engine_kit import build_queue, build_unit, new_engine

READS = {"fork", "validate", "take_notices"}
"""Methods of an engine that change nothing that decides; those that answer are typed as such."""


def call(name: str, *args: object) -> EngineCall:
    return EngineCall(1, 0.0, name, args)


def test_it_returns_what_the_method_returns() -> None:
    engine, _ = new_engine()
    engine.on_quota(elastic_quota("a", max={"cpu": 4}))
    assert play(engine, call("on_queue", build_queue("a"))) == ()
    assert play(engine, call("on_queue_unit", build_unit("u", "a"))) == ("a",)
    assert isinstance(play(engine, call("decide_next", "a", 0.0)), Dequeue)


def test_an_error_is_returned() -> None:
    engine, _ = new_engine()
    assert isinstance(play(engine, call("on_queue", None)), AttributeError)


def test_what_waits_to_be_told_to_users_is_dropped() -> None:
    engine, _ = new_engine()
    play(engine, call("on_queue", build_queue("q", "Nonsense")))
    play(engine, call("on_queue_unit", build_unit("u")))
    assert engine.take_notices() == []
    assert not engine.units.held_lately


def test_every_method_that_takes_a_change_can_be_recorded() -> None:
    changing = {
        name
        for name, method in inspect.getmembers(Engine, inspect.isfunction)
        if not name.startswith("_")
        and (name.startswith("on_") or "tuple[str, ...]" in method.__annotations__["return"])
    }
    assert changing | {"decide_next", "grow"} == CALLS.keys()
