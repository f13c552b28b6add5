"""Smaller demands: the request, or number of pods, with which a unit would start now. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from queue_insight.insight.change import Change, ChangeKind, patch_owner
from queue_insight.insight.explain import find_blockers
from queue_insight.insight.question import Question, find_missing
from queue_insight.insight.trials import Edit, edit_spec
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import PodSetDemand, UnitDemand
from shared_api.objects.pod import Container, PodSpec, ResourceQuantities, ResourceRequirements
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.quantity import Rounding, amount_for_people
from shared_api.resource_list import Amounts, format_amounts

MAX_STEPS: Final = 5
"""Reductions of one demand until the unit starts; mostly the first suffices."""


def find_demand_changes(question: Question) -> Iterator[Change]:
    """Yield smaller demands with which the unit starts."""
    info = question.info
    missing = find_missing(question.explanation.blockers)
    if info is None or not missing:
        return
    unit, demand = question.record.unit, info.demand
    if not unit.spec.pod_set:
        change = _ask_for_less(question, missing, _Total(unit, demand.total))
        if change is not None:
            yield change
        return
    for index in _sets_that_matter(demand, missing):
        change = _ask_for_less(question, missing, _Request(unit, demand, index))
        if change is not None:
            yield change
            break
    for index in _sets_that_matter(demand, missing):
        change = _have_fewer(question, demand, missing, index)
        if change is not None:
            yield change
            break


def _sets_that_matter(demand: UnitDemand, missing: Amounts) -> list[int]:
    """Return the pod sets that ask for what is missing, those with the most pods first."""
    sets = enumerate(demand.pod_sets)
    found = [
        (-each.count, index) for index, each in sets if any(each.per_pod.get(k) for k in missing)
    ]
    return [index for _, index in sorted(found)]


def _missing_after(question: Question, engine: Engine) -> Amounts:
    """Return what is missing yet in an engine in which the unit asks for less."""
    record = engine.record(question.key)
    if record is None:
        return {}
    return find_missing(find_blockers(engine, record, question.trials.wall))


# --- smaller requests -----------------------------------------------------------------------------


class _Total:
    """The total of a unit that states no pods."""

    def __init__(self, unit: QueueUnit, total: Amounts) -> None:
        self.requested = total
        self.pods = 1
        self.subject = "the unit"
        self._field = "request" if unit.spec.request else "resource"

    def edit(self, question: Question, requested: Amounts) -> Edit:
        """Return the unit with another total."""
        return _with_spec(question, **{self._field: format_amounts(requested)})

    def patch(self, changed: Amounts) -> dict[str, Any] | None:
        """Return the patch of a unit that a user has written."""
        return {"spec": {self._field: format_amounts(changed)}}


class _Request:
    """The request of one pod of a pod set; the field of the job depends on its kind."""

    def __init__(self, unit: QueueUnit, demand: UnitDemand, index: int) -> None:
        pod_set = demand.pod_sets[index]
        least = pod_set if demand.least is None else demand.least.pod_sets[index]
        self.requested = pod_set.per_pod
        self.pods = least.count
        self.subject = f"each pod of {pod_set.name}"
        self._sets, self._index = unit.spec.pod_set, index

    def edit(self, question: Question, requested: Amounts) -> Edit:
        """Return the unit with another request."""
        changed = self._sets[self._index]
        requests = ResourceRequirements(requests=format_amounts(requested))
        spec = PodSpec(containers=(Container(resources=requests),))
        changed = replace(changed, template=replace(changed.template, spec=spec))
        return _with_spec(question, pod_set=_with_set(self._sets, self._index, changed))

    def patch(self, _changed: Amounts) -> dict[str, Any] | None:
        """Return None: most kinds do not let a pod template be changed."""
        return None


def _with_spec(question: Question, **changed: ResourceQuantities | tuple[PodSet, ...]) -> Edit:
    return edit_spec(question.record, replace(question.record.unit.spec, **changed))


def _with_set(sets: tuple[PodSet, ...], index: int, changed: PodSet) -> tuple[PodSet, ...]:
    return (*sets[:index], changed, *sets[index + 1 :])


def _ask_for_less(question: Question, missing: Amounts, demand: _Total | _Request) -> Change | None:
    requested = dict(demand.requested)
    for _ in range(MAX_STEPS):
        less = {key: -(-amount // max(1, demand.pods)) for key, amount in missing.items()}
        # A limit may be exceeded without the unit, which then starts if it requests none at all.
        fewer = {**requested, **{key: max(0, requested.get(key, 0) - less[key]) for key in less}}
        if fewer == requested:
            return None
        requested = fewer
        outcome = question.trials.attempt(demand.edit(question, requested))
        if outcome.starts:
            break
        missing = _missing_after(question, outcome.engine)
        if not missing:
            return None  # it fits, and waits for something else
    else:
        return None
    changed = {key: amount for key, amount in requested.items() if amount != demand.requested[key]}
    more = [demand.edit(question, {**requested, key: requested[key] + 1}) for key in changed]
    patches = patch_owner(question.record, of_unit=demand.patch(changed))
    return Change(
        kind=ChangeKind.REQUEST,
        description=_describe_request(demand.subject, changed, can_patch=bool(patches)),
        sufficient=True,
        minimal=not any(question.trials.attempt(edit).starts for edit in more),
        practical=all(changed.values()),
        also_starts=outcome.also,
        patches=patches,
        edits=(demand.edit(question, requested),),
    )


def _describe_request(subject: str, requested: Amounts, *, can_patch: bool) -> str:
    """Return the most that a unit may request, of the resources of which it must request less."""
    texts = [
        f"at most {amount_for_people(key, amount, Rounding.DOWN)} of {key}"
        if amount
        else f"no {key}"
        for key, amount in sorted(requested.items())
    ]
    if not all(requested.values()):
        # Few jobs can do without a resource: it is a fact about the quota rather than advice.
        return (
            f"Nothing is left for it now: it would start only if {subject} requested "
            f"{', '.join(texts)}."
        )
    how = "Patch it" if can_patch else "Make the job again"
    return f"{how} so that {subject} requests {', '.join(texts)}."


# --- fewer pods -----------------------------------------------------------------------------------


def _have_fewer(
    question: Question, demand: UnitDemand, missing: Amounts, index: int
) -> Change | None:
    sets = question.record.unit.spec.pod_set
    pod_set = demand.pod_sets[index]
    least = pod_set if demand.least is None else demand.least.pod_sets[index]
    count = least.count

    def with_count(pods: int) -> Edit:
        changed = replace(sets[index], count=pods, min_count=None)
        return _with_spec(question, pod_set=_with_set(sets, index, changed))

    for _ in range(MAX_STEPS):
        fewer = _pods_for(missing, pod_set)
        if fewer is None or fewer >= count:
            return None
        count -= fewer
        outcome = question.trials.attempt(with_count(count))
        if outcome.starts:
            break
        missing = _missing_after(question, outcome.engine)
    else:
        return None
    ref = question.record.unit.spec.consumer_ref
    is_job = ref is not None and ref.kind == "Job" and len(sets) == 1
    of_job = {"spec": {"parallelism": count}} if is_job else None
    patches = patch_owner(question.record, of_job=of_job)
    how = "Set the parallelism of the job to" if patches else "Make the job again with"
    return Change(
        kind=ChangeKind.COUNT,
        description=f"{how} {count} pods of {pod_set.name}; it has {pod_set.count}.",
        sufficient=True,
        minimal=not question.trials.attempt(with_count(count + 1)).starts,
        also_starts=outcome.also,
        patches=patches,
        edits=(with_count(count),),
    )


def _pods_for(missing: Amounts, pod_set: PodSetDemand) -> int | None:
    """Return how many pods ask for what is missing; None if they do not ask for all of it."""
    if not missing or not all(pod_set.per_pod.get(key) for key in missing):
        return None
    return max(-(-amount // pod_set.per_pod[key]) for key, amount in missing.items())
