"""The life of a unit from its object, and what it requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast
from koord_queue.show.explanation import STYLES, split_numbers
from koord_queue.show.forecasts import Wall, start_text
from koord_queue.show.paragraphs import Line
from koord_queue.show.times import ago
from shared_api.lifecycle import ADMITTED, lifecycle_state
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import PodSet, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import read_quota_name

RESERVED: Final = "QuotaReserved"
LIFE_COLUMNS: Final = ("TIME", "AGE", "WHAT")
DEMAND_COLUMNS: Final = ("PODSET", "PODS", "GRANTED", "RUNNING", "EACH-POD")
CHECK_COLUMNS: Final = ("CHECK", "STATE", "MESSAGE")
EVENT_COLUMNS: Final = ("LAST", "TYPE", "REASON", "OBJECT", "MESSAGE")

_WORDS: Final[Mapping[tuple[str, str], str]] = {
    (RESERVED, "True"): "it is reserved (its quota is charged)",
    (RESERVED, "False"): "it waits",
    ("Admitted", "True"): "it is starting (its job may run)",
    ("Admitted", "False"): "its job may not run",
    ("PodsReady", "True"): "it is running (its pods run)",
    ("PodsReady", "False"): "its pods do not run",
    ("Evicted", "True"): "it is evicted",
    ("Evicted", "False"): "its eviction is over",
    ("Adopted", "True"): "it ran before it was queued",
    ("PodsBeyondGrant", "True"): "some of its pods keep their gates",
    ("PodsBeyondGrant", "False"): "none of its pods goes beyond its grant",
    ("Finished", "True"): "it has finished",
}
"""What a condition says, by its status."""


class UnitAnswers(NamedTuple):
    """The server's answers about a unit; None where there is none, or where it does not apply."""

    explanation: Explanation | None = None
    forecast: Forecast | None = None


class Event(NamedTuple):
    """An event on a unit or its job; `last` is RFC 3339."""

    last: str
    kind: str
    reason: str
    about: str
    message: str


def reason_lines(unit: QueueUnit, wall: Wall) -> Iterator[Line]:
    """Yield where a unit stands, and why, by its object alone."""
    conditions = unit.status.conditions
    ended = find_condition(conditions, "Finished")
    if ended is not None and ended.status == "True":
        at = wall.clock(ended.last_transition_time)
        when = f", at {at}" if at else ""
        yield Line(f"It has finished{when}: {ended.message or ended.reason}.", STYLES["finished"])
        return
    if is_condition_true(conditions, "Admitted") or is_condition_true(conditions, RESERVED):
        condition = find_condition(conditions, "Admitted") or find_condition(conditions, RESERVED)
        ready = find_condition(conditions, "PodsReady")
        pods = "" if ready is None or _is_as_usual(ready) else f"; {_words(ready)}"
        quota = read_quota_name(unit.metadata.labels)
        where = f"queue {unit.spec.queue or '-'}, quota {quota or '-'}"
        state = lifecycle_state(unit.status.phase)
        # A unit that is being evicted is charged, whatever its phase says by then.
        words = state.value if state in ADMITTED else "admitted"
        since = _since(condition, wall, ", ")
        yield Line(f"It is {words}: {where}{since}{pods}.", STYLES["admitted"])
        return
    reserved = find_condition(conditions, RESERVED)
    queue = f" in queue {unit.spec.queue}" if unit.spec.queue else ""
    if reserved is None:
        message = unit.status.message or "no reason is written yet"
        yield Line(f"It waits{queue}: {message}.", STYLES["waiting"])
        return
    reason = f"{reserved.reason}{_since(reserved, wall, ', ')}"
    yield Line(f"It waits{queue}: {reserved.message} ({reason}).", STYLES["waiting"])


def _since(condition: Condition | None, wall: Wall, before: str = " ") -> str:
    at = "" if condition is None else wall.clock(condition.last_transition_time)
    return f"{before}since {at}" if at else ""


_AS_USUAL: Final = {
    (RESERVED, "True", "QuotaReserved"),
    ("Admitted", "True", "Admitted"),
    ("PodsReady", "True", "PodsRunning"),
}
"""Conditions whose message adds nothing to the words."""


def _is_as_usual(condition: Condition) -> bool:
    return (condition.type, condition.status, condition.reason) in _AS_USUAL


def _words(condition: Condition) -> str:
    known = _WORDS.get((condition.type, condition.status))
    if known is not None and _is_as_usual(condition):
        return known
    text = known or f"{condition.type} is {condition.status}"
    about = condition.message or (condition.reason if known is None else "")
    return f"{text}: {about}" if about else text


