"""Digests: equal for the same state in every process, and different for another."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.tenants.ledger import Ledger, StoredAccounts
from shared_api.well_known_labels import USER
from tests.budget_world import BudgetWorld, budget
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    wall_time,
)
from tests.properties.real_quotas import new_engine


def build_engine() -> Engine:
    """Return an engine with two waiting units and one that runs."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for name in ("a", "b"):
        engine.on_quota(build_quota(name, cpu=2))
        engine.on_queue(build_queue(name))
        for number in range(2):
            engine.on_queue_unit(build_unit(f"{name}{number}", name))
    engine.on_queue_unit(admitted(build_unit("runs", "a"), 1))
    return engine


def test_another_process_has_the_same_digest() -> None:
    program = "from tests.queue_insight.record.test_digest import *; print(digest(build_engine()))"
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert found.stdout.strip() == digest(build_engine())


def build_accounted() -> Engine:
    """Return the same engine, with accounts over an hour."""
    engine = build_engine()
    engine.usage.ledger = Ledger()
    engine.on_time(wall_time(WALL))
    engine.on_edges((WALL - 60, WALL + 60))
    engine.on_accounts(StoredAccounts())
    for number in range(3):
        labels = {USER: f"user-{number}"}
        engine.on_queue_unit(admitted(build_unit(f"of-{number}", "a", labels=labels), 1))
    engine.on_time(wall_time(WALL + 3600))
    return engine


def test_another_process_has_the_same_accounts() -> None:
    names = "test_digest import *; print(digest(build_accounted()))"
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", f"from tests.queue_insight.record.{names}"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert found.stdout.strip() == digest(build_accounted())


def build_budgeted() -> Engine:
    """Return an engine with budgets of two quotas and of that above them: some units wait."""
    world = BudgetWorld()
    budgets = (budget(50), budget(20, period="Rolling 30d"), budget(30, period="None"))
    world.state(*budgets, quotas=("vision", "speech", "top"))
    for number in range(6):
        world.ask(f"u{number}", 1 + number, 1 + number % 3, ("vision", "speech")[number % 2])
    world.wait("2026-12-01T02:00")
    return world.engine


def test_another_process_has_the_same_budgets() -> None:
    names = "test_digest import *; print(digest(build_budgeted()))"
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", f"from tests.queue_insight.record.{names}"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert found.stdout.strip() == digest(build_budgeted())


def test_what_was_used_gives_another_digest() -> None:
    engine = build_accounted()
    before = digest(engine)
    assert before != digest(build_engine())
    engine.on_time(wall_time(WALL + 3601))
    assert digest(engine) != before
    assert digest(thaw(freeze(engine.fork()))) == digest(engine)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("on_queue_unit", (build_unit("new", "b"),), id="one unit more"),
        pytest.param("on_queue_unit", (build_unit("b0", "b", version=2),), id="a newer version"),
        pytest.param("on_queue_gone", ("b",), id="a queue less"),
        pytest.param("on_pod", (build_pod("p", quota="a", node="n"),), id="a charge of a pod"),
        pytest.param("decide_next", ("a", 0.0), id="a decision"),
    ],
)
def test_every_change_that_matters_gives_another_digest(name: str, args: tuple[object]) -> None:
    engine = build_engine()
    before = digest(engine)
    getattr(engine, name)(*args)
    assert digest(engine) != before
    assert digest(engine.fork()) == digest(engine)


def test_a_refusal_gives_another_digest() -> None:
    engine = build_engine()
    engine.decide_next("a", 0.0)
    before = digest(engine)
    engine.decide_next("a", 0.0)
    assert digest(engine) != before
