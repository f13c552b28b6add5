r"""Which admission checks a unit needs, and what their states add up to. Pure.

A queue lists checks, each with a selector of unit labels. A unit that needs some is Reserved by its
decision: booked, and its job stays suspended. Each check has one entry in the unit's status, which
its controller answers in::

    Reserved --> every needed check Ready ----> admitted (`phase_after`)
            \--> one says Retry or Rejected --> put back, and comes again after a while
             \-> not all Ready in time -------> put back, and the silent ones are named
              \> its queue is stopped --------> in line again

One that waits names, in its condition Admitted, the checks that cannot be carried out now.

What is needed is judged by the queue and the unit as they are now: a check that was taken off the
queue counts no more, one that was put on gets its entry. After the admission a check may still
refuse: that asks the unit's place back, which whoever has the job's side carries out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from shared_api.evictions import REFUSALS, is_given_back
from shared_api.objects.admission_check import ACTIVE, AdmissionCheck
from shared_api.objects.meta import Timestamp, find_condition
from shared_api.objects.queue import LabelSelector, Queue
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.queue_unit_phases import Phase, is_being_evicted

PENDING: Final = "Pending"
READY: Final = "Ready"

SHOWN_CHARS: Final = 300
"""Of a check's message in ours, which may name eight checks; the entry has it whole."""

NOT_ACTIVE: Final = "its condition Active is False"
"""Of a check that does not say why."""


class Shortfall(StrEnum):
    """Why the checks of a unit gave its quota back; the words are a metric's label."""

    RETRY = "retry"
    REJECTED = "rejected"
    TIMEOUT = "timeout"


# --- what is needed -----------------------------------------------------------------------------


def needed_checks(queue: Queue, unit: QueueUnit) -> tuple[str, ...]:
    """Return the names of the checks that a unit of this queue needs, each once, in order."""
    if not queue.spec.admission_checks:
        return ()
    labels = unit.metadata.labels
    names = (
        check.name for check in queue.spec.admission_checks if selects(check.label_selector, labels)
    )
    return tuple(dict.fromkeys(names))


def lists_check(queue: Queue, name: str) -> bool:
    """Return whether some unit of the queue may need the check."""
    return any(check.name == name for check in queue.spec.admission_checks)


