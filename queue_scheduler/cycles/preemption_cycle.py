r"""Writes a round of evictions: asks for each, and reports the outcomes to the engine.

    Preempt --> a patch per victim --> all written     the room is kept for the preemptor
                                   \-> some are not    changed meanwhile, or gone: chosen again,
                                                       with those that are written counted as gone

A patch only asks for the eviction: condition `Evicted=True`, and in the admissions how many
replicas are to be given back (`reclaimState`). Phase and admissions stay, so the victim is charged
until the controllers have stopped its job, as with every eviction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol

import structlog

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice, Preempt, Victim
from queue_scheduler.engine.engine import Engine
from queue_scheduler.refusal_texts import eviction_message, preemption_note
from queue_scheduler.unit_writes.eviction_patches import build_eviction_status
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Outcome, Write, WriteSink, Written, status_change
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock

log = structlog.get_logger("preemption_cycle")


class PreemptionObserver(Protocol):
    """Counts rounds."""

    def on_preempted(self, queue: str, reason: str, victims: int) -> None:
        """Count a round for a unit of the queue, with the number of evictions that were written."""


class Round:
    """Collects the outcomes of one round's writes."""

    def __init__(self, decision: Preempt) -> None:
        self._lock = threading.Lock()  # guards the fields: outcomes come from every writer
        self._open = len(decision.victims)
        self._failed: list[Victim] = []

    def settle(self, victim: Victim, *, is_written: bool) -> tuple[Victim, ...] | None:
        """Note one outcome.

        Returns:
            None while other outcomes are open; after the last one, the victims whose write failed.
        """
        with self._lock:
            self._open -= 1
            if not is_written:
                self._failed.append(victim)
            return None if self._open else tuple(self._failed)


class PreemptionCycle:
    """Writes the requests of a round."""

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        note_written: Callable[[QueueUnit], object],
        report: Callable[[Notice], None],
        clock: Clock,
        observer: PreemptionObserver,
    ) -> None:
        self._shared = shared
        self._writes = writes
        self._note_written = note_written
        self._report = report
        self._clock = clock
        self._observer = observer

    def carry_out(self, decision: Preempt) -> None:
        """Send the patches of a round; returns at once."""
        a_round = Round(decision)
        # If one raises, the others are still written: otherwise the round would never end.
        with ExitStack() as stack:
            for victim in reversed(decision.victims):
                stack.callback(self._send, a_round, decision, victim)

    def _send(self, a_round: Round, decision: Preempt, victim: Victim) -> None:
        try:
            write = self._write_for(decision, victim)
        except BaseException:
            self._settle(a_round, decision, victim, is_written=False)
            raise
        if write is None:
            self._settle(a_round, decision, victim, is_written=False)
        else:
            self._writes.submit(
                write, lambda outcome: self._on_outcome(a_round, decision, victim, outcome)
            )

    def _write_for(self, decision: Preempt, victim: Victim) -> Write[Any] | None:
        """Return the write that evicts a victim; None if the victim has changed meanwhile."""
        record = self._shared.ask(Engine.record, victim.unit)
        version = None if record is None else record.unit.metadata.resource_version
        if record is None or (record.uid, version) != (victim.uid, victim.resource_version):
            return None
        note, now = eviction_message(decision), self._clock.now()
        status = build_eviction_status(record.unit, decision.reason, note, decision.queue, now)
        return status_change(QUEUE_UNITS, record.unit.metadata, status)

    def _on_outcome(
        self, a_round: Round, decision: Preempt, victim: Victim, outcome: Outcome[Any]
    ) -> None:
        """Report one outcome. A victim whose write is not confirmed may be chosen again.

        If it was written after all, its object says so, and it counts as being evicted.
        """
        is_written = isinstance(outcome, Written)
        try:
            if isinstance(outcome, Written):
                self._note_written(outcome.object)
                self._shared.apply(Engine.on_queue_unit, outcome.object)
                note = eviction_message(decision)
                self._report(_notice(victim.unit, victim.uid, decision.reason, note, warning=True))
            else:
                log.info("eviction was not written", unit=victim.unit, outcome=str(outcome))
        finally:
            self._settle(a_round, decision, victim, is_written=is_written)

    def _settle(
        self, a_round: Round, decision: Preempt, victim: Victim, *, is_written: bool
    ) -> None:
        failed = a_round.settle(victim, is_written=is_written)
        if failed is None:
            return
        self._shared.apply(Engine.on_preempted, decision, failed)
        written = [each for each in decision.victims if each not in failed]
        if written:
            self._observer.on_preempted(decision.queue, decision.reason, len(written))
            note = preemption_note(written)
            self._report(_notice(decision.unit, decision.uid, "Preempting", note, warning=False))


def _notice(key: str, uid: Uid, reason: str, note: str, *, warning: bool) -> Notice:
    return Notice(kind="QueueUnit", key=key, uid=uid, reason=reason, note=note, warning=warning)
