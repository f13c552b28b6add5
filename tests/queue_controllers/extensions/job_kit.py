"""Sample manifests of jobs, and the recorded lives of jobs, for tests of adapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from queue_controllers.jobframework.generic_job import GenericJob
from tests.contracts.operator_recordings import replay

DATA = Path(__file__).parents[2] / "data"


def sample(name: str) -> dict[str, Any]:
    """Return the manifest of a kind as a user writes it."""
    body: dict[str, Any] = yaml.safe_load((DATA / "jobs" / f"{name}.yaml").read_text("utf-8"))
    return body


def sample_sets(adapter: GenericJob[Any], name: str) -> list[tuple[str, int]]:
    """Return names and counts of the sample's pod sets; it is suspended, and may be held."""
    job = msgspec.convert(sample(name), adapter.object_type)
    assert adapter.is_suspended(job)
    assert adapter.why_not_hold(job) == ""
    return [(each.name, each.count) for each in adapter.pod_sets(job)]


def life(name: str) -> tuple[str, dict[str, str]]:
    """Return the states of a recorded life in their order, and the job's demand at its start."""
    lines, broken = replay(DATA / "recordings" / f"{name}.json.gz")
    assert broken == []
    return " ".join(without_repeats([line.state.state.value for line in lines])), lines[0].shown()[
        "demand"
    ]


def without_repeats(states: Sequence[str]) -> list[str]:
    """Return each state once for as long as it lasts."""
    return [state for before, state in zip(["", *states], states, strict=False) if state != before]
