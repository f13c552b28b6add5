"""Pods whose gate somebody else took off: booked once, told once, whatever was before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.jobframework.actions import Action, PatchUnit, PatchUnitStatus, TellJob
from queue_controllers.jobframework.generic_job import JobFacts, JobKind, StatusFacts
from queue_controllers.jobframework.job_machine import PodFacts
from shared_api.objects.meta import Condition
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.queue_unit_phases import is_adopted, is_booked
from tests.job_situations import TWO_PENDING, evicted, facts, look, told, unit

PODS = JobKind(key="pod", group="", version="v1", kind="Pod", plural="pods", held_by_gates=True)
RUN = PodFacts(total=2, living=2, pending=2)


def job() -> JobFacts:
    return facts(kind=PODS, status=StatusFacts())


def merged(of: QueueUnit, action: Action) -> QueueUnit:
    """Return the unit as a write leaves it, as far as it matters here."""
    if isinstance(action, PatchUnit):
        annotations = of.metadata.annotations | action.body["metadata"]["annotations"]
        meta = msgspec.structs.replace(of.metadata, annotations=annotations)
        return msgspec.structs.replace(of, metadata=meta)
    if isinstance(action, PatchUnitStatus):
        status = {**msgspec.to_builtins(of.status), **action.status}
        return msgspec.structs.replace(of, status=msgspec.convert(status, QueueUnitStatus))
    return of


def looks(of: QueueUnit, count: int = 6) -> tuple[QueueUnit, list[str]]:
    """Look again and again, with no news but its own writes; return what is written and told."""
    names: list[str] = []
    for _ in range(count):
        actions = look(job(), of, pods=RUN).actions
        names += told(actions)
        for action in actions:
            of = merged(of, action)
    return of, names


FREED: Any = evicted(status="False")
BACKS_OFF: Any = evicted("BackoffTimeout")


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(unit(), ["adopt", "tell GateOpened"], id="never evicted"),
        pytest.param(
            unit(conditions=FREED),
            ["adopt", "tell GateOpened"],
            id="in line again after an eviction",
        ),
        pytest.param(
            unit("TimeoutBackoff", conditions=BACKS_OFF),
            ["adopt", "tell GateOpened"],
            id="put back",
        ),
        pytest.param(
            unit("Reserved", conditions=FREED), ["adopt", "tell GateOpened"], id="reserved"
        ),
        pytest.param(unit("SchedReady"), ["adopt", "tell GateOpened"], id="nodes are asked for"),
    ],
)
def test_what_is_opened_is_booked_and_told_once(of: QueueUnit, want: list[str]) -> None:
    after, names = looks(of)
    assert names == want
    assert is_adopted(after)
    assert is_booked(after)


def test_what_is_evicted_after_it_was_opened_waits() -> None:
    after, _ = looks(unit(conditions=FREED))
    asked = Condition(type="Evicted", status="True", reason="Preempted")
    status = msgspec.structs.replace(after.status, conditions=(*after.status.conditions, asked))
    after = msgspec.structs.replace(after, status=status)
    freed = look(facts(kind=PODS), after, pods=PodFacts()).actions
    assert told(freed)[0] == "move Enqueued"
    free = merged(after, freed[0])
    assert not is_booked(free)
    assert not is_adopted(free)


def test_the_eviction_of_a_job_with_a_switch_is_not_forgotten() -> None:
    of = unit("TimeoutBackoff", conditions=BACKS_OFF)
    resumed = facts(suspended=False, status=StatusFacts())
    assert told(look(resumed, of, pods=TWO_PENDING).actions)[0] == "suspend"


def test_the_event_says_what_has_happened() -> None:
    (event,) = (a for a in look(job(), unit(), pods=RUN).actions if isinstance(a, TellJob))
    assert "koord-queue/admission" in event.message
