"""Why a unit waits, and what would start it, in sentences."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from koord_queue.answers.explanation import (
    Admitted,
    AppliedLimit,
    Borrowed,
    Change,
    Eviction,
    Explanation,
    Patch,
    Reclaimer,
)
from koord_queue.answers.refusal import Refusal
from koord_queue.show.paragraphs import Line, below, heading, numbered
from koord_queue.show.words import counted, listed, short

STYLES: Final = {"waiting": "warn", "held": "bad", "admitted": "good", "finished": "dim"}

CAN_START: Final = frozenset({"waiting", "held"})
"""Verdicts of units that a change may start."""


MOST_SHOWN: Final = 10
"""Reasons, and entries of other lists: about a screen. A unit may be refused by each of hundreds of
quotas."""

WAIT: Final = "wait"
"""Kind of the change that is to wait, and change nothing."""


def explanation_lines(
    answer: Explanation, ahead: Sequence[str] = (), *, shows_all: bool = False
) -> Iterator[Line]:
    """Yield the sentence, each blocker with its numbers, what is ahead, and the changes.

    Args:
        answer: The explanation.
        ahead: Names of units ahead of it in its queue that may be named.
        shows_all: Whether long lists are not cut.
    """
    style = "bad" if answer.never_starts else STYLES.get(answer.verdict, "")
    yield Line(answer.summary, style)
    yield from blocker_lines(answer, shows_all=shows_all)
    yield from _ahead_lines(answer, ahead)
    if answer.admitted is not None:
        yield from _admitted_lines(answer.admitted, shows_all=shows_all)
    for plugin in answer.without_plugins:
        yield Line(f"Plugin {plugin} could not be asked.", "dim")
    if answer.changes is not None and answer.verdict in CAN_START:
        is_complete = answer.changes_complete is not False
        yield from change_lines(answer.changes, is_complete=is_complete, shows_all=shows_all)


def blocker_lines(answer: Explanation, *, shows_all: bool = False) -> Iterator[Line]:
    """Yield what keeps a unit from starting, or from getting more pods; the first, or all."""
    if answer.checks:
        yield from heading("Admission checks that are not ready")
        checks = [[Line(f"{name}: {state}", indent=2)] for name, state in answer.checks.items()]
        yield from _some(checks, "check", shows_all=shows_all)
    if not answer.blockers:
        return
    more = answer.verdict == "admitted"
    yield from heading("Why it gets no more pods" if more else "What keeps it from starting")
    blockers = [list(_blocker_lines(*each)) for each in enumerate(answer.blockers, 1)]
    yield from _some(blockers, "reason", shows_all=shows_all)


def _blocker_lines(number: int, blocker: Refusal) -> Iterator[Line]:
    words, numbers = split_numbers(blocker)
    yield numbered(number, f"{blocker.reason}: {words}")
    if numbers:
        yield below(numbers)


def _some(items: Sequence[Sequence[Line]], what: str, *, shows_all: bool) -> Iterator[Line]:
    """Yield the lines of the first items, and how many there are more."""
    shown = items if shows_all else items[:MOST_SHOWN]
    for lines in shown:
        yield from lines
    if len(shown) < len(items):
        more = counted(len(items) - len(shown), what)
        yield Line(f"and {more} more: --all shows them", "dim", indent=2)


def split_numbers(refusal: Refusal) -> tuple[str, str]:
    """Return why a unit waits without numbers, and the numbers; "" if the words have them."""
    each = refusal
    found = _NUMBERS.search(each.message)
    if not each.resource or found is None:
        return each.message, ""
    namespace = f" in namespace {each.quota_namespace}" if each.quota_namespace else ""
    where = f" of quota {each.quota}{namespace}" if each.quota else ""
    words = each.message[: found.start()] + each.message[found.end() :]
    return words, f"{each.resource}{where}: {found['rest']}, missing {found['missing']}"


_NUMBERS: Final = re.compile(
    r": missing (?P<missing>\S+) \((?P<rest>limit \S+, used \S+, requested \S+)\)"
)
"""The numbers of a refusal, as the server writes them for people."""


def _ahead_lines(answer: Explanation, names: Sequence[str]) -> Iterator[Line]:
    number = answer.position - 1
    if answer.verdict != "waiting" or number < 1:
        return
    verb = "is" if number == 1 else "are"
    named = f": {listed(names, number - len(names))}" if names else ""
    yield Line("")
    yield Line(f"{counted(number, 'unit')} {verb} ahead of it in queue {answer.queue}{named}.")


# --- changes ------------------------------------------------------------------------------------


def change_lines(
    changes: Sequence[Change], *, is_complete: bool = True, shows_all: bool = False
) -> Iterator[Line]:
    """Yield what would start a unit, with the commands that apply it, and what waiting does."""
    made = [each for each in changes if each.kind != WAIT]
    enough = [each for each in made if each.sufficient and each.practical]
    others = [each for each in made if not each.sufficient]
    waits = [each for each in changes if each.kind == WAIT]
    if enough:
        yield from heading("Any one of these would start it now")
    elif not any(each.sufficient for each in waits):
        yield Line("")
        yield Line("No change was found that would start it now.")
    for number, change in enumerate(enough, 1):
        yield from _one_change_lines(number, change)
    if others:
        yield from heading("Not enough alone")
    yield from _some(
        [list(_one_change_lines(number, change)) for number, change in enumerate(others, 1)],
        "change",
        shows_all=shows_all,
    )
    for change in (*(each for each in made if not each.practical), *waits):
        yield Line("")
        yield Line(change.description)
        yield from _change_unit_lines(change)
    if not is_complete:
        yield Line("Time was too short to try every kind of change.", "dim")


def _one_change_lines(number: int, change: Change) -> Iterator[Line]:
    yield numbered(number, change.description)
    yield from _change_unit_lines(change)
    for patch in change.patches:
        yield below(patch_command(patch), to_copy=True)


def _change_unit_lines(change: Change) -> Iterator[Line]:
    if change.units:
        yield below(f"units: {listed(change.units, change.other_units)}")
    if change.also_starts or change.other_starts:
        yield below(f"first start: {listed(change.also_starts, change.other_starts)}")


def patch_command(patch: Patch) -> str:
    """Return the command that applies a patch."""
    group, slash, _ = patch.api_version.partition("/")
    kind = f"{patch.kind.lower()}.{group}" if slash else patch.kind.lower()
    words = ["kubectl", "patch", kind, patch.name]
    words += ["--namespace", patch.namespace] if patch.namespace else []
    how, what = ("json", patch.operations) if patch.operations else ("merge", patch.patch)
    words += ["--type", how, "--patch", json.dumps(what)]
    return shlex.join(words)


# --- an admitted unit ---------------------------------------------------------------------------


def _admitted_lines(admitted: Admitted, *, shows_all: bool) -> Iterator[Line]:
    yield from heading("What it was admitted on")
    if admitted.limits is None:
        yield Line(admitted.limits_unknown, indent=2)
    limits = [[_limit_line(each)] for each in admitted.limits or ()]
    yield from _some(limits, "limit", shows_all=shows_all)
    if admitted.borrowed:
        yield from heading("What is borrowed")
        borrowed = [[_borrowed_line(each)] for each in admitted.borrowed]
        yield from _some(borrowed, "amount", shows_all=shows_all)
    yield from _eviction_lines(admitted.eviction, shows_all=shows_all)


def _limit_line(each: AppliedLimit) -> Line:
    limit = "all nodes" if each.kind == "nodes" else f"{each.kind} of quota {each.quota}"
    most, used, asked = short(each.resource, each.limit, each.used, each.requested)
    numbers = f"limit {most}, used {used} before, requested {asked}"
    return Line(f"{limit}, {each.resource}: {numbers}", indent=2, hang=2)


def _borrowed_line(each: Borrowed) -> Line:
    texts = (each.borrowed, each.used, each.guaranteed, *(one.amount for one in each.lenders))
    borrowed, used, guaranteed, *lent = short(each.resource, *texts)
    pairs = zip(each.lenders, lent, strict=True)
    lenders = listed([f"{lender.quota} (up to {amount})" for lender, amount in pairs])
    source = f", from {lenders}" if lenders else ", which no quota is guaranteed"
    numbers = f"{borrowed} of {each.resource} (uses {used}, guaranteed {guaranteed})"
    return Line(f"quota {each.quota} borrows {numbers}{source}", indent=2, hang=2)


def _eviction_lines(eviction: Eviction, *, shows_all: bool) -> Iterator[Line]:
    yield from heading("What could evict it")
    if eviction.by_queue:
        since = _from_when(eviction.by_queue_not_before)
        yield Line(f"units of higher priority in its queue{since}", indent=2)
    reclaimers = [[_reclaimer_line(each)] for each in eviction.reclaimers]
    yield from _some(reclaimers, "quota", shows_all=shows_all)
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


def _reclaimer_line(each: Reclaimer) -> Line:
    lower = ", for units of higher priority only" if each.only_lower_priority else ""
    since = _from_when(each.not_before)
    return Line(f"quota {each.quota}, which may reclaim what is lent{lower}{since}", indent=2)


def _from_when(at: str | None) -> str:
    return f", from {at} on" if at else ""
