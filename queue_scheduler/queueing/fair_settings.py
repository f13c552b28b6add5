"""How a queue with the policy Fair orders its accounts: `spec.fairShare`, read in one place. Pure.

The API server has checked most of it, but not under every CRD that a Queue may have been stored
under. What cannot be read leaves all of the former `fairShare` in force: half of it might give
somebody a share that nobody meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import ceil
from typing import Any, Final, TypeAlias

import msgspec

from shared_api.durations import DurationError, parse_duration
from shared_api.objects.queue import MAX_WEIGHT, FairShare, FairWeight
from shared_api.submitters import Submitter

LEAST_HALF_LIFE: Final = 1
MOST_HALF_LIFE: Final = 10 * 365 * 86_400
MOST_CHARGE: Final = 86_400
WEIGHT: Final = 1
"""The weight of an account that no entry names."""

MAX_SHOWN: Final = 64
"""Characters of a value that a sentence repeats."""

Path: TypeAlias = tuple[str, ...]
"""An account of a queue, level by level; a part of it from the left is an account above it."""

Lane: TypeAlias = tuple[int, Path]
"""The units of a queue that keep their order among each other: (negated priority, account). The
priority is 0 unless it comes before fairness."""


def levels_of(path: Path) -> tuple[Path, ...]:
    """Return an account and those above it, from the top."""
    return (path,) if len(path) == 1 else tuple(path[: n + 1] for n in range(len(path)))


class Level(StrEnum):
    """Between whom use is compared."""

    USER = "user"
    GROUP = "group"
    NAMESPACE = "namespace"


LEVELS: Final = ((Level.USER,), (Level.GROUP, Level.USER), (Level.NAMESPACE,))


class FairSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How accounts are ordered.

    Attributes:
        stated: What was stated; None: nothing, and these are the defaults.
        levels: Between whom use is compared, from the top.
        half_life: Seconds in which use decays by half.
        minimum_charge: Seconds that a unit counts at least.
        is_priority_first: Whether priority comes before fairness.
        weights: By level and name; `WEIGHT` if it is missing.
        resource_weights: Of a core, a GiB or a piece, by resource; empty: the largest share of the
            top quota counts.
    """

    stated: FairShare | None = None
    levels: tuple[Level, ...] = LEVELS[0]
    half_life: int = 168 * 3600
    minimum_charge: int = 60
    is_priority_first: bool = False
    weights: dict[tuple[Level, str], int] = {}
    resource_weights: dict[str, int] = {}

    def account_of(self, namespace: str, user: str, group: str) -> Path:
        """Return the account of a unit, by who has submitted it."""
        if self.levels is LEVELS[0]:
            return (user,)
        names = {Level.USER: user, Level.GROUP: group, Level.NAMESPACE: namespace}
        return tuple(names[level] for level in self.levels)

    def lane_of(self, priority: int, namespace: str, submitter: Submitter) -> Lane:
        """Return where a unit stands with those that it keeps its order with."""
        first = -priority if self.is_priority_first else 0
        return first, self.account_of(namespace, submitter.user, submitter.group)

    def weight_of(self, path: Path) -> int:
        """Return the weight of an account among those beside it."""
        if not self.weights:
            return WEIGHT
        return self.weights.get((self.levels[len(path) - 1], path[-1]), WEIGHT)


DEFAULT_FAIR: Final = FairSettings()


class _FairShareError(ValueError):
    """It cannot be read; the message begins with the field."""


def read_fair_share(
    stated: FairShare | None, before: FairSettings
) -> tuple[FairSettings, str | None]:
    """Return what a queue states, or what was in force `before`, with a sentence that says why."""
    if stated is None:
        return DEFAULT_FAIR, None
    if stated == before.stated:
        return before, None
    try:
        return _read(stated), None
    except _FairShareError as error:
        return before, f"fairShare.{error}; what was in force stays"


def fair_share_patch(before: FairShare | None, after: FairShare) -> dict[str, Any]:
    """Return the merge patch that makes one of the other: a map that is left out of it stays."""
    body: dict[str, Any] = msgspec.to_builtins(after)
    if before is None:
        return body
    gone = before.resource_weights.keys() - after.resource_weights.keys()
    if after.resource_weights and gone:
        body["resourceWeights"] = {**dict.fromkeys(gone), **after.resource_weights}
    return {**dict.fromkeys(msgspec.to_builtins(before)), **body}


def _read(stated: FairShare) -> FairSettings:
    levels = tuple(stated.levels) or LEVELS[0]
    if levels not in LEVELS:
        raise _FairShareError("levels: they must be [user], [group, user] or [namespace]")
    if stated.priority not in {"", "Within", "First"}:
        raise _FairShareError(f"priority: {_shown(stated.priority)} is not Within or First")
    return FairSettings(
        stated=stated,
        levels=LEVELS[LEVELS.index(levels)],
        half_life=_seconds(
            "halfLife", stated.half_life, DEFAULT_FAIR.half_life, LEAST_HALF_LIFE, MOST_HALF_LIFE
        ),
        minimum_charge=_seconds(
            "minimumCharge", stated.minimum_charge, DEFAULT_FAIR.minimum_charge, 0, MOST_CHARGE
        ),
        is_priority_first=stated.priority == "First",
        weights=dict(_weights(stated.weights)),
        resource_weights=_resource_weights(stated.resource_weights),
    )


def _seconds(field: str, text: str, default: int, least: int, most: int) -> int:
    if not text:
        return default
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise _FairShareError(f"{field}: {error}") from error
    if not least <= seconds <= most:
        msg = f"{field}: {_shown(text)} is not between {least}s and {most // 3600}h"
        raise _FairShareError(msg)
    return ceil(seconds)


def _weights(stated: tuple[FairWeight, ...]) -> Iterator[tuple[tuple[Level, str], int]]:
    """Yield the weights, the last first: of two entries that name one account the first counts."""
    for index, entry in reversed(list(enumerate(stated))):
        place = f"weights[{index}]"
        kinds = ((Level.USER, entry.users), (Level.GROUP, entry.groups))
        named = [each for each in (*kinds, (Level.NAMESPACE, entry.namespaces)) if each[1]]
        if len(named) != 1:
            raise _FairShareError(f"{place}: name either users, groups or namespaces")
        weight = _weight(place, entry.weight)
        level, names = named[0]
        for name in names:
            yield (level, name), weight


def _resource_weights(stated: Mapping[str, int]) -> dict[str, int]:
    weights = {name: _weight(f"resourceWeights.{name}", each) for name, each in stated.items()}
    if weights and not any(weights.values()):
        raise _FairShareError("resourceWeights: a resource must have a weight above 0")
    return weights


def _weight(place: str, weight: int) -> int:
    if not 0 <= weight <= MAX_WEIGHT:
        raise _FairShareError(f"{place}: {weight} is not between 0 and {MAX_WEIGHT}")
    return weight


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "...")
