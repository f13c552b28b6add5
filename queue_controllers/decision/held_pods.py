"""Which pods of an admitted job may leave their gates, and what becomes of the others. Pure.

A job that is held by gates runs with what it was admitted with. Pods that come later leave their
gates as far as that goes: no more pods of a set than were granted, none of them larger than what
was granted for each. What goes beyond waits at its gate, for one of these:

- The job has more pods (`running.build_growth`): the scheduler grants them as it finds room.
- A pod asks for more than one of its set was granted: no growth covers that. The unit's spec
  follows, so that it says what the job asks for; it is granted when the unit is admitted anew.
- The pod is deleted, and created again with less.

The job's user learns it by an event, and by a condition of the unit for as long as it lasts.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import (
    Action,
    EventType,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
)
from queue_controllers.decision.grants import (
    Grant,
    exceeds,
    grants_of,
    read_requests,
    recorded_amounts,
    requests_more,
)
from queue_controllers.decision.job_state import HeldPod, PodCounts
from queue_controllers.decision.job_view import JobMemory, JobView
from queue_controllers.decision.queue_unit_builder import body_of_demand
from queue_controllers.decision.unit_status_patches import set_condition
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from shared_api.objects.meta import Condition, Uid, find_condition, is_condition_true
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.pod_requests import has_equal_requests
from shared_api.quantity import for_people
from shared_api.queue_unit_phases import PODS_BEYOND_GRANT
from shared_api.resource_list import Amounts

BEYOND_GRANT: Final = "BeyondGrant"
"""Event reason, and the condition's: pods wait at their gates that go beyond the grant."""

BEYOND_SECONDS: Final = 2.0
"""How long a pod waits so before it is reported: growth is mostly granted within a second, and two
writes for each pod that a set is scaled up by would say nothing."""

MAX_RESOURCES_LISTED: Final = 4
"""How many resources of a pod are compared in a message: pods seldom ask for more."""

NO_GRANT: Final = Grant(count=0, per_pod={})


class BeyondGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A held pod for which its unit has no grant."""

    pod: HeldPod
    requested: Amounts | None
    """What it requests, or None if that cannot be parsed."""
    grant: Grant
    """What was granted to its set."""

    @property
    def is_larger(self) -> bool:
        """Return whether it requests more than a pod of its set was granted."""
        return exceeds(self.requested, self.grant.per_pod)


class SortedPods(msgspec.Struct, frozen=True, kw_only=True):
    """The held pods of an admitted job."""

    may_start: dict[Uid, str] = {}
    """The pods that the grant covers, and the pod set of each."""
    beyond: tuple[BeyondGrant, ...] = ()
    """The others."""


class BeyondDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What is written about pods beyond the grant, and when to look again."""

    memory: JobMemory
    actions: tuple[Action, ...] = ()
    requeue_after_seconds: float | None = None


def sort_held(unit: QueueUnit, pods: PodCounts) -> SortedPods:
    """Return which held pods the grant of their unit covers, and which go beyond it.

    Each is compared with what one pod of its set was granted, not with what others have left: that
    belongs to pods that are yet to come. Living pods, terminating ones included, take their places
    whatever they request. Earlier pods come first; one that is too large takes no place.
    """
    if not pods.held:
        return SortedPods()
    grants = grants_of(unit)
    left = {name: grant.count - pods.living_of_sets.get(name, 0) for name, grant in grants.items()}
    may_start: dict[Uid, str] = {}
    beyond: list[BeyondGrant] = []
    before: HeldPod | None = None
    requested: Amounts | None = None
    for pod in pods.held:
        if before is None or not has_equal_requests(before.spec, pod.spec):
            requested = read_requests(pod.spec)
        before, name = pod, pod.pod_set
        this = BeyondGrant(pod=pod, requested=requested, grant=grants.get(name, NO_GRANT))
        if this.is_larger or left.get(name, 0) <= 0:
            beyond.append(this)
        else:
            may_start[pod.uid] = name
            left[name] -= 1
    return SortedPods(may_start=may_start, beyond=tuple(beyond))


def follow_beyond(
    view: JobView, job: JobFacts, unit: QueueUnit, beyond: tuple[BeyondGrant, ...]
) -> BeyondDecision:
    """Return what is to be written about the pods that go beyond the grant, if there are any.

    Mostly there are none, and nothing is to be written.
    """
    if body := build_larger_demand(job, unit, beyond):
        return BeyondDecision(memory=view.memory, actions=(PatchUnit(unit=unit, body=body),))
    if not beyond:
        memory = msgspec.structs.replace(view.memory, beyond_since=None)
        return BeyondDecision(memory=memory, actions=_take_back(view, unit))
    now = view.moment.monotonic
    since = now if view.memory.beyond_since is None else view.memory.beyond_since
    memory = msgspec.structs.replace(view.memory, beyond_since=since)
    condition = find_condition(unit.status.conditions, PODS_BEYOND_GRANT)
    is_reported = condition is not None and condition.status == "True"
    if not is_reported and (rest := since + BEYOND_SECONDS - now) > 0:
        return BeyondDecision(memory=memory, requeue_after_seconds=rest)
    message = describe_beyond(unit, beyond)
    if is_reported and condition is not None and condition.message == message:
        return BeyondDecision(memory=memory)
    wanted = Condition(type=PODS_BEYOND_GRANT, status="True", reason=BEYOND_GRANT, message=message)
    event = RecordJobEvent(
        reason=BEYOND_GRANT, message=message, type=EventType.WARNING, pod=_first(beyond).pod.uid
    )
    return BeyondDecision(memory=memory, actions=(_set(view, unit, wanted), event))


