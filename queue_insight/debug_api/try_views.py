"""The answers of `POST /debug/try`: what becomes of a manifest that is submitted now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from queue_insight.debug_api.explain_views import (
    MAX_LISTED,
    ExplainView,
    view_explanation,
    with_changes,
)
from queue_insight.debug_api.forecast_routes import NewUnitView
from queue_scheduler.debug_api.hiding import OfUnit, Owner, Sentence, with_sentences
from queue_scheduler.debug_api.views import quantities
from shared_api.debug_api.views import View
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import Phase, phase_of
from shared_api.resource_list import Amounts, scale

if TYPE_CHECKING:
    from queue_insight.try_out.submission import Tried


class TriedPodSet(View):
    """Pods of one shape that the job needs; `requests` of one pod, `total` of all of them.

    `min_count` is the fewest pods with which the job can start; null: all.
    """

    name: str
    count: int
    min_count: int | None = None
    requests: dict[str, str]
    total: dict[str, str]


class TriedProblem(View):
    """A warning: the reason and the words of an event on the job."""

    reason: str
    message: str


class TriedError(View):
    """Why the object could not be created, or read; `field` is a path, or empty."""

    field: str
    message: str


def summarize(view: TriedJob) -> str:
    """Return in one or two sentences what becomes of a job."""
    wrong = "; ".join(f"{each.field}: {each.message}" for each in view.errors if each.field)
    act = "updated" if view.reason == "NoJob" else "created"
    first = f"It could not be {act}: {wrong}. " if wrong else ""
    if not view.unit:
        return f"{first or view.message + '. '}".strip()
    if view.exists:
        first = "It exists already. "
        if view.phase in {Phase.SUCCEED, Phase.FAILED}:
            return f"{first}It has ended."
        if view.starts_now is None and view.explanation is None:
            return f"{first}It has been admitted{f' in queue {view.queue}' if view.queue else ''}."
    if view.starts_now:
        ahead = len(view.also_starts) + view.other_starts
        victims = len(view.evicts) + view.other_units
        after = [
            *([f"after {_count(ahead, 'unit')} that {_verb(ahead)} before it"] if ahead else ()),
            *([f"when {_count(victims, 'unit')} {_are(victims)} evicted"] if victims else ()),
        ]
        rest = f", {' and '.join(after)}" if after else ""
        place = f"in queue {view.queue}" if view.queue else "without a queue"
        return f"{first}It would start now {place}{rest}."
    why = "" if view.explanation is None else view.explanation.summary
    if view.starts_now is None:
        return f"{first}Whether it starts now is not known: too many units start before it. {why}"
    return f"{first}It would not start now. {why}"


class TriedJob(View):
    """One job of the manifest, or an object that is none.

    `documents` are the places of its objects in the manifest, from 1. `enabled` is always
    `unknown`: which extensions are on is a setting of the controllers. `managed`, `reason` and
    `message` say whether the queue would manage it, and why or why not; `known_kinds` are listed
    for a kind that is not known. `unit` is the name of its QueueUnit, empty without one; it has
    `request` in all. `exists` says that the job is queued already, in this `phase`: the manifest
    updates it. `position` is its place in its queue when it arrives, from 1; 0: it is in none.
    `starts_now` is null if there is no unit, if it has started or ended before, or if more units
    start before it than are tried. `also_starts` start before it, `evicts` are evicted for it;
    `other_starts` and `other_units` count more: those that the caller may not read, and those after
    the first hundred. `explanation` says why it does not start, `forecast` when it would, where the
    insight program runs.
    """

    documents: list[int]
    api_version: str
    kind: str
    namespace: Annotated[str, Owner(is_asked=True)]
    name: str
    extension: str
    enabled: str = "unknown"
    managed: bool
    reason: str
    message: str
    known_kinds: list[str]
    errors: list[TriedError]
    warnings: list[TriedProblem]
    unit: str
    exists: bool = False
    phase: str = ""
    queue: str
    quota: str
    priority: int
    priority_class: str
    maximum_execution_time_seconds: int | None = None
    pod_sets: list[TriedPodSet]
    request: dict[str, str]
    position: int
    starts_now: bool | None = None
    also_starts: Annotated[list[str], OfUnit(counted="other_starts")]
    other_starts: int
    evicts: Annotated[list[str], OfUnit(counted="other_units")]
    other_units: int
    summary: Annotated[str, Sentence(summarize)]
    explanation: ExplainView | None = None
    forecast: NewUnitView | None = None


class TryView(View):
    """What becomes of a manifest, were it submitted now; nothing is created.

    `defaulted`: the caller says that the API server has filled in defaults, and webhooks were
    asked, by a dry run. `not_looked_up` is what the answer may depend on, and nobody was asked
    about. `no_forecast` says why a job that does not start has no forecast.
    """

    leader: bool
    defaulted: bool
    not_looked_up: list[str]
    jobs: list[TriedJob]
    no_forecast: str = ""


def view_tried(tried: Tried, *, leader: bool) -> TriedJob:
    """Return what becomes of one job."""
    verdict, unit = tried.verdict, tried.unit
    document, kind = verdict.document, verdict.kind
    explanation = None
    if tried.explanation is not None:
        explanation = view_explanation(tried.explanation, leader=leader)
        if tried.changes is not None:
            explanation = with_changes(explanation, tried.changes)
    view = TriedJob(
        documents=[each.number for each in verdict.documents],
        api_version=document.api_version,
        kind=document.kind,
        namespace=document.namespace,
        name=document.name,
        extension="" if kind is None else kind.key,
        managed=verdict.managed,
        reason=verdict.reason,
        message=verdict.message,
        known_kinds=list(verdict.known_kinds),
        errors=[TriedError(field=each.field, message=each.message) for each in verdict.errors],
        warnings=[
            TriedProblem(reason=each.reason, message=each.message) for each in verdict.problems
        ],
        exists=tried.exists,
        phase=phase_of(unit) if tried.exists and unit is not None else "",
        position=tried.position,
        starts_now=tried.starts,
        also_starts=list(tried.also[:MAX_LISTED]),
        other_starts=len(tried.also[MAX_LISTED:]),
        evicts=list(tried.victims[:MAX_LISTED]),
        other_units=len(tried.victims[MAX_LISTED:]),
        summary="",
        explanation=explanation,
        **_describe_unit(unit or QueueUnit(), tried),
    )
    return with_sentences(view)


def _describe_unit(unit: QueueUnit, tried: Tried) -> dict[str, Any]:
    spec = unit.spec
    return {
        "unit": unit.metadata.name,
        "queue": tried.queue,
        "quota": tried.quota,
        "priority": spec.priority,
        "priority_class": spec.priority_class_name,
        "maximum_execution_time_seconds": spec.maximum_execution_time_seconds,
        "pod_sets": [_view_pod_set(each) for each in spec.pod_set],
        "request": quantities(_sum_of(spec.pod_set)),
    }


def _view_pod_set(pod_set: PodSet) -> TriedPodSet:
    one = _requests_of(pod_set)
    return TriedPodSet(
        name=pod_set.name,
        count=pod_set.count,
        min_count=pod_set.min_count,
        requests=quantities(one),
        total=quantities(scale(one, pod_set.count)),
    )


def _requests_of(pod_set: PodSet) -> Amounts:
    """Return what one pod asks for; {} if that cannot be read, which the explanation says."""
    try:
        return pod_requests(pod_set.template.spec)
    except QuantityError:
        return {}


def _sum_of(pod_sets: Iterable[PodSet]) -> Amounts:
    total: Amounts = {}
    for each in pod_sets:
        for resource, amount in scale(_requests_of(each), each.count).items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _verb(number: int) -> str:
    return "starts" if number == 1 else "start"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
