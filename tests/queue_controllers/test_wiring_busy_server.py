"""The controllers while the API server throttles them, and after an internal error."""

from __future__ import annotations

import pytest
import structlog.testing

from queue_controllers.decision.decide import decide
from queue_controllers.decision.job_view import Decision, JobView
from shared_api.fake_api_server.faults import Match
from tests.queue_controllers.controllers_world import World

LOOK = "queue_controllers.reconcile.reconciler.decide"


def test_a_busy_server_is_left_alone(world: World) -> None:
    world.start()
    match = Match(plural="queueunits", verb="create")
    world.server.faults.fail(429, match=match, retry_after_seconds=60)
    world.job()
    with structlog.testing.capture_logs() as logs:
        world.settle(1.0)
        seen = len(world.server.journal)
        world.settle(58.0)
    assert [each["event"] for each in logs].count("could not act on a job") == 1
    later = [e.info.verb for e in list(world.server.journal)[seen:]]
    assert [verb for verb in later if verb not in {"list", "watch"}] == []
    world.settle(2.0)
    assert world.units() == ["main"]


def test_a_job_whose_reconcile_fails_is_reconciled_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_once(_view: JobView) -> Decision:
        monkeypatch.setattr(LOOK, decide)
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(LOOK, broken_once)
    world.start()
    world.job()
    world.settle(2.0)
    assert world.units() == ["main"]
