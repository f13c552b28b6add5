"""Pods whose gate another client removed: charged and reported once, admitted if none is held."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.actions import Action, PatchUnit, PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.job_state import HeldPod, PodCounts
from queue_controllers.jobframework.generic_job import JobFacts, JobKind, StatusFacts
from shared_api.objects.meta import Condition, Uid
from shared_api.objects.pod import PodSpec
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus
from shared_api.queue_unit_phases import is_adopted, occupies_quota
from tests.job_situations import TWO_PENDING, action_names, evicted, facts, look, unit

PODS = JobKind(key="pod", group="", version="v1", kind="Pod", plural="pods", held_by_gates=True)
RUN = PodCounts(total=2, living=2, pending=2, living_of_sets={"main": 2}, bound=1)
ONE_RUNS = PodCounts(
    total=1,
    living=1,
    pending=1,
    living_of_sets={"main": 1},
    held=(HeldPod(uid=Uid("held"), name="held", pod_set="main", spec=PodSpec()),),
    opened=1,
)
ONE_MADE = msgspec.structs.replace(ONE_RUNS, held=())
"""Of two pods only the first exists, as of a StatefulSet that creates them in turn."""


def job() -> JobFacts:
    return facts(kind=PODS, status=StatusFacts())


def merged(of: QueueUnit, action: Action) -> QueueUnit:
    """Return the unit after a write, as far as it matters here."""
    if isinstance(action, PatchUnit):
        annotations = of.metadata.annotations | action.body["metadata"]["annotations"]
        meta = msgspec.structs.replace(of.metadata, annotations=annotations)
        return msgspec.structs.replace(of, metadata=meta)
    if isinstance(action, PatchUnitStatus):
        status = {**msgspec.to_builtins(of.status), **action.status}
        return msgspec.structs.replace(of, status=msgspec.convert(status, QueueUnitStatus))
    return of


def looks(of: QueueUnit, count: int = 6) -> tuple[QueueUnit, list[str]]:
    """Reconcile repeatedly, with only its own writes as news; return the writes and events."""
    names: list[str] = []
    for _ in range(count):
        actions = look(job(), of, pods=RUN).actions
        names += action_names(actions)
        for action in actions:
            of = merged(of, action)
    return of, names


def test_opened_pods_without_a_node_are_marked_and_wait_with_the_job() -> None:
    """Removing gates alone must not charge a whole job to its quota."""
    opened = msgspec.structs.replace(RUN, bound=0, opened=2)
    assert action_names(look(job(), unit(), pods=opened).actions) == [
        "MarkPods",
        "event GateOpened",
    ]
    marked = msgspec.structs.replace(RUN, bound=0)
    assert look(job(), unit(), pods=marked).actions == ()


FREED: Any = evicted(status="False")
BACKS_OFF: Any = evicted("BackoffTimeout")


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(unit(), ["adopt", "event GateOpened"], id="never evicted"),
        pytest.param(
            unit(conditions=FREED),
            ["adopt", "event GateOpened"],
            id="in the queue again after an eviction",
        ),
        pytest.param(
            unit("TimeoutBackoff", conditions=BACKS_OFF),
            ["adopt", "event GateOpened"],
            id="put back",
        ),
        pytest.param(
            unit("Reserved", conditions=FREED), ["adopt", "event GateOpened"], id="reserved"
        ),
        pytest.param(unit("SchedReady"), ["adopt", "event GateOpened"], id="nodes are reserved"),
    ],
)
def test_an_opened_pod_is_charged_and_reported_once(of: QueueUnit, want: list[str]) -> None:
    after, names = looks(of)
    assert names == want
    assert is_adopted(after)
    assert occupies_quota(after)


def test_a_job_that_is_evicted_after_it_was_opened_waits() -> None:
    after, _ = looks(unit(conditions=FREED))
    asked = Condition(type="Evicted", status="True", reason="Preempted")
    status = msgspec.structs.replace(after.status, conditions=(*after.status.conditions, asked))
    after = msgspec.structs.replace(after, status=status)
    freed = look(facts(kind=PODS), after, pods=PodCounts()).actions
    assert action_names(freed)[0] == "move Enqueued"
    free = merged(after, freed[0])
    assert not occupies_quota(free)
    assert not is_adopted(free)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(ONE_RUNS, id="the other is held"),
        pytest.param(ONE_MADE, id="the other does not exist yet"),
    ],
)
@pytest.mark.parametrize(
    "of",
    [
        pytest.param(unit(), id="in the queue"),
        pytest.param(unit(conditions=FREED), id="in the queue again after an eviction"),
        pytest.param(unit("TimeoutBackoff", conditions=BACKS_OFF), id="put back"),
        pytest.param(unit("Reserved", conditions=FREED), id="reserved"),
        pytest.param(unit("SchedReady"), id="nodes are reserved"),
    ],
)
def test_one_pod_that_is_opened_admits_no_others(of: QueueUnit, pods: PodCounts) -> None:
    actions = look(job(), of, pods=pods).actions
    assert action_names(actions)[:2] == ["MarkPods", "event GateOpened"]
    (event,) = (each for each in actions if isinstance(each, RecordJobEvent))
    assert "1 of its pods" in event.message
    marked = msgspec.structs.replace(pods, opened=0)
    after = look(job(), of, pods=marked).actions
    assert not {"adopt", "suspend", "release", "MarkPods", "event GateOpened"} & set(
        action_names(after)
    )


@pytest.mark.parametrize("pods", [ONE_RUNS, ONE_MADE], ids=["one is held", "one is not made"])
def test_of_a_unit_that_is_created_again_only_running_pods_count(pods: PodCounts) -> None:
    pods = msgspec.structs.replace(pods, opened=0)
    first = look(job(), None, pods=pods)
    assert action_names(first.actions)[0] == "create"
    assert not first.memory.adopting
    whole = look(job(), None, pods=RUN)
    assert whole.memory.adopting


def test_while_one_runs_the_unit_follows_its_pods() -> None:
    """Otherwise any user that may edit units could have it admitted for less."""
    of = unit()
    (pod_set,) = of.spec.pod_set
    less = (msgspec.structs.replace(pod_set, count=1),)
    of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, pod_set=less))
    (patch,) = look(job(), of, pods=ONE_RUNS).actions
    assert isinstance(patch, PatchUnit)
    assert patch.body["spec"]["podSet"][0]["count"] == 2


def test_pods_of_an_unknown_total_number_are_not_deleted() -> None:
    unknown = facts(kind=PODS, status=StatusFacts(), pod_sets=(), unknown_demand="too few")
    for of in (None, unit()):
        assert "suspend" not in action_names(look(unknown, of, pods=ONE_RUNS).actions)


def test_the_eviction_of_a_job_with_a_switch_is_not_forgotten() -> None:
    of = unit("TimeoutBackoff", conditions=BACKS_OFF)
    resumed = facts(suspended=False, status=StatusFacts())
    assert action_names(look(resumed, of, pods=TWO_PENDING).actions)[0] == "suspend"


def test_the_event_reports_what_has_happened() -> None:
    (event,) = (a for a in look(job(), unit(), pods=RUN).actions if isinstance(a, RecordJobEvent))
    assert "koord-queue/admission" in event.message
