"""What adapters find in the sample manifests of jobs."""

from __future__ import annotations

from typing import Any

import msgspec

from queue_controllers.jobframework.generic_job import GenericJob
from tests.sample_jobs import sample


def sample_sets(adapter: GenericJob[Any], name: str) -> list[tuple[str, int]]:
    """Return names and counts of the sample's pod sets; it is suspended, and may be held."""
    job = msgspec.convert(sample(name), adapter.object_type)
    assert adapter.is_suspended(job)
    assert adapter.why_not_suspendable(job) == ""
    return [(each.name, each.count) for each in adapter.pod_sets(job)]
