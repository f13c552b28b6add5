"""Judges what the engines decide, at the moment of the decision.

- *order*: each decision is compared with the queue as it was;
- *never over*: it is compared with the limits;
- *user limits*: it is compared with the limits of the user and the group (`limit_judge`);
- *budgets*: it is compared with what is left of budgets (`budget_judge`);
- *evictions*: victims may be evicted and suffice, in one round at a time; no other unit starts in
  the freed capacity, and no unit has others evicted twice for one start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from msgspec import convert

from queue_scheduler.cache.unit_state import is_same_claim
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.engine import Engine
from queue_scheduler.preemption.preemption_rounds import REST_SECONDS
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from tests.object_states import is_true
from tests.properties import engine_checks, preemption_checks
from tests.properties.real_quotas import RealQuotas
from tests.simulation.account_judge import NEVER_OVER, Broken
from tests.simulation.budget_judge import BUDGETS, check_start
from tests.simulation.change_feed import ChangeEvent
from tests.simulation.limit_judge import USER_LIMITS, check_decision
from tests.simulation.stepped_programs import Process, SteppedScheduler
from tests.simulation.world import World

ORDER: Final = "order"
EVICTIONS: Final = "evictions"


@dataclass
class _Round:
    """The last round in which a unit had others evicted.

    Attributes:
        preemptor: the unit as it was.
        by: the process.
        at: when, monotonic.
        written: since which version each victim has been asked to leave; inf while it has not.
    """

    preemptor: QueueUnit
    by: str
    at: float
    written: dict[str, float]

    def is_known(self, seen: int) -> bool:
        """Return whether a process that has seen this version knows all these evictions."""
        return max(self.written.values()) <= seen


class DecisionJudge:
    """Called by a world before each turn of a queue's worker, and with each decision."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lines: dict[str, list[engine_checks.InLine]] = {}
        self._rounds: dict[Uid, _Round] = {}
        world.feed.listen(self._on_change)

    def on_turn(self, scheduler: SteppedScheduler) -> None:
        """Note the queues as they are before a decision."""
        self._lines = engine_checks.in_line(scheduler.engine)

    def on_decision(self, process: Process, decision: Dequeue | Preempt) -> None:
        """Judge a decision."""
        scheduler = process.scheduler
        assert scheduler is not None
        engine = scheduler.engine
        if isinstance(decision, Preempt):
            self._on_preempt(process, engine, decision)
            return
        process.decided[decision.unit] = process.seen()
        process.decided_queue[decision.unit] = decision.queue
        self._rounds.pop(decision.uid, None)
        line, quotas = self._lines[decision.queue], RealQuotas(engine)
        given_up = engine.nominations.spent  # who had his chance no object says
        self._try(ORDER, decision.unit, lambda: engine_checks.check_order(engine, decision, line))
        self._try(ORDER, decision.unit, lambda: engine_checks.check_nodes(engine, decision))
        self._try(
            NEVER_OVER, decision.unit, lambda: engine_checks.check_limits(engine, quotas, decision)
        )
        self._try(USER_LIMITS, decision.unit, lambda: check_decision(engine, decision))
        self._try(BUDGETS, decision.unit, lambda: check_start(engine, decision))
        self._try(
            EVICTIONS,
            decision.unit,
            lambda: preemption_checks.check_room(engine, decision, given_up),
        )

    def _on_preempt(self, process: Process, engine: Engine, decision: Preempt) -> None:
        now, wall = self._world.clock.monotonic(), self._world.clock.now()
        self._try(
            EVICTIONS,
            decision.unit,
            lambda: preemption_checks.check_victims(engine, decision, wall),
        )
        self._try(
            EVICTIONS,
            decision.unit,
            lambda: preemption_checks.check_guards(engine, decision, wall),
        )
        record, last = engine.record(decision.unit), self._rounds.get(decision.uid)
        assert record is not None
        seen = process.seen().get("queueunits", 0)
        if (
            last is not None
            and last.by == process.name
            and last.is_known(seen)
            and now - last.at < REST_SECONDS
        ):
            how = f"it evicts {[each.unit for each in decision.victims]}, and has not started"
            self._break(EVICTIONS, decision.unit, how)
        victims = {each.unit: inf for each in decision.victims}
        self._rounds[decision.uid] = _Round(record.unit, process.name, now, victims)

    def _on_change(self, event: ChangeEvent) -> None:
        """Note the evictions written, and what may have taken the freed capacity."""
        # An edit of a queue may change which units its units wait for, and which they may evict.
        is_edit = event.plural == "queues" and event.actor == "user"
        if is_edit or event.plural in {"nodes", "elasticquotas"}:
            self._rounds.clear()
        own = self._rounds.get(Uid(event.uid))
        if own is not None and not is_same_claim(own.preemptor, convert(event.body, QueueUnit)):
            # A unit that was edited, even for a moment, may have lost the room meanwhile.
            del self._rounds[Uid(event.uid)]
        if event.plural != "queueunits" or event.is_gone or not is_true(event.body, "Evicted"):
            return
        for each in self._rounds.values():
            if each.by == event.actor and each.written.get(event.key) == inf:
                each.written[event.key] = event.version

    def _try(self, rule: str, key: str, check: Callable[[], None]) -> None:
        try:
            check()
        except AssertionError as error:
            self._break(rule, key, f"the engine decided: {error}")

    def _break(self, rule: str, key: str, how: str) -> None:
        self._world.judge.broken.append(Broken(rule, key, how))
