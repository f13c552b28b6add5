"""A virtual cluster whose quota has budgets, for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.quota_policy import Budget
from tests.properties.engine_kit import build_policy
from tests.queue_insight.insight.virtual_town import Story, town_engine

HOUR = 3600.0
EVENING = Moment(1000.0, datetime(2026, 11, 30, 20, tzinfo=UTC))
"""Four hours before a month and a day end."""


def town(*budgets: Budget, moment: Moment = EVENING, cpu: int = 100) -> Engine:
    """Return an engine whose quota a has these budgets of core hours."""
    engine = town_engine(cpu=cpu)
    engine.usage.ledger = Ledger()
    engine.on_time(moment.wall)
    policy = build_policy("budgets", ["a"])
    policy = replace(policy, spec=replace(policy.spec, budgets=budgets))
    engine.on_calendars(find_calendars(budgets, int(moment.wall.timestamp())))
    engine.on_quota_policy(policy)
    return engine


def of_cores(hours: Any, **fields: Any) -> Budget:
    """Return a budget of core hours a day."""
    return Budget(**{"resource": "cpu", "hours": hours, "period": "Day", **fields})


def story_of(
    engine: Engine, *units: tuple[float, Any], moment: Moment = EVENING, **seconds: float
) -> Story:
    """Return a story that begins then; times are hours after that."""
    arrivals = [(moment.now + hours * HOUR, unit) for hours, unit in units]
    return Story(engine, arrivals, seconds=seconds, moment=moment)
