"""Whether a job asks for more than its unit was admitted with."""

from __future__ import annotations

import pytest

from queue_controllers.decision.grants import outgrows
from queue_controllers.jobframework.generic_job import (
    JobFacts,
)
from tests.queue_controllers.decision.unit_kit import job, made, pod_set


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(job(), False, id="the same"),
        pytest.param(job(pod_set(1)), False, id="fewer pods"),
        pytest.param(job(pod_set(cpu="500m")), False, id="smaller pods"),
        pytest.param(job(pod_set(3)), True, id="more pods"),
        pytest.param(job(pod_set(cpu="1001m")), True, id="larger pods"),
        pytest.param(job(pod_set(cpu="1000m")), False, id="the same size, written differently"),
        pytest.param(job(pod_set(), pod_set(1, name="new")), True, id="another set"),
        pytest.param(job(pod_set(), pod_set(0, name="new")), False, id="another empty set"),
        pytest.param(job(pod_set(cpu="x")), True, id="pods with invalid requests"),
    ],
)
def test_outgrown(now: JobFacts, want: bool) -> None:
    assert outgrows(now, made(job())) is want
