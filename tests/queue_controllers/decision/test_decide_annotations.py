"""Ignored annotations are reported on the job, each value once."""

from __future__ import annotations

import pytest

from queue_controllers.decision.actions import RecordJobEvent
from queue_controllers.decision.job_ownership import Ownership
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.jobframework.generic_job import JobFacts, StatusFacts
from shared_api.objects.queue_unit import QueueUnit
from tests.job_situations import ADMITTED, SUCCEEDED, action_names, facts, look, unit

PRIORITY = "scheduling.x-k8s.io/priority"
HIGH = facts(annotations={PRIORITY: "high"})
HIGHER = facts(annotations={PRIORITY: "higher"})
TOLD = ["event IgnoredAnnotation"]
RESERVED = unit("Reserved", admissions=ADMITTED)
DEQUEUED = unit("Dequeued", admissions=ADMITTED)


@pytest.mark.parametrize(
    ("job", "of", "managed", "want"),
    [
        pytest.param(HIGH, None, True, ["create", *TOLD], id="it comes"),
        pytest.param(HIGH, RESERVED, True, TOLD, id="it waits"),
        pytest.param(HIGH, DEQUEUED, True, ["release", *TOLD], id="it starts"),
        pytest.param(HIGH, None, False, [], id="not managed"),
        pytest.param(HIGH, unit("Succeed"), True, [], id="it has ended"),
        pytest.param(
            facts(annotations={PRIORITY: "high"}, status=StatusFacts(outcome=SUCCEEDED)),
            None,
            True,
            [],
            id="it ended long ago",
        ),
        pytest.param(facts(annotations={PRIORITY: "5"}), None, True, ["create"], id="a number"),
    ],
)
def test_it_is_reported_while_it_can_be_fixed(
    job: JobFacts, of: QueueUnit | None, managed: bool, want: list[str]
) -> None:
    assert (
        action_names(look(job, of, ownership=Ownership(managed=managed, reason="")).actions) == want
    )


def test_a_value_is_reported_once_and_again_when_it_comes_back() -> None:
    memory, rounds = JobMemory(), []
    for job in (HIGH, HIGH, HIGHER, facts(), HIGH):
        decision = look(job, RESERVED, memory=memory)
        assert decision.is_complete or not decision.actions, "a warning alone needs no reconcile"
        memory = decision.memory
        rounds.append(
            [each.message for each in decision.actions if isinstance(each, RecordJobEvent)]
        )
    assert [len(each) for each in rounds] == [1, 0, 1, 0, 1]
    assert "'higher'" in rounds[2][0]
