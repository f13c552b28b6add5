"""Reconciles units in strict mode, and all reservations: reads the caches, decides, executes.

Keys are `namespace/name` of units. They come from units in a phase that has reservations, and from
reservations, which name their unit. A reservation without that annotation is found by its label:
then the key is a uid, which has no slash.

The CRD of reservations may be missing. Units then wait, report it, and are requeued
(`decide.NOT_SERVED_SECONDS`); when it appears the reservations are created as if it had been there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog

from queue_controllers.decision.job_view import Moment
from queue_controllers.decision.release import UpdateConflict, plan_updates
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobFacts,
    NamesPods,
    PodOwner,
    read_facts,
)
from queue_controllers.reconcile.execute import NotLeadingError
from queue_controllers.reconcile.reconciler import ReconcilerObserver
from queue_controllers.reservations.decide import (
    CreateReservations,
    DeleteReservations,
    ReservationView,
    decide_reservations,
    fail_unit,
    has_part,
)
from queue_controllers.reservations.execute import NotOursError, ReservationExecutor
from queue_controllers.reservations.reservation_builder import (
    marks_of,
    plan_reservations,
    with_updates,
)
from shared_api.client.errors import ApiFailure, BadRequest, Conflict, Forbidden, Invalid, NotFound
from shared_api.client.resource_types import RESERVATIONS
from shared_api.informer.indexed_store import IndexedStore, IndexFunction
from shared_api.informer.kind_watch import KindWatch
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.process.clock import Clock
from shared_api.work_queue import WorkQueue

BY_UNIT: Final = "unit"

JOB_SECONDS: Final = 2.0
"""How soon a unit is reconciled again whose job is not in the cache: that of its kind may be filled
later, and changes of jobs are not handled here."""

NOT_LEADING_SECONDS: Final = 1.0
"""How long a key rests that could not be written because too little of the lease was left."""

OPENING_SECONDS: Final = 0.1
"""How often it is checked whether this process may begin."""

GATHER_SECONDS: Final = 0.1
"""How long a change of a reservation waits for others: those of a gang are decided together."""

MAX_RECONCILES: Final = 3
"""Reconciles of one key in one step; after that other keys have their turn."""

MAX_MESSAGE_CHARS: Final = 500
"""Limit of the status message about a write that the server refuses."""

log = structlog.get_logger("reservations")


class JobsOfAKind(Protocol):
    """The jobs of one kind (`ExtensionServer`)."""

    @property
    def adapter(self) -> GenericJob[Any]:
        """Facts about the kind."""

    def is_kind_of(self, unit: QueueUnit) -> bool:
        """Return whether the unit names a job of this kind."""

    def job_of(self, unit: QueueUnit) -> Any:  # noqa: ANN401 - a job of any kind, or None
        """Return the job of a unit, from the cache; None if it is not there."""


class _Job(msgspec.Struct, frozen=True):
    """What is known of the job of a unit."""

    facts: JobFacts
    owners: dict[str, PodOwner] = {}
    why_none: str = ""


def reservation_indexes() -> Mapping[str, IndexFunction[Reservation]]:
    """Return the indexes of the cache of reservations that this module uses."""
    return {BY_UNIT: marks_of}


class ReservationCaches(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconcile reads."""

    units: IndexedStore[QueueUnit]
    """All units."""
    reservations: IndexedStore[Reservation]
    """All reservations of ours, with `reservation_indexes`."""
    watch: KindWatch[Reservation]
    """Watches the kind of reservations."""
    kinds: Callable[[], Sequence[JobsOfAKind]]
    """The enabled kinds of jobs."""


