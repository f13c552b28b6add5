"""What goes wrong: the API server, the network, the machines, and the processes."""

from __future__ import annotations

from typing import Final

from shared_api.fake_api_server.faults import Match
from tests.simulation.action_table import action, one_of
from tests.simulation.world import World, is_program

KINDS: Final = ("queueunits", "jobs", "pods", "elasticquotas", "queues", "reservations", None)
WRITES: Final = ("patch", "create", "delete")
UNIT_WRITES: Final = Match(verb="patch", plural="queueunits", subresource="status", when=is_program)
STORMS: Final = (403, 409, 409, 422, 429, 429, 500, 503, 504)
"""Not 404: the server never answers so for an object that exists, and a deletion believes it."""


def _match(world: World, verbs: tuple[str | None, ...] = (None,)) -> Match:
    """Return a match of a random kind of the programs' requests."""
    verb, plural = one_of(world.rng, verbs), one_of(world.rng, KINDS)
    return Match(verb=verb, plural=plural, when=is_program)


def end_troubles(world: World) -> None:
    """End all troubles."""
    world.server.faults.clear()
    world.server.watches.resume()
    world.touch_watches()
    world.release_held()
    world.cluster.hangs = world.reservations.is_full = False
    for place in world.places():
        wire = world.wire_of(place)
        if wire is not None:
            wire.is_cut = wire.dies_with_a_write = False


# --- the API server ------------------------------------------------------------------------------


@action(weight=4)
def drop_watches(world: World) -> str:
    match = _match(world)
    dropped = world.server.watches.drop(match)
    world.touch_watches()
    return f"{dropped} of {match.plural}"


@action(weight=2)
def expire_watches(world: World) -> str:
    match = _match(world)
    world.server.compact(match.plural)
    expired = world.server.watches.expire(match)
    world.touch_watches()
    return f"{expired} of {match.plural}"


@action(weight=2)
def stall_watches(world: World) -> str:
    match = _match(world)
    return f"{world.server.watches.stall(match)} of {match.plural}"


@action(weight=3)
def resume_watches(world: World) -> str:
    resumed = world.server.watches.resume()
    world.touch_watches()
    return str(resumed)


@action(weight=2)
def repeat_events(world: World) -> str:
    return str(world.server.watches.repeat_events(3))


@action(weight=4)
def storm(world: World) -> str:
    match, status = _match(world, (*WRITES, "list", "watch", None)), one_of(world.rng, STORMS)
    times = one_of(world.rng, (1, 2, 8))
    world.server.faults.fail(status, times=times, match=match)
    return f"{status} {times} times to {match.verb} {match.plural}"


@action(weight=5)
def lose_answer(world: World) -> str:
    match = _match(world, WRITES)
    world.server.faults.lose_answer(match=match, times=one_of(world.rng, (1, 2)))
    return f"to {match.verb} {match.plural}"


@action(weight=2)
def lose_request(world: World) -> str:
    match = _match(world, WRITES)
    world.server.faults.lose_request(match=match)
    return f"to {match.verb} {match.plural}"


@action(weight=1)
def be_slow(world: World) -> str:
    match, seconds = _match(world, (*WRITES, "get")), one_of(world.rng, (0.5, 3.0, 12.0))
    world.server.faults.delay(seconds, match=match)
    return f"{seconds} s for {match.verb} {match.plural}"


@action(weight=5)
def spoil_unit_writes(world: World) -> str:
    """Break the writes of units' states, which matter most, until they are given up."""
    faults, writes = world.server.faults, UNIT_WRITES
    how = one_of(world.rng, ("conflicts", "fails", "is lost", "is lost later", "is slow"))
    match how:
        case "conflicts":
            faults.fail(409, match=writes)
        case "fails":
            faults.fail(503, times=6, match=writes)
        case "is lost":
            faults.lose_request(times=6, match=writes)
        case "is lost later":
            faults.lose_answer(times=6, match=writes)
        case _:
            faults.delay(12.0, match=writes)
    return how


@action(weight=4)
def be_well(world: World) -> str:
    end_troubles(world)
    return ""


# --- machines and processes ----------------------------------------------------------------------


@action(weight=4)
def hold_thread(world: World) -> str:
    return world.hold(one_of(world.rng, (0.3, 2.0, 20.0)))


@action(weight=1)
def freeze(world: World) -> str:
    seconds = one_of(world.rng, (0.5, 4.0, 50.0))
    world.clock.advance(seconds)
    return f"{seconds} s"


@action(weight=1)
def jump_wall_clock(world: World) -> str:
    seconds = one_of(world.rng, (-2.0, 3.0))
    world.clock.jump_wall_clock(seconds)
    return f"{seconds} s"


@action(weight=3)
def crash(world: World) -> str:
    place = one_of(world.rng, world.places())
    world.crash(place, down_seconds=one_of(world.rng, (0.0, 0.0, 5.0, 100.0)))
    return place


@action(weight=1)
def stop(world: World) -> str:
    place = one_of(world.rng, world.places())
    world.stop(place)
    return place


@action(weight=3)
def crash_with_a_write(world: World) -> str:
    place = one_of(world.rng, world.places())
    wire = world.wire_of(place)
    if wire is not None:
        wire.dies_with_a_write = True
    return place


@action(weight=2)
def cut_network(world: World) -> str:
    place = one_of(world.rng, world.places())
    wire = world.wire_of(place)
    if wire is not None:
        wire.is_cut = not wire.is_cut
    return f"{place} {'cut' if wire is not None and wire.is_cut else 'joined'}"
