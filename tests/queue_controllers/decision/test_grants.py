"""Whether a job asks for more than its unit was admitted with."""

from __future__ import annotations

import pytest

from queue_controllers.decision.grants import outgrows
from queue_controllers.jobframework.generic_job import (
    JobFacts,
)
from tests.job_situations import facts, made, pod_set


@pytest.mark.parametrize(
    ("now", "want"),
    [
        pytest.param(facts(), False, id="the same"),
        pytest.param(facts(pod_set(1)), False, id="fewer pods"),
        pytest.param(facts(pod_set(cpu="500m")), False, id="smaller pods"),
        pytest.param(facts(pod_set(3)), True, id="more pods"),
        pytest.param(facts(pod_set(cpu="1001m")), True, id="larger pods"),
        pytest.param(facts(pod_set(cpu="1000m")), False, id="the same size, written differently"),
        pytest.param(facts(pod_set(), pod_set(1, name="new")), True, id="another set"),
        pytest.param(facts(pod_set(), pod_set(0, name="new")), False, id="another empty set"),
        pytest.param(facts(pod_set(cpu="x")), True, id="pods with invalid requests"),
    ],
)
def test_outgrown(now: JobFacts, want: bool) -> None:
    assert outgrows(now, made(facts())) is want
