"""What a simulated world consists of; random, from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import UNSET

from queue_controllers.configuration import Configuration, ExtensionOptions
from queue_controllers.configuration import Flags as ControllerFlags
from queue_controllers.configuration import parse_flags as parse_controller_flags
from queue_scheduler.configuration import (
    AccountsSettings,
    FairTurnsSettings,
    Flags,
    KoordQueueConfiguration,
    parse_flags,
)
from queue_scheduler.engine.deadlines import Timeouts
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings

QUEUE_NAMESPACE: Final = "koord-queue"
VERDICT_SECONDS: Final = 120
NOT_STRICT_QUEUE: Final = "b"
LIMITED: Final = (8, 7)
"""Users are limited where a seed leaves the second number if it is divided by the first; not by
chance, so that the other worlds are what they were before there were limits."""
BUDGETED: Final = (8, 2)
"""Likewise the worlds in which quotas have budgets, and queues order their users."""
GUARDED: Final = (16, 6)
"""Likewise the worlds in which evictions are guarded, and there are evictions."""
SHARED: Final = (8, 3)
"""Likewise those in which queues take turns by what their quotas have used, and order their users
by settings of their own."""
TURNS_HALF_LIFE: Final = "10m"
SMALL_CPU: Final = "500m"
"""Units that ask for no more than this do not have to ask for nodes."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many processes there are, and how they are configured.

    Attributes:
        mode: the limit of a quota.
        elects: whether several instances of a program elect a leader.
        is_strict: whether nodes are asked for before a unit starts, except in `NOT_STRICT_QUEUE`.
        evicts: whether queues preempt and quotas reclaim from the start; else only after an edit.
        protect_seconds: for how long after its admission a unit is not evicted for another.
        has_trees: whether the roots of quotas are trees of their own.
        backfills: whether the shared queue backfills from the start, other queues after an edit,
            and most jobs declare for how long they run.
        has_limits: whether QuotaPolicies limit users and groups, which jobs name.
        has_budgets: whether QuotaPolicies say how much quotas may use, and queues may be Fair.
        has_guards: whether queues, quotas and units guard units against evictions.
        has_shares: whether queues take turns by the use of their quotas, and may be Fair.
    """

    mode: str
    schedulers: int
    controllers: int
    elects: bool
    is_strict: bool
    evicts: bool
    protect_seconds: int
    has_trees: bool
    backfills: bool
    has_limits: bool = False
    has_budgets: bool = False
    has_guards: bool = False
    has_shares: bool = False

    @staticmethod
    def draw(rng: random.Random) -> Plan:
        """Return a random plan."""
        elects = rng.random() < 0.35
        return Plan(
            mode=rng.choice(("max", "runtime", "runtime", "min")),
            schedulers=2 if elects else 1,
            controllers=rng.choice((1, 1, 2)),
            elects=elects,
            is_strict=rng.random() < 0.35,
            evicts=rng.random() < 0.5,
            protect_seconds=rng.choice((0, 0, 10)),
            has_trees=rng.random() < 0.25,
            backfills=rng.random() < 0.35,
        )

    @property
    def is_crowded(self) -> bool:
        """Whether there are more jobs than room, mostly in few quotas and one queue."""
        return self.evicts or self.backfills or self.has_shares

    @property
    def keeps_accounts(self) -> bool:
        """Whether the scheduler counts what users have used, and jobs name their users."""
        return self.has_budgets or self.has_shares

    def alone(self) -> Plan:
        """Return the plan with one process of each program, which works without a lease."""
        return replace(self, schedulers=1, controllers=1, elects=False)

    @property
    def scheduler_flags(self) -> Flags:
        """The scheduler's command line."""
        strict = [
            "--strictDequeueMode",
            f"--queue-list=!{NOT_STRICT_QUEUE}",
            f"--small-units=cpu={SMALL_CPU}",
            f"--verdict-timeout={VERDICT_SECONDS}s",
        ]
        own = [f"--queue-namespace={QUEUE_NAMESPACE}", "--writers=2"]
        return parse_flags([*own, *(strict if self.is_strict else ())])

    @property
    def scheduler_configuration(self) -> KoordQueueConfiguration:
        """The scheduler's configuration file."""
        arguments: dict[str, Any] = {"mode": self.mode, "multiQuotaTree": self.has_trees}
        return KoordQueueConfiguration(
            plugin_configs={"ElasticQuotaV2": arguments},
            default_reclaim_protect_time=f"{self.protect_seconds}s",
            boost_per_eviction=2 if self.has_guards else 0,
            accounts=AccountsSettings(enabled=True) if self.keeps_accounts else UNSET,
            fair_turns=FairTurnsSettings(enabled=True, half_life=TURNS_HALF_LIFE)
            if self.has_shares
            else UNSET,
        )

    @property
    def timeouts(self) -> Timeouts:
        """How long the scheduler lets units wait for others."""
        return Timeouts(
            checks_seconds=self.scheduler_configuration.admission_check_seconds,
            nodes_seconds=self.scheduler_flags.verdict_seconds,
        )

    @property
    def controller_flags(self) -> ControllerFlags:
        """The controllers' command line."""
        strict = ["--enable-reservation"] if self.is_strict else []
        return parse_controller_flags(["--workers=2", *strict])

    @property
    def controller_configuration(self) -> Configuration:
        """The controllers' configuration file."""
        options = ExtensionOptions(running_timeout=20, backoff_timeout=5)
        return Configuration(extensions={"job": options})

    @property
    def quota_settings(self) -> QuotaSettings:
        """The quota settings of the scheduler's file, to rebuild its usage."""
        return QuotaSettings(mode=QuotaMode(self.mode), multi_quota_tree=self.has_trees)

    @property
    def strict(self) -> StrictMode:
        """The settings of strict queues from the scheduler's flags."""
        return self.scheduler_flags.strict
