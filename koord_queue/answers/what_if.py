"""What follows from edits: at once, and until a horizon. Waits are in seconds."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.units import Refusal


class Started(Answer, frozen=True):
    """A unit that starts because of the edits; `before`: why it does not without them."""

    unit: str = ""
    queue: str = ""
    quota: str = ""
    before: Refusal | None = None


class Refused(Answer, frozen=True):
    """A unit that waits for another reason; `would_start`: without the edits it would start."""

    unit: str = ""
    queue: str = ""
    quota: str = ""
    refusal: Refusal | None = None
    before: Refusal | None = None
    would_start: bool = False


class Evicted(Answer, frozen=True):
    """A unit that leaves its place; `lost_hours`: for how long its pods have run."""

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
    """One number without and with the edits, and the difference path by path."""

    before: Spread = Spread()
    after: Spread = Spread()
    difference: Spread = Spread()
    is_clear: bool = False


class Place(Answer, frozen=True):
    """A queue or quota until the horizon."""

    name: str = ""
    wait_p50: Comparison | None = None
    wait_p90: Comparison | None = None
    completed: Comparison | None = None


class UsedResource(Answer, frozen=True):
    """How much of a resource is used on average: quantities, and the numbers behind them."""

    resource: str = ""
    before: str = ""
    after: str = ""
    used: Comparison = Comparison()


class Horizon(Answer, frozen=True):
    """What the edits change until the horizon."""

    seconds: float = 0.0
    paths: int = 0
    seed: int = 0
    basis: str = ""
    computed_at: str = ""
    completed: Comparison | None = None
    queues: tuple[Place, ...] = ()
    quotas: tuple[Place, ...] = ()
    resources: tuple[UsedResource, ...] = ()


class WhatIf(Answer, frozen=True):
    """What follows from edits; lists are cut, the counts are of all."""

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
