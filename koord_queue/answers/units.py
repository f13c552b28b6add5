"""Where units stand."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Refusal(Answer, frozen=True):
    """Why a unit waits: the reason, the numbers as quantities, and both in words.

    `other` is the unit or quota that it waits for. Without a resource there are no numbers.
    """

    reason: str = ""
    message: str = ""
    quota: str = ""
    quota_namespace: str = ""
    resource: str = ""
    limit: str = ""
    used: str = ""
    requested: str = ""
    missing: str = ""
    other: str = ""


class Job(Answer, frozen=True):
    """The job behind a unit."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class PodSet(Answer, frozen=True):
    """Pods of a unit that are alike: how many it asks for, was granted, gave back, and holds."""

    name: str = ""
    asked: int = 0
    granted: int = 0
    given_back: int = 0
    held: int = 0


class Victim(Answer, frozen=True):
    """A unit that would be evicted; `lost_seconds`: for how long its pods have run."""

    namespace: str = ""
    name: str = ""
    priority: int = 0
    lost_seconds: int = 0


class WouldPreempt(Answer, frozen=True):
    """The units that a waiting unit would evict now, if `enabled`."""

    enabled: bool = False
    reason: str = ""
    victims: tuple[Victim, ...] = ()
    others: int = 0


class Unit(Answer, frozen=True):
    """One unit, as the debug API has it.

    `position` counts from 1, and is 0 for units that are not pending.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    job: Job = Job()
    queue: str = ""
    quota: str = ""
    phase: str = ""
    standing: str = ""
    position: int = 0
    priority: int = 0
    spec_priority: int | None = None
    created: str = ""
    demand: dict[str, str] = {}
    charged: dict[str, str] = {}
    pod_sets: tuple[PodSet, ...] = ()
    checks: dict[str, str] = {}
    refusal: Refusal | None = None
    pods_not_ready: str = ""
    promised_start: str = ""
    promise_is_overdue: bool = False
    would_preempt: WouldPreempt | None = None
