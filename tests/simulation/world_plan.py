"""What a simulated world is made of; by chance, from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from queue_controllers.configuration import Configuration, ExtensionOptions
from queue_controllers.configuration import Flags as ControllerFlags
from queue_controllers.configuration import parse_flags as parse_controller_flags
from queue_scheduler.configuration import Flags, KoordQueueConfiguration, parse_flags
from queue_scheduler.engine.deadlines import Timeouts
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings

QUEUE_NAMESPACE: Final = "koord-queue"
VERDICT_SECONDS: Final = 120
NOT_STRICT_QUEUE: Final = "b"
SMALL_CPU: Final = "500m"
"""Units that ask for no more need not ask for nodes."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many processes there are, and what they are told.

    Attributes:
        mode: what a job is compared with.
        elects: several of a program elect who works.
        is_strict: nodes are asked for before a unit starts, but in `NOT_STRICT_QUEUE`.
        evicts: queues preempt and quotas reclaim from the beginning; else when somebody says so.
        protect_seconds: for so long after its admission nobody is evicted for another.
        has_trees: the roots of quotas are trees of their own.
        backfills: the shared queue does from the beginning, other queues when somebody says so, and
            most jobs declare for how long they run.
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

    @staticmethod
    def draw(rng: random.Random) -> Plan:
        """Return a plan by chance."""
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
        """Whether there are more jobs than room, and most are of few quotas and one queue."""
        return self.evicts or self.backfills

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
        """The scheduler's file."""
        arguments: dict[str, Any] = {"mode": self.mode, "multiQuotaTree": self.has_trees}
        return KoordQueueConfiguration(
            plugin_configs={"ElasticQuotaV2": arguments},
            default_reclaim_protect_time=f"{self.protect_seconds}s",
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
        """The controllers' file."""
        options = ExtensionOptions(running_timeout=20, backoff_timeout=5)
        return Configuration(extensions={"job": options})

    @property
    def quota_settings(self) -> QuotaSettings:
        """What the scheduler's file says of quotas, for whoever rebuilds its usage."""
        return QuotaSettings(mode=QuotaMode(self.mode), multi_quota_tree=self.has_trees)

    @property
    def strict(self) -> StrictMode:
        """What the scheduler's flags say of strict queues."""
        return self.scheduler_flags.strict
