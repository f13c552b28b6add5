"""Which of all jobs are asked for, and in which order. Pure.

A filter is words. Each word is compared as a text: none is a pattern, so no filter is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from operator import attrgetter
from typing import Final

from queue_insight.page.job import Job
from queue_insight.page.queue_view import MAX_WORDS
from shared_api.lifecycle import ADMITTED, PENDING, LifecycleState
from shared_api.question_errors import Code, QuestionError

NEWEST_FIRST: Final = "-created"

_GROUPS: Final = {
    **dict.fromkeys(ADMITTED, "admitted"),
    **dict.fromkeys(PENDING, "pending"),
}
_STATE_WORDS: Final = {
    state: f"{state.value.replace(' ', '-')} {_GROUPS.get(state, '')}" for state in LifecycleState
}
"""A state as one word, and what queues count it as."""

FIELDS: Final[dict[str, Callable[[Job], str]]] = {
    field: attrgetter(field)
    for field in "name namespace state result reason phase queue quota user kind job".split()  # noqa: SIM905 - one line
}
"""What a filter may look into."""

_OF_FEW_VALUES: Final = FIELDS.keys() - {"name", "job"}
"""Thousands of jobs have the same."""
_LIFE: Final = {state: place for place, state in enumerate(LifecycleState)}

Key = Callable[[Job], object]


def sort_keys(now: float) -> dict[str, Key]:
    """Return what jobs may be sorted by; `now`: the time in seconds since the epoch."""
    return {
        **FIELDS,
        "state": lambda each: _LIFE[each.state],
        "priority": attrgetter("priority"),
        "created": attrgetter("created"),
        "started": attrgetter("started"),
        "ended": attrgetter("ended"),
        "waited": lambda each: each.waited(now),
        "ran": lambda each: each.ran(now),
    }


def filter_jobs(jobs: Iterable[Job], text: str) -> list[Job]:
    """Return the jobs that have all words of a filter.

    `field:text` looks in one field, `field=text` wants all of it, others look in name, namespace,
    job and user. Capital letters count as small ones.

    Raises:
        QuestionError: INVALID_ARGUMENT: it names an unknown field.
    """
    found = list(jobs)
    for word in text.lower().split()[:MAX_WORDS]:
        found = _with_word(found, word)
    return found


def _with_word(jobs: list[Job], word: str) -> list[Job]:
    end = min((at for sign in ":=" if (at := word.find(sign)) >= 0), default=-1)
    if end < 0:
        return [each for each in jobs if word in each.words]
    field, text = word[:end], word[end + 1 :]
    read = FIELDS.get(field)
    if read is None:
        wrong = f"filter: {field!r} is none of {', '.join(FIELDS)}"
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    if word[end] == ":" and field not in _OF_FEW_VALUES:
        return [each for each in jobs if text in read(each).lower()]
    fits = _contains if word[end] == ":" else _equals
    # Each value is looked at once, and no job by a loop in Python.
    fitting = {each for each in set(map(read, jobs)) if fits(each, text)}
    return list(compress(jobs, map(fitting.__contains__, map(read, jobs))))


def _contains(value: str, text: str) -> bool:
    return text in _text_of(value)


def _equals(value: str, text: str) -> bool:
    return text in (_text_of(value).split() or [""])


def _text_of(value: str) -> str:
    return _STATE_WORDS[value] if isinstance(value, LifecycleState) else value.lower()


def sort_jobs(jobs: list[Job], sort: str, now: float) -> list[Job]:
    """Return jobs in order; those of which it is not known come last, whatever the direction.

    Args:
        jobs: The jobs.
        sort: A field, with `-` before it for the other direction; "": the newest first.
        now: The time in seconds since the epoch.

    Raises:
        QuestionError: INVALID_ARGUMENT: there is no such field.
    """
    sort = sort or NEWEST_FIRST
    keys = sort_keys(now)
    field = sort.removeprefix("-")
    key = keys.get(field)
    if key is None:
        wrong = f"sort is to be one of {', '.join(keys)}, not {sort!r}"
        raise QuestionError(Code.INVALID_ARGUMENT, wrong)
    values = list(map(key, jobs))
    known = [at for at, value in enumerate(values) if value is not None]
    ranks = _ranks_of(values) if field in _OF_FEW_VALUES - {"state"} else values
    known.sort(key=ranks.__getitem__, reverse=sort.startswith("-"))  # type: ignore[arg-type]  # all of one key are comparable
    ordered = [jobs[at] for at in known]
    if len(known) == len(jobs):
        return ordered
    return ordered + [job for job, value in zip(jobs, values, strict=True) if value is None]


def _ranks_of(values: list[object]) -> list[object]:
    """Return numbers in the order of texts: many equal texts take long to compare."""
    ranks = {text: rank for rank, text in enumerate(sorted(set(values)))}  # type: ignore[type-var]  # texts
    return [ranks[each] for each in values]
