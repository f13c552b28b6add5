"""The view of a queue: its units, of which a visitor sees those of its own namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Annotated, Final, NamedTuple

from queue_insight.debug_api.forecast_routes import Start
from queue_insight.page.overview import QueueRow
from queue_insight.page.sources import EngineAtTime
from queue_insight.page.stated_objects import ObjectName
from queue_insight.page.visitors import Visitor
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.fair_views import FairAccountsView
from queue_scheduler.debug_api.hiding import OfUnit
from queue_scheduler.debug_api.snapshots import Snapshots, UnitFacts
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


Text = Callable[[UnitFacts], str]

FIELDS: Final[dict[str, Text]] = {
    "name": lambda each: each.unit.metadata.name,
    "namespace": lambda each: each.unit.metadata.namespace,
    "quota": lambda each: "" if each.record.info is None else each.record.info.quota,
    "reason": lambda each: "" if each.refusal is None else each.refusal.reason.value,
    "phase": lambda each: each.unit.status.phase,
    "kind": lambda each: ((job := each.unit.spec.consumer_ref) and job.kind) or "",
    "job": lambda each: ((job := each.unit.spec.consumer_ref) and job.name) or "",
}
"""What filters look into, and what lists are sorted by."""

_FREE: Final = ("name", "namespace", "job", "reason")

SORTS: Final[dict[str, Callable[[UnitFacts], object]]] = {
    "position": lambda each: each.position or EVERY,
    "priority": lambda each: each.record.priority,
    "created": lambda each: each.unit.metadata.creation_timestamp,
    **FIELDS,
}


def read_units(state: EngineAtTime, name: str) -> tuple[UnitFacts, ...]:
    """Return the pending units of a queue in order, then those on hold.

    Raises:
        QuestionError: NOT_FOUND: there is no such queue.
    """
    snapshots = Snapshots(state.shared, state.now)
    queue = next(iter(snapshots.queues([name])), None)
    if queue is None:
        raise QuestionError(Code.NOT_FOUND, f"queue {name!r} is unknown")
    return (*snapshots.page(name, 0, EVERY).units, *snapshots.held(queue))


def read_unqueued(state: EngineAtTime, keys: Iterable[str]) -> tuple[UnitFacts, ...]:
    """Return the units of these keys that are on hold, in this order."""
    snapshots = Snapshots(state.shared, state.now)
    units = snapshots.units((key, 0) for key in keys)
    return tuple(each for each in units if each.record.state is UnitState.ON_HOLD)


def select(
    units: Sequence[UnitFacts], query: UnitQuery, visitor: Visitor
) -> tuple[list[UnitFacts], int, int]:
    """Return a page of units, how many units it is a page of, and how many are of others.

    Raises:
        QuestionError: INVALID_ARGUMENT: the filter or the order names an unknown field.
    """
    wanted = _read_filter(query.filter)
    readable = [each for each in units if visitor.may_read(each.unit.metadata.namespace)]
    found = [each for each in readable if wanted(each)] if query.filter.strip() else readable
    found = _sorted(found, query.sort)
    page = list(islice(found, query.offset, query.offset + query.limit))
    return page, len(found), len(units) - len(readable)


def show_units(units: Iterable[UnitFacts], start_of: Callable[[UnitFacts], Start]) -> list[UnitRow]:
    """Return units with their starts, of which nothing is hidden yet."""
    return [_show_unit(each, start_of(each)) for each in units]


def _show_unit(unit: UnitFacts, start: Start) -> UnitRow:
    return UnitRow(**dict(views.view_unit(unit)), starts=start.p50, no_start=start.none)


def _sorted(units: list[UnitFacts], sort: str) -> list[UnitFacts]:
    if not sort:
        return units
    key = SORTS.get(sort.removeprefix("-"))
    if key is None:
        wrong = f"The order can be one of {', '.join(SORTS)}, not {sort!r}."
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    return sorted(units, key=key, reverse=sort.startswith("-"))  # type: ignore[arg-type]  # all of one key are comparable


def _read_filter(text: str) -> Callable[[UnitFacts], bool]:
    tests = [_read_word(word) for word in text.lower().split()[:MAX_WORDS]]
    return lambda unit: all(test(unit) for test in tests)


def _read_word(word: str) -> Callable[[UnitFacts], bool]:
    field, colon, text = word.partition(":")
    if not colon:
        return lambda unit: any(word in FIELDS[each](unit).lower() for each in _FREE)
    read = FIELDS.get(field)
    if read is None:
        wrong = f"The filter has no field {field!r}; it has {', '.join(FIELDS)}."
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    return lambda unit: text in read(unit).lower()
