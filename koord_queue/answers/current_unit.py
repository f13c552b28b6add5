"""Where a unit stands.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.refusal import Refusal


class Consumer(Answer, frozen=True):
    """The job behind a unit."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class PodSet(Answer, frozen=True):
    """Pods of a unit that are alike.

    `asked` is the present count, `granted` the count of the admission, `given_back` how many of
    those have ended for good or were removed by a scale-down, and `held` the rest, which is
    charged. Of a unit that has ended `granted` and `given_back` are null: its object says them no
    more.
    """

    name: str = ""
    asked: int = 0
    granted: int | None = None
    given_back: int | None = None
    held: int = 0


class Victim(Answer, frozen=True):
    """A unit that would be evicted.

    `lost_seconds`: how long its pods have run since its job last saved what it has computed.
    """

    namespace: str = ""
    name: str = ""
    priority: int = 0
    lost_seconds: int = 0


class WouldPreempt(Answer, frozen=True):
    """The units that a waiting unit would preempt now, the cheapest first.

    `enabled`: whether its queue, or its quota, allows it; if not, they are those that it would
    preempt if the queue did. `reason`: `Preempted` for its queue, `Reclaimed` for its quota. Rounds
    of evictions for other units are not considered.
    """

    enabled: bool = False
    reason: str = ""
    victims: tuple[Victim, ...] = ()
    others: int = 0
    others_lost_seconds: int | None = None


class CurrentUnit(Answer, frozen=True):
    """One unit. `position` counts from 1 and is 0 for units that are not pending.

    `scheduler_state` is its state in the scheduler. `demand` is what it requests, whether a quota
    governs it or not; empty if it cannot be parsed.

    `refusal` says why it is pending; for a running unit, why it is not granted the pods that it has
    grown by. `pods_not_ready` says why the pods of an admitted unit do not run: its condition
    PodsReady. `checks` are the last answers of its admission checks, by name. `priority` is the one
    that counts; `spec_priority` is the unit's own, if the ceiling of its queue lowers it, or its
    annotation `koord-queue/priority-boost` changes it.

    In a queue that backfills: `backfill_behind` is the unit that this one must not delay;
    `promised_start` is when this unit, behind which others wait, fits at the latest, by declared
    run times; `promise_is_overdue` says that a unit that should have ended by now still runs.

    `would_preempt` is only in the answer about one waiting unit, if evictions would help.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    job: Consumer = Consumer()
    queue: str = ""
    quota: str = ""
    phase: str = ""
    scheduler_state: str = ""
    position: int = 0
    priority: int = 0
    spec_priority: int | None = None
    created: str = ""
    demand: dict[str, str] = {}
    charged: dict[str, str] = {}
    charged_elsewhere: dict[str, dict[str, str]] = {}
    pod_sets: tuple[PodSet, ...] = ()
    checks: dict[str, str] = {}
    refusal: Refusal | None = None
    pods_not_ready: str = ""
    backfill_behind: str = ""
    promised_start: str = ""
    promise_is_overdue: bool = False
    would_preempt: WouldPreempt | None = None
