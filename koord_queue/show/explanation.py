"""Why a unit waits, and what would start it, in sentences."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from koord_queue.answers.explanation import (
    Admitted,
    Borrowed,
    Change,
    Eviction,
    Explanation,
    Patch,
)
from koord_queue.answers.units import Refusal
from koord_queue.show.paragraphs import Line, below, heading, numbered
from koord_queue.show.words import counted, listed

STYLES: Final = {"waiting": "warn", "held": "bad", "admitted": "good", "finished": "dim"}

CAN_START: Final = frozenset({"waiting", "held"})
"""Verdicts of units that a change may start."""


WAIT: Final = "wait"
"""Kind of the change that is none."""


def tell_explanation(answer: Explanation, ahead: Sequence[str] = ()) -> Iterator[Line]:
    """Yield the sentence, each blocker with its numbers, what is ahead, and the changes.

    Args:
        answer: The explanation.
        ahead: Names of units ahead of it in its queue that may be named.
    """
    style = "bad" if answer.never_starts else STYLES.get(answer.verdict, "")
    yield Line(answer.summary, style)
    yield from tell_blockers(answer)
    yield from _tell_ahead(answer, ahead)
    if answer.admitted is not None:
        yield from _tell_admitted(answer.admitted)
    for plugin in answer.without_plugins:
        yield Line(f"Plugin {plugin} could not be asked.", "dim")
    if answer.changes is not None and answer.verdict in CAN_START:
        yield from tell_changes(answer.changes, is_complete=answer.changes_complete is not False)


def tell_blockers(answer: Explanation) -> Iterator[Line]:
    """Yield all that keeps a unit from starting, or from getting more pods."""
    if answer.checks:
        yield from heading("Admission checks that are not ready")
        yield from (Line(f"{name}: {state}", indent=2) for name, state in answer.checks.items())
    if not answer.blockers:
        return
    more = answer.verdict == "admitted"
    yield from heading("Why it gets no more pods" if more else "What keeps it from starting")
    for number, blocker in enumerate(answer.blockers, 1):
        words, numbers = split_numbers(blocker)
        yield numbered(number, f"{blocker.reason}: {words}")
        if numbers:
            yield below(numbers)


def split_numbers(refusal: Refusal) -> tuple[str, str]:
    """Return why a unit waits without numbers, and the numbers; "" if the words have them."""
    each = refusal
    numbers = f"limit {each.limit}, used {each.used}, requested {each.requested}"
    said = f": missing {each.missing} ({numbers})"
    if not each.resource or said not in each.message:
        return each.message, ""
    namespace = f" in namespace {each.quota_namespace}" if each.quota_namespace else ""
    where = f" of quota {each.quota}{namespace}" if each.quota else ""
    words = each.message.replace(said, "")
    return words, f"{each.resource}{where}: {numbers}, missing {each.missing}"


def _tell_ahead(answer: Explanation, names: Sequence[str]) -> Iterator[Line]:
    number = answer.position - 1
    if answer.verdict != "waiting" or number < 1:
        return
    verb = "is" if number == 1 else "are"
    named = f": {listed(names, number - len(names))}" if names else ""
    yield Line("")
    yield Line(f"{counted(number, 'unit')} {verb} ahead of it in queue {answer.queue}{named}.")


# --- changes ------------------------------------------------------------------------------------


def tell_changes(changes: Sequence[Change], *, is_complete: bool = True) -> Iterator[Line]:
    """Yield what would start a unit, with the commands that apply it."""
    enough = [each for each in changes if each.sufficient and each.practical]
    needed = [each for each in changes if not each.sufficient and each.kind != WAIT]
    if enough:
        yield from heading("Any one of these would start it now")
    else:
        yield Line("")
        yield Line("No single change would start it now.")
    for number, change in enumerate(enough, 1):
        yield from _tell_change(number, change)
    if needed:
        yield from heading("Needed, and not enough alone")
    for number, change in enumerate(needed, 1):
        yield from _tell_change(number, change)
    for change in changes:
        if (change.kind == WAIT and not change.sufficient) or not change.practical:
            yield Line("")
            yield Line(change.description)
    if not is_complete:
        yield Line("Time was too short to try every kind of change.", "dim")


def _tell_change(number: int, change: Change) -> Iterator[Line]:
    yield numbered(number, change.description)
    if change.units:
        yield below(f"units: {listed(change.units, change.other_units)}")
    if change.also_starts or change.other_starts:
        yield below(f"first start: {listed(change.also_starts, change.other_starts)}")
    for patch in change.patches:
        yield below(patch_command(patch), to_copy=True)


def patch_command(patch: Patch) -> str:
    """Return the command that applies a patch."""
    group, slash, _ = patch.api_version.partition("/")
    kind = f"{patch.kind.lower()}.{group}" if slash else patch.kind.lower()
    words = ["kubectl", "patch", kind, patch.name]
    words += ["--namespace", patch.namespace] if patch.namespace else []
    words += ["--type", "merge", "--patch", json.dumps(patch.patch)]
    return shlex.join(words)


# --- an admitted unit ---------------------------------------------------------------------------


def _tell_admitted(admitted: Admitted) -> Iterator[Line]:
    yield from heading("What it was admitted on")
    if admitted.limits is None:
        yield Line(admitted.limits_unknown, indent=2)
    for each in admitted.limits or ():
        limit = "all nodes" if each.kind == "nodes" else f"{each.kind} of quota {each.quota}"
        numbers = f"limit {each.limit}, used {each.used} before, requested {each.requested}"
        yield Line(f"{limit}, {each.resource}: {numbers}", indent=2, hang=2)
    if admitted.borrowed:
        yield from heading("What is borrowed")
        yield from (_tell_borrowed(each) for each in admitted.borrowed)
    yield from _tell_eviction(admitted.eviction)


def _tell_borrowed(each: Borrowed) -> Line:
    lenders = listed([f"{lender.quota} (up to {lender.amount})" for lender in each.lenders])
    source = f", from {lenders}" if lenders else ", which no quota is guaranteed"
    numbers = f"{each.borrowed} of {each.resource} (uses {each.used}, guaranteed {each.guaranteed})"
    return Line(f"quota {each.quota} borrows {numbers}{source}", indent=2, hang=2)


def _tell_eviction(eviction: Eviction) -> Iterator[Line]:
    yield from heading("What could evict it")
    if eviction.by_queue:
        yield Line("units of higher priority in its queue", indent=2)
    for each in eviction.reclaimers:
        lower = ", for units of higher priority only" if each.only_lower_priority else ""
        yield Line(f"quota {each.quota}, which may reclaim what is lent{lower}", indent=2)
    for unit in eviction.units:
        why = f"queue {unit.queue}, quota {unit.quota}, priority {unit.priority}"
        name = f"{unit.namespace}/{unit.name}"
        yield Line(f"unit {name} would, if it were its turn ({why})", "warn", indent=2, hang=2)
    if eviction.has_more:
        yield Line("perhaps more units: not all were asked", indent=2)
    if eviction.others:
        yield Line(f"{counted(eviction.others, 'unit')} of namespaces you may not read", indent=2)
    if not eviction.possible:
        yield Line("nothing, at present", indent=2)
    for spared in eviction.spared:
        yield Line(f"{spared.reason}: {spared.message}", indent=4, hang=2)
