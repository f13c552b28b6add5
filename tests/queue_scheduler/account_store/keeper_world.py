"""Processes that keep accounts of the same units, one after the other, over the fake API server.

The truth is summed up second by second from the units that run, whoever leads.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from queue_scheduler.account_store.account_keeper import AccountKeeper
from queue_scheduler.account_store.config_maps import AccountConfigMaps
from queue_scheduler.configuration import AccountsSettings
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.calendars import Calendar
from queue_scheduler.tenants.ledger import Ledger
from shared_api.client.flow_control import FlowControl
from shared_api.client.resource_client import ResourceClient
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import Budget, QuotaPolicy
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import USER
from tests.properties.engine_kit import admitted, build_policy, build_quota, build_unit
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json, new_server


class KilledError(BaseException):
    """The process ends here."""


class DyingConfigMaps(AccountConfigMaps):
    """Ends the process at one of its writes, before or after the server has it.

    Attributes:
        left: how many writes it still makes; None: all.
        is_after: whether the write at which it ends is in effect.
    """

    left: int | None = None
    is_after = False

    def write(self, number: int, text: str) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                if self.is_after:
                    super().write(number, text)
                raise KilledError
        super().write(number, text)


class Process:
    """A scheduler as far as accounts are concerned."""

    def __init__(self, world: KeeperWorld, keep: AccountsSettings) -> None:
        plugins = PluginRunner([ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX)), Priority()])
        engine = Engine(plugins, BUILT_IN_POLICIES, ledger=Ledger(keep.keep_seconds))
        self.shared = SharedEngine(engine, lambda _: None, None, world.clock.now)
        flow = FlowControl(0, 1, world.clock)
        client = ResourceClient(world.server, flow=flow, clock=world.clock, rng=random.Random(3))
        self.config_maps = DyingConfigMaps(client, QUEUE_NAMESPACE)
        self.leads = True
        self.notices: list[Notice] = []
        self.keeper = AccountKeeper(
            self.shared,
            self.config_maps,
            keep,
            may_write=lambda: self.leads,
            report=self.notices.append,
            clock=world.clock,
        )
        self.learn(build_quota("a", cpu=1000), world.units.values())
        if world.policy is not None:
            self.shared.apply(Engine.on_calendars, world.calendars)
            self.shared.apply(Engine.on_quota_policy, world.policy)

    def learn(self, quota: Any, units: Iterable[QueueUnit]) -> None:
        self.shared.apply(Engine.on_quota, quota)
        for unit in units:
            self.shared.apply(Engine.on_queue_unit, unit)

    @property
    def ledger(self) -> Ledger:
        ledger = self.shared.fork().usage.ledger
        assert ledger is not None
        return ledger

    def used(self) -> dict[str, int]:
        """Return milli-CPU times seconds by user, until now."""
        self.shared.apply(Engine.forget_pod, "")  # any call tells the time
        ledger = self.ledger
        found: Counter[str] = Counter()
        for account, line in ledger:
            found[account.user] += line.used(ledger.second).get("cpu", 0)
        return dict(+found)

    def spent(self) -> dict[str, int]:
        """Return what is used of the present period of each budget, by its kind of period."""
        self.shared.apply(Engine.forget_pod, "")
        accounts = self.shared.fork().usage.budgets.accounts
        return {key.period: accounts.account(key).spent(accounts.second) for key, _ in accounts}

    @property
    def reasons(self) -> list[str]:
        return [notice.reason for notice in self.notices]


class KeeperWorld:
    """The units, the server, and the truth."""

    def __init__(self, **settings: Any) -> None:
        self.clock = VirtualClock()
        self.server = new_server(self.clock)
        self.units: dict[str, QueueUnit] = {}
        self.truth: Counter[str] = Counter()
        self.history: list[Counter[str]] = []  # the truth at each second
        self.processes: list[Process] = []
        self.policy: QuotaPolicy | None = None
        self.calendars: tuple[Calendar, ...] = ()
        self._settings = AccountsSettings(enabled=True, **settings)
        self._begin = int(self.clock.now().timestamp())
        self._version = 1

    def state_budgets(self, day_seconds: int) -> None:
        """Let the processes that start from now on have budgets of each kind of period."""
        edges = tuple(range(self._begin - day_seconds, self._begin + 100_000, day_seconds))
        self.calendars = (Calendar("Day", "UTC", edges),)
        budgets = [
            Budget(resource="cpu", hours=1, period=each) for each in ("Day", "Rolling 30d", "None")
        ]
        policy = build_policy("p", ("a",))
        self.policy = replace(policy, spec=replace(policy.spec, budgets=tuple(budgets)))

    def spent(self) -> dict[str, int]:
        """Return what was truly used in the present period, by its kind."""
        whole = sum(self.truth.values())
        edges, now = self.calendars[0].edges, self._begin + len(self.history)
        passed = max(each for each in edges if each <= now) - self._begin
        before = sum(self.history[passed - 1].values()) if passed > 0 else 0
        return {"Day": whole - before, "Rolling 30d": whole, "None": whole}

    def start(self) -> Process:
        """Start a process, which does not lead yet."""
        process = Process(self, self._settings)
        self.processes.append(process)
        return process

    def lead(self) -> Process:
        """Start a process that leads."""
        process = self.start()
        process.keeper.tell()
        return process

    def pass_time(self, seconds: int, act: Callable[[], None] = lambda: None) -> None:
        """Let time pass; `act` is called each minute."""
        for _ in range(seconds):
            for unit in self.units.values():
                self.truth[unit.metadata.labels[USER]] += 1000
            self.history.append(self.truth.copy())
            self.clock.advance(1.0)
            if int(self.clock.monotonic()) % 60 == 0:
                act()

    def run(self, name: str, user: str) -> None:
        """Let a unit of one CPU be admitted."""
        self._version += 1
        unit = admitted(build_unit(name, "a", labels={USER: user}), self._version)
        now = rfc3339(self.clock.now())
        status = replace(unit.status, last_allocate_time=now)
        created = rfc3339(self.clock.now() - timedelta(seconds=100))
        metadata = replace(unit.metadata, creation_timestamp=created)
        self.units[name] = replace(unit, status=status, metadata=metadata)
        for process in self.processes:
            process.shared.apply(Engine.on_queue_unit, self.units[name])

    def end(self, name: str) -> None:
        """Let a unit end."""
        unit = self.units.pop(name)
        for process in self.processes:
            process.shared.apply(Engine.on_queue_unit_gone, unit)

    # --- ConfigMaps ---------------------------------------------------------------------------

    def config_maps(self) -> dict[str, Json]:
        found = self.server.direct.list("configmaps", QUEUE_NAMESPACE)
        return {each["metadata"]["name"]: each for each in found}

    def texts(self) -> dict[str, str]:
        return {name: each["data"]["accounts"] for name, each in self.config_maps().items()}

    def edit(self, name: str, data: dict[str, str]) -> None:
        self.server.direct.patch("configmaps", name, {"data": data}, namespace=QUEUE_NAMESPACE)

    def delete(self, name: str) -> None:
        self.server.direct.delete("configmaps", name, namespace=QUEUE_NAMESPACE)
