"""The meaning of jobs' conditions."""

from __future__ import annotations

import pytest

from queue_controllers.job_families.job_conditions import (
    read_outcome,
    read_suspended,
    true_since,
)
from queue_controllers.jobframework.generic_job import Outcome
from shared_api.objects.meta import Condition, Timestamp

AT = Timestamp("2026-11-01T10:00:00Z")


def condition(kind: str, status: str = "True", message: str = "") -> Condition:
    return Condition(
        type=kind, status=status, reason="Why", message=message, last_transition_time=AT
    )


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param((), None, id="none"),
        pytest.param((condition("Done"),), Outcome(succeeded=True), id="success"),
        pytest.param((condition("Done", "False"),), None, id="no success yet"),
        pytest.param((condition("Complete"),), None, id="another kind's"),
        pytest.param((condition("Failed", "False"),), None, id="not failed"),
        pytest.param(
            (condition("Failed"),), Outcome(succeeded=False, message="Why"), id="by its reason"
        ),
        pytest.param(
            (condition("Suspended"), condition("Failed", message="too late")),
            Outcome(succeeded=False, message="too late"),
            id="by its message",
        ),
    ],
)
def test_how_a_job_ended(conditions: tuple[Condition, ...], want: Outcome | None) -> None:
    assert read_outcome(conditions, "Done") == want


def test_whether_it_is_suspended() -> None:
    assert read_suspended((condition("Running"), condition("Suspended"))) == (True, AT)
    assert read_suspended((condition("Suspended", "False"),)) == (False, AT)
    assert read_suspended(()) == (False, None)


def test_times_are_those_of_true_conditions() -> None:
    assert true_since((condition("Suspended"),), "Suspended") == AT
    assert true_since((condition("Suspended"),), "Other", "Suspended") == AT
    assert true_since((condition("Suspended"),), "Other") is None
    assert true_since((condition("Suspended", "False"),), "Suspended") is None
    assert true_since((Condition(type="Suspended", status="True"),), "Suspended") == ""
