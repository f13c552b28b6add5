"""What queues, quotas and the whole had over time: samples, and several of them as one. Pure.

A sample is taken once a minute. Of longer times there is one for five minutes, and one for half an
hour, so that a week is as few numbers as an hour.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

HOUR: Final = 3_600
DAY: Final = 24 * HOUR

WHOLE: Final = ""
"""What all queues and quotas have together."""

MAX_NAMES: Final = 64
"""Namespaces that a sample names: some 1 kB. Of more it is only known that they are many."""
MAX_RESOURCES: Final = 16
"""Resources of a sample: as many as a cluster has kinds of devices, and more."""
BINS_PER_DOUBLING: Final = 8
"""Waits are counted in bins, each 9 percent longer than the one before: read again, a wait is at
most 4.5 percent off, which a chart does not show."""


class Level(NamedTuple):
    """Samples for times of one length.

    Attributes:
        table: Their table in the record.
        seconds: What one of them is for; each begins at a multiple of it since the epoch.
        kept_seconds: For how long they are kept.
    """

    table: str
    seconds: int
    kept_seconds: int


MINUTES: Final = Level("minutes", 60, 2 * HOUR)
FIVE_MINUTES: Final = Level("five_minutes", 300, DAY + HOUR)
HALF_HOURS: Final = Level("half_hours", 1_800, 7 * DAY + HOUR)
LEVELS: Final = (MINUTES, FIVE_MINUTES, HALF_HOURS)

NamespaceSets = tuple[tuple[str, ...], ...]


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What a queue, a quota or the whole had; of a longer time than a minute, on average.

    Attributes:
        pending: Its pending units, those on hold among them.
        admitted: The units that occupy quota.
        used: What is charged for these, by resource, in base units.
        waits: How many units that were admitted since the sample before had waited for how long, by
            bin (`bin_of`).
        namespaces: Sets of namespaces. A reader who may not read one or two of any of them may not
            see `used`, nor of a quota the numbers of units. None: there are too many to name.
        admitted_from: The namespaces of the units in `waits`; None: as above.
    """

    pending: float = 0
    admitted: float = 0
    used: dict[str, int] = {}
    waits: dict[int, int] = {}
    namespaces: NamespaceSets | None = ()
    admitted_from: tuple[str, ...] | None = ()


NOTHING: Final = Sample()
"""What is not kept: where there is a sample of the whole, all that have none had nothing."""


class SampleBatch(msgspec.Struct, frozen=True):
    """The samples of a minute.

    Attributes:
        wall: When it began, in seconds since the epoch.
        samples: What there was, by `WHOLE`, `of_queue` and `of_quota`.
    """

    wall: int
    samples: dict[str, Sample]


def of_queue(name: str) -> str:
    """Return what the samples of a queue are kept by."""
    return f"queue/{name}"


def of_quota(name: str) -> str:
    """Return what the samples of a quota are kept by."""
    return f"quota/{name}"


def begin_of(wall: float, level: Level) -> int:
    """Return when the time began that a moment is in, in seconds since the epoch."""
    return int(wall // level.seconds) * level.seconds


def fold(samples: Sequence[Sample], count: int) -> Sample:
    """Return several samples of a queue, a quota or the whole as one.

    Args:
        samples: Those that are kept.
        count: How many were taken; those that are not kept had nothing.
    """
    used, waits, seen = Counter[str](), Counter[int](), Counter[str]()
    for each in samples:
        used.update(each.used)
        waits.update(each.waits)
        seen.update(each.used.keys())
    # Those that most samples have: what is used all the time is not left out for what passes by.
    resources = sorted(seen, key=lambda each: (-seen[each], each))[:MAX_RESOURCES]
    return Sample(
        pending=round(sum(each.pending for each in samples) / count, 2),
        admitted=round(sum(each.admitted for each in samples) / count, 2),
        used={resource: used[resource] // count for resource in resources},
        waits=dict(waits),
        namespaces=join_sets(each.namespaces for each in samples),
        admitted_from=_all_names(each.admitted_from for each in samples),
    )


def join_sets(parts: Iterable[NamespaceSets | None]) -> NamespaceSets | None:
    """Return all sets: what may not be seen of a minute may not be seen as part of an hour.

    None: they are too many to name.
    """
    found: set[tuple[str, ...]] = set()
    for each in parts:
        if each is None:
            return None
        found.update(each)
    return sets_of(found)


def _all_names(parts: Iterable[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    found: set[str] = set()
    for each in parts:
        if each is None:
            return None
        found.update(each)
    return names_of(found)


def sets_of(sets: Iterable[Iterable[str]]) -> NamespaceSets | None:
    """Return sets of namespaces as a sample has them; None: they are too many to name."""
    found = sorted({tuple(sorted(each)) for each in sets} - {()})
    return tuple(found) if sum(map(len, found)) <= MAX_NAMES else None


def names_of(names: Iterable[str]) -> tuple[str, ...] | None:
    """Return namespaces as a sample has them; None: they are too many to name."""
    found = tuple(sorted(set(names)))
    return found if len(found) <= MAX_NAMES else None


def amounts_of(amounts: Mapping[str, int], limited: Container[str] = ()) -> dict[str, int]:
    """Return amounts as a sample has them: those above 0, of so many resources at most.

    A unit may request resources of any name, so it must not push out those that others look at.

    Args:
        amounts: The amounts.
        limited: Resources that quotas limit: these come first, then those without a domain.
    """
    used = sorted(
        (each for each, amount in amounts.items() if amount),
        key=lambda each: (each not in limited, "/" in each, each),
    )
    return {each: amounts[each] for each in used[:MAX_RESOURCES]}


def bin_of(seconds: float) -> int:
    """Return the bin of a wait."""
    return int(BINS_PER_DOUBLING * math.log2(1.0 + max(0.0, seconds)))


def quantile(waits: Mapping[int, int], share: float) -> float | None:
    """Return the wait in seconds that a share of the units did not exceed; None: there are none."""
    wanted = share * sum(waits.values())
    found = 0
    for each in sorted(waits):
        found += waits[each]
        if found >= wanted:
            return round(math.exp2((each + 0.5) / BINS_PER_DOUBLING) - 1.0, 1)
    return None
