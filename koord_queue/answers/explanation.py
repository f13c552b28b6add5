"""Why a unit waits, and what would start it.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from typing import Any

from koord_queue.answers.decoding import Answer
from koord_queue.answers.refusal import Refusal


class AppliedLimit(Answer, frozen=True):
    """A limit that a unit was compared with when it was admitted, and what was used before.

    `kind` is `max` or `min` of the quota, `runtime` (what koord-scheduler would grant with the unit
    added, where that had to be computed), or `nodes` (what all nodes have).
    """

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
    """What a quota uses above what it is guaranteed (`scaledMin` of `/debug/quotas`).

    `lenders` are the siblings whose unused guarantee that may be; without any, no quota is
    guaranteed it.
    """

    quota: str = ""
    resource: str = ""
    used: str = ""
    guaranteed: str = ""
    borrowed: str = ""
    lenders: tuple[Lender, ...] = ()


class Reclaimer(Answer, frozen=True):
    """A quota that may reclaim from a unit, perhaps only for units of higher priority.

    `not_before`: from when it may, if it spares the unit now (RFC 3339); null: now.
    """

    quota: str = ""
    only_lower_priority: bool = False
    not_before: str | None = None


class Spared(Answer, frozen=True):
    """Why a unit is not evicted: in any case, for its queue, or for other quotas."""

    reason: str = ""
    message: str = ""


class Evictor(Answer, frozen=True):
    """A waiting unit that would have another one evicted now, if it were its turn.

    `reason`: `Preempted` for its queue, `Reclaimed` for its quota.
    """

    namespace: str = ""
    name: str = ""
    queue: str = ""
    quota: str = ""
    priority: int = 0
    reason: str = ""


class Eviction(Answer, frozen=True):
    """What could evict an admitted unit now.

    `possible`: some unit may evict it: one of higher priority in its queue (`by_queue`, from
    `by_queue_not_before` on if that is not null), or one of the quotas in `reclaimers`. `spared`
    says why none may, or why not in one of the two ways. `units` are waiting units that would
    choose it, if it were their turn; `has_more`: not all were asked. Rounds of evictions in
    progress are not considered.
    """

    possible: bool = False
    by_queue: bool = False
    by_queue_not_before: str | None = None
    reclaimers: tuple[Reclaimer, ...] = ()
    spared: tuple[Spared, ...] = ()
    units: tuple[Evictor, ...] = ()
    others: int = 0
    has_more: bool = False


class Admitted(Answer, frozen=True):
    """What a unit was admitted on, what it borrows, and what could evict it.

    `limits` is null if this process has not admitted it; `limits_unknown` says why. `borrowed` is
    about the resources that the unit holds, in its quota and the parents; null if its quota cannot
    borrow.
    """

    limits: tuple[AppliedLimit, ...] | None = None
    limits_unknown: str = ""
    borrowed: tuple[Borrowed, ...] | None = None
    eviction: Eviction = Eviction()


class Patch(Answer, frozen=True):
    """A JSON merge patch of one object, or with `operations` a JSON patch, and `patch` is empty."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    patch: dict[str, Any] = {}
    operations: tuple[dict[str, Any], ...] = ()


class Change(Answer, frozen=True):
    """One change, and whether the unit starts after it alone.

    `kind` is what is changed; docs/debug-api.md lists the kinds. `sufficient`: the unit starts
    after this change. `verified`: a copy of the scheduler was asked, to the end. `minimal`: one
    grain less was seen not to suffice: 1 milli-CPU, byte, piece, pod, node, priority or unit.
    `practical`: false if the unit would have to request nothing, which is a fact and no advice.
    `ends`: of waiting, how many units end before it starts, those that start before it included.
    `also_starts` are the units that start before it, `other_starts` how many more: those that the
    caller may not read, and those after the first hundred. `patches` is what to apply; empty if
    there is no such field, or the object has more than the scheduler reads: then `description` says
    what to do. `units` are the units that end, or are evicted, `other_units` how many more.
    """

    kind: str = ""
    description: str = ""
    sufficient: bool = False
    verified: bool = False
    minimal: bool = False
    practical: bool = True
    ends: int = 0
    also_starts: tuple[str, ...] = ()
    other_starts: int = 0
    patches: tuple[Patch, ...] = ()
    units: tuple[str, ...] = ()
    other_units: int = 0


class Explanation(Answer, frozen=True):
    """Why a unit waits: its verdict in one sentence, and all that keeps it from starting.

    `verdict` is `waiting` (in its queue), `held` (in none), `admitted` or `finished`. `state` is
    the same in the words of the glossary, which also say how far an admitted unit is: `on hold`,
    `waiting`, `reserved`, `starting`, `running` or `finished`. `position` is its place in its
    queue, from 1; 0 if it is in none. `never_starts`: it is larger than a limit, or longer than
    every time between two windows, so that waiting does not help. `blockers` are all reasons, the
    scarcest resource first; for an admitted unit, why it is not granted the pods that it has grown
    by. Without blockers a waiting unit starts when it is its turn. `checks` are the admission
    checks that are not ready, by name. `without_plugins` are plugins that were not asked.
    `changes`, if asked for, are the smallest changes that would start a waiting unit now, those
    that suffice first; `changes_complete` says whether all kinds were looked for.
    """

    leader: bool = False
    namespace: str = ""
    name: str = ""
    verdict: str = ""
    state: str = ""
    never_starts: bool = False
    summary: str = ""
    queue: str = ""
    quota: str = ""
    position: int = 0
    blockers: tuple[Refusal, ...] = ()
    checks: dict[str, str] = {}
    pods_not_ready: str = ""
    without_plugins: tuple[str, ...] = ()
    admitted: Admitted | None = None
    changes: tuple[Change, ...] | None = None
    changes_complete: bool | None = None
