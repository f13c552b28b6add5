"""The change that is none: whether the unit starts by waiting, and after how many ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from queue_insight.insight.change import Change, ChangeKind, count_of
from queue_insight.insight.lookahead import Course, Lookahead, look_ahead
from queue_insight.insight.question import Question
from queue_scheduler.decision import Reason

_NOT_PROVED: Final = frozenset({Course.TOO_FAR, Course.UNKNOWN})


def find_wait(question: Question) -> Iterator[Change]:
    """Yield whether the unit starts if nothing is changed."""
    ahead = look_ahead(question)
    yield Change(
        kind=ChangeKind.WAIT,
        description=_describe(question, ahead),
        sufficient=ahead.course is Course.STARTS,
        verified=ahead.course not in _NOT_PROVED,
        minimal=False,
        ends=ahead.ends,
        also_starts=ahead.also if ahead.course is Course.STARTS else (),
    )


def _describe(question: Question, ahead: Lookahead) -> str:
    match ahead.course:
        case Course.STARTS:
            return _describe_start(question, ahead)
        case Course.NEVER if ahead.ends:
            return (
                "Waiting alone does not help: it would not start if all units had ended that are "
                "admitted, or start before it."
            )
        case Course.NEVER:
            return "Waiting alone does not help: no end of a unit changes what keeps it waiting."
        case Course.HELD:
            return "Waiting alone does not help: it is on hold, which no end of a unit changes."
        case Course.AFTER_OTHER_PODS:
            return (
                "Waiting for admitted units alone does not help: pods that belong to none of them "
                "use what it needs."
            )
        case Course.TOO_FAR if not ahead.ends:
            return "It is not known whether waiting helps: there was no time to try it."
        case Course.TOO_FAR:
            return (
                f"It waits for more than {count_of(ahead.ends, 'unit')} to end; it was not tried "
                "what follows then."
            )
        case Course.UNKNOWN:
            return (
                "It is not known whether waiting helps: no end of a unit starts it, but its reason "
                "may pass with time."
            )


def _describe_start(question: Question, ahead: Lookahead) -> str:
    first = "It waits"
    if Reason.IN_BACKOFF in question.reasons:
        until = question.explanation.blockers[0].detail
        first = f"It is tried again at {until}" if until else "It is tried again"
    if not ahead.ends:
        return f"{first}, and then starts."
    if not ahead.started:
        what = count_of(ahead.ends, "admitted unit")
        return f"{first}, and starts when {what} {_has(ahead.ends)} ended."
    before = "starts" if ahead.started == 1 else "start"
    return (
        f"{first}, and starts when {count_of(ahead.ends, 'unit')} {_has(ahead.ends)} ended: "
        f"{ahead.admitted} admitted now, {ahead.started} that {before} before it."
    )


def _has(number: int) -> str:
    return "has" if number == 1 else "have"
