"""The answers about units that wait: single ones, and lists in pages.

Units are read by the functions of the debug API, from the engine, or from the fork of a list.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from queue_insight.debug_api.forecast_routes import Start
from queue_insight.visibility.pages import find_page
from queue_insight.visibility.queries import ListQuery
from queue_insight.visibility.resources import PENDING_UNITS, QUEUES, ListMetaView, PendingUnit
from queue_insight.visibility.snapshots import KeptSnapshots, ListScope
from queue_insight.visibility.statuses import not_found
from queue_scheduler.cache.unit_state import PENDING
from queue_scheduler.cycles.engine_reader import EngineReader, OwnEngine
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.snapshots import Snapshots, UnitFacts
from queue_scheduler.debug_api.views import view_unit
from queue_scheduler.decision import Refusal
from queue_scheduler.engine.engine import Engine

MayRead = Callable[[str], bool]
"""Returns whether the caller may read the units of a namespace."""

StartOf = Callable[[str, Refusal | None], Start]
"""Returns the start of a unit by its uid and the reason for which it waits."""


class OpenedList(NamedTuple):
    """The state that a list is of.

    Attributes:
        name: Under which it is kept; None if it is not yet.
        engine: The state.
        offset: How many units of the list were answered before.
    """

    name: bytes | None
    engine: Engine
    offset: int


class UnitLists:
    """Answers about units that wait. Thread-safe.

    Args:
        shared: The engine.
        now: Returns the time.
        start_of: Returns when units start.
        kept: Keeps the forks of lists.
    """

    def __init__(
        self,
        shared: EngineReader,
        now: Callable[[], datetime],
        start_of: StartOf,
        kept: KeptSnapshots,
    ) -> None:
        self._shared = shared
        self._now = now
        self._start_of = start_of
        self._kept = kept

    def unit(self, namespace: str, name: str) -> UnitFacts:
        """Return a unit that waits.

        Raises:
            StatusError: 404: there is none, or it does not wait.
        """
        found = self._snapshots(self._shared).unit(f"{namespace}/{name}")
        if found is None:
            raise not_found(PENDING_UNITS, name)
        if found.record.state not in PENDING:
            why = f"the unit does not wait, it is {found.record.state.value}"
            raise not_found(PENDING_UNITS, name, why)
        return found

    def check_queue(self, name: str) -> None:
        """Check that a queue exists.

        Raises:
            StatusError: 404.
        """
        if self._shared.ask(lambda engine: engine.queues.find(name)) is None:
            raise not_found(QUEUES, name)

    def open(self, query: ListQuery, scope: ListScope) -> OpenedList:
        """Return the state that a list is of.

        Raises:
            StatusError: The token of `query` is not valid, or no longer.
        """
        if query.token:
            return OpenedList(*self._kept.find(query.token, scope))
        return OpenedList(None, self._shared.fork(), 0)

    def page(
        self, opened: OpenedList, query: ListQuery, scope: ListScope
    ) -> tuple[list[UnitFacts], ListMetaView]:
        """Return a page of a list, and what is said of it."""
        name, engine, offset = opened
        found = find_page(engine, query.selection, offset, query.limit)
        units = list(self._snapshots(OwnEngine(engine)).units(found.places))
        after = offset + len(found.places)
        if after >= found.total:
            return units, ListMetaView()
        name = self._kept.keep(engine, scope.user) if name is None else name
        token = self._kept.token(name, after, scope)
        return units, ListMetaView(continue_=token, remaining_item_count=found.total - after)

    def show(self, unit: UnitFacts, may_read: MayRead) -> PendingUnit:
        """Return a unit as an object that names no unit of a namespace that may not be read."""
        view = hide(view_unit(unit), may_read)
        return PendingUnit.build(view, self._start_of(unit.record.uid, unit.refusal))

    def _snapshots(self, shared: EngineReader) -> Snapshots:
        return Snapshots(shared, self._now)
