"""What follows from edits.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.refusal import Refusal


class Started(Answer, frozen=True):
    """A unit that starts because of the edits.

    `before` says why it does not start without them; null: there is no such unit, or it would
    only have to wait for its turn.
    """

    unit: str = ""
    queue: str = ""
    quota: str = ""
    before: Refusal | None = None


class Refused(Answer, frozen=True):
    """A unit that waits for another reason than without the edits.

    `refusal` is why it waits, `before` why it waits without the edits. `would_start`: without them
    it starts, or keeps its place.
    """

    unit: str = ""
    queue: str = ""
    quota: str = ""
    refusal: Refusal | None = None
    before: Refusal | None = None
    would_start: bool = False


class Evicted(Answer, frozen=True):
    """A unit that leaves its place because of the edits.

    `reason` is `Preempted` or `Reclaimed` for the unit `for_unit`, or `QueueStopped`,
    `Deactivated`, `RequeueRequested` or `NodeGone`. `lost_hours` is how long its pods have run.
    """

    unit: str = ""
    queue: str = ""
    quota: str = ""
    reason: str = ""
    for_unit: str = ""
    lost_hours: float = 0.0


class Spread(Answer, frozen=True):
    """Quantiles over the paths; null: not reached within the horizon."""

    p10: float | None = None
    p50: float | None = None
    p90: float | None = None


class Comparison(Answer, frozen=True):
    """One number without and with the edits, and the difference, path by path.

    `is_clear`: at least eight of ten paths differ in the same direction. Otherwise the difference
    is noise, or there is none.
    """

    before: Spread = Spread()
    after: Spread = Spread()
    difference: Spread = Spread()
    compared: int = 0
    is_clear: bool = False


class Place(Answer, frozen=True):
    """A queue or quota until the horizon: waits in seconds, and units that end.

    A wait goes from the creation of a unit to its next admission.
    """

    name: str = ""
    wait_p50: Comparison | None = None
    wait_p90: Comparison | None = None
    completed: Comparison | None = None


class Resource(Answer, frozen=True):
    """How much of a resource is used on average until the horizon.

    `before` and `after` are medians over the paths as quantities, and `used` the numbers in base
    units.
    """

    resource: str = ""
    before: str = ""
    after: str = ""
    used: Comparison = Comparison()


class Horizon(Answer, frozen=True):
    """What the edits change until the horizon, played on the same random numbers without them.

    `paths` is how many were played: twenty, or at least five if the time was spent before. `basis`
    says what run times and arrivals are based on, `computed_at` is the time of the state that they
    begin with.
    """

    seconds: float = 0.0
    paths: int = 0
    seed: int = 0
    basis: str = ""
    computed_at: str = ""
    completed: Comparison | None = None
    queues: tuple[Place, ...] = ()
    quotas: tuple[Place, ...] = ()
    resources: tuple[Resource, ...] = ()


class WhatIf(Answer, frozen=True):
    """What follows from edits: at once, and until a horizon.

    At once means: two copies of the scheduler decide until they rest at this moment, one with the
    edits; listed is what differs. Each list has at most a thousand units that the caller may read;
    the counts are of all. `unread` are paths in the edits that the scheduler does not read.
    `validated` is false: the API server was not asked whether it accepts the edits. `complete`:
    both copies came to rest. `spared` are units that are evicted without the edits only.
    `no_horizon` says why `horizon` is null.
    """

    leader: bool = False
    validated: bool = False
    complete: bool = True
    started: tuple[Started, ...] = ()
    started_count: int = 0
    refused: tuple[Refused, ...] = ()
    refused_count: int = 0
    evicted: tuple[Evicted, ...] = ()
    evicted_count: int = 0
    lost_hours: float | None = None
    spared: tuple[str, ...] = ()
    spared_count: int = 0
    unread: tuple[str, ...] = ()
    without_plugins: tuple[str, ...] = ()
    horizon: Horizon | None = None
    no_horizon: str = ""
