"""A queue for two quotas below one, with budgets, in a time that the test lets pass."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from queue_scheduler.decision import BudgetShortage, Dequeue, Preempt, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.meta import Timestamp
from shared_api.objects.quota_policy import Budget, QuotaPolicy
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING
from tests.properties.engine_kit import (
    Workers,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
    changed,
    declaring,
    running,
    started,
)

HOUR = 3600


def at(text: str) -> int:
    """Return the second of a time in UTC, such as 2026-11-30T20:00."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def budget(hours: Any = 100, **fields: Any) -> Budget:
    """Return a budget of hours of cores a month."""
    return Budget(**{"resource": "cpu", "hours": hours, "period": "Month", **fields})


class BudgetWorld:
    """The quotas top, vision and speech, and the queue q.

    Attributes:
        engine: The engine.
        workers: They ask its queue; their `wall` is the time.
    """

    def __init__(
        self,
        now: str = "2026-11-30T20:00",
        policy: str = "Priority",
        *,
        cpu: int = 1000,
        evicts: bool = False,
        keeps_accounts: bool = True,
    ) -> None:
        quotas = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX))
        ledger = Ledger() if keeps_accounts else None
        self.engine = Engine(PluginRunner([quotas, Priority()]), BUILT_IN_POLICIES, ledger=ledger)
        self.workers = Workers(self.engine)
        self.workers.wall = at(now)
        self.versions = 0
        self.policies = 0
        self.tell_time()
        self.engine.on_quota(build_quota("top", cpu=cpu))
        for name in ("vision", "speech"):
            self.engine.on_quota(build_quota(name, cpu=1000, parent="top"))
        annotations = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"} if evicts else {}
        queue = build_queue("q", policy, takes="*", annotations=annotations)
        self.workers.wake(self.engine.on_queue(queue))

    @property
    def second(self) -> int:
        """The time."""
        assert self.workers.wall is not None
        return self.workers.wall

    def tell_time(self) -> None:
        """Tell the engine the time, as the scheduler does before the first call of a second."""
        self.workers.wake(self.engine.on_time(datetime.fromtimestamp(self.second, UTC)))

    def state(self, *budgets: Budget, quotas: Sequence[str] = ("vision",)) -> list[str]:
        """State these budgets in place of those before; return which units start now."""
        self.policies += 1
        policy = build_policy("budgets", quotas, generation=self.policies)
        policy = replace(policy, spec=replace(policy.spec, budgets=budgets))
        return self.put(policy)

    def put(self, policy: QuotaPolicy) -> list[str]:
        """Take a policy; return which units start now."""
        named = (*policy.spec.budgets, *policy.status.budgets_in_force)
        self.workers.wake(self.engine.on_calendars(find_calendars(named, self.second)))
        self.workers.wake(self.engine.on_quota_policy(policy))
        return self.rest()

    def ask(
        self, name: str, cpu: int, hours: float | None, quota: str = "vision", **fields: Any
    ) -> list[str]:
        """Create a unit that declares so many hours; return which units start."""
        self.tell_time()
        self.versions += 1
        seconds = None if hours is None else int(hours * HOUR)
        unit = build_unit(name, quota, queue="q", created=self.versions, cpu=cpu, **fields)
        self.workers.wake(self.engine.on_queue_unit(declaring(unit, seconds)))
        return self.rest()

    def rest(self) -> list[str]:
        """Decide until the queue rests, and write it; return which units start."""
        decided = self.workers.run()
        for each in decided:
            if isinstance(each, Dequeue):
                record = self.engine.record(each.unit)
                assert record is not None
                since = rfc3339(datetime.fromtimestamp(self.second, UTC))
                unit = running(record.unit, self.version(), since=since, grants=each.grants)
                self.workers.wake(self.engine.on_written(each, _allocated(unit, since)))
        self.engine.validate()
        return [*started(decided), *(self.rest() if not self.workers.is_quiet() else ())]

    def evictions(self) -> list[str]:
        """Return for which units others were to be evicted."""
        found = (each for each in self.workers.decided if isinstance(each, Preempt))
        return [each.unit.partition("/")[2] for each in found]

    def version(self) -> int:
        """Return the next resourceVersion."""
        self.versions += 1
        return self.versions

    def end(self, name: str) -> list[str]:
        """End a unit; return which units start."""
        self.tell_time()
        record = self.engine.record(f"ns/{name}")
        assert record is not None
        ended = changed(record.unit, self.version(), "Succeed", admissions=())
        self.workers.wake(self.engine.on_queue_unit(ended))
        return self.rest()

    def use(self, hours: int, quota: str = "vision") -> None:
        """Let a unit use so many hours, within one."""
        if hours:
            name = f"use{self.version()}"
            assert self.ask(name, hours, 1, quota) == [name]
            self.wait(rfc3339(datetime.fromtimestamp(self.second + HOUR, UTC)).rstrip("Z"))
            self.end(name)

    def wait(self, until: str) -> list[tuple[str, int]]:
        """Let time pass, as queues name it; return which units start, and when."""
        found: list[tuple[str, int]] = []
        start, begin = self.second, self.workers.now
        end = at(until)

        def ask() -> None:
            self.workers.wall = start + int(self.workers.now - begin)
            found.extend((name, self.second) for name in self.rest())

        self.workers.let_pass(end - start, ask)
        self.workers.wall = end
        self.tell_time()
        found.extend((name, end) for name in self.rest())
        return found

    def why(self, name: str) -> Refusal:
        """Return why a unit waits."""
        refusal = refusal_of_unit(self.engine, f"ns/{name}")
        assert refusal is not None, name
        return refusal

    def lacks(self, name: str) -> tuple[float, float, float, float]:
        """Return the hours that are committed, left, needed, and that it would start with."""
        found: BudgetShortage | None = self.why(name).budget
        assert found is not None, self.why(name)
        committed, left, needed = found.committed, found.left, found.needed
        starts = found.would_start_seconds / HOUR
        return committed / found.scale, left / found.scale, needed / found.scale, starts

    def account(self, quota: str = "vision", number: int = 0) -> BudgetAccount:
        """Return the account of a budget of a quota."""
        accounts = self.engine.usage.budgets.accounts
        keys = [key for key, _ in accounts if key.quota == quota]
        return accounts.account(keys[number])

    def hours(self, quota: str = "vision", number: int = 0) -> tuple[float, float]:
        """Return the hours that are spent and left of a budget in the present period."""
        account, scale = self.account(quota, number), 1000 * HOUR
        return account.spent(self.second) / scale, account.left(self.second) / scale


def _allocated(unit: Any, since: Timestamp) -> Any:
    return replace(unit, status=replace(unit.status, last_allocate_time=since))
