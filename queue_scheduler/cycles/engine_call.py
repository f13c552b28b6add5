"""Calls that change an engine, as values, and playing them again. Pure.

Facts alone do not give the same decisions: what an engine decides depends on when it was asked. So
the record is every call, in the order of the engine's lock. An engine that starts from the same
state and gets the same calls decides the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from queue_scheduler.engine.engine import Engine

CALLS: Final[Mapping[str, Callable[..., object]]] = {
    method.__name__: method
    for method in (
        Engine.on_queue,
        Engine.on_queue_gone,
        Engine.on_queue_unit,
        Engine.on_queue_unit_gone,
        Engine.on_quota,
        Engine.on_quota_gone,
        Engine.on_pod,
        Engine.on_pod_gone,
        Engine.on_time,
        Engine.on_accounts,
        Engine.go_on_with_accounts,
        Engine.on_edges,
        Engine.on_calendars,
        Engine.on_node,
        Engine.on_node_gone,
        Engine.on_admission_check,
        Engine.on_admission_check_gone,
        Engine.on_admission_checks_served,
        Engine.on_quota_policy,
        Engine.on_quota_policy_gone,
        Engine.on_quota_policies_served,
        Engine.on_schedules,
        Engine.on_reservation,
        Engine.on_reservation_gone,
        Engine.on_reservations_served,
        Engine.go_on_with_limits,
        Engine.check_limits,
        Engine.recount_tenants,
        Engine.place_anew,
        Engine.forget_pod,
        Engine.charge_anew,
        Engine.decide_next,
        Engine.set_aside,
        Engine.end_aside,
        Engine.on_written,
        Engine.on_write_failed,
        Engine.on_preempted,
        Engine.grow,
        Engine.on_growth_failed,
    )
}
"""The methods of an engine that change what it decides, by name."""


class EngineCall(msgspec.Struct, frozen=True, gc=False):
    """One call of an engine.

    Attributes:
        number: Counts the calls of one engine, from 1.
        wall: When, in seconds since the epoch.
        name: The method, one of `CALLS`.
        args: Its arguments.
        kwargs: Its arguments by name.
    """

    number: int
    wall: float
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


def play(engine: Engine, call: EngineCall) -> object:
    """Make a call again; return what it returns: a decision, or the names of queues to wake.

    An error that the engine raises is returned: the program that made the call got it too and went
    on. What an engine keeps until it is told to users is dropped: it was told by that program.
    """
    try:
        answer = CALLS[call.name](engine, *call.args, **call.kwargs)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises
        answer = error
    engine.take_notices()
    engine.units.take_held_lately()
    return answer
