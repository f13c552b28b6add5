"""Reasons that block a pending job until a user acts, and when they are reported."""

from __future__ import annotations

import pytest

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.decision.job_view import JobMemory
from queue_controllers.decision.pending import WAYS_OUT
from queue_scheduler.decision import Reason
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.waiting_reasons import NEEDS_ACTION
from tests.job_situations import ADMITTED, action_names, facts, look, unit


def waiting(reason: str, message: str = "m", status: str = "False") -> QueueUnit:
    condition = Condition(type="QuotaReserved", status=status, reason=reason, message=message)
    return unit(conditions=(condition,))


def test_every_actionable_reason_names_the_action() -> None:
    assert WAYS_OUT.keys() == NEEDS_ACTION
    assert set(Reason) >= NEEDS_ACTION


@pytest.mark.parametrize(
    ("of", "want"),
    [
        *(pytest.param(waiting(reason), [f"event {reason}"], id=reason) for reason in WAYS_OUT),
        *(
            pytest.param(waiting(reason), ["event Queued"], id=f"{reason}: passes by itself")
            for reason in ("Pending", "OverQuotaMax", "BehindRefusedUnit", "NoCapacity")
        ),
        pytest.param(unit(), [], id="no reason yet"),
        pytest.param(waiting("NoQuota", status="True"), [], id="it is reserved"),
    ],
)
def test_only_actionable_reasons_are_reported(of: QueueUnit, want: list[str]) -> None:
    assert action_names(look(facts(), of).actions) == want


def test_it_is_reported_in_the_schedulers_words_with_the_action() -> None:
    (event,) = look(facts(), waiting("NoQuota", "no quota: gold does not exist")).actions
    assert event == RecordJobEvent(
        reason="NoQuota",
        message=(
            "It cannot start: no quota: gold does not exist. Name one that exists in the job's "
            "label quota.scheduling.koordinator.sh/name, or ask an administrator to create it"
        ),
        type=EventType.WARNING,
    )


def test_the_label_to_set_is_named_once() -> None:
    label = "quota.scheduling.koordinator.sh/name"
    said = f"no quota: the unit names none and namespace team has none; label it {label}"
    (event,) = look(facts(), waiting("NoQuota", said)).actions
    assert isinstance(event, RecordJobEvent)
    assert event.message == (
        f"It cannot start: {said}. Or ask an administrator to give the namespace a quota"
    )


def test_it_is_reported_once_and_again_when_it_changes_or_comes_back() -> None:
    memory, said = JobMemory(), []
    for of in (
        waiting("NoQuota", "no gold"),
        waiting("NoQuota", "no gold"),
        waiting("NoQuota", "no silver"),
        waiting("OverQuotaMax"),
        waiting("NoQuota", "no silver"),
        unit("Reserved", admissions=ADMITTED),
        waiting("NoQuota", "no silver"),
    ):
        decision = look(facts(), of, memory=memory)
        memory = decision.memory
        said.append(action_names(decision.actions))
    tells = ["event NoQuota"]
    assert said == [tells, [], tells, ["event Queued"], tells, [], tells]