# --- describe -----------------------------------------------------------------------------------


def fact_lines(unit: QueueUnit, answers: UnitAnswers, wall: Wall) -> Iterator[Line]:
    """Yield what a unit is and where it stands, as `kubectl describe` does."""
    facts = {**_identity(unit), **_standing(unit, answers, wall)}
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        yield Line(f"{name + ':':<{width}} {value or '-'}", hang=width + 1)


def _identity(unit: QueueUnit) -> dict[str, str]:
    job = unit.spec.consumer_ref
    spec = unit.spec
    named = f"{job.kind}/{job.name} ({job.api_version})" if job else ""
    priority = f"{spec.priority} ({spec.priority_class_name})"
    return {
        "Name": unit.metadata.name,
        "Namespace": unit.metadata.namespace,
        "Job": named,
        "Queue": spec.queue,
        "Quota": read_quota_name(unit.metadata.labels),
        "Priority": priority if spec.priority_class_name else str(spec.priority),
    }


def _standing(unit: QueueUnit, answers: UnitAnswers, wall: Wall) -> dict[str, str]:
    explanation, forecast = answers
    facts = {"State": _state(unit, explanation), "Phase": unit.status.phase}
    if explanation is not None:
        if explanation.position:
            facts["Position"] = str(explanation.position)
        facts["Why"] = explanation.summary
    else:
        facts["Why"] = " ".join(line.text for line in reason_lines(unit, wall))
    if forecast is not None:
        facts["Forecast"] = start_text(forecast, wall)
    requeued = unit.status.requeue_state
    if requeued is not None and requeued.count:
        facts["Requeued"] = f"{requeued.count} times"
    return facts


def _state(unit: QueueUnit, explanation: Explanation | None) -> str:
    """Return the state of a unit in the words of the glossary; older servers do not say it."""
    if explanation is not None and explanation.state:
        return explanation.state
    is_in_queue = explanation is None or explanation.verdict != "held"
    state = lifecycle_state(unit.status.phase, is_in_queue=is_in_queue)
    return "" if state is None else state.value


def further_reason_lines(answers: UnitAnswers) -> Iterator[Line]:
    """Yield the reasons after the first one, which the summary has."""
    blockers = () if answers.explanation is None else answers.explanation.blockers[1:]
    for each in blockers:
        words, numbers = split_numbers(each)
        rest = f" ({numbers})" if numbers else ""
        yield Line(f"{each.reason}: {words}{rest}", indent=2, hang=2)


def life_rows(unit: QueueUnit, wall: Wall) -> list[tuple[str, str, str]]:
    """Return the rows of `LIFE_COLUMNS`: what has happened to a unit, the oldest first."""
    born = unit.metadata.creation_timestamp or ""
    moments = [(born, "it is created, and queued")]
    moments += [(each.last_transition_time or "", _words(each)) for each in unit.status.conditions]
    return [
        (wall.clock(at).replace(" ", "-") or "-", ago(at, wall.now), words)
        for at, words in sorted(moments, key=lambda each: each[0])
    ]


def demand_rows(unit: QueueUnit) -> list[tuple[str, ...]]:
    """Return the rows of `DEMAND_COLUMNS`."""
    granted = {each.name: each for each in unit.status.admissions}
    rows: list[tuple[str, ...]] = []
    for pods in unit.spec.pod_set:
        admission = granted.get(pods.name)
        count = str(pods.count) if pods.min_count is None else f"{pods.min_count}..{pods.count}"
        has = ("", "") if admission is None else (str(admission.replicas), str(admission.running))
        rows.append((pods.name, count, *has, _requests(pods)))
    if not rows:
        total = unit.spec.request or unit.spec.resource
        rows.append(("all", "", "", "", _joined(total)))
    return rows


def _requests(pods: PodSet) -> str:
    try:
        return _joined(format_amounts(pod_requests(pods.template.spec)))
    except QuantityError as error:
        return f"cannot be read: {error}"


def _joined(quantities: Mapping[str, Any]) -> str:
    return ",".join(f"{resource}={each}" for resource, each in quantities.items())


def check_rows(unit: QueueUnit) -> list[tuple[str, str, str]]:
    """Return the rows of `CHECK_COLUMNS`: the verdicts of admission checks."""
    return [(each.name, each.state, each.message) for each in unit.status.admission_checks]


def event_rows(events: Sequence[Event], wall: Wall) -> list[tuple[str, ...]]:
    """Return the rows of `EVENT_COLUMNS`, the oldest first."""
    ordered = sorted(events, key=lambda each: each.last)
    return [
        (ago(each.last, wall.now), each.kind, each.reason, each.about, each.message)
        for each in ordered
    ]
