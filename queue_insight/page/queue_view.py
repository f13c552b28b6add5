"""The view of a queue: its units, of which a visitor sees those of its own namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Final, NamedTuple

import msgspec

from queue_insight.debug_api.forecast_routes import Start
from queue_insight.page.overview import QueueRow
from queue_insight.page.sources import EngineAtTime
from queue_insight.page.stated_objects import ObjectName
from queue_insight.page.visitors import Visitor
from queue_scheduler.cache.known_units import held_for
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.fair_views import FairAccountsView
from queue_scheduler.debug_api.hiding import OfUnit
from queue_scheduler.debug_api.snapshots import Snapshots, UnitFacts
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.queue_questions import refusal_of
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError

MAX_WORDS: Final = 8
"""Words of a filter that count."""
EVERY: Final = 10_000_000


class UnitRow(views.UnitView):
    """One unit; `starts` is when it starts by the last forecast (the median), null: not known.

    `no_start` says in a few words why no start is told of it, if that is known.
    """

    starts: str | None = None
    no_start: str = ""


class QueueContent(View):
    """One queue with a page of its units.

    First the pending ones, in order; then those on hold (position 0), by name; or as `sort` says.
    `total` counts the units that the visitor may read and the filter lets through, `others` all
    units of the queue that it may not read: whatever the filter is, it tells nothing about these.
    `accounts`: who has used how much of a queue with the policy Fair, null with another policy.
    `stated_in` is its object.
    """

    leader: bool
    state_at: str
    queue: QueueRow
    total: int
    offset: int
    limit: int
    units: Annotated[list[UnitRow], OfUnit(counted="others")]
    others: int = 0
    accounts: FairAccountsView | None = None
    stated_in: ObjectName | None = None


class UnqueuedContent(View):
    """A page of the pending units that stand in no queue, by name, or as `sort` says.

    `total` and `others` as those of a queue.
    """

    leader: bool
    state_at: str
    total: int
    offset: int
    limit: int
    units: Annotated[list[UnitRow], OfUnit(counted="others")]
    others: int = 0


class UnitQuery(NamedTuple):
    """Which units of a queue are asked for.

    Attributes:
        offset: Units to leave out.
        limit: Units at most.
        filter: Words that must all be in a unit: `field:text` looks in one field, others in name,
            namespace, job and reason.
        sort: A field, with `-` before it for the other direction; "": the order of the queue.
    """

    offset: int = 0
    limit: int = 100
    filter: str = ""
    sort: str = ""


class ListedUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit of a queue, with what filters look into and lists are sorted by.

    Attributes:
        record: The unit.
        position: Counts from 1; 0 if it is on hold.
        reason: Why it does not start.
    """

    record: CachedUnit
    position: int
    reason: str


Text = Callable[[ListedUnit], str]

FIELDS: Final[dict[str, Text]] = {
    "name": lambda each: each.record.unit.metadata.name,
    "namespace": lambda each: each.record.unit.metadata.namespace,
    "quota": lambda each: "" if each.record.info is None else each.record.info.quota,
    "reason": lambda each: each.reason,
    "phase": lambda each: each.record.unit.status.phase,
    "kind": lambda each: ((job := each.record.unit.spec.consumer_ref) and job.kind) or "",
    "job": lambda each: ((job := each.record.unit.spec.consumer_ref) and job.name) or "",
}
"""What filters look into, and what lists are sorted by."""

_FREE: Final = ("name", "namespace", "job", "reason")

SORTS: Final[dict[str, Callable[[ListedUnit], object]]] = {
    "position": lambda each: each.position or EVERY,
    "priority": lambda each: each.record.priority,
    "created": lambda each: each.record.unit.metadata.creation_timestamp,
    **FIELDS,
}


def list_queue(engine: Engine, name: str) -> tuple[ListedUnit, ...]:
    """Return the pending units of a queue in order, then those on hold by name.

    Args:
        engine: A copy, since it takes some 50 ms with 25,000 units.
        name: The name of the queue.

    Raises:
        QuestionError: NOT_FOUND: there is no such queue.
    """
    queue = engine.queues.find(name)
    if queue is None:
        raise QuestionError(Code.NOT_FOUND, f"queue {name!r} is unknown")
    keys = map(unit_key, queue.pending.in_order())
    pending = [
        ListedUnit(record, position, refusal_of(queue, record.info).reason)
        for position, record in enumerate(map(engine.record, keys), 1)
        if record is not None and record.info is not None
    ]
    return (*pending, *list_held(engine, sorted(held_for(engine.units, name))))


def list_held(engine: Engine, keys: Iterable[str]) -> Iterator[ListedUnit]:
    """Yield the units of these keys that are on hold, in this order."""
    for record in map(engine.record, keys):
        if record is not None and record.hold is not None:
            yield ListedUnit(record, 0, record.hold.reason)


def select(
    units: Sequence[ListedUnit], query: UnitQuery, visitor: Visitor
) -> tuple[list[ListedUnit], int, int]:
    """Return a page of units, how many units it is a page of, and how many are of others.

    Raises:
        QuestionError: INVALID_ARGUMENT: the filter or the order names an unknown field.
    """
    wanted = _read_filter(query.filter)
    readable = [each for each in units if visitor.may_read(each.record.unit.metadata.namespace)]
    found = [each for each in readable if wanted(each)] if query.filter.strip() else readable
    found = _sorted(found, query.sort)
    page = list(islice(found, query.offset, query.offset + query.limit))
    return page, len(found), len(units) - len(readable)


def show_units(
    state: EngineAtTime, units: Iterable[ListedUnit], start_of: Callable[[UnitFacts], Start]
) -> list[UnitRow]:
    """Return what is known now of some units, with their starts; nothing is hidden yet.

    A unit that has been deleted since it was listed is left out.
    """
    facts = Snapshots(state.shared, state.now)
    found = facts.units((each.record.key, each.position) for each in units)
    return [_show_unit(each, start_of(each)) for each in found]


def _show_unit(unit: UnitFacts, start: Start) -> UnitRow:
    return UnitRow(**dict(views.view_unit(unit)), starts=start.p50, no_start=start.none)


def _sorted(units: list[ListedUnit], sort: str) -> list[ListedUnit]:
    if not sort:
        return units
    key = SORTS.get(sort.removeprefix("-"))
    if key is None:
        wrong = f"The order can be one of {', '.join(SORTS)}, not {sort!r}."
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    return sorted(units, key=key, reverse=sort.startswith("-"))  # type: ignore[arg-type]  # all of one key are comparable


def _read_filter(text: str) -> Callable[[ListedUnit], bool]:
    tests = [_read_word(word) for word in text.lower().split()[:MAX_WORDS]]
    return lambda unit: all(test(unit) for test in tests)


def _read_word(word: str) -> Callable[[ListedUnit], bool]:
    field, colon, text = word.partition(":")
    if not colon:
        return lambda unit: any(word in FIELDS[each](unit).lower() for each in _FREE)
    read = FIELDS.get(field)
    if read is None:
        wrong = f"The filter has no field {field!r}; it has {', '.join(FIELDS)}."
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    return lambda unit: text in read(unit).lower()