class ReservationController:
    """Reconciles the reservations of units.

    Args:
        executor: Carries actions out.
        caches: What it reads.
        queue: Keys of units.
        clock: The time of decisions.
        may_decide: Whether this process decides: it leads, and its caches are complete.
        observer: Counts.
    """

    def __init__(
        self,
        executor: ReservationExecutor,
        caches: ReservationCaches,
        *,
        queue: WorkQueue[str],
        clock: Clock,
        may_decide: Callable[[], bool],
        observer: ReconcilerObserver,
    ) -> None:
        self._executor = executor
        self._units = caches.units
        self._reservations = caches.reservations
        self.watch = caches.watch
        self._kinds = caches.kinds
        self.queue = queue
        self._clock = clock
        self._may_decide = may_decide
        self._observer = observer
        self._is_open = False

    # --- handlers -----------------------------------------------------------------------------

    def on_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Handle a change of a unit."""
        unit = new if new is not None else old
        if unit is None:
            return
        key, uid = unit.metadata.key, unit.metadata.uid
        is_named = self._reservations.has_index_value
        if has_part(new) or has_part(old) or is_named(BY_UNIT, key) or is_named(BY_UNIT, uid):
            self.queue.add(key)
        if new is None and is_named(BY_UNIT, uid):
            self.queue.add(uid)  # reservations that lost their key can be found only by it

    def on_reservation(self, old: Reservation | None, new: Reservation | None) -> None:
        """Handle a change of a reservation."""
        labels = [mark for each in (old, new) if each is not None for mark in marks_of(each)]
        for key in _keys_among(labels):
            self.queue.add_after(key, GATHER_SECONDS)

    def enqueue_all(self) -> None:
        """Queue all units that may need a reconcile."""
        for unit in self._units.list():
            if has_part(unit):
                self.queue.add(unit.metadata.key)
        for reservation in self._reservations.list():
            for key in _keys_among(marks_of(reservation)):
                self.queue.add(key)

    # --- steps --------------------------------------------------------------------------------

    def keep(self) -> float:
        """Check the kind, and whether this process decides; return how many seconds to rest."""
        rest = self.watch.step()
        was_open, self._is_open = self._is_open, self._may_decide() and self.watch.is_ready()
        if self._is_open and not was_open:  # the kind may have appeared: it is not ready then
            self.enqueue_all()
        return rest if self._is_open else min(rest, OPENING_SECONDS)

    def step(self) -> float | None:
        """Reconcile one unit; return the seconds until the next one is due, None: until woken."""
        return self.queue.work(self._look_at)

    def _look_at(self, key: str) -> None:
        if not self._is_open:
            return  # all keys are queued when it opens
        before = len(self._reservations_of(key))
        try:
            for _ in range(MAX_RECONCILES):
                if not self._look_once(key):
                    self.queue.forget(key)
                    return
            if len(self._reservations_of(key)) > before:
                self.queue.forget(key)
                self.queue.add(key)
            else:  # its changes come to nothing: no reason to be faster
                self.queue.add_rate_limited(key)
        except NotLeadingError:
            self.queue.add_after(key, NOT_LEADING_SECONDS)
        except (Conflict, NotFound) as news:
            log.debug("an object has changed", unit=key, error=str(news))
            self.queue.add_rate_limited(key)
        except ApiFailure as failure:
            log.warning("could not act on reservations", unit=key, error=str(failure))
            self._observer.on_error(RESERVATIONS.plural)
            self.queue.add_rate_limited(key, at_least_seconds=failure.retry_after_seconds)

    def _look_once(self, key: str) -> bool:
        """Carry out one decision; return whether that may have made more to do."""
        unit = self._units.get(key)
        if unit is None and (known_as := self._key_of_uid(key)):
            self.queue.add(known_as)
            return False
        job = None if unit is None else self._find_job(unit)
        view = ReservationView(
            unit=unit,
            reservations=self._reservations_of(key),
            planned=None if unit is None or job is None else plan_reservations(job.facts, unit),
            why_none="" if job is None else job.why_none,
            is_served=self.watch.is_served(),
            moment=Moment(monotonic=self._clock.monotonic(), wall=self._clock.now()),
        )
        decision = decide_reservations(view)
        for action in decision.actions:
            try:
                self._executor.execute(
                    action, job.facts if job else None, job.owners if job else {}
                )
            except (BadRequest, Forbidden, Invalid, NotOursError) as refusal:
                self._observer.on_action(
                    RESERVATIONS.plural, type(action).__name__, type(refusal).__name__
                )
                if not isinstance(action, CreateReservations):
                    raise
                why = str(refusal) if isinstance(refusal, NotOursError) else refusal.message
                message = f"A reservation is refused: {why}"[:MAX_MESSAGE_CHARS]
                self._executor.execute(fail_unit(view, action.unit, message), None, {})
                return True
            self._observer.on_action(RESERVATIONS.plural, type(action).__name__, "done")
        rest = decision.requeue_after_seconds
        if rest is None and has_part(unit) and job is None:
            rest = JOB_SECONDS
        if rest is not None:
            self.queue.add_after(key, rest)
        # Deleted ones stay in the cache until their watch event, which queues the key again.
        return any(not isinstance(each, DeleteReservations) for each in decision.actions)

    def _reservations_of(self, key: str) -> tuple[Reservation, ...]:
        """Return all reservations that name a unit, by its key or by its uid."""
        unit = self._units.get(key)
        marks = (key,) if unit is None else (key, unit.metadata.uid)
        found = [each for mark in marks for each in self._reservations.by_index(BY_UNIT, mark)]
        return tuple({each.metadata.name: each for each in found}.values())

    def _key_of_uid(self, key: str) -> str:
        """Return the key of the unit with this uid; "" if there is none.

        Called only if a reservation has lost its annotation: it scans all units.
        """
        if "/" in key:
            return ""
        units = self._units.list()
        return next((each.metadata.key for each in units if each.metadata.uid == key), "")

    def _find_job(self, unit: QueueUnit) -> _Job | None:
        for kind in self._kinds():
            if not kind.is_kind_of(unit):
                continue
            job, adapter = kind.job_of(unit), kind.adapter
            if job is None:
                return None
            facts = read_facts(adapter, job, held_by_annotation=False)
            if not isinstance(adapter, NamesPods):
                return _Job(facts, why_none=f"those of a {adapter.kind.kind} cannot be told")
            plan = plan_updates(facts, unit, {})
            if isinstance(plan, UpdateConflict):
                # It is not released like this: the job's reconciler reports it, and stops it.
                return _Job(facts, why_none=plan.message)
            owners = {each.name: adapter.pod_owner(job, each.name) for each in facts.pod_sets}
            return _Job(with_updates(facts, plan.updates), owners)
        return None


def _keys_among(marks: Iterable[str]) -> list[str]:
    """Return the keys of units among marks of reservations; uids if there is no key."""
    different = list(dict.fromkeys(marks))
    return [mark for mark in different if "/" in mark] or different
