"""What may happen in a simulated cluster: the table of actions, and how to add one.

An action is one function that takes the `World` and returns a few words for the trace:

    @action(weight=3, when=has_jobs)
    def delete_job(world: World) -> str:
        ...

`weight` says how often it is drawn, relative to the others; `when`, whether it is possible now. All
chance comes from `world.rng`. What it does goes through `world.direct`, like the writes of a user
or another program; a refusal by the API server ends the action, and the trace says so. Editing an
object in one of several ways takes one call of `edit`.

A new feature of the programs thus needs one function for each thing that users can do with it, in
the module of its subject; a new module is imported by `simulated_run.py`. `account_judge.py` judges
what must stay true after every write, and `rest_checks.py` in quiet times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tests.simulation.change_feed import Json
from tests.simulation.world import World

T = TypeVar("T")

Act = Callable[[World], str]
Guard = Callable[[World], bool]


@dataclass(frozen=True)
class Action:
    """Something that may happen."""

    name: str
    weight: int
    is_possible: Guard
    act: Act


ACTIONS: Final[list[Action]] = []
"""All actions, in the order of their modules."""


def always(_world: World) -> bool:
    """Return True: the action is possible at any time."""
    return True


def action(*, weight: int, when: Guard = always) -> Callable[[Act], Act]:
    """Put a function into the table."""

    def add(act: Act) -> Act:
        ACTIONS.append(Action(act.__name__, weight, when, act))
        return act

    return add


def draw(world: World) -> Action:
    """Return a random action that is possible now."""
    possible = [each for each in ACTIONS if each.is_possible(world)]
    return world.rng.choices(possible, [each.weight for each in possible])[0]


def edit(
    name: str,
    plural: str,
    build: Callable[[T], Json],
    choices: Sequence[T],
    *,
    weight: int,
    when: Guard = always,
) -> None:
    """Put into the table that an object of a kind is edited at random.

    Args:
        name: the action's name.
        plural: the kind.
        build: what is merged into the object, from a choice; `annotation`, `label`, `spec_field`.
        choices: the values, one of which `build` gets.
        weight: as for an action.
        when: as for an action; in addition, an object of the kind must exist.
    """

    def act(world: World) -> str:
        key, _ = some(world.rng, world.all(plural))
        said = one_of(world.rng, choices)
        patch(world, plural, key, build(said))
        return f"{key} {said}"

    def is_possible(world: World) -> bool:
        return bool(world.all(plural)) and when(world)

    ACTIONS.append(Action(name, weight, is_possible, act))


def annotation(key: str) -> Callable[[str | None], Json]:
    """Return what sets an annotation, or removes it."""
    return lambda said: {"metadata": {"annotations": {key: said}}}


def label(key: str) -> Callable[[str | None], Json]:
    """Return what sets a label, or removes it."""
    return lambda said: {"metadata": {"labels": {key: said}}}


def spec_field(name: str) -> Callable[[Any], Json]:
    """Return what sets a field of the spec, or removes it."""
    return lambda said: {"spec": {name: said}}


# --- what actions are made of --------------------------------------------------------------------


def some(rng: random.Random, objects: dict[str, Json]) -> tuple[str, Json]:
    """Return the key and the body of a random object; there must be at least one."""
    key = rng.choice(sorted(objects))
    return key, objects[key]


def one_of(rng: random.Random, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return rng.choice(choices)


def patch(world: World, plural: str, key: str, body: Json, *, status: bool = False) -> None:
    """Merge into an object, or into its status."""
    namespace, _, name = key.rpartition("/")
    part = "status" if status else ""
    world.direct.patch(plural, name, body, namespace=namespace, subresource=part)
