"""What happens to the reservations of strict queues."""

from __future__ import annotations

from tests.simulation.action_table import action, some
from tests.simulation.world import World


def is_strict(world: World) -> bool:
    return world.plan.is_strict


def has_reservations(world: World) -> bool:
    return bool(world.all("reservations"))


@action(weight=2, when=is_strict)
def fill_nodes(world: World) -> str:
    world.reservations.is_full = not world.reservations.is_full
    return "on" if world.reservations.is_full else "off"


@action(weight=1, when=has_reservations)
def expire_reservation(world: World) -> str:
    name, _ = some(world.rng, world.all("reservations"))
    world.reservations.expire(name)
    return name


@action(weight=1, when=has_reservations)
def delete_reservation(world: World) -> str:
    name, _ = some(world.rng, world.all("reservations"))
    world.direct.delete("reservations", name)
    return name
