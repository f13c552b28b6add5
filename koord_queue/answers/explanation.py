"""Why a unit waits, what would start it, and what it was admitted on."""

from __future__ import annotations

from typing import Any

from koord_queue.answers.decoding import Answer
from koord_queue.answers.units import Refusal


class Patch(Answer, frozen=True):
    """A JSON merge patch of one object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    patch: dict[str, Any] = {}


class Change(Answer, frozen=True):
    """One change, and whether the unit starts after it alone (`sufficient`).

    `kind` is what is changed (docs/debug-api.md); `wait` is nothing. One that is not `practical` is
    a fact about a limit: the unit would have to request nothing. `ends` is how many units end
    before it starts by waiting. `also_starts` start before it, `units` end or are evicted;
    `other_starts` and `other_units` count those that are not named.
    """

    kind: str = ""
    description: str = ""
    sufficient: bool = False
    practical: bool = True
    ends: int = 0
    also_starts: tuple[str, ...] = ()
    other_starts: int = 0
    patches: tuple[Patch, ...] = ()
    units: tuple[str, ...] = ()
    other_units: int = 0


class AppliedLimit(Answer, frozen=True):
    """A limit that a unit was compared with when it was admitted, and what was used before."""

    quota: str = ""
    kind: str = ""
    resource: str = ""
    limit: str = ""
    used: str = ""
    requested: str = ""


class Lender(Answer, frozen=True):
    """A quota, and how much of its guarantee others use at most."""

    quota: str = ""
    amount: str = ""


class Borrowed(Answer, frozen=True):
    """What a quota uses above what it is guaranteed."""

    quota: str = ""
    resource: str = ""
    used: str = ""
    guaranteed: str = ""
    borrowed: str = ""
    lenders: tuple[Lender, ...] = ()


class Reclaimer(Answer, frozen=True):
    """A quota that may reclaim from the unit now."""

    quota: str = ""
    only_lower_priority: bool = False


class Evictor(Answer, frozen=True):
    """A waiting unit that would have the unit evicted now, if it were its turn."""

    namespace: str = ""
    name: str = ""
    queue: str = ""
    quota: str = ""
    priority: int = 0
    reason: str = ""


class Spared(Answer, frozen=True):
    """Why the unit is not evicted, in any case or in one of the two ways."""

    reason: str = ""
    message: str = ""


class Eviction(Answer, frozen=True):
    """What could evict an admitted unit now."""

    possible: bool = False
    by_queue: bool = False
    reclaimers: tuple[Reclaimer, ...] = ()
    spared: tuple[Spared, ...] = ()
    units: tuple[Evictor, ...] = ()
    others: int = 0
    has_more: bool = False


class Admitted(Answer, frozen=True):
    """What a unit was admitted on; `limits` is null if that is not known (`limits_unknown`)."""

    limits: tuple[AppliedLimit, ...] | None = None
    limits_unknown: str = ""
    borrowed: tuple[Borrowed, ...] | None = None
    eviction: Eviction = Eviction()


class Explanation(Answer, frozen=True):
    """Why a unit waits, or what it was admitted on.

    `verdict` is `waiting`, `held`, `admitted` or `finished`. `changes` are null if they were not
    asked for.
    """

    namespace: str = ""
    name: str = ""
    verdict: str = ""
    never_starts: bool = False
    summary: str = ""
    queue: str = ""
    quota: str = ""
    position: int = 0
    blockers: tuple[Refusal, ...] = ()
    checks: dict[str, str] = {}
    without_plugins: tuple[str, ...] = ()
    admitted: Admitted | None = None
    changes: tuple[Change, ...] | None = None
    changes_complete: bool | None = None