def selects(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    """Return whether a selector matches labels; no selector matches all.

    An operator that is unknown matches: what might hold a unit holds it.
    """
    if selector is None:
        return True
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for expression in selector.match_expressions:
        value = labels.get(expression.key)
        match expression.operator:
            case "In" if value is None or value not in expression.values:
                return False
            case "NotIn" if value is not None and value in expression.values:
                return False
            case "Exists" if value is None:
                return False
            case "DoesNotExist" if value is not None:
                return False
            case _:
                continue
    return True


def phase_after(open_checks: Sequence[str], when_admitted: Phase = Phase.DEQUEUED) -> Phase:
    """Return the phase of a unit whose quota is booked and that waits for these checks.

    The one place that says what follows a decision, and what follows the last check.
    `when_admitted`: what its queue does then (`Engine.phase_when_admitted`).
    """
    return Phase.RESERVED if open_checks else when_admitted


# --- entries of the status ----------------------------------------------------------------------


def fresh_entries(names: Iterable[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of checks that nobody has answered yet, as JSON."""
    return [
        {"name": name, "state": PENDING, "lastTransitionTime": now, "message": ""} for name in names
    ]


def entries_of(unit: QueueUnit, names: Sequence[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of these checks as JSON: as they are, or Pending where there is none.

    A merge patch replaces lists whole, so whatever a check has written is carried over.
    """
    known = {state.name: state for state in unit.status.admission_checks}
    entries = []
    for name in names:
        state = known.get(name)
        entries.extend(fresh_entries([name], now) if state is None else [_body(state, now)])
    return entries


def _body(state: AdmissionCheckState, now: Timestamp) -> dict[str, Any]:
    """Return an entry as JSON; the schema requires some fields that may be empty."""
    body: dict[str, Any] = msgspec.to_builtins(state)
    required = {
        "name": state.name,
        "state": state.state,
        "lastTransitionTime": state.last_transition_time or now,
        "message": state.message,
    }
    return {**body, **required}


# --- what the states add up to ------------------------------------------------------------------


class GoOn(msgspec.Struct, frozen=True):
    """Every needed check is Ready: the unit moves to `to`, with the entries of `checks` alone."""

    to: Phase
    checks: tuple[str, ...]


class AddEntries(msgspec.Struct, frozen=True):
    """The queue has come to ask for more: the status gets the entries of `checks`."""

    checks: tuple[str, ...]


class PutBack(msgspec.Struct, frozen=True):
    """The unit gives its quota back and comes again.

    Attributes:
        checks: The culprits.
        why: What they did.
        message: The same for people.
    """

    checks: tuple[str, ...]
    why: Shortfall
    message: str


class AskBack(msgspec.Struct, frozen=True):
    """A check refuses a unit that is admitted already: its place is asked back."""

    checks: tuple[str, ...]
    why: Shortfall
    message: str


class Withdraw(msgspec.Struct, frozen=True):
    """Its queue is stopped: the unit gives its quota back, and is in line again."""


class WaitForChecks(msgspec.Struct, frozen=True):
    """Nothing to do until a check answers, or the time for that is over.

    Attributes:
        inactive: Checks that cannot be carried out now, of those that are waited for.
    """

    inactive: tuple[str, ...] = ()


CheckVerdict = GoOn | AddEntries | PutBack | AskBack | Withdraw | WaitForChecks | None
"""None: its checks ask for nothing."""


def judge_checks(
    unit: QueueUnit,
    queue: Queue | None,
    inactive: Mapping[str, str],
    *,
    is_late: bool,
    timeout_seconds: float,
    when_admitted: Phase | None = Phase.DEQUEUED,
) -> CheckVerdict:
    """Say what follows from the states of a booked unit's checks.

    Args:
        unit: Its object.
        queue: Its queue; None where that is missing: nobody knows what it asks for, so the unit
            does not go on.
        inactive: Checks that cannot be carried out now, each with the reason.
        is_late: Whether the time for the checks to answer is over (`engine.deadlines`).
        timeout_seconds: How long that time is; for the message.
        when_admitted: What its queue does when all are content; None: it is stopped, so that no
            unit starts.
    """
    states = {state.name: state for state in unit.status.admission_checks}
    needed = tuple(states) if queue is None else needed_checks(queue, unit)
    refused = [states[name] for name in needed if name in states and _refuses(states[name])]
    if unit.status.phase != Phase.RESERVED:
        if not refused or is_being_evicted(unit):
            return None
        return AskBack(tuple(state.name for state in refused), *_tell_refusals(refused))
    if refused:
        return PutBack(tuple(state.name for state in refused), *_tell_refusals(refused))
    if _leaves(unit):
        return None
    if when_admitted is None:
        return Withdraw()
    if any(name not in states for name in needed):
        return AddEntries(needed)
    open_checks = [name for name in needed if states[name].state != READY or name in inactive]
    if queue is not None and not open_checks:
        return GoOn(phase_after((), when_admitted), needed)
    if is_late:
        culprits = tuple(open_checks)
        message = _tell_silence(culprits, states, inactive, timeout_seconds)
        return PutBack(culprits, Shortfall.TIMEOUT, message)
    return WaitForChecks(tuple(name for name in open_checks if name in inactive))


def _refuses(state: AdmissionCheckState) -> bool:
    return state.state in REFUSALS


def _leaves(unit: QueueUnit) -> bool:
    """Return whether its place is being taken or given back: it must not be released any more."""
    return (
        is_being_evicted(unit)
        or is_given_back(unit)
        or unit.spec.active is False
        or unit.metadata.deletion_timestamp is not None
    )


def _tell_refusals(refused: Sequence[AdmissionCheckState]) -> tuple[Shortfall, str]:
    """Return what checks that refuse did, and the words for it."""
    is_rejected = any(state.state == "Rejected" for state in refused)
    told = (f"{state.name} says {state.state}{_because(state.message)}" for state in refused)
    why = Shortfall.REJECTED if is_rejected else Shortfall.RETRY
    return why, f"admission check failed: {'; '.join(told)}"


def _tell_silence(
    names: Sequence[str],
    states: Mapping[str, AdmissionCheckState],
    inactive: Mapping[str, str],
    timeout_seconds: float,
) -> str:
    told = []
    for name in names:
        why = f"is not active: {inactive[name]}" if name in inactive else states[name].message
        told.append(f"{name}{_because(why)}")
    waited = f"within {timeout_seconds:.0f} s of the reservation"
    return f"admission checks not Ready {waited}: {'; '.join(told) or 'its queue is missing'}"


def _because(message: str) -> str:
    return f" ({shown(message)})" if message else ""


def shown(message: str) -> str:
    """Return as much of somebody else's words as is repeated in ours."""
    return message if len(message) <= SHOWN_CHARS else f"{message[:SHOWN_CHARS]}..."


# --- the checks themselves ----------------------------------------------------------------------


class KnownChecks:
    """The AdmissionCheck objects, as far as they hold units.

    A check without an object holds nobody: its entry waits for whoever answers.

    Attributes:
        are_served: Whether the cluster has the kind; None: nobody has looked yet.
        inactive: Why each check that says so cannot be carried out.
    """

    def __init__(self) -> None:
        self.are_served: bool | None = None
        self.inactive: dict[str, str] = {}
        self._names: set[str] = set()

    def put(self, check: AdmissionCheck) -> bool:
        """Take a check; say whether it holds units otherwise than before."""
        name = check.metadata.name
        self._names.add(name)
        active = find_condition(check.status.conditions, ACTIVE)
        if active is None or active.status != "False":
            return self.inactive.pop(name, None) is not None
        why = shown(active.message) or NOT_ACTIVE
        before, self.inactive[name] = self.inactive.get(name), why
        return before != why

    def drop(self, name: str) -> bool:
        """Forget a check; say whether it held units."""
        self._names.discard(name)
        return self.inactive.pop(name, None) is not None

    def names(self) -> tuple[str, ...]:
        """Return the checks that there are."""
        return tuple(sorted(self._names))

    def missing(self, queue: Queue) -> tuple[str, ...]:
        """Return the checks of a queue that have no object."""
        listed = dict.fromkeys(check.name for check in queue.spec.admission_checks)
        return tuple(name for name in listed if name not in self._names)

    def copy(self) -> KnownChecks:
        """Return an independent copy."""
        twin = KnownChecks()
        twin.are_served = self.are_served
        twin.inactive = dict(self.inactive)
        twin._names = set(self._names)
        return twin
