"""Among queues that share a limit: the higher first, equal ones in fair turns; by a naive model.

The model looks at all queues afresh before every decision: a unit that could start now, by the
policy of its queue and by the quotas, is a rival. The one that is started must be first among the
rivals of all queues that share a limit with its own: by the priority of the queue, then by how long
ago the queue was served.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import at_least
from queue_scheduler.queueing.queue_policies import HoldsBack, bands_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_kit import build_queue, build_unit
from tests.properties.engine_world import World
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.test_engine_properties import TALK, WORK, fill, stories
from tests.properties.test_engine_with_quotas import NODES

pytestmark = pytest.mark.properties

ROOT = "all"
"""Stands for what every queue competes for where each start changes the division."""


class Rivals(World):
    """A world that judges every start by the model."""

    def __init__(self, mode: QuotaMode) -> None:
        def build() -> tuple[Engine, RealQuotas]:
            engine = new_engine(QuotaSettings(mode=mode))
            return engine, RealQuotas(engine)

        super().__init__(build)
        self.mode = mode
        self.contested = 0
        self._served: dict[str, int] = {}

    def ask(self, a: int, b: int) -> None:
        if self.workers.is_quiet():
            return
        rivals = {queue.name: set(self._startable(queue)) for queue in self.engine.queues}
        shares = {queue.name: self._limits_of(queue) for queue in self.engine.queues}
        count = len(self.workers.decided)
        super().ask(a, b)
        for decision in self.workers.decided[count:]:
            if isinstance(decision, Dequeue):
                self._judge(decision, rivals, shares)

    def _judge(
        self, decision: Dequeue, rivals: dict[str, set[str]], shares: dict[str, frozenset[str]]
    ) -> None:
        own = decision.queue
        others = [name for name in rivals if name != own and shares[name] & shares[own]]
        for name in others:
            if rivals[name]:
                self.contested += 1
                before = self._turn(own) < self._turn(name)
                assert before, f"{decision.unit} takes the turn of {rivals[name]} in {name}"
        self._served[own] = 1 + max(self._served.values(), default=0)

    def _turn(self, name: str) -> tuple[int, int, str]:
        queue = self.engine.queues.queue(name)
        assert queue is not None
        return (-(queue.spec.priority or 0), self._served.get(name, 0), name)

    def _limits_of(self, queue: SchedulingQueue) -> frozenset[str]:
        if self.mode is QuotaMode.RUNTIME:
            return frozenset((ROOT,))
        return frozenset(
            level for quota in queue.pending.by_quota for level in self.plugin.chain(quota)
        )

    def _startable(self, queue: SchedulingQueue) -> Iterator[str]:
        """Yield the units that the quota cache would let start, as far as the policy looks."""
        backs_off = self.engine.turns.backs_off_until(queue.name) is not None
        if queue.in_flight or queue.rules.options.is_stopped or backs_off:
            return
        depth, blocked, first_band = queue.rules.depth, set[str](), -1
        for place, record in enumerate(pending_units(self.engine.units, queue.name)):
            assert record.info is not None
            info = record.info
            band = queue.rules.band_of(info.order_key)
            first_band = band if first_band < 0 else first_band
            if band != first_band or (depth is not None and place >= depth):
                return
            if info.quota in blocked:
                continue
            if self.plugin.check(at_least(info)) is None:
                yield info.key
            elif queue.rules.is_backfilling:
                return  # which of the others may pass is beyond this model
            elif bands_of(queue.rules.policy)[band] is HoldsBack.SAME_QUOTA:
                blocked.add(info.quota)

    # --- acts of its own ------------------------------------------------------------------------

    def rank_queue(self, a: int, b: int) -> None:
        """Give a queue another priority."""
        names = sorted(self.queues)
        queue = self.queues[names[a % len(names)]]
        again = build_queue(
            queue.metadata.name,
            queue.spec.queue_policy,
            priority=b % 3,
            annotations=dict(queue.metadata.annotations),
        )
        self.queues[queue.metadata.name] = again
        self._emit("queue", again)

    def add_rival(self, a: int, b: int) -> None:
        """Create a unit in the queue of its quota, or in the one that takes all."""
        version = self._next_version()
        unit = build_unit(
            f"r{version}",
            "abc"[a % 3],
            queue="shared" if b % 3 == 0 else "",
            cpu=1 + b % 3,
            priority=b % 2,
            created=version,
        )
        self.put_unit(unit)


def prepared(mode: QuotaMode) -> Rivals:
    world = Rivals(mode)
    for number in range(2):
        world.put_node(number, 3)
    fill(world, units=4)
    return world


ACTS = (
    *("add_rival",) * 8,
    *("finish_unit",) * 6,
    *("rank_queue",) * 3,
    "run_unit",
    "evict_unit",
    "requeue_unit",
    "put_quota",
    "put_queue",
    *NODES,
    *TALK,
    *WORK,
)
modes = pytest.mark.parametrize(
    "mode", [QuotaMode.MAX, QuotaMode.RUNTIME], ids=lambda mode: mode.value
)


@modes
@settings(max_examples=40)  # the model asks for every unit at every step
@given(story=stories(*ACTS, least=40, most=80))
def test_no_unit_takes_what_an_earlier_queue_could_use(mode: QuotaMode, story: object) -> None:
    world = prepared(mode)
    world.play(story)  # type: ignore[arg-type] # a Story
    world.come_to_rest()


@modes
def test_the_model_has_something_to_judge(mode: QuotaMode) -> None:
    world = prepared(mode)
    for number in range(90):
        world.add_rival(number, number // 3)
    world.come_to_rest()
    for number in range(90):
        world.rank_queue(number, number)
        world.finish_unit(number, 0)
        world.come_to_rest()
    assert world.contested > 5, "otherwise the property above shows nothing"
