"""Some days of a made trace leave nothing behind; what is left behind on purpose is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from tests.benchmarks.soak.virtual_soak import soak
from tests.queue_insight.replay.replay_kit import made_trace

JOBS: Final = 250
SAMPLES: Final = 24
MEMORY: Final = "rss"
"""Not judged here: it depends on what the tests before have left free."""


def grown() -> tuple[list[str], list[str]]:
    found = soak(made_trace(JOBS), days=365, samples=SAMPLES)
    names = [each.track.name for each in found.verdicts if each.grows]
    return [name for name in names if name != MEMORY], found.complaints


def test_days_of_jobs_leave_nothing_in_the_engine() -> None:
    """Each container of the engine has as many entries as before, and the books are right."""
    assert grown() == ([], [])


def test_a_container_that_keeps_what_is_gone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found while the trace is played, and at its end."""
    gone: Callable[[Engine, QueueUnit], tuple[str, ...]] = Engine.on_queue_unit_gone

    def keep(engine: Engine, unit: QueueUnit) -> tuple[str, ...]:
        engine.growths.__dict__.setdefault("kept", []).append(unit.metadata.uid)  # plants a leak
        return gone(engine, unit)

    monkeypatch.setattr(Engine, "on_queue_unit_gone", keep)
    names, complaints = grown()
    assert names == ["growths.kept"]
    assert complaints == [f"growths.kept has {JOBS} entries after the last job"]
