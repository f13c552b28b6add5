"""Pages of the units that wait, from a fork of the engine. Pure.

Their order is the same whoever asks: by the name of their queue, within a queue its own order, then
its units on hold by key. A page looks at each unit once; positions are counted only in the queues
that it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from queue_insight.visibility.queries import Selection
from queue_scheduler.cache.known_units import units_by_key
from queue_scheduler.cache.unit_state import PENDING, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import unit_key


class PagePlaces(NamedTuple):
    """The units of a page.

    Attributes:
        places: `namespace/name`, and the position in the queue; 0: it has none.
        total: How many units the list has.
    """

    places: list[tuple[str, int]]
    total: int


class _Line(NamedTuple):
    """The selected units of one queue: those that are pending in it, and those on hold for it."""

    pending: set[str]
    held: list[str]

    @property
    def length(self) -> int:
        return len(self.pending) + len(self.held)


def find_page(engine: Engine, selection: Selection, offset: int, limit: int) -> PagePlaces:
    """Return the units of a page of a list.

    Args:
        engine: A fork.
        selection: The units of the list.
        offset: How many come before the page.
        limit: Units at most.
    """
    lines = _select(engine, selection)
    places: list[tuple[str, int]] = []
    skip = offset
    for name in sorted(lines):
        if len(places) == limit:
            break
        line = lines[name]
        if skip < line.length:
            places += islice(_in_order(engine, name, line), skip, skip + limit - len(places))
        skip = max(0, skip - line.length)
    return PagePlaces(places, sum(line.length for line in lines.values()))


def _select(engine: Engine, selection: Selection) -> dict[str, _Line]:
    found: dict[str, _Line] = {}
    waiting, is_all = UnitState.WAITING, selection == Selection()
    # A call for each of 100,000 units takes as long as the page: most are left out before it.
    namespace, only_queue = selection.only("metadata.namespace"), selection.only("spec.queue")
    prefix = "" if namespace is None else f"{namespace}/"
    for key, record in units_by_key(engine.units).items():
        if not key.startswith(prefix) or record.state not in PENDING:
            continue
        queue = record.queue_name
        if only_queue is not None and queue != only_queue:
            continue
        if not (is_all or selection.takes(key, queue)):
            continue
        line = found.get(queue)
        if line is None:
            line = found[queue] = _Line(set(), [])
        if record.state is waiting:
            line.pending.add(key)
        else:
            line.held.append(key)
    return found


def count_by_namespace(engine: Engine, queue: str) -> Counter[str]:
    """Return how many units wait in a queue, by their namespaces."""
    return Counter(
        record.unit.metadata.namespace
        for record in engine.units
        if record.queue_name == queue and record.state in PENDING
    )


def _in_order(engine: Engine, name: str, line: _Line) -> Iterator[tuple[str, int]]:
    queue = engine.queues.find(name)
    if queue is not None and line.pending:
        for position, place in enumerate(queue.pending.in_order(), 1):
            key = unit_key(place)
            if key in line.pending:
                yield key, position
    for key in sorted(line.held):
        yield key, 0