def _take_back(view: JobView, unit: QueueUnit) -> tuple[PatchUnitStatus, ...]:
    if not is_condition_true(unit.status.conditions, PODS_BEYOND_GRANT):
        return ()
    over = Condition(type=PODS_BEYOND_GRANT, status="False", reason="Settled")
    return (_set(view, unit, over),)


def _set(view: JobView, unit: QueueUnit, condition: Condition) -> PatchUnitStatus:
    write = set_condition(unit, condition, view.moment)
    # That time says when the counts of pods were written: `missing_pods` depends on it.
    status = {key: value for key, value in write.status.items() if key != "lastUpdateTime"}
    return PatchUnitStatus(unit=unit, status=status)


# --- the demand -----------------------------------------------------------------------------------


def build_larger_demand(
    job: JobFacts, unit: QueueUnit, beyond: tuple[BeyondGrant, ...]
) -> dict[str, Any]:
    """Return the merge patch that has a unit say what its pods request, beyond its grant; or {}.

    When no pod goes beyond any more, it says again what was granted. Where an admission records no
    amounts, the spec is the record of the grant, and stays until the unit waits again. Counts stay,
    too: growth in size is not granted, so growth in count would be granted for nothing.
    """
    known = {each.name: each for each in unit.spec.pod_set}
    recorded = {each.name for each in unit.status.admissions if recorded_amounts(each)}
    larger = {each.pod.pod_set for each in beyond if each.is_larger}
    grants = grants_of(unit)
    shown = tuple(each for each in job.pod_sets if each.name in known)
    if not any(
        _is_to_follow(each, known[each.name], grants[each.name], is_larger=each.name in larger)
        for each in shown
        if each.name in recorded
    ):
        return {}
    pod_sets = (msgspec.structs.replace(each, count=known[each.name].count) for each in shown)
    return body_of_demand(tuple(pod_sets), unit)


def _is_to_follow(pod_set: JobPodSet, known: PodSet, grant: Grant, *, is_larger: bool) -> bool:
    """Return whether what the unit says of a set is to become what the set's pods request."""
    excess = exceeds(read_requests(known.template.spec), grant.per_pod)
    if not is_larger and not excess:
        return False  # mostly
    asks = exceeds(read_requests(pod_set.template.spec), grant.per_pod)
    if asks:
        return is_larger and requests_differ(pod_set, known)
    return excess


def requests_differ(pod_set: JobPodSet, known: PodSet) -> bool:
    """Return whether pods of a set request other amounts than the unit says of them."""
    wanted, spec = pod_set.template.spec, known.template.spec
    return requests_more(pod_set, known) or exceeds(read_requests(spec), read_requests(wanted))


# --- words ----------------------------------------------------------------------------------------


def describe_beyond(unit: QueueUnit, beyond: tuple[BeyondGrant, ...]) -> str:
    """Return what waits, by how much it goes beyond the grant, and what to do, in words."""
    first = _first(beyond)
    others = len(beyond) - 1
    more = "" if not others else f", and so do{'es' if others == 1 else ''} {others} more"
    meta = unit.metadata
    return (
        f"Pod {first.pod.name} waits at its gate{more}: {_difference(first)}."
        " Delete it, to have it created again with less; or requeue the unit (koord-queue requeue"
        f" {meta.name} --namespace {meta.namespace}): its running pods are deleted, and it waits"
        " for all that its pods ask for"
    )


def _first(beyond: tuple[BeyondGrant, ...]) -> BeyondGrant:
    """Return the pod that is told of: a larger one if there is any, since no growth covers it."""
    return next((each for each in beyond if each.is_larger), beyond[0])


def _difference(this: BeyondGrant) -> str:
    """Return by how much a pod goes beyond the grant of its set, in words."""
    name, grant = this.pod.pod_set, this.grant
    if not this.is_larger:
        return f"{grant.count} pods of set {name} were granted, and it is one more"
    requested, granted = this.requested, grant.per_pod
    if requested is None or granted is None:
        return "its requests cannot be parsed"
    excess = [key for key in sorted(requested) if requested[key] > granted.get(key, 0)]
    excesses = [_of_resource(key, requested[key], granted.get(key, 0)) for key in excess]
    if len(excesses) > MAX_RESOURCES_LISTED:
        excesses = [
            *excesses[:MAX_RESOURCES_LISTED],
            f"{len(excesses) - MAX_RESOURCES_LISTED} more resources",
        ]
    whose = f"each pod of set {name}" if grant.count else "pods of its shape"
    return f"it asks for more than was granted for {whose}: {', '.join(excesses)}"


def _of_resource(resource: str, requested: int, granted: int) -> str:
    more, of_all, of_grant = for_people(resource, (requested - granted, requested, granted))
    return f"{resource} {of_all} instead of {of_grant} ({more} more)"
