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
        pytest.param(unit(), ["patch unit", "tell GateOpened"], id="never evicted"),
        pytest.param(
            unit(conditions=FREED),
            ["patch unit", "move Enqueued", "tell GateOpened"],
            id="in line again after an eviction",
        ),
        pytest.param(
            unit("TimeoutBackoff", conditions=BACKS_OFF),
            ["patch unit", "move Enqueued", "tell GateOpened"],
            id="put back",
        ),
        pytest.param(
            unit(conditions=FREED, adopted=True),
            ["move Enqueued", "tell GateOpened"],
            id="opened before, and evicted since",
        ),
        pytest.param(
            unit("TimeoutBackoff", conditions=BACKS_OFF, adopted=True),
            ["move Enqueued", "tell GateOpened"],
            id="opened before, and put back since",
        ),
    ],
)
def test_what_is_opened_is_booked_and_told_once(of: QueueUnit, want: list[str]) -> None:
    after, names = looks(of)
    assert names == want
    assert is_adopted(after)
    assert is_booked(after)


def test_a_reserved_one_is_marked_and_told_once() -> None:
    after, names = looks(unit("Reserved", conditions=FREED))
    assert names == ["patch unit", "tell GateOpened"]
    assert is_booked(after)


def test_what_is_evicted_after_it_was_opened_waits() -> None:
    """The annotation stays, and books it no more once its pods are gone."""
    after, _ = looks(unit(conditions=FREED))
    asked = Condition(type="Evicted", status="True", reason="Preempted")
    status = msgspec.structs.replace(after.status, conditions=(*after.status.conditions, asked))
    after = msgspec.structs.replace(after, status=status)
    freed = look(facts(kind=PODS), after, pods=PodFacts()).actions
    assert told(freed)[0] == "move Enqueued"
    assert not is_booked(merged(after, freed[0]))


def test_the_eviction_of_a_job_with_a_switch_is_not_forgotten() -> None:
    of = unit("TimeoutBackoff", conditions=BACKS_OFF)
    resumed = facts(suspended=False, status=StatusFacts())
    assert told(look(resumed, of, pods=TWO_PENDING).actions)[0] == "suspend"


def test_the_event_says_what_has_happened() -> None:
    (event,) = (a for a in look(job(), unit(), pods=RUN).actions if isinstance(a, TellJob))
    assert "koord-queue/admission" in event.message
