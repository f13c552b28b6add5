r"""Which admission checks a unit needs, and what follows from their states. Pure.

A queue lists checks, each with a selector of unit labels. A unit that needs some is Reserved by its
admission: it is charged, and its job stays suspended. Each check has one entry in the unit's
status, in which its controller answers::

    Reserved --> every needed check Ready ----> admitted (`phase_after`)
            \--> one is Retry or Rejected ----> requeued after a backoff
             \-> not all Ready in time -------> requeued, naming the checks without an answer
              \> its queue is stopped --------> pending again

The condition Admitted of a unit that waits names the checks that cannot be performed now.

The needed checks follow from the current queue and unit: a check that was removed from the queue no
longer counts, and one that was added gets an entry. After the admission a check may still refuse:
that requests the unit's eviction, which the controllers carry out, or the scheduler for units
without controllers.
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
"""Longest part of a check's message that a unit's message quotes, which may name eight checks; the
entry has the whole message."""

NOT_ACTIVE: Final = "its condition Active is False"
"""Reason of a check that is not active and gives none."""


class Shortfall(StrEnum):
    """Why the checks of a unit took its quota back; the values of a metric's label."""

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
    """Return whether a selector matches labels; None matches all.

    An unknown operator matches: a check that may apply to a unit must not be skipped.
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
    """Return the phase of a charged unit with these open checks.

    It is used for admissions and after the last check. `when_admitted` is the phase without open
    checks (`Engine.phase_when_admitted`).
    """
    return Phase.RESERVED if open_checks else when_admitted


# --- entries of the status ----------------------------------------------------------------------


def fresh_entries(names: Iterable[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of checks without an answer, as JSON."""
    return [
        {"name": name, "state": PENDING, "lastTransitionTime": now, "message": ""} for name in names
    ]


def entries_of(unit: QueueUnit, names: Sequence[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of these checks as JSON: the existing ones, or new ones in Pending.

    A merge patch replaces the whole list, so everything that a check has written is repeated.
    """
    known = {state.name: state for state in unit.status.admission_checks}
    entries = []
    for name in names:
        state = known.get(name)
        entries.extend(fresh_entries([name], now) if state is None else [_body(state, now)])
    return entries


def _body(state: AdmissionCheckState, now: Timestamp) -> dict[str, Any]:
    """Return an entry as JSON; the schema requires some fields even if they are empty."""
    body: dict[str, Any] = msgspec.to_builtins(state)
    required = {
        "name": state.name,
        "state": state.state,
        "lastTransitionTime": state.last_transition_time or now,
        "message": state.message,
    }
    return {**body, **required}


# --- what follows from the states ---------------------------------------------------------------


class GoOn(msgspec.Struct, frozen=True):
    """Every needed check is Ready: the unit moves to `to`, with only the entries of `checks`."""

    to: Phase
    checks: tuple[str, ...]


class AddEntries(msgspec.Struct, frozen=True):
    """The queue requires more checks now: the status gets the entries of `checks`."""

    checks: tuple[str, ...]


class PutBack(msgspec.Struct, frozen=True):
    """The unit gives its quota back and is requeued.

    Attributes:
        checks: Names of the checks that cause it.
        why: What they did.
        message: The same as text for users.
    """

    checks: tuple[str, ...]
    why: Shortfall
    message: str


class AskBack(msgspec.Struct, frozen=True):
    """A check refuses a unit that is admitted already: its eviction is requested."""

    checks: tuple[str, ...]
    why: Shortfall
    message: str


class Withdraw(msgspec.Struct, frozen=True):
    """Its queue is stopped: the unit gives its quota back and is pending again."""


class WaitForChecks(msgspec.Struct, frozen=True):
    """The unit waits until a check answers, or the time for that is over.

    Attributes:
        inactive: The checks, of those without an answer, that cannot be performed now.
    """

    inactive: tuple[str, ...] = ()


CheckVerdict = GoOn | AddEntries | PutBack | AskBack | Withdraw | WaitForChecks | None
"""What to do with a unit; None: nothing because of its checks."""


def judge_checks(
    unit: QueueUnit,
    queue: Queue | None,
    inactive: Mapping[str, str],
    *,
    is_late: bool,
    timeout_seconds: float,
    when_admitted: Phase | None = Phase.DEQUEUED,
) -> CheckVerdict:
    """Return what follows from the states of a charged unit's checks.

    Args:
        unit: The unit.
        queue: Its queue; None if it does not exist: its checks are unknown, so the unit does not
            start.
        inactive: Checks that cannot be performed now -> the reason.
        is_late: Whether the time for the checks to answer is over (`engine.deadlines`).
        timeout_seconds: That time, for the message.
        when_admitted: The phase to move to when all are Ready; None: the queue is stopped, so no
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
    """Return whether the unit is evicted or gives its quota back: it must not be released."""
    return (
        is_being_evicted(unit)
        or is_given_back(unit)
        or unit.spec.active is False
        or unit.metadata.deletion_timestamp is not None
    )


def _tell_refusals(refused: Sequence[AdmissionCheckState]) -> tuple[Shortfall, str]:
    """Return what the refusing checks did, and the text for it."""
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
    """Return the part of another program's message that is quoted."""
    return message if len(message) <= SHOWN_CHARS else f"{message[:SHOWN_CHARS]}..."


# --- the checks themselves ----------------------------------------------------------------------


class KnownChecks:
    """The AdmissionCheck objects, as far as they put units on hold.

    A check without an object holds no unit: its entry waits for an answer.

    Attributes:
        are_served: Whether the cluster has the kind; None: not known yet.
        inactive: Checks that are not active -> the reason.
    """

    def __init__(self) -> None:
        self.are_served: bool | None = None
        self.inactive: dict[str, str] = {}
        self._names: set[str] = set()

    def put(self, check: AdmissionCheck) -> bool:
        """Add or replace a check; return whether that changes which units are on hold."""
        name = check.metadata.name
        self._names.add(name)
        active = find_condition(check.status.conditions, ACTIVE)
        if active is None or active.status != "False":
            return self.inactive.pop(name, None) is not None
        why = shown(active.message) or NOT_ACTIVE
        before, self.inactive[name] = self.inactive.get(name), why
        return before != why

    def drop(self, name: str) -> bool:
        """Remove a check; return whether it put units on hold."""
        self._names.discard(name)
        return self.inactive.pop(name, None) is not None

    def names(self) -> tuple[str, ...]:
        """Return the names of the existing checks."""
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
