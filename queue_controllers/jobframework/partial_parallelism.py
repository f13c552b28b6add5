"""Jobs that run with fewer pods than they want: what their user allows, and what may run. Pure.

If a job states a minimum parallelism, its unit may be admitted with fewer pods than all. The write
that releases it then lowers its parallelism to what was granted, and notes both numbers on the job
(annotation `koord-queue/released-parallelism`, "4/10": four of ten). Wherever the job is read it
still wants ten, so its unit asks for ten all the time; what is granted later may run, too, and the
write that suspends the job restores the ten.

The note counts while the parallelism is the number that it says may run. An edit of the parallelism
takes precedence: the new number is what is wanted from then on, as in any job that runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from shared_api.well_known_labels import (
    KUEUE_MIN_PARALLELISM,
    MIN_PARALLELISM,
    RELEASED_PARALLELISM,
    read_annotation,
    read_int32,
    spellings,
)

MIN_KEYS: Final = (*spellings(MIN_PARALLELISM), KUEUE_MIN_PARALLELISM)
"""The first that has a value counts."""

INSTEAD: Final = "it starts with all of its pods or not at all"

_NOTE: Final = re.compile(r"([1-9][0-9]{0,9})/([1-9][0-9]{0,9})", re.ASCII)


class Resize(msgspec.Struct, frozen=True):
    """How many pods of each set may run at a time; the note says so on the job, "" removes it."""

    counts: dict[str, int]
    note: str


class Parallelism(NamedTuple):
    """How many pods of a set run at a time: as wanted, and as a release allowed, if fewer."""

    wanted: int
    released_parallelism: int | None


def read_parallelism(annotations: Mapping[str, str], stated: int) -> Parallelism:
    """Return what a job wants and runs whose spec says so many pods at a time."""
    note = _NOTE.fullmatch(annotations.get(RELEASED_PARALLELISM, "")) if annotations else None
    if note is None or int(note[1]) != stated or int(note[2]) <= stated:
        return Parallelism(stated, None)
    return Parallelism(int(note[2]), stated)


def write_note(released_parallelism: int, wanted: int) -> str:
    """Return the note that a release leaves on the job."""
    return f"{released_parallelism}/{wanted}"


def read_min_parallelism(annotations: Mapping[str, str], wanted: int) -> int | None:
    """Return the minimum number of pods; None without a number from 1 to those that it wants."""
    text = _min_parallelism_text(annotations)[1] if annotations else ""
    least = read_int32(text, None)
    return least if least is not None and 1 <= least <= wanted else None


def why_no_minimum(annotations: Mapping[str, str], wanted: int) -> tuple[str, str, str] | None:
    """Return key, value and what it is not, of an invalid minimum parallelism; None if it is valid.

    An empty annotation counts as absent.
    """
    key, text = _min_parallelism_text(annotations)
    if not text or read_min_parallelism(annotations, wanted) is not None:
        return None
    least = read_int32(text, None)
    if least is None or least < 1:
        return key, text, "a whole number from 1 on"
    return key, text, f"at most its parallelism, {wanted}"


def _min_parallelism_text(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the minimum parallelism as it is written, with its key; "" without one."""
    text = read_annotation(annotations, MIN_PARALLELISM)
    if text:
        key = next(each for each in spellings(MIN_PARALLELISM) if each in annotations)
        return key, text
    return KUEUE_MIN_PARALLELISM, annotations.get(KUEUE_MIN_PARALLELISM, "")
