r"""Which admission checks a unit needs, and what their states add up to. Pure.

A queue lists checks, each with a selector of unit labels. The decision for a unit that needs any is
the phase Reserved: the unit is charged, and its job stays suspended. Each check has an entry in the
unit's status, in which its controller answers::

    Reserved --> every needed check Ready ----> admitted (`phase_after`)
            \--> one is Retry or Rejected ----> gives its quota back, requeued after a backoff
             \-> not all Ready in time -------> the same; the message names the missing ones
              \> its queue is stopped --------> pending again

The condition Admitted of a unit that waits names the inactive checks.

Which checks are needed follows from the present queue and unit: a check that the queue no longer
lists does not count, and a new one gets its entry. After the admission a check may still refuse:
then the unit's eviction is requested, and carried out by the controllers of its job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from shared_api.evictions import REFUSED_STATES, is_losing_quota
from shared_api.objects.admission_check import ACTIVE, AdmissionCheck
from shared_api.objects.meta import Timestamp, find_condition
from shared_api.objects.queue import LabelSelector, Queue
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.queue_unit_phases import Phase, is_being_evicted

PENDING: Final = "Pending"
READY: Final = "Ready"

SHOWN_CHARS: Final = 300
"""A check's message is cut to this in ours, which may name eight checks; its entry has it all."""

NOT_ACTIVE: Final = "its condition Active is False"
"""The reason of an inactive check that gives none."""


class Shortfall(StrEnum):
    """Why a unit gave its quota back because of checks; the values are a metric's label."""

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

    An unknown operator matches: if a check may be needed, it is.
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
    """Return the phase of a charged unit that waits for these checks.

    The only rule for what follows a decision, and what follows the last check. `when_admitted`: the
    phase without open checks (`QueueState.phase_when_admitted`).
    """
    return Phase.RESERVED if open_checks else when_admitted


# --- entries of the status ----------------------------------------------------------------------


def fresh_entries(names: Iterable[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of checks without an answer, as JSON."""
    return [
        {"name": name, "state": PENDING, "lastTransitionTime": now, "message": ""} for name in names
    ]


def entries_of(unit: QueueUnit, names: Sequence[str], now: Timestamp) -> list[dict[str, Any]]:
    """Return the entries of these checks as JSON: the present ones, or else Pending.

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
    """The queue asks for further checks: the status gets the entries of `checks`."""

    checks: tuple[str, ...]


class PutBack(msgspec.Struct, frozen=True):
    """The unit gives its quota back, and is requeued after a backoff.

    Attributes:
        checks: The checks that caused it.
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
    """Its queue is stopped: the unit gives its quota back, and is pending again."""


class WaitForChecks(msgspec.Struct, frozen=True):
    """Nothing to do until a check answers, or the time for that is over.

    Attributes:
        inactive: The inactive checks among those without an answer.
    """

    inactive: tuple[str, ...] = ()


CheckVerdict = GoOn | AddEntries | PutBack | AskBack | Withdraw | WaitForChecks | None
"""What the checks of a unit require; None if they require nothing."""


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
        unit: Its object.
        queue: Its queue; None if it does not exist, so the needed checks are unknown, and the unit
            is not admitted.
        inactive: The inactive checks, each with the reason.
        is_late: Whether the time for the checks to answer is over (`engine.deadlines`).
        timeout_seconds: How long that time is; for the message.
        when_admitted: The phase if all are Ready; None if the queue is stopped, so no unit starts.
    """
    states = {state.name: state for state in unit.status.admission_checks}
    needed = tuple(states) if queue is None else needed_checks(queue, unit)
    refused = [
        states[name] for name in needed if name in states and states[name].state in REFUSED_STATES
    ]
    if unit.status.phase != Phase.RESERVED:
        if not refused or is_being_evicted(unit):
            return None
        return AskBack(tuple(state.name for state in refused), *_describe_refusals(refused))
    if refused:
        return PutBack(tuple(state.name for state in refused), *_describe_refusals(refused))
    if is_losing_quota(unit):
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
        message = _describe_silence(culprits, states, inactive, timeout_seconds)
        return PutBack(culprits, Shortfall.TIMEOUT, message)
    return WaitForChecks(tuple(name for name in open_checks if name in inactive))


def _describe_refusals(refused: Sequence[AdmissionCheckState]) -> tuple[Shortfall, str]:
    """Return what refusing checks did, and the message."""
    is_rejected = any(state.state == "Rejected" for state in refused)
    texts = (f"{state.name} says {state.state}{_because(state.message)}" for state in refused)
    why = Shortfall.REJECTED if is_rejected else Shortfall.RETRY
    return why, f"admission check failed: {'; '.join(texts)}"


def _describe_silence(
    names: Sequence[str],
    states: Mapping[str, AdmissionCheckState],
    inactive: Mapping[str, str],
    timeout_seconds: float,
) -> str:
    texts = []
    for name in names:
        why = f"is not active: {inactive[name]}" if name in inactive else states[name].message
        texts.append(f"{name}{_because(why)}")
    waited = f"within {timeout_seconds:.0f} s of the reservation"
    return f"admission checks not Ready {waited}: {'; '.join(texts) or 'its queue is missing'}"


def _because(message: str) -> str:
    return f" ({shown(message)})" if message else ""


def shown(message: str) -> str:
    """Return a message, cut to `SHOWN_CHARS`."""
    return message if len(message) <= SHOWN_CHARS else f"{message[:SHOWN_CHARS]}..."


# --- the checks themselves ----------------------------------------------------------------------


class KnownChecks:
    """Which AdmissionChecks exist, and which are inactive: units that need these are on hold.

    A check without an object puts no unit on hold: its entry waits for an answer.

    Attributes:
        are_served: Whether the cluster has the kind; None: not known yet.
        inactive: The checks whose condition Active is False, each with the reason.
    """

    def __init__(self) -> None:
        self.are_served: bool | None = None
        self.inactive: dict[str, str] = {}
        self._names: set[str] = set()

    def put(self, check: AdmissionCheck) -> bool:
        """Take a check; return whether its effect on units has changed."""
        name = check.metadata.name
        self._names.add(name)
        active = find_condition(check.status.conditions, ACTIVE)
        if active is None or active.status != "False":
            return self.inactive.pop(name, None) is not None
        why = shown(active.message) or NOT_ACTIVE
        before, self.inactive[name] = self.inactive.get(name), why
        return before != why

    def drop(self, name: str) -> bool:
        """Forget a check; return whether it was inactive."""
        self._names.discard(name)
        return self.inactive.pop(name, None) is not None

    def names(self) -> tuple[str, ...]:
        """Return the names of the checks that exist."""
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
