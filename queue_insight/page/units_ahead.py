"""Which units are ahead of a pending one in its queue, and by what they are."""

from __future__ import annotations

from typing import Annotated, Final

from queue_insight.page.sources import EngineAtTime
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.hiding import Owner
from queue_scheduler.debug_api.snapshots import Snapshots, UnitFacts
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES, FAIR, FIFO, creation_order
from shared_api.debug_api.views import View

MAX_NAMED: Final = 20
"""Units that are named: the first of the queue."""
MAX_SCANNED: Final = 1000
"""Units that are looked at for those that a visitor may read."""


class UnitAhead(View):
    """A unit ahead of another; `why` says what puts it there."""

    namespace: Annotated[str, Owner()]
    name: str
    position: int
    priority: int
    created: str
    why: str


class UnitsAhead(View):
    """How many units are ahead of one in its queue, and the first of those that may be read."""

    total: int
    units: list[UnitAhead]


def find_units_ahead(state: EngineAtTime, unit: UnitFacts, visitor: Visitor) -> UnitsAhead | None:
    """Return the units ahead of one; None: it is in no queue.

    Args:
        state: What is known.
        unit: The unit, with its position.
        visitor: Who is told.
    """
    if unit.position < 1:
        return None
    total, queue = unit.position - 1, unit.record.queue_name
    looked_at = min(total, MAX_NAMED if visitor.reads_all else MAX_SCANNED)
    page = Snapshots(state.shared, state.now).page(queue, 0, looked_at) if looked_at else None
    policy = state.shared.ask(_policy_of, queue)
    ahead = [
        each
        for each in (page.units if page else ())
        if each.position < unit.position and visitor.may_read(each.unit.metadata.namespace)
    ]
    return UnitsAhead(total=total, units=[_show(each, unit, policy) for each in ahead[:MAX_NAMED]])


def _policy_of(engine: Engine, queue: str) -> str:
    found = engine.queues.find(queue)
    return "" if found is None else found.rules.policy.name


def _show(ahead: UnitFacts, unit: UnitFacts, policy: str) -> UnitAhead:
    meta = ahead.unit.metadata
    return UnitAhead(
        namespace=meta.namespace,
        name=meta.name,
        position=ahead.position,
        priority=ahead.record.priority,
        created=meta.creation_timestamp,
        why=_why(ahead, unit, policy),
    )


_BUILT_IN: Final = frozenset(each.name for each in BUILT_IN_POLICIES)


def _why(ahead: UnitFacts, unit: UnitFacts, policy: str) -> str:
    if policy not in _BUILT_IN or policy == FAIR.name:
        return f"by the policy {policy} of its queue"
    other, own = ahead.record.priority, unit.record.priority
    if policy != FIFO.name and other > own:
        return f"its priority is higher: {other}"
    if creation_order(ahead.unit)[0] < creation_order(unit.unit)[0]:
        return "it is older"
    return f"by the policy {policy} of its queue"
