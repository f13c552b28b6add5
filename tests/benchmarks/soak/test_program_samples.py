"""What is sampled of a program is judged from its last start on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.benchmarks.soak import program_samples
from tests.benchmarks.soak.program_samples import ProgramSamples
from tests.cluster.program_process import ProgramProcess


def test_a_program_that_starts_anew_is_judged_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fills its caches, which is no growth; what its audit has found is kept."""
    process = SimpleNamespace(pid=7)
    sizes = {"rss": 60.0, "threads": 50.0, "files": 30.0, "series": 500.0, "differences": 2.0}
    monkeypatch.setattr(program_samples, "_values", lambda _: dict(sizes))
    samples = ProgramSamples("scheduler", cast("ProgramProcess", process))
    samples.take()
    samples.take()
    process.pid, sizes["rss"], sizes["differences"] = 8, 40.0, 0.0
    samples.take()
    assert [value for _, value in samples.tracks["rss"].points] == [40.0]
    assert samples.differences == 2.0
