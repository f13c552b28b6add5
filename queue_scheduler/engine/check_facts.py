"""The facts by which the admission checks of an admitted unit are judged. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from queue_scheduler.cache.admission_check_rules import CheckVerdict, judge_checks
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_options import DEFAULT_OPTIONS, QueueOptions
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase


class CheckFacts(msgspec.Struct, frozen=True):
    """What is known of an admitted unit and its checks.

    Attributes:
        unit: Its object.
        queue_name: Its queue.
        queue: That queue's object; None if it is missing.
        inactive: Checks that cannot be carried out now, each with the reason.
        when_admitted: The phase that follows its last check; None if the queue is stopped.
        options: The queue's current options; waiting for pods may have been turned on since the
            decision.
    """

    unit: QueueUnit
    queue_name: str
    queue: Queue | None
    inactive: Mapping[str, str]
    when_admitted: Phase | None
    options: QueueOptions

    def judge(self, *, is_late: bool, timeout_seconds: float) -> CheckVerdict:
        """Return what follows from the states of the unit's checks; see `judge_checks`."""
        return judge_checks(
            self.unit,
            self.queue,
            self.inactive,
            is_late=is_late,
            timeout_seconds=timeout_seconds,
            when_admitted=self.when_admitted,
        )

    def timeout_seconds(self, default: float) -> float:
        """Return how long the checks may take, 0: no limit; `default` if the queue does not say."""
        own = self.options.check_timeout_seconds
        return default if own is None else own


def has_checks(unit: QueueUnit) -> bool:
    """Return whether checks may affect a unit now, as far as its object says."""
    return unit.status.phase == Phase.RESERVED or bool(unit.status.admission_checks)


def is_with_checks(record: CachedUnit) -> bool:
    """Return whether a unit is admitted, and checks may change something about it."""
    return record.state is UnitState.ADMITTED and has_checks(record.unit)


def read_check_facts(engine: Engine, key: str) -> CheckFacts | None:
    """Return the facts for judging a unit's checks; None: the checks cannot change anything now."""
    record = engine.record(key)
    if record is None or record.info is None or not is_with_checks(record):
        return None
    name = record.info.queue
    inactive = dict(engine.units.checks.inactive)
    to = (
        engine.queue_state.phase_when_admitted(record.info)
        if engine.queues.may_start(name)
        else None
    )
    queue = engine.queues.find(name)
    options = DEFAULT_OPTIONS if queue is None else queue.rules.options
    return CheckFacts(record.unit, name, engine.queues.queue(name), inactive, to, options)
