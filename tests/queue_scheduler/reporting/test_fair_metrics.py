"""How many accounts a queue with the policy Fair has, as series."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.reporting.fair_metrics import FairMetrics
from queue_scheduler.tenants import fair_use
from shared_api.objects.queue import FairShare
from tests.fair_team import FairTeam

ACCOUNTS = "koord_queue_fair_accounts"
FOLDED = "koord_queue_fair_accounts_folded_total"


def samples(team: FairTeam) -> tuple[float | None, float | None]:
    registry = CollectorRegistry()
    registry.register(FairMetrics(SharedEngine(team.engine, lambda _: None)))
    found = (registry.get_sample_value(name, {"queue": "q"}) for name in (ACCOUNTS, FOLDED))
    return next(found), next(found)


def test_starts_of_users_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_use, "MAX_ACCOUNTS", 2)
    team = FairTeam(cpu=9)
    assert samples(team) == (0, 0)
    for user in ("ann", "bob", "eve", "zoe", "ann"):
        team.ask(user)
    team.rest()
    assert samples(team) == (3, 2), "ann, bob and their namespace; eve and zoe"
    team.put_queue("Fair", FairShare(levels=("namespace",)))
    assert samples(team) == (1, 2), "what was counted stays counted"


def test_without_the_policy_there_are_no_series() -> None:
    assert samples(FairTeam(policy="FIFO")) == (None, None)
